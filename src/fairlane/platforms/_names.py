"""Names of other systems, as they write them: checked when the study is read, not by the system. Not a platform."""

import re
from typing import Annotated

from pydantic import AfterValidator

_DNS = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


def _dns_label(value: str) -> str:
    if len(value) > 63 or not re.fullmatch(_DNS, value):
        raise ValueError("expected lower-case letters, digits and dashes, at most 63, as in a name in Kubernetes")
    return value


def _host_name(value: str) -> str:
    if len(value) > 253 or not re.fullmatch(rf"{_DNS}(\.{_DNS})*", value.lower()):
        raise ValueError("expected a host name or an address, without scheme and port")
    return value


def _inventory(value: str) -> str:
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value) > 80:
        raise ValueError("expected 1 to 80 printable characters without blanks around them")
    return value


Label = Annotated[str, AfterValidator(_dns_label)]
"""RFC 1123 label: a namespace."""
HostName = Annotated[str, AfterValidator(_host_name)]
"""A host by its name or IPv4 address."""
Inventory = Annotated[str, AfterValidator(_inventory)]
"""Name of an object in vCenter's inventory, which has at most 80 characters."""
