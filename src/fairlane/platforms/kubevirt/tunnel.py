"""TCP to a port of a virtual machine, through the API server: KubeVirt's ``portforward`` and its websocket.

Works wherever the API server is reachable: no node port, no route into the pod network. The subprotocol
``plain.kubevirt.io`` carries the stream's bytes as binary messages. It has no half-closed connections: when one side
ends, pending data are delivered and both sides end.
"""

import asyncio
from typing import TYPE_CHECKING, Self

from fairlane.errors import FairlaneError
from fairlane.platforms.kubevirt.api import Api
from fairlane.platforms.kubevirt.api_errors import ApiError
from fairlane.platforms.kubevirt.kinds import VMI_ACTION

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

_PLAIN = ("plain.kubevirt.io",)
_CHUNK = 1 << 16
_LONGEST_GREETING = 8192
_QUIET_SECONDS = 1.0


class Tunnel:
    """A port on 127.0.0.1 that forwards to a machine's port. Each connection opens a websocket of its own, so that new
    ones work after a restart of the API server."""

    def __init__(self, api: Api, namespace: str, vmi: str, port: int) -> None:
        self.port = 0
        """Port on 127.0.0.1."""
        self.trouble = ""
        """Why the last connection failed; empty: it succeeded. For messages."""
        self._api = api
        self._where = (namespace, vmi, port)
        self._server: asyncio.Server | None = None
        self._closed = False
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, api: Api, namespace: str, vmi: str, port: int = 22) -> Self:
        """Listens; does not connect to the machine yet."""
        tunnel = cls(api, namespace, vmi, port)
        tunnel._server = await asyncio.start_server(tunnel._come, "127.0.0.1", 0)
        tunnel.port = tunnel._server.sockets[0].getsockname()[1]
        return tunnel

    async def close(self) -> None:
        """Ends all its connections and tasks."""
        assert self._server  # noqa: S101 - it was opened
        self._closed = True
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._carry(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            socket = await _connect(self._api, *self._where)
            self.trouble = ""
            await _join(reader, writer, socket)
            writer.close()
            await writer.wait_closed()
        except FairlaneError as error:
            self.trouble = error.message
        except OSError:
            pass  # one end broke off; the other is closed below
        finally:
            # A closed transport has no socket left, and there abort() fails in Python 3.11.
            if writer.get_extra_info("socket").fileno() >= 0:
                writer.transport.abort()


async def banner(api: Api, namespace: str, vmi: str, timeout: float, port: int = 22) -> bytes | None:
    """The greeting line of the machine's sshd, without line end; None: none within ``timeout`` seconds, or connection
    refused. Raises ApiError if the permission is missing."""
    try:
        async with asyncio.timeout(timeout):
            socket = await _connect(api, namespace, vmi, port)
            try:
                return await _greeting(socket)
            finally:
                await socket.close()
    except TimeoutError:
        return None
    except ApiError as error:
        if error.status in {401, 403} or error.unknown_kind:
            raise
        return None


async def _connect(api: Api, namespace: str, vmi: str, port: int) -> "ClientWebSocketResponse":
    return await api.websocket(VMI_ACTION.path(namespace, vmi, f"portforward/{port}/tcp"), _PLAIN)


async def _greeting(socket: "ClientWebSocketResponse") -> bytes | None:
    received = b""
    async for message in socket:
        if isinstance(message.data, bytes):
            received += message.data
        *lines, _ = received.split(b"\n")
        # RFC 4253, 4.2: other lines may precede the one that begins with SSH-.
        if greeting := next((line for line in lines if line.startswith(b"SSH-")), None):
            return greeting.rstrip(b"\r")
        if len(received) > _LONGEST_GREETING:
            break
    return None


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: "ClientWebSocketResponse") -> None:
    """Forwards bytes both ways until one side ends."""
    carried = 0

    async def up() -> None:
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(data)

    async def down() -> None:
        nonlocal carried
        async for message in socket:
            if isinstance(message.data, bytes):
                carried += len(message.data)
                writer.write(message.data)
                await writer.drain()

    both = (asyncio.create_task(up()), asyncio.create_task(down()))
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        # The local side may have sent everything and still listen: the machine does not learn of it.
        before = -1
        while carried > before and not both[1].done():
            before = carried
            await asyncio.wait(both[1:], timeout=_QUIET_SECONDS)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        await socket.close()
