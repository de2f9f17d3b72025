"""How a machine of somebody is named: as ssh knows it, or this one."""

import re
from typing import Annotated

from pydantic import AfterValidator

LOCAL = "local"
"""Destination of the machine that runs Fairlane."""
_DESTINATION = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%/\[\]+-]{0,254}")


def problem(value: str) -> str:
    """Why ``value`` names no machine; empty: it may."""
    # ssh would take a name that begins with a dash for an option
    if _DESTINATION.fullmatch(value):
        return ""
    return "expected local or an ssh destination: host, user@host or ssh://user@host:port"


def _valid(value: str) -> str:
    if wrong := problem(value):
        raise ValueError(wrong)
    return value


Destination = Annotated[str, AfterValidator(_valid)]
"""A machine as the user's ssh knows it, or ``local``."""
