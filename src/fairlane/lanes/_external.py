"""Volumes of existing arrays: lanes connect to them and set nothing up. Not a transport."""

import os
import re
from ipaddress import IPv4Address, IPv6Address
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


def _server(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", value):
        try:
            return f"[{IPv6Address(value.strip('[]'))}]"
        except ValueError:
            raise ValueError("expected a host name or an address") from None
    return value


Server = Annotated[str, AfterValidator(_server)]
"""A host name, an IPv4 or an IPv6 address (in brackets, as mount takes it)."""


def _folder(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._/+=@-]*", value) or ".." in value.split("/"):
        raise ValueError("expected an absolute path of letters, digits and . _ - + = @")
    return value.rstrip("/") or "/"


Folder = Annotated[str, AfterValidator(_folder)]
"""An absolute path, used in a command."""


def _option(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9_]+(=[A-Za-z0-9.:/_@-]+)?", value):
        raise ValueError("expected one mount option, such as noac or timeo=50")
    return value


Option = Annotated[str, AfterValidator(_option)]
"""One option of mount(8)."""


class Secret(Strict):
    """Source of a secret, read when the run starts; never in study or run directory."""

    env: str = ""
    """Name of an environment variable."""
    file: str = ""
    """A file; blanks and line ends around the secret are ignored."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.env) == bool(self.file):
            raise ValueError("expected either env (name of an environment variable) or file")
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
                raise FairlaneError("secret-unreadable", f"cannot read the secret from {place}", where=where) from error
        secret = secret.strip()
        if not secret or not secret.isprintable():
            raise FairlaneError(
                "secret-empty",
                f"{place} contains no secret",
                where=where,
                hint="it must hold one line of printable characters",
            )
        return secret


class External(Strict):
    """A volume of an existing array: nothing is set up, only connected, described, disconnected."""

    addresses: Annotated[tuple[Address, ...], Field(min_length=1, max_length=8)]
    """IPv4 addresses of its portals; several need ``multipath``."""
    host: Name | None = None
    """Name of this initiator (host NQN, initiator IQN) that the array knows; not given: the machine's own."""
    discovery: bool = False
    """Use every portal of the target that the first address reports; several need ``multipath``."""
    secret: Secret | None = None
    """Source of the secret for authentication."""

    def known(self) -> dict[str, Any]:
        """Parameters (see ``guard.parameters``): the platform's array and links do not apply; ``conditions`` may state
        them."""
        unknown = ("copies", "write_ack", "flush", "link_speed", "link_delay", "mtu", "provisioning", "disk_size")
        return {**dict.fromkeys(unknown), "backend": f"external array {', '.join(self.addresses)}"}


def one_address(external: External | None, multipath: object) -> None:
    """Raise ValueError for several portals without multipath, or beside discovery."""
    if external and external.discovery and len(external.addresses) > 1:
        raise ValueError("external.addresses: discovery finds the other portals; give one address")
    if external and len(external.addresses) > 1 and not multipath:
        raise ValueError("external.addresses: several addresses need multipath")


def without_argv(secret: str, command: str) -> str:
    """Shell that passes ``secret``, one line, to ``command`` on stdin: arguments of a process are public, also those of
    a ``printf`` that is a program."""
    return f"{command} << 'END-OF-SECRET'\n{secret}\nEND-OF-SECRET\n"
