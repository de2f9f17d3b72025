"""The base class of errors, and the exit codes."""

import errno
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    USER_ERROR = 1
    USAGE = 2
    RUN_FAILED = 3
    NOT_DECIDED = 4
    INTERRUPTED = 130


SEVERAL = "several-problems"
"""Kind of an error that lists others, one per line, each with its kind."""


class FairlaneError(Exception):
    """An error with message, place and hint; the command line prints it as one message.

    ``kind`` names the error (``lane-unknown``): it stays when the words change. ``where`` is a file, ``file:line`` or a
    path in the study; ``hint`` is the next thing to try.
    """

    def __init__(
        self, kind: str, message: str, *, hint: str = "", where: str = "", code: Exit = Exit.USER_ERROR
    ) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.where = where
        self.code = code
        if hint:
            self.add_note(f"Hint: {hint}")  # for tracebacks: a notebook shows it below the error

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def labelled(self) -> str:
        """Place and message, with the kind in brackets behind the first line; a list of problems has one per line, and
        a message that is the kind itself (``interrupted``) needs none."""
        if self.kind in (SEVERAL, str(self)):
            return str(self)
        first, line, rest = str(self).partition("\n")
        return f"{first} [{self.kind}]{line}{rest}"


def several(title: str, problems: Sequence[FairlaneError], hint: str = "") -> FairlaneError:
    """One error for ``problems``: the only one, or a list below ``title`` with a line and its hint for each."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"  {problem.labelled()}" + (f" ({problem.hint})" if problem.hint else "") for problem in problems]
    return FairlaneError(SEVERAL, "\n".join([title, *lines]), hint=hint)


def because(reason: str, mark: str = ":") -> str:
    """``: REASON``, to end a message with; empty if the tool said nothing."""
    return f"{mark} {reason}" if reason else ""


class RunFailed(FairlaneError):  # noqa: N818 - reads as what happened
    """The run itself failed (a guest died, a disk is full); its measurements are kept."""

    def __init__(self, kind: str, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(kind, message, hint=hint, where=where, code=Exit.RUN_FAILED)


class Incomplete(RunFailed):
    """Blocks are missing; what was carried out is kept, and verdicts can be had of it."""


class MachineLost(RunFailed):
    """A machine has ended; the message begins with a line that says which one and why.

    ``files``: what it left, to be kept with the run: name (``guest0.console``) -> content. Contents, because a
    machine's scratch folder may be gone before anybody hears of the error.
    """

    def __init__(self, message: str, *, files: Mapping[str, bytes] | None = None, hint: str = "") -> None:
        super().__init__("machine-lost", message, hint=hint)
        self.files = files or {}


class Unfinished(RunFailed):
    """The command is abandoned, but may still run on the machine."""


class Refused(FairlaneError):  # noqa: N818 - reads as what happened
    """A device must not be written: it is not the intended one, or is in use. The run ends at once, without retries on
    the device; its measurements are kept."""

    def __init__(self, kind: str, message: str, *, hint: str = "", where: str = "") -> None:
        super().__init__(kind, message, hint=hint, where=where, code=Exit.RUN_FAILED)


class Garbage(Exception):  # noqa: N818 - reads as what it is
    """A tool's output cannot be read; ``kind`` and message say why. A trial of our own then counts as failed; an
    importer leaves the file out."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[1])


class Invalid(ValueError):  # noqa: N818 - reads as what it is
    """A validator's error with a kind of its own; that of any other ValueError is ``value``."""

    def __init__(self, kind: str, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


_ROOM = "free some space"
_UNWRITABLE = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("the disk quota is used up", f"{_ROOM}, or raise the quota"),
    errno.EFBIG: ("the file has reached the largest size allowed", "raise the limit of file sizes (ulimit -f)"),
    errno.EROFS: ("the file system is read-only", "mount it for writing (mount -o remount,rw)"),
    errno.EACCES: ("permission denied", "run as the owner of the folder, or allow this user to write there"),
    errno.EPERM: ("operation not permitted", "remove the file's protection (lsattr shows it)"),
    errno.EISDIR: ("a folder has this name", "move the folder away"),
    errno.ENOTDIR: ("part of the path is a file, not a folder", "move the file away"),
    errno.EEXIST: ("a file has the name of a folder in its path", "move the file away"),
    errno.ENOENT: ("the folder does not exist", "create the folder"),
    errno.EIO: ("the disk reports an error", "check the kernel log (dmesg)"),
}


def unwritable(error: OSError) -> tuple[str, str]:
    """(reason, hint) for a failed write; the hint is empty if none is known."""
    return _UNWRITABLE.get(error.errno or 0, (error.strerror or str(error), ""))


def nearest(word: str, known: Iterable[str]) -> str:
    """The entry of ``known`` closest to ``word``, for hints; empty if none is close."""
    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.55)
    return by_lower[matches[0]] if matches else ""
