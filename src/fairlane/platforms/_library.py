"""The functions that scripts call on a machine that was not made for it: text to be put there once."""

from importlib import resources


def text(settings: str = "", programs: str = "/dev/null") -> str:
    """POSIX shell: ``lib.sh`` with results to standard output, and the guard with all it needs (docs/safety.md).
    ``settings``: shell between them. ``programs``: a file of programs that busybox would hide, one a line."""
    lab = resources.files("fairlane.platforms.lab")
    library = (lab / "guest" / "lib.sh").read_text("utf-8").replace("/fairlane/programs", programs)
    ours = lab / "wall" / "guest"
    more = "".join(ours.joinpath(name).read_text("utf-8") for name in ("send.sh", "identity.sh", "guard.sh"))
    return f"{library}RESULTS=/dev/stdout\n{settings}{more}"
