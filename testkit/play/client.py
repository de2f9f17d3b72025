"""API client of the played controllers: JSON in and out, requests that survive server restarts, and watches.

Independent of Fairlane's own client, to verify it.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from testkit.play.kinds import Kind, Object

MERGE, JSON = "application/merge-patch+json", "application/json"
_AGAIN = 0.2
"""Seconds until a request to a dead or overloaded server is repeated."""
_LEAVE = 10.0
"""Seconds for connections to close."""
_BUSY = (429, 500, 502, 503, 504)


class Refused(Exception):  # noqa: N818 - a word that reads well where it is caught
    """The server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """One user of one cluster. An async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
        self.server = str(cluster["server"]).rstrip("/")
        self.headers = {"Authorization": f"Bearer {user['token']}", "User-Agent": "fairlane-play"}
        self.tls = ssl.create_default_context()
        if data := cluster.get("certificate-authority-data"):
            self.tls.load_verify_locations(cadata=base64.b64decode(data).decode())
        elif file := cluster.get("certificate-authority"):
            self.tls.load_verify_locations(cafile=file)
        elif cluster.get("insecure-skip-tls-verify"):
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    async def __aenter__(self) -> "Client":
        self._sockets: list[socket.socket] = []
        connector = aiohttp.TCPConnector(ssl=self.tls, limit=0, socket_factory=self._socket)
        self._session = aiohttp.ClientSession(
            connector=connector, headers=self.headers, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        # The library forgets connections of cancelled requests, whose TLS shuts down by itself.
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE):
                while any(one.fileno() >= 0 for one in self._sockets):
                    await asyncio.sleep(0.005)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        self._sockets = [one for one in self._sockets if one.fileno() >= 0]
        self._sockets.append(made := socket.socket(*address[:3]))
        return made

    async def request(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, media: str = JSON
    ) -> Object:
        """Repeats a request while the server is away or busy. Raises Refused."""
        data = None if body is None else orjson.dumps(body)
        while True:
            try:
                async with self._session.request(
                    method, self.server + path, params=query, data=data, headers={"Content-Type": media}
                ) as answer:
                    text = await answer.read()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_AGAIN)
                continue
            if answer.status < 400:
                result: Object = orjson.loads(text) if text else {}
                return result
            if answer.status not in _BUSY:
                raise Refused(answer.status, text.decode(errors="replace")[:800])
            await asyncio.sleep(_AGAIN)

    async def create(self, kind: Kind, body: Object, namespace: str = "") -> Object:
        """Returns the object as stored; an existing one counts as created (the answer to the first try was lost)."""
        whole = {"apiVersion": kind.version, "kind": kind.name, **body}
        try:
            return await self.request("POST", kind.path(namespace), whole)
        except Refused as refused:
            if refused.status != 409:
                raise
        return await self.request("GET", kind.path(namespace, body["metadata"]["name"]))

    async def patch(self, kind: Kind, namespace: str, name: str, body: Object, sub: str = "") -> Object:
        return await self.request("PATCH", kind.path(namespace, name, sub), body, media=MERGE)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str = "") -> None:
        """A missing object counts as deleted; so does another object of that name, if ``uid`` is given."""
        body = {"preconditions": {"uid": uid}} if uid else {}
        try:
            await self.request("DELETE", kind.path(namespace, name), {**body, "propagationPolicy": "Background"})
        except Refused as refused:
            if refused.status not in (404, 409):
                raise

    async def stream(self, path: str, protocol: str) -> aiohttp.ClientWebSocketResponse:
        """A websocket. Raises aiohttp's WSServerHandshakeError."""
        return await self._session.ws_connect(self.server + path, protocols=[protocol], max_msg_size=0)

    async def answer(self, path: str, headers: Mapping[str, str]) -> bytes:
        """The server's raw answer."""
        async with self._session.get(self.server + path, headers=headers) as answer:
            return await answer.read()

    async def watch(self, kind: Kind) -> AsyncIterator[tuple[str, Object]]:
        """Every change of all objects of ``kind``, endlessly: first a LIST (its metadata only), then the existing
        objects (``LISTED``), then ADDED, MODIFIED, DELETED; after a gap it starts over with LIST."""
        while True:
            try:
                whole = await self.request("GET", kind.path())
            except Refused:  # not (yet) in this cluster
                await asyncio.sleep(1)
                continue
            version = whole["metadata"]["resourceVersion"]
            yield "LIST", {"items": whole["items"], "version": version}
            with suppress(aiohttp.ClientError, TimeoutError, Refused):
                async for happened, obj in self._changes(kind, version):
                    yield happened, obj

    async def _changes(self, kind: Kind, version: str) -> AsyncIterator[tuple[str, Object]]:
        """Changes until the server has forgotten ``version`` (Refused) or the connection is lost (ClientError)."""
        while True:
            query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            async with self._session.get(self.server + kind.path(), params=query) as answer:
                if answer.status != 200:
                    await asyncio.sleep(_AGAIN)
                    raise Refused(answer.status, await answer.text())
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise Refused(int(event["object"].get("code", 500)), str(event["object"]))
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event["type"], event["object"]
