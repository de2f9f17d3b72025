"""The shell functions that steps and scripts call on a machine (``guest/*.sh``), copied there once."""

from importlib import resources


def part(name: str) -> str:
    """One file of the library: ``lib.sh``, ``guard.sh``, ..."""
    return resources.files(__package__).joinpath("guest", name).read_text("utf-8")


def text(settings: str = "", programs: str = "/dev/null") -> str:
    """The library for a machine that is not built from the lab's image: ``lib.sh`` with results to standard output, and
    the guard with what it needs (docs/safety.md). ``settings``: shell between them. ``programs``: a file that lists the
    programs that busybox would hide, one a line."""
    library = part("lib.sh").replace("/fairlane/programs", programs)
    more = "".join(part(name) for name in ("send.sh", "identity.sh", "guard.sh", "servers.sh"))
    return f"{library}RESULTS=/dev/stdout\n{settings}{more}"
