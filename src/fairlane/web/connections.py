"""Connections: a client that sends half a request, or opens too many, keeps nobody else out.

uvicorn waits for the rest of a request for ever, and answers 503 to all once so many wait. Here a request has to be
complete in time; each client has a limit of its own; and where all places are taken, who waits without a request goes.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass
class Connections:
    """All connections of a server. Used from one event loop."""

    most: int = 256
    of_one: int = 64
    """Connections of one address: a browser has six, and several may come through one tunnel."""
    header_seconds: float = 10.0
    """Until the headers of a request are complete, from the opening of a connection or the first byte after a
    response."""
    write_seconds: float = 60.0
    """For which a client may take nothing of a response."""
    _open: "dict[_Protocol, str]" = field(default_factory=dict)
    _per_client: Counter[str] = field(default_factory=Counter)

    def protocol(self) -> type[H11Protocol]:
        """The protocol of a server: for ``uvicorn.Config(http=...)``."""
        return type("Protocol", (_Protocol,), {"them": self})

    def admit(self, protocol: "_Protocol", client: str) -> bool:
        """Whether ``client`` may have one more connection; the oldest one without a request may have to go for it."""
        if self._per_client[client] >= self.of_one:
            return False
        if len(self._open) >= self.most:
            idle = next((other for other in self._open if other.idle), None)
            if idle is None:
                return False
            idle.drop()
        self._open[protocol] = client
        self._per_client[client] += 1
        return True

    def leave(self, protocol: "_Protocol") -> None:
        client = self._open.pop(protocol, None)
        if client is not None:
            self._per_client[client] -= 1
            if not self._per_client[client]:
                del self._per_client[client]


_BUSY = b"too many connections"


def _answer(status: str, text: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text) + 1}\r\nconnection: close\r\n"
    return head.encode() + b"retry-after: 10\r\n\r\n" + text + b"\n"


class _Protocol(H11Protocol):
    """One connection. ``them``: all of them."""

    them: ClassVar[Connections]
    _headers_due: asyncio.TimerHandle | None = None
    _taking_due: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.them.admit(self, self.client[0] if self.client else ""):
            self._watch()
        else:
            transport.write(_answer("503 Service Unavailable", _BUSY))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.them.leave(self)
        for timer in (self._headers_due, self._taking_due):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking_due = self.loop.call_later(self.them.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking_due:
            self._taking_due.cancel()

    def drop(self) -> None:
        """Ends the connection, which waits without a request."""
        self.them.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Time runs while no request is there, however slowly one comes."""
        if not self.idle and self._headers_due:
            self._headers_due.cancel()
            self._headers_due = None
        elif self.idle and self._headers_due is None:
            self._headers_due = self.loop.call_later(self.them.header_seconds, self._too_slow)

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_answer("408 Request Timeout", b"the request did not come in time"))
            self.transport.close()
