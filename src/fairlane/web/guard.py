"""Access control around the application: read-only, by the names of this machine or with the token."""

import hashlib
import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlane.errors import FairlaneError
from fairlane.web.views import problem

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names of this machine that only it uses itself."""

_OWN = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """``hosts``: host names that a request may use; empty: any. ``token``: the token it must have; empty: none.

    A page of another site can make a browser send requests to this machine under its own host name (DNS rebinding),
    but not under ours. With a token, the token keeps such requests out.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = LOCAL, token: str = "") -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._token = token.encode()
        # Cookies are sent to every port of a host: other servers there cannot derive the token from this one.
        self._cookie = hashlib.sha256(b"fairlane viewer cookie " + self._token).hexdigest()
        self._name = f"fairlane-{self._cookie[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers[name] = value
                headers.setdefault("content-security-policy", _OWN)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._turned_away(scope)
        await (answer or self._app)(scope, receive, guarded)

    def _turned_away(self, scope: Scope) -> Response | None:
        """The response to a request that is refused or redirected; None: it may pass."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("read-only: GET and HEAD\n", 405, {"allow": "GET, HEAD"})
        if self._hosts and _host(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("not a name of this server\n", 421)
        return self._without_token(scope, headers) if self._token else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if given := [value for name, value in query if name == "token"]:
            return self._admitted(scope, query) if _same(given[-1].encode(), self._token) else _unknown()
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        bearer = scheme.lower() == "bearer" and _same(credential.strip().encode("latin-1"), self._token)
        cookie = _cookie(headers.get("cookie", ""), self._name).encode("latin-1", "replace")
        return None if bearer or _same(cookie, self._cookie.encode()) else _unknown()

    def _admitted(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """A redirect to the same address without the token, so that it stays out of history and shared links."""
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # A path of two slashes would lead to another host.
        path = "/" + scope.get("raw_path", b"/").decode("latin-1").partition("?")[0].lstrip("/\\")
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(self._name, self._cookie, httponly=True, samesite="lax", path="/")
        return answer


def _unknown() -> Response:
    error = FairlaneError(
        "token-missing",
        "This viewer asks for a token.",
        hint="open the address that fairlane serve printed, or add ?token=... to this one",
    )
    return HTMLResponse(problem(error, "Who is there?"), 401, {"www-authenticate": "Bearer"})


def _same(given: bytes, wanted: bytes) -> bool:
    """Whether both are equal, compared in constant time."""
    return hmac.compare_digest(given, wanted)


def _host(header: str) -> str:
    """The name without the port."""
    name = header.strip().lower()
    return name[: name.find("]") + 1] if name.startswith("[") else name.partition(":")[0]


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel else ""
