"""One connection to a cluster's API server: plain objects in and out, through the official client's session.

Adds to the client: retries after transient errors (429, 5xx, a lost connection), recognition of its own objects after a
lost answer, renewed credentials, a rate limit, and counters.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import orjson

from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt.access import Access
from fairlane.platforms.kubevirt.api_errors import ApiError, Operation
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.transport import Pauses, Request, Transport

if TYPE_CHECKING:
    import aiohttp

__all__ = ["SENT", "Api", "ApiError", "signed"]

Object = dict[str, Any]
Objects = list[Object]
SENT = "fairlane.io/sent"
"""Annotation with the hash of the object as sent: distinguishes Fairlane's object from another of the same name."""
_PAGE = 500
_STRICT = {"fieldValidation": "Strict"}
_DELETE = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}


class Api:
    """A cluster's API, from ``connect``; ended by ``close`` or ``async with``. Every call raises ApiError."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._patience = transport.patience
        self.counts: Counter[tuple[str, str]] = transport.counts
        """Requests sent, retries included, by verb and plural."""
        self.retried: Counter[str] = transport.retried
        """Retries by reason: ``429``, ``503``, ``connection``, ``timeout``, ``401``."""

    @classmethod
    async def connect(
        cls,
        context: str = "",
        *,
        qps: float = 50,
        burst: int = 100,
        patience: float = 120,
        notify: Notify | None = None,
    ) -> Self:
        """Connects to the cluster of the kubeconfig's ``context`` (empty: the current one), or to this pod's cluster;
        sends nothing yet. ``qps``, ``burst``: requests per second, and at once; ``patience``: seconds of retries.
        Raises FairlaneError."""
        access = await Access.find(context)
        return cls(Transport(access, qps=qps, burst=burst, patience=patience, notify=notify))

    @property
    def server(self) -> str:
        """Address of the API server."""
        return self._transport.access.server

    @property
    def in_cluster(self) -> bool:
        """Whether Fairlane runs in a pod of the cluster."""
        return self._transport.access.in_cluster

    @property
    def waited(self) -> float:
        """Seconds that all requests together waited for the rate limit."""
        return self._transport.bucket.waited

    async def rested(self) -> None:
        """Waits until a whole burst may be sent, so that compared storms begin alike."""
        await self._transport.bucket.full()

    async def close(self) -> None:
        """Ends all connections, watches and tunnels included."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """The object; None: it does not exist. Raises ApiError if the cluster does not know the kind."""
        try:
            stored: Object = await self._transport.json(_request("get", "GET", kind, namespace, name))
        except ApiError as error:
            if error.status == 404 and not error.unknown_kind:
                return None
            raise
        return stored

    async def list(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> Objects:
        """All objects of ``kind`` in ``namespace`` (empty: in all), page by page."""
        return (await self.listing(kind, namespace, labels, fields))[0]

    async def listing(self, kind: Kind, namespace: str = "", labels: str = "", fields: str = "") -> tuple[Objects, str]:
        """The list with its version, from which a watch continues."""
        items: Objects = []
        page = {"limit": str(_PAGE)}
        while True:
            request = _request("list", "GET", kind, namespace)
            request.query = {"labelSelector": labels, "fieldSelector": fields, **page}
            try:
                answer = await self._transport.json(request)
            except ApiError as error:
                if error.status != 410 or "continue" not in page:
                    raise
                # The list's version was compacted between two pages: fetch all at once, as kubectl does.
                items, page = [], {}
                continue
            for item in answer.get("items") or []:
                # items of a list lack kind and apiVersion
                items.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion", ""))
            page = {"limit": str(_PAGE), "continue": meta["continue"]}

    async def version(self, kind: Kind, namespace: str = "") -> str:
        """The version that a list would have now."""
        request = _request("list", "GET", kind, namespace)
        request.query = {"limit": "1"}
        answer = await self._transport.json(request)
        return str(answer["metadata"]["resourceVersion"])

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        """Creates ``body`` and returns it as stored; unknown fields are errors. After a lost answer, an object that
        exists as sent counts as created."""
        name = str((body.get("metadata") or {}).get("name", ""))
        request = _request("create", "POST", kind, namespace)
        request.operation = replace(request.operation, name=name)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        request.query, request.body = _STRICT, signed(body) if kind.stored else body
        try:
            made: Object = await self._transport.json(request)
        except ApiError as error:
            if error.reason != "AlreadyExists" or not request.in_doubt:
                raise
            there = await self.get(kind, name, namespace)
            if there is None or not _made_from(there, request.body):
                raise
            return there
        return made

    async def patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "", sub: str = "") -> Object:
        """Merges ``body`` into the object (or its subresource) and returns the object as stored."""
        request = _request("patch", "PATCH", kind, namespace, name, sub=sub)
        request.query, request.body = _STRICT, body
        request.conflicts = "resourceVersion" not in (body.get("metadata") or {})
        stored: Object = await self._transport.json(request)
        return stored

    async def replace(
        self, kind: Kind, name: str, change: Callable[[Object], Object], namespace: str = "", sub: str = ""
    ) -> Object:
        """Replaces the object by ``change(object)`` and returns it as stored. Calls ``change`` again with the new
        object after a conflict or a lost answer, so it must be idempotent."""
        pauses = Pauses(self._patience)
        while True:
            fresh = await self._transport.json(_request("get", "GET", kind, namespace, name))
            request = _request("update", "PUT", kind, namespace, name, sub=sub)
            request.query, request.body = _STRICT, change(fresh)
            try:
                stored: Object = await self._transport.json(request)
            except ApiError as error:
                if error.status != 409 or not await pauses.again():
                    raise
                self.retried["conflict"] += 1
            else:
                return stored

    async def delete(self, kind: Kind, name: str, namespace: str = "", uid: str = "") -> bool:
        """Deletes the object, and in the background what it owns; finalizers may take time. ``uid``: delete only this
        one, not a successor of the same name. False: it did not exist."""
        request = _request("delete", "DELETE", kind, namespace, name)
        request.body = {**_DELETE, "preconditions": {"uid": uid}} if uid else _DELETE
        pauses = Pauses(self._patience)
        while True:
            try:
                await self._transport.json(request)
            except ApiError as error:
                if error.status == 404 and not error.unknown_kind:
                    return request.in_doubt
                if error.status != 409:
                    raise
                there = await self.get(kind, name, namespace) if uid else None
                if uid and (there is None or there["metadata"]["uid"] != uid):
                    return request.in_doubt
                if not await pauses.again():
                    raise
                self.retried["conflict"] += 1
            else:
                return True

    async def delete_all(self, kind: Kind, namespace: str, labels: str) -> None:
        """Deletes all objects with ``labels`` in one ``namespace``."""
        if not labels or (kind.namespaced and not namespace):
            raise ValueError("delete_all needs labels and a namespace")
        request = _request("deletecollection", "DELETE", kind, namespace)
        request.query, request.body = {"labelSelector": labels}, _DELETE
        await self._transport.json(request)

    async def call(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """Any other request (``/version``, ``PUT .../start``): the answer's JSON, else its text. A POST is not retried
        after a lost answer."""
        method = method.upper()
        operation = Operation(method.lower(), path)
        return await self._transport.json(
            Request(operation, "other", method, path, query or {}, body, resend=method != "POST")
        )

    def watch(
        self, kind: Kind, namespace: str, query: Mapping[str, str]
    ) -> "AbstractAsyncContextManager[aiohttp.ClientResponse]":
        """An open watch: lines of JSON. Raises ApiError, for 410 too. See ``Watcher``."""
        request = _request("watch", "GET", kind, namespace)
        request.query = {**query, "watch": "1"}
        return self._transport.stream(request)

    async def websocket(self, path: str, protocols: tuple[str, ...]) -> "aiohttp.ClientWebSocketResponse":
        """A websocket to ``path`` through the API server. Tried once: the caller knows how long to retry."""
        return await self._transport.websocket(path, protocols)


def _request(verb: str, method: str, kind: Kind, namespace: str, name: str = "", *, sub: str = "") -> Request:
    target = f"{name}/{sub}" if sub else name
    return Request(
        Operation(verb, kind.kind, target, namespace, kind.group), kind.plural, method, kind.path(namespace, name, sub)
    )


def signed(body: Mapping[str, Any]) -> dict[str, Any]:
    """``body`` with its own hash as an annotation."""
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
    meta = dict(body.get("metadata") or {})
    return {**body, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), SENT: digest}}}


def _made_from(there: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Whether ``there`` was created from ``sent`` and is not being deleted."""
    meta = there["metadata"]
    mine = sent["metadata"].get("annotations", {}).get(SENT)
    return bool(mine) and (meta.get("annotations") or {}).get(SENT) == mine and "deletionTimestamp" not in meta
