"""A proxy between a client and the real API server that injects faults of network and server.

Other requests are forwarded unchanged. ``with FaultProxy(plane.url, plane.authority.certificate) as proxy``, and give
the client ``proxy.kubeconfig(plane.kubeconfig())``. The proxy runs in its own thread, for tests with and without an
event loop; faults may change at any time.
"""

import asyncio
import contextlib
import json
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import WeakSet

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from fairlane.machines.ports import number, reserve_port

T = TypeVar("T")
Cut = Literal["end", "reset", "gone", "error", "garbage", "mute"]

_TURNS = 10
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"}
_REASONS = {401: "Unauthorized", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


@dataclass
class _Fault:
    """A fault for the next ``times`` requests whose "METHOD path?query" matches ``pattern``."""

    pattern: re.Pattern[str]
    times: float
    carried_out: bool
    """Whether the real server gets the request, and only its answer is lost."""
    status: int = 0
    """Status to answer with; 0: reset the connection; -1: never answer."""
    headers: dict[str, str] | None = None
    message: str = "injected by a test"
    every: int = 1
    """Affect only every ``every``-th matching request."""
    requests: int = 0

    def strikes(self, line: str) -> bool:
        if self.times <= 0 or not self.pattern.search(line):
            return False
        self.requests += 1
        if self.requests % self.every:
            return False
        self.times -= 1
        return True


class FaultProxy:
    """``url``: its address, plain HTTP."""

    def __init__(self, url: str, certificate: Path) -> None:
        """``url``, ``certificate``: the real server, and the CA that signed it."""
        self.url = ""
        self.requests: list[tuple[str, str, int]] = []
        """The client's requests in order: method, path with query, status (0: reset or unanswered)."""
        self.watches = 0
        """Open watches."""
        self._server = url
        self._tls = ssl.create_default_context(cafile=str(certificate))
        self._faults: list[_Fault] = []
        self._cuts: dict[web.StreamResponse, asyncio.Future[Cut]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._runner: web.AppRunner
        self._client: aiohttp.ClientSession
        self._site: web.SockSite | None = None
        self._listening: socket.socket
        self._reserved = reserve_port()
        self._port = number(self._reserved)
        self._muted = False
        self._sockets: WeakSet[socket.socket] = WeakSet()
        """Sockets of all connections to the real server so far."""

    def __enter__(self) -> "FaultProxy":
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reserved.close()

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig (with a token: client certificates end at the proxy) that points to the proxy."""
        config = yaml.safe_load(original.read_text())
        for cluster in config["clusters"]:
            cluster["cluster"] = {"server": self.url}
        copy = original.with_name(f"{original.name}.{self._port}")
        copy.write_text(yaml.safe_dump(config))
        return copy

    # Faults

    def answer(
        self, pattern: str, status: int, *, times: float = 1, after: str = "", carried_out: bool = False,
        message: str = "injected by a test", every: int = 1,
    ) -> None:  # fmt: skip
        """Answer the next ``times`` requests that match ``pattern`` (a regular expression for "METHOD path?query") with
        this status. ``after``: the Retry-After header; ``every``: affect only each such request."""
        headers = {"Retry-After": after} if after else {}
        self._faults.append(_Fault(re.compile(pattern), times, carried_out, status, headers, message, every))

    def reset(self, pattern: str, *, times: float = 1, carried_out: bool = False) -> None:
        """Reset their connection: before the server gets the request, or after it has executed it (``carried_out``)."""
        self._faults.append(_Fault(re.compile(pattern), times, carried_out))

    def ignore(self, pattern: str, *, times: float = 1, carried_out: bool = False) -> None:
        """Never answer them."""
        self._faults.append(_Fault(re.compile(pattern), times, carried_out, -1))

    def calm(self) -> None:
        """End all faults; new watches work again."""
        self._faults.clear()
        self._muted = False

    def mute(self) -> None:
        """Silence the open watches, and new ones until ``calm``."""
        self._muted = True
        self.cut("mute")

    def cut(self, how: Cut) -> int:
        """End all open watches: regularly (``end``), by a reset, with an ERROR event of 410 (``gone``) or 500
        (``error``), or in the middle of an invalid JSON line (``garbage``); or silence them (``mute``). Returns their
        number."""

        async def cut() -> int:
            cuts = [future for future in self._cuts.values() if not future.done()]
            for future in cuts:
                future.set_result(how)
            return len(cuts)

        return self._run(cut())

    def down(self) -> None:
        """Act like an absent server: refuse connections, reset existing ones."""
        self._run(self._close())

    def up(self) -> None:
        """Listen again at the same address."""
        self._run(self._listen())

    # Implementation

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _start(self) -> None:
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0, socket_factory=self._socket),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        listening = socket.create_server(("127.0.0.1", self._port))
        site = web.SockSite(self._runner, listening)
        await site.start()
        self._site, self._listening = site, listening
        self.url = f"http://127.0.0.1:{self._port}"

    async def _close(self) -> None:
        if self._site:
            # asyncio makes a connection over several turns of its loop, and before Python 3.12 it forgets the socket
            # of one whose server is closed meanwhile: the last ones are made first.
            self._loop.remove_reader(self._listening)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            await self._site.stop()
            self._site = None
        assert self._runner.server
        for connection in list(self._runner.server.connections):
            if connection.transport:
                connection.transport.abort()

    async def _stop(self) -> None:
        await self._close()
        await self._runner.cleanup()
        await self._client.close()
        # The library forgets connections that it shuts down, and a server may be slow to answer that.
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(1000):
            if all(one.fileno() < 0 for one in self._sockets):
                break
            await asyncio.sleep(0.01)

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        line = f"{request.method} {request.path_qs}"
        entry = len(self.requests)
        self.requests.append((request.method, request.path_qs, 0))

        def note(status: int) -> None:
            self.requests[entry] = (request.method, request.path_qs, status)

        fault = next((f for f in self._faults if f.strikes(line)), None)
        if not fault:
            return await self._forward(request, note)
        if fault.carried_out:
            async with self._send(request, await request.read()) as answer:
                await answer.read()
        if fault.status == -1:
            await asyncio.Event().wait()
        if fault.status == 0:
            return await _reset(request)
        note(fault.status)
        return web.json_response(_status(fault.status, fault.message), status=fault.status, headers=fault.headers)

    def _send(self, request: web.Request, body: bytes) -> Any:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        url = self._server + request.raw_path
        return self._client.request(
            request.method, URL(url, encoded=True), headers=headers, data=body or None,
            allow_redirects=False,
        )  # fmt: skip

    async def _forward(self, request: web.Request, note: Callable[[int], None]) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._websocket(request, note)
        async with self._send(request, await request.read()) as answer:
            note(answer.status)
            headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
            if answer.status >= 400 or request.query.get("watch") not in {"1", "true"}:
                whole = web.Response(status=answer.status, body=await answer.read())
                whole.headers.update(headers)
                return whole
            return await self._watch(request, answer, headers)

    async def _watch(
        self, request: web.Request, answer: aiohttp.ClientResponse, headers: list[tuple[str, str]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        response.headers.update(headers)
        await response.prepare(request)
        cut = self._cuts[response] = self._loop.create_future()
        if self._muted:
            cut.set_result("mute")
        self.watches += 1
        flow = asyncio.create_task(_pump(answer, response.write))
        try:
            if not cut.done():
                await asyncio.wait({cut, flow}, return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                flow.cancel()  # not a byte after this
                return await self._end(request, response, cut.result())
            if flow.exception():
                return await _reset(request)
        finally:
            flow.cancel()
            await asyncio.wait({flow})
            self.watches -= 1
            del self._cuts[response]
        return response

    async def _end(self, request: web.Request, response: web.StreamResponse, how: Cut) -> web.StreamResponse:
        if how == "reset":
            return await _reset(request)
        if how == "mute":
            await asyncio.Event().wait()
        if how in {"gone", "error"}:
            error = _status(410 if how == "gone" else 500, "too old resource version" if how == "gone" else "injected")
            await response.write(json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
        if how == "garbage":
            await response.write(b'{"type": "MODIFIED", "object": {"meta\n')
        return response

    async def _websocket(self, request: web.Request, note: Callable[[int], None]) -> web.StreamResponse:
        wanted = request.headers.get("Sec-WebSocket-Protocol", "")
        headers = {"Authorization": request.headers.get("Authorization", "")}
        try:
            there = await self._client.ws_connect(
                self._server + request.raw_path, protocols=wanted.split(","), headers=headers, max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            note(error.status)
            return web.json_response(_status(error.status, "the server's words are lost"), status=error.status)
        here = web.WebSocketResponse(protocols=wanted.split(","), max_msg_size=0)
        await here.prepare(request)
        note(101)
        both = (asyncio.create_task(_copy(here, there)), asyncio.create_task(_copy(there, here)))
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await there.close()
            await here.close()
        return here


async def _reset(request: web.Request) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return web.Response(status=500)


async def _pump(answer: aiohttp.ClientResponse, write: Callable[[bytes], Awaitable[None]]) -> None:
    async for chunk in answer.content.iter_any():
        await write(chunk)


async def _copy(source: Any, target: Any) -> None:
    async for message in source:
        await target.send_bytes(message.data)


def _status(code: int, message: str) -> dict[str, Any]:
    return {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "metadata": {},
        "reason": _REASONS.get(code, "ServiceUnavailable"),
    }  # fmt: skip
