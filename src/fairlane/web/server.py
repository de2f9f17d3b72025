"""Serve the viewer: one socket, one process, until a signal stops it."""

import asyncio
import ipaddress
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from fairlane.errors import FairlaneError
from fairlane.web.app import Viewer
from fairlane.web.connections import Connections
from fairlane.web.guard import LOCAL
from fairlane.web.live import Limits

_NICE = 10
"""A study may be running on this machine: it goes first."""
_SHORTEST = 16
"""Least characters of a token that the user chose."""


@dataclass(frozen=True)
class Door:
    """Socket and token of the viewer."""

    socket: socket.socket
    hosts: frozenset[str]
    """Host names that requests may use; empty: any."""
    token: str
    generated: bool
    url: str
    """Address for a browser; with the token only if it was generated."""


def open_door(host: str, port: int, token: str) -> Door:
    """Listens on ``host``; ``port`` 0: a free one. ``token``: the user's, or empty. Raises FairlaneError.

    On a loopback address ``token`` may be empty; on any other one is generated then."""
    if token and (len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token):
        raise FairlaneError(
            "token-invalid",
            f"FAIRLANE_TOKEN is no good token: at least {_SHORTEST} printable ASCII characters without spaces",
            hint="make one: openssl rand -hex 16; or leave it unset, and one is made",
        )
    listening = _listen(host, port)
    address = str(listening.getsockname()[0])
    local = ipaddress.ip_address(address.partition("%")[0]).is_loopback
    generated = not token and not local
    shown = socket.gethostname() if ipaddress.ip_address(address.partition("%")[0]).is_unspecified else host
    name = f"[{shown}]" if ":" in shown else shown
    token = secrets.token_urlsafe(24) if generated else token
    url = f"http://{name}:{listening.getsockname()[1]}/" + (f"?token={token}" if generated else "")
    hosts = LOCAL | {name.lower()} if local else frozenset()
    return Door(listening, hosts, token, generated, url)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise FairlaneError(
            "address-unknown", f"{host!r} is not an address of this machine", hint="127.0.0.1, or 0.0.0.0 for all"
        ) from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise FairlaneError(
            "cannot-listen",
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint="--port 0 takes a free port; --port NUMBER another one",
        ) from None
    return listening


class Server(uvicorn.Server):
    """Serves ``viewer``; returns normally after a signal: stopping the viewer is no failure."""

    def __init__(self, viewer: Viewer, door: Door, connections: Connections | None = None) -> None:
        config = uvicorn.Config(
            viewer.app(door.hosts, door.token),
            http=(connections or Connections()).protocol(),
            log_level="warning",
            access_log=False,  # addresses may have the token in them
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=3,
            ws="none",
        )
        super().__init__(config)
        self._viewer, self._socket = viewer, door.socket

    async def run_until_stopped(self) -> None:
        await self.serve(sockets=[self._socket])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._viewer.close()
        await super().shutdown(sockets)


def serve(root: Path, door: Door, ready: Callable[[], None], limits: Limits | None = None) -> None:
    """Serves the runs below ``root`` until SIGINT or SIGTERM. ``ready`` is called once before it begins."""
    os.nice(_NICE)
    server = Server(Viewer(root, limits), door)
    ready()
    asyncio.run(server.run_until_stopped())
