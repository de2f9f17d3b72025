"""Why a lab machine ended, in words: its console, its QEMU's end and stderr, and what it did at that moment. Pure, but
for reading two files."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import MachineLost, RunFailed, because

_INCIDENT = re.compile(r"Kernel panic|\bOops\b|\bBUG: |kernel BUG at|Unable to handle kernel|general protection fault")
"""Lines with which a kernel begins to report a failure of its own."""
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_FAULTY = re.compile(r"\bRIP: [0-9a-f]{4}:(\w+)\+0x\S+( \[\w+\])?")
"""The function in which the kernel failed, and its module."""
_TIME = re.compile(r"^\[ *[0-9.]+\] ")
_SHOWN = 8
"""Console lines in a message without a failure of the kernel."""
_INCIDENT_SHOWN = 120
"""Most console lines in a message with one: an Oops and the panic after it take some 80."""
_SEARCHED = 400
"""Last console lines among which a failure of the kernel is looked for: an older one did not end the machine."""
_STDERR_SHOWN = 600
"""Characters."""
DYING = 15.0
"""Seconds that a machine has to end after its connection or QMP broke: an idle host takes 0.1 s, a busy one many times
that."""
_KEPT = 2**20
"""Bytes kept of each file, from its end."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n\x20-\x7e\xa0-\U0010ffff]")
"""Escape sequences of terminals, and other characters that do not print."""
_FATAL = {signal.SIGKILL: "was killed by", signal.SIGTERM: "was ended by", signal.SIGABRT: "aborted with"}


def how(code: int | None) -> str:
    """A QEMU's end in words. ``code``: as in ``Process.returncode``; None: it still runs."""
    if code is None:
        return "QEMU still runs"
    if code >= 0:
        return f"QEMU exited with code {code}"
    try:
        known = signal.Signals(-code)
    except ValueError:
        return f"QEMU was ended by signal {-code}"
    return f"QEMU {_FATAL.get(known, 'crashed with')} signal {-code} ({known.name})"


@dataclass(frozen=True)
class Obituary:
    """What is known of a machine that has ended."""

    machine: str
    code: int | None
    """QEMU's ``returncode``."""
    console: bytes
    """The guest's console: its last MiB."""
    stderr: bytes
    """QEMU's: its last MiB."""
    during: str = ""
    """What the machine did at that moment: ``while it ran 'sleep 9'``."""

    @classmethod
    def read(cls, machine: str, code: int | None, console: Path, stderr: Path, during: str = "") -> "Obituary":
        """From the files that console and stderr were written to; a missing one is empty."""
        return cls(machine, code, _content(console), _content(stderr), during)

    @property
    def how(self) -> str:
        """QEMU's end in words."""
        return how(self.code)

    @property
    def cause(self) -> str:
        """One line: which machine, what it did, how it ended."""
        at = f" {self.during}" if self.during else ""
        if panic := self._panic():
            end = f" ({self.how})" if self.code else ""
            return f"the kernel of {self.machine} panicked{at}: {panic}{end}"
        if self.code == 0:
            return f"{self.machine} ended{at}: {self.how}, as it does when a guest restarts or switches off"
        return f"{self.machine} ended{at}: {self.how}"

    @property
    def complaint(self) -> str:
        """The end of QEMU's stderr; empty if it wrote nothing."""
        return _text(self.stderr).strip()[-_STDERR_SHOWN:]

    def console_end(self) -> list[str]:
        """The last console lines; a failure of the kernel whole, from its first line on."""
        lines = self._lines()
        recent = lines[-_SEARCHED:]
        first = next((number for number, line in enumerate(recent) if _INCIDENT.search(line)), None)
        if first is None:
            return lines[-_SHOWN:]
        incident = recent[first:]
        if (excess := len(incident) - _INCIDENT_SHOWN) <= 0:
            return incident
        half = _INCIDENT_SHOWN // 2  # the beginning says what happened, the end why the machine ended
        return [*incident[:half], f"[{excess} lines left out]", *incident[-half:]]

    def __str__(self) -> str:
        parts = [self.cause]
        if self.complaint:
            parts += ["QEMU's stderr:", *_indented(self.complaint.splitlines())]
        if lines := self.console_end():
            begun = any(_INCIDENT.search(line) for line in lines)
            parts += ["console, from the kernel's first complaint:" if begun else "last lines of the console:"]
            parts += _indented(lines)
        else:
            parts.append("the console is empty")
        return "\n".join(parts)

    @property
    def files(self) -> dict[str, bytes]:
        """What is kept: name -> content."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.machine)
        return {f"{name}.console": self.console, f"{name}.stderr": self.stderr}

    @property
    def hint(self) -> str:
        """What to look at next; empty if the error says all."""
        if self.code == -signal.SIGKILL:
            return "if nobody killed it, the kernel of this host ran out of memory: dmesg | grep -i 'killed process'"
        return ""

    def error(self, hint: str = "") -> MachineLost:
        """The error to raise."""
        return MachineLost(str(self), files=self.files, hint=hint or self.hint)

    def start_error(self) -> RunFailed:
        """The error to raise if QEMU never answered: a signal ended it, or it refused its own command line."""
        if self.code is not None and self.code < 0:
            return self.error()
        return RunFailed(
            "qemu-start",
            f"{self.machine}: QEMU did not start ({self.how}){because(self.complaint)}",
            hint="`fairlane doctor` lists missing programs",
        )

    def _panic(self) -> str:
        """The reason of the kernel's panic; empty: it did not panic."""
        lines = self._lines()[-_SEARCHED:]
        found = [match[1].strip() for line in lines if (match := _PANIC.search(line))]
        # the kernel repeats the line at the end of its report: ---[ end Kernel panic - not syncing: ... ]---
        reason = found[0] if found else ""
        if not reason.startswith("Fatal exception"):
            return reason
        oops = next(line for line in lines if _INCIDENT.search(line))
        where = next((match for line in lines if (match := _FAULTY.search(line))), None)
        return _TIME.sub("", oops) + (f", in {where[1]}{where[2] or ''}" if where else "")

    def _lines(self) -> list[str]:
        return [line.rstrip() for line in _text(self.console).splitlines() if line.strip()]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _KEPT, 0))
            return file.read(_KEPT)
    except OSError:
        return b""


def _text(data: bytes) -> str:
    return _CONTROL.sub("", data.decode(errors="replace").replace("\r", "\n"))


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
