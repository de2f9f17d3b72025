"""The way from a machine to a lane's array: interface, speed, round trip, and whether packets of its MTU arrive."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.platforms._living.volumes import Volume

_HEADERS = 28
"""Bytes of the headers of IPv4 and ICMP in front of ping's payload."""
_TIMEOUT = 60.0
_RTT = re.compile(r"= ([0-9.]+)/")

_LOOK = """
a={address}
dev=$(ip -o route get $a 2> /dev/null | sed -n 's/.* dev \\([^ ]*\\).*/\\1/p' | head -n 1)
if [ -n "$dev" ]; then
  row {key}.interface "$dev"
  read -r mtu < /sys/class/net/$dev/mtu && row {key}.mtu "$mtu"
  speed=; {{ read -r speed < /sys/class/net/$dev/speed; }} 2> /dev/null || :
  case $speed in '' | -*) ;; *) row {key}.speed "$speed" ;; esac
  if command -v ping > /dev/null; then
    row {key}.rtt "$(LC_ALL=C ping -n -c 3 -i 0.2 -W 1 $a 2> /dev/null | tail -n 1)"
    if LC_ALL=C ping -n -c 2 -i 0.2 -W 1 -M do -s $((mtu - {headers})) $a > /dev/null 2>&1; then
      row {key}.whole yes
    else
      row {key}.whole no
    fi
  fi
fi
"""
"""Packets may not be fragmented (``-M do``): one as large as the interface's MTU shows what the path carries."""


def addresses(volume: Volume) -> tuple[str, ...]:
    """Addresses of the volume's array; empty for what is in the machine, or named otherwise."""
    external = getattr(volume.spec, "external", None)
    own = getattr(external, "addresses", ()) if external else volume.site.addresses if volume.needs_array else ()
    server = getattr(external, "server", "")
    return tuple(str(a) for a in own) or ((server,) if _numeric(server) else ())


def _numeric(text: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(text))
    except ValueError:
        return False


async def look(guest: Guest, wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Address -> ``interface``, ``mtu``, ``speed_mbit``, ``rtt_us``, ``mtu_arrives`` (True, False; None: nothing
    answers, or ping is missing). Raises RunFailed."""
    every = list(dict.fromkeys(wanted))
    text = "".join(_LOOK.format(address=quote(a), key=n, headers=_HEADERS) for n, a in enumerate(every))
    files = await guest.ask(f"{{ :\n{text}\n}} > rows", _TIMEOUT)
    rows = script.rows(files["rows"].decode(errors="replace"))
    return {address: read(rows, number) for number, address in enumerate(every)}


def read(rows: Mapping[str, str], number: int) -> dict[str, Any]:
    """The rows of one address."""
    own = {key.partition(".")[2]: value for key, value in rows.items() if key.startswith(f"{number}.")}
    result: dict[str, Any] = {"interface": own.get("interface", "")}
    for key, name in (("mtu", "mtu"), ("speed", "speed_mbit")):
        if own.get(key, "").isdigit():
            result[name] = int(own[key])
    answered = _RTT.search(own.get("rtt", ""))
    if answered:
        result["rtt_us"] = round(float(answered[1]) * 1e3, 1)
    result["mtu_arrives"] = own.get("whole") == "yes" if answered and "whole" in own else None
    return result


def conditions(paths: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Parameters (``guard.parameters``) of a lane from its ways: the smallest MTU, and the speed of the slowest
    interface where all are known."""
    result: dict[str, Any] = {}
    mtus = [path["mtu"] for path in paths if "mtu" in path]
    speeds = [path["speed_mbit"] for path in paths if "speed_mbit" in path]
    if mtus:
        result["mtu"] = min(mtus)
    if speeds and len(speeds) == len(paths):
        result["link_speed"] = f"{min(speeds)}mbit"
    return result
