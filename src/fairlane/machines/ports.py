"""Ports of this machine for servers that Fairlane starts."""

import socket


def reserve_port() -> socket.socket:
    """A free port of the loopback, kept until the socket is closed.

    The socket is bound and does not listen: the kernel gives its port to no connection and to nobody who asks for any
    port, while a server that names the port and sets SO_REUSEADDR, as servers do, can listen on it, and again after a
    restart.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def number(reserved: socket.socket) -> int:
    """The port of a socket."""
    return int(reserved.getsockname()[1])
