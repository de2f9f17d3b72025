"""A client of the Kubernetes API for tests, of the standard library alone: it returns exactly the server's answers.

It never retries or waits, so that it can judge clients that do.
"""

import contextlib
import itertools
import json
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_APPLY = "application/apply-patch+yaml"


class RefusedError(Exception):
    """The API server refused: ``status`` is HTTP's, ``reason`` the Status object's, the message the server's."""

    def __init__(self, status: int, answer: bytes, retry_after: str | None = None) -> None:
        try:
            reply = json.loads(answer)
        except ValueError:
            reply = {"message": answer.decode(errors="replace")}
        self.status, self.reason, self.retry_after = status, str(reply.get("reason", "")), retry_after
        super().__init__(f"{status} {self.reason}: {reply.get('message', '')}")


class PlainClient:
    """A client of one API server for several users; ``tokens``: theirs by name."""

    def __init__(self, url: str, authority: Path, tokens: Mapping[str, str]) -> None:
        self.url, self.tokens = url, tokens
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._resources: dict[str, dict[str, Any]] = {}

    def call(
        self, method: str, path: str, body: object = None, *, user: str = "admin", token: str = "", kind: str = ""
    ) -> Any:
        """The answer to one request, decoded if it is JSON. Raises RefusedError for a status from 400, OSError without
        an answer.

        ``token`` replaces the user's; ``kind``: content type of a body other than plain JSON.
        """
        text = self._request(method, path, body, token or self.tokens[user], kind)
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def watch(self, path: str, version: str, most: int) -> list[dict[str, Any]]:
        """Events of a collection's watch from that resource version on: as many as given, or all until the server ends
        it, after an error or half a minute."""
        query = f"?watch=1&timeoutSeconds=30&resourceVersion={version}"
        with self._open("GET", path + query, None, self.tokens["admin"], "") as answer:
            return [json.loads(line) for line in itertools.islice(answer, most)]

    def answers(self, path: str, *, user: str = "admin") -> bool:
        """Whether a GET succeeds."""
        try:
            self.call("GET", path, user=user)
        except (RefusedError, OSError):
            return False
        return True

    def apply(self, objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Server-side apply of each object, of any kind, with strict validation; returns them as stored."""
        query = "?fieldManager=tests&force=true&fieldValidation=Strict"
        return [self.call("PATCH", self.path(thing) + query, thing, kind=_APPLY) for thing in objects]

    def path(self, thing: Mapping[str, Any]) -> str:
        """Path of an object (apiVersion, kind, metadata.name, .namespace), by the server's discovery."""
        version, kind, metadata = thing["apiVersion"], thing["kind"], thing["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        known = self._resources.setdefault(root, {})
        if kind not in known:
            resources = self.call("GET", root)["resources"]
            known.update({resource["kind"]: resource for resource in resources if "/" not in resource["name"]})
        resource = known[kind]
        space = f"/namespaces/{metadata.get('namespace', 'default')}" if resource["namespaced"] else ""
        return f"{root}{space}/{resource['name']}/{metadata['name']}"

    @contextlib.contextmanager
    def endless(self, token: str) -> Iterator[None]:
        """A request, allowed to everybody, that the server keeps executing because its body never comes."""
        head = (
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1",
            *("Host: tests", f"Authorization: Bearer {token}", "Content-Type: application/json", "Content-Length: 99"),
        )
        address = urllib.parse.urlsplit(self.url)
        with (
            socket.create_connection((address.hostname, address.port)) as plain,
            self._tls.wrap_socket(plain, server_hostname=address.hostname) as connection,
        ):
            connection.sendall("\r\n".join((*head, "", "")).encode())
            yield

    def _request(self, method: str, path: str, body: object, token: str, kind: str) -> bytes:
        with self._open(method, path, body, token, kind) as answer:
            text: bytes = answer.read()
        return text

    @contextlib.contextmanager
    def _open(self, method: str, path: str, body: object, token: str, kind: str) -> Iterator[Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind or "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)  # noqa: S310 # https alone
        try:
            with urllib.request.urlopen(request, timeout=90, context=self._tls) as answer:  # noqa: S310
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise RefusedError(error.code, error.read(), error.headers.get("Retry-After")) from None
