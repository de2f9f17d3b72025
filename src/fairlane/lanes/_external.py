"""Volumes on external arrays: lanes connect to an existing volume and set nothing up. Not a transport."""

import os
import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.study.strict import Strict


def _address(value: str) -> str:
    return str(IPv4Address(value))


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,222}", value):
        raise ValueError("expected a name of letters, digits, and . : _ -")
    return value


Name = Annotated[str, AfterValidator(_name)]
"""A name used in a command: NQN, IQN, user."""
Address = Annotated[str, AfterValidator(_address)]
"""An IPv4 address."""


class Secret(Strict):
    """Where a secret is found when the run starts: in one place, and never in study or run directory."""

    env: str = ""
    """Name of an environment variable."""
    file: str = ""
    """A file; blanks and line ends around the secret are left away."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.env) == bool(self.file):
            raise ValueError("expected env (name of an environment variable) or file, one of them")
        return self

    def read(self, lane: str) -> str:
        """Return the secret. Raises FairlaneError, which names the source and never the content."""
        where = f"lanes.{lane}.external.secret"
        if self.env:
            secret, place = os.environ.get(self.env, ""), f"environment variable {self.env}"
        else:
            place = f"file {self.file}"
            try:
                secret = Path(self.file).expanduser().read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise FairlaneError(
                    "secret-unreadable", f"the secret cannot be read from {place}", where=where
                ) from error
        secret = secret.strip()
        if not secret or not secret.isprintable():
            raise FairlaneError(
                "secret-empty", f"there is no secret in {place}", where=where, hint="one line of printable characters"
            )
        return secret


class External(Strict):
    """A volume of an array that is not the lab's: nothing is set up, only connected, described, disconnected."""

    addresses: Annotated[tuple[Address, ...], Field(min_length=1, max_length=8)]
    """IPv4 addresses of its portals; several need ``multipath``."""
    host: Name | None = None
    """Name of this initiator (host NQN, initiator IQN) that the array knows; not given: fairlane's own."""
    secret: Secret | None = None
    """For authentication: where it is found."""

    def known(self) -> dict[str, Any]:
        """Parameters (see ``guard.parameters``): the platform's array and links do not apply; ``conditions`` may state
        them."""
        unknown = ("copies", "write_ack", "flush", "link_speed", "link_delay", "mtu", "provisioning", "disk_size")
        return {**dict.fromkeys(unknown), "backend": f"external array {', '.join(self.addresses)}"}


def one_address(external: External | None, multipath: object) -> None:
    """Raise ValueError for several portals without multipath."""
    if external and len(external.addresses) > 1 and not multipath:
        raise ValueError("external.addresses: several addresses need multipath")


def without_argv(secret: str, command: str) -> str:
    """Shell that passes ``secret``, one line, to ``command`` on stdin: arguments of a process are public, also those of
    a ``printf`` that is a program."""
    return f"{command} << 'END-OF-SECRET'\n{secret}\nEND-OF-SECRET\n"
