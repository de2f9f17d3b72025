"""A client of the Kubernetes API for tests, of nothing but the standard library: what it says, the server has said.

It retries nothing and waits for nobody, so that it can judge clients that do.
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
    """The API server said no: ``status`` is HTTP's, ``reason`` the Status object's, the message the server's own."""

    def __init__(self, status: int, answer: bytes, retry_after: str | None = None) -> None:
        try:
            reply = json.loads(answer)
        except ValueError:
            reply = {"message": answer.decode(errors="replace")}
        self.status, self.reason, self.retry_after = status, str(reply.get("reason", "")), retry_after
        super().__init__(f"{status} {self.reason}: {reply.get('message', '')}")


class PlainClient:
    """One API server, asked as any of several users; ``tokens`` are theirs by name."""

    def __init__(self, url: str, authority: Path, tokens: Mapping[str, str]) -> None:
        self.url, self.tokens = url, tokens
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._resources: dict[str, dict[str, Any]] = {}

    def call(
        self, method: str, path: str, body: object = None, *, user: str = "admin", token: str = "", kind: str = ""
    ) -> Any:
        """The answer to one request, decoded if it is JSON. RefusedError for every status from 400, OSError for none.

        ``token`` stands in for the user's; ``kind`` is the content type of the body if that is not plain JSON.
        """
        text = self._request(method, path, body, token or self.tokens[user], kind)
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def watch(self, path: str, version: str, most: int) -> list[dict[str, Any]]:
        """The events of a watch of a collection from that resource version on: so many, or all until the server ends
        it, which it does after an error, or when half a minute is over."""
        query = f"?watch=1&timeoutSeconds=30&resourceVersion={version}"
        with self._open("GET", path + query, None, self.tokens["admin"], "") as answer:
            return [json.loads(line) for line in itertools.islice(answer, most)]

    def answers(self, path: str, *, user: str = "admin") -> bool:
        """Whether a GET is answered with anything but an error."""
        try:
            self.call("GET", path, user=user)
        except (RefusedError, OSError):
            return False
        return True

    def apply(self, objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Server-side apply of each, whatever its kind, with strict validation; what the server has made of them."""
        query = "?fieldManager=tests&force=true&fieldValidation=Strict"
        return [self.call("PATCH", self.path(thing) + query, thing, kind=_APPLY) for thing in objects]

    def path(self, thing: Mapping[str, Any]) -> str:
        """Where an object (apiVersion, kind, metadata.name, .namespace) is, by the server's own discovery."""
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
        """A request, of a kind that anybody may send, that the server has begun to carry out: its body never comes."""
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
