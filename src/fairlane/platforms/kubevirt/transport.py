"""Requests to an API server: rate-limited, retried after transient errors, with renewed credentials."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt.access import CONNECTIONS, Access
from fairlane.platforms.kubevirt.api_errors import Answer, ApiError, Operation, Refusal, plain

if TYPE_CHECKING:
    import aiohttp

_REQUEST_SECONDS = 65.0
"""Slightly more than the server's own limit for a request."""
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 75.0
"""A watch without data for this long may be dead; opening it again loses nothing."""
_FIRST_PATIENCE = 12.0
"""Before a server's first answer, a wrong address is more likely than a restart."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 8.0
_NEWS_SECONDS = 10.0
_HEARTBEAT = 30.0
_CLOSE_SECONDS = 2.0
_MERGE_PATCH = "application/merge-patch+json"


@dataclass
class Request:
    """A request, and how it may be retried."""

    operation: Operation
    plural: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    resend: bool = True
    """Whether to retry after a lost answer, when it is unknown whether the request was executed."""
    conflicts: bool = False
    """Whether a 409 passes by itself."""
    in_doubt: bool = False
    """Set while sending: an answer was lost, so the request may have been executed."""


class Pauses:
    """Growing pauses with jitter, for ``patience`` seconds in all."""

    def __init__(self, patience: float) -> None:
        self.began = time.monotonic()
        self.count = 0
        self.patience = patience

    @property
    def seconds(self) -> float:
        """Seconds since the first attempt."""
        return time.monotonic() - self.began

    async def again(self, at_least: float = 0) -> bool:
        """Sleeps and returns True; returns False at once if the pause would exceed the patience."""
        longest = min(_FIRST_PAUSE * 2**self.count, _LONGEST_PAUSE)
        # Jitter spreads retries of simultaneous failures. No secret depends on it.
        pause = max(longest * random.uniform(0.5, 1), at_least)  # noqa: S311
        if self.seconds + pause > self.patience:
            return False
        self.count += 1
        await asyncio.sleep(pause)
        return True


class _Bucket:
    """A token bucket: ``qps`` tokens per second, at most ``burst`` of them."""

    def __init__(self, qps: float, burst: int) -> None:
        self.waited = 0.0
        self._qps, self._burst = qps, burst
        self._tokens, self._at = float(burst), time.monotonic()

    async def full(self) -> None:
        """Waits until a whole burst is available."""
        while (missing := self._burst - self._filled()) > 0:
            await asyncio.sleep(missing / self._qps)

    def _filled(self) -> float:
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        return self._tokens

    async def take(self) -> None:
        self._tokens = self._filled() - 1
        if self._tokens < 0:
            pause = -self._tokens / self._qps
            try:
                await asyncio.sleep(pause)
            except asyncio.CancelledError:
                self._tokens += 1
                raise
            self.waited += pause


class Transport:
    """Sends requests, opens streams and websockets. ``close`` after use."""

    def __init__(self, access: Access, *, qps: float, burst: int, patience: float, notify: Notify | None) -> None:
        self.access = access
        self.bucket = _Bucket(qps, burst)
        self.patience = patience
        self.counts: Counter[tuple[str, str]] = Counter()
        self.retried: Counter[str] = Counter()
        self._notify = notify or (lambda _: None)
        self._notified = float("-inf")
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._answered = False

    async def close(self) -> None:
        """Ends all connections, watches and tunnels included."""
        await self.access.close()

    async def json(self, request: Request) -> Any:
        """The answer's JSON, else its text. Raises ApiError."""
        response = await self._answer(request, whole=True)
        body = await response.read()
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            return body.decode(errors="replace")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator["aiohttp.ClientResponse"]:
        """An answer without end: a watch. Opened with the same retries as any request. Raises ApiError."""
        response = await self._answer(request, whole=False)
        try:
            yield response
        finally:
            # Not shut down cleanly: TLS would wait for a server that has more to send.
            if response.connection and response.connection.transport:
                response.connection.transport.abort()
            response.close()

    async def websocket(self, path: str, protocols: tuple[str, ...]) -> "aiohttp.ClientWebSocketResponse":
        """A websocket to ``path``, with the same credentials, CA and proxy. Tried once (twice if credentials have
        expired): the caller knows how long to retry. Raises ApiError."""
        import aiohttp  # noqa: PLC0415 - 150 ms

        operation = Operation("connect", path, group=path.split("/")[2] if path.startswith("/apis/") else "")
        renewed = False
        while True:
            await self.bucket.take()
            generation, streams = self.access.generation, self.access.streams
            session = streams.pool_manager
            assert session  # noqa: S101 - Access made it
            self.counts["connect", "websocket"] += 1
            opening = session.ws_connect(
                self.access.url(path),  # https, not wss: for wss the library would choose another proxy
                protocols=protocols,
                headers=await self.access.headers(),
                heartbeat=_HEARTBEAT,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                max_msg_size=0,
                proxy=streams.proxy,
                server_hostname=streams.configuration.tls_server_name,
            )
            try:
                return await asyncio.wait_for(opening, _REQUEST_SECONDS)
            except Refusal as refusal:
                if refusal.answer.status != 401 or renewed:
                    raise refusal.answer.error(operation) from None
                await self.access.renew(generation)
                renewed = True
                self.retried["401"] += 1
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._unreachable(operation, error) from error

    async def _answer(self, request: Request, *, whole: bool) -> "aiohttp.ClientResponse":
        """The first answer without a transient error; ``whole``: read to its end."""
        import aiohttp  # noqa: PLC0415 - as above

        pauses = Pauses(self.patience if self._answered else min(self.patience, _FIRST_PATIENCE))
        renewed = False
        while True:
            await self.bucket.take()
            generation = self.access.generation
            self.counts[request.operation.verb, request.plural] += 1
            pause = 0.0
            try:
                answer = await self._once(request, whole=whole)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                trouble = self._unreachable(request.operation, error)
                if isinstance(error, aiohttp.ClientConnectorCertificateError):
                    raise trouble from error
                reason = "timeout" if isinstance(error, TimeoutError) else "connection"
                lost = not isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
            else:
                self._answered = True
                pauses.patience = self.patience
                if not isinstance(answer, Answer):
                    return answer
                trouble, reason, pause = answer.error(request.operation), str(answer.status), answer.retry_after
                if answer.status == 401 and not renewed:
                    await self.access.renew(generation)
                    renewed = True
                    self.retried["401"] += 1
                    continue
                if not answer.passing and not (answer.status == 409 and request.conflicts):
                    raise trouble
                lost = answer.status >= 500
            request.in_doubt = request.in_doubt or lost
            if lost and not request.resend:
                raise trouble
            self._report(trouble)
            if not await pauses.again(pause):
                trouble.message += f" ({pauses.count + 1} attempts in {pauses.seconds:.0f} s)"
                raise trouble
            self.retried[reason] += 1

    async def _once(self, request: Request, *, whole: bool) -> "aiohttp.ClientResponse | Answer":
        """One attempt. An open stream is limited by silence, not by time, and does not use a request's slot."""
        import aiohttp  # noqa: PLC0415 - as above
        from multidict import CIMultiDict  # noqa: PLC0415 - as above

        headers = CIMultiDict(await self.access.headers())
        headers["Accept"] = "application/json"
        if request.method == "PATCH":
            headers["Content-Type"] = _MERGE_PATCH
        query = urlencode({key: value for key, value in request.query.items() if value})
        url = self.access.url(request.path) + (f"?{query}" if query else "")
        timeout = aiohttp.ClientTimeout(
            total=_REQUEST_SECONDS if whole else None,
            sock_connect=_CONNECT_SECONDS,
            sock_read=None if whole else _SILENCE_SECONDS,
        )
        client: Any = self.access.requests if whole else self.access.streams  # Any: its request has no types
        async with self._slots if whole else nullcontext():
            wrapped = await client.request(
                request.method, url, headers=headers, body=request.body, _request_timeout=timeout
            )
            response: aiohttp.ClientResponse = wrapped.response
            if whole or response.status >= 400:
                body = await response.read()
        return response if response.status < 400 else Answer.read(response.status, body, response.headers)

    def _unreachable(self, operation: Operation, error: Exception) -> ApiError:
        import aiohttp  # noqa: PLC0415 - as above

        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            hint = "certificate-authority-data in the kubeconfig does not match this server, or a proxy intercepts TLS"
        else:
            hint = "check that the cluster is up and reachable from here (VPN, proxy)"
        unnamed = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
        details = plain(str(error)) or unnamed
        return ApiError(
            "api-unreachable",
            f"{operation}: {self.access.server}: {details}",
            status=0,
            reason="Unreachable",
            hint=hint,
        )

    def _report(self, trouble: ApiError) -> None:
        """Report a trouble at most every 10 s: a thousand requests may share it."""
        if time.monotonic() - self._notified >= _NEWS_SECONDS:
            self._notified = time.monotonic()
            self._notify(f"retrying the API server: {trouble.message}")
