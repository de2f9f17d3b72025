"""The devices of a study's volumes: record their identities, guard every write, verify the prefill, and load lanes in
rounds until they are steady (docs/safety.md)."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shlex import quote
from typing import Literal, Protocol

from fairlane.errors import RunFailed
from fairlane.machines import device_guard
from fairlane.machines.base import Guest
from fairlane.machines.device_guard import Recorded
from fairlane.machines.folders import OWN, Folders
from fairlane.records import Cell
from fairlane.stats.steady import Steadiness, steadiness
from fairlane.study.base import LaneSpec
from fairlane.units import format_size
from fairlane.workloads.base import Workload

_TIMEOUT = 300.0
_SLOWEST = 2**20
"""Bytes per second of the slowest prefill that is waited for: an emulated machine on a busy host writes ten times as
fast."""
_ALLOCATED = 0.98
"""Share of the prefilled bytes for which a file must have blocks allocated; file systems round by less."""


FileKind = Literal["share", "made", "kept"]
"""share: in a mounted share. made: by this run, in somebody's directory. kept: somebody's, and never written."""
_AT: Mapping[FileKind, str] = {"share": "command stat -c %m", "made": "stat -c %d:%i", "kept": "stat -c %d:%i"}
"""Command that prints where a file is: its mount point, or the numbers of its file system and inode."""
_GUARDS: Mapping[FileKind, str] = {"share": "file_guard", "made": "made_guard", "kept": "kept_guard"}


class Volume(Protocol):
    """A volume of a lane on one machine, as a platform describes it; linked there as ``Folders.device(name)``."""

    @property
    def name(self) -> str:
        """Unique in the run."""

    @property
    def lane(self) -> str: ...

    @property
    def guest(self) -> int:
        """Number of its machine, from 0."""

    @property
    def spec(self) -> LaneSpec: ...

    @property
    def owned(self) -> bool:
        """Whether this run made the volume: nobody else has data on it, and it needs no ``destroy``."""

    @property
    def file_kind(self) -> FileKind:
        """Of a volume that is a file."""

    @property
    def kept(self) -> bool:
        """Whether its contents are somebody's, and stay: it is never filled."""

    def file(self, media: Path) -> Path:
        """Path in ``media`` of the file of this machine that is its medium, if it is one; it need not exist."""


@dataclass
class Devices:
    """The devices of the lanes on running machines."""

    guests: Sequence[Guest]
    recorded: dict[str, Recorded] = field(default_factory=dict)
    """Volumes that are block devices, by name."""
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Volumes that are files, by name: where (``_AT``), bytes."""
    steady: dict[str, dict[str, object]] = field(default_factory=dict)
    """By lane: the rounds of load before the first trial and whether the lane became steady."""
    filled: dict[str, int] = field(default_factory=dict)
    """By volume: bytes that the prefill wrote, by the device's counters."""
    allocated: dict[str, int] = field(default_factory=dict)
    """By volume: bytes allocated after the prefill in the file of this machine that is its medium."""
    folders: Folders = OWN
    """Of the machines."""
    before: str = ""
    """Shell before the load of a trial."""

    async def record(self, volumes: Iterable[Volume]) -> None:
        """Records identity and size of every linked device. Raises Refused for one without an identity of its own."""
        parts: dict[Guest, str] = {}
        for v in volumes:
            parts.setdefault(self.guests[v.guest], "DISKS=$(disks)\n")
            device, name = self.folders.device(v.name), quote(v.name)
            text = f"""
if [ -f {device} ]; then
  f=$(readlink -f {device}); s=$(stat -c %s "$f")
  row file {name}; row at "$({_AT[v.file_kind]} "$f")"; row size "$s"
else
  i=$(identity {device}); s=$(size_of {device})
  row block {name}; row identity "$i"; row size "$s"
fi
"""
            parts[self.guests[v.guest]] += text
        answers = await asyncio.gather(*(g.ask(f"{{ {text}\n}} > rows", _TIMEOUT) for g, text in parts.items()))
        for files in answers:
            lines = [line.partition("\t")[2] for line in files["rows"].decode(errors="replace").splitlines()]
            kinds = [line.partition("\t")[0] for line in files["rows"].decode(errors="replace").splitlines()]
            for kind, name, value, size in zip(kinds[::3], lines[::3], lines[1::3], lines[2::3], strict=True):
                if kind == "file":
                    self.files[name] = value, int(size)
                else:
                    self.recorded[name] = Recorded(value, size)

    def capacity(self, volume: Volume) -> int:
        """Bytes of the volume's device or file."""
        if volume.name in self.files:
            return self.files[volume.name][1]
        return int(self.recorded[volume.name].size.partition("/")[0])

    async def handed_out(self, volumes: Iterable[Volume]) -> None:
        """Raises Refused where a volume that a storage class provisioned for this run carries a signature."""
        texts: dict[Guest, str] = {}
        for v in volumes:
            if v.name in self.recorded:
                texts.setdefault(self.guests[v.guest], "")
                texts[self.guests[v.guest]] += f"handed_out {self.folders.device(v.name)} || exit 77\n"
        await asyncio.gather(*(g.ask(text, _TIMEOUT) for g, text in texts.items()))

    def guard(self, volume: Volume, *, writes: bool = True) -> str:
        """Shell to run before a load on ``volume``; it ends the script if the device must not be used."""
        device = self.folders.device(volume.name)
        if volume.name in self.files:
            at, size = self.files[volume.name]
            return f"{_GUARDS[volume.file_kind]} {device} {quote(at)} {size} || exit 77\n"
        if (recorded := self.recorded.get(volume.name)) is None:
            return ""  # a lane without a permanent volume
        if not writes:
            return device_guard.read_guard(device, recorded)
        return device_guard.guard(device, recorded, recorded.identity if volume.owned else volume.spec.destroy)

    def guards(self, volumes: Collection[Volume], *, writes: bool = True) -> str:
        """``guard`` for several volumes of a machine: lists its disks and their open files once."""
        each = "".join(self.guard(v, writes=writes) for v in volumes)
        if not any(v.name in self.recorded for v in volumes):
            return each
        opened = "OPENED=$(opened) || exit 1\n" if writes else ""
        return f"DISKS=$(disks)\n{opened}{each}unset DISKS OPENED\n"

    def description(self, volumes: Sequence[Volume]) -> dict[str, object]:
        """Facts about a lane's volumes for the lane's description, by key."""
        facts: dict[str, object] = {}
        first = volumes[0]
        if recorded := self.recorded.get(first.name):
            facts["device.identity"] = recorded.identity
        if first.name in self.filled:
            facts["prefill.bytes_written"] = min(self.filled.get(v.name, 0) for v in volumes)
        if first.name in self.allocated:
            facts["medium.allocated_bytes"] = min(self.allocated.get(v.name, 0) for v in volumes)
        if first.lane in self.steady:
            facts["steady"] = self.steady[first.lane]
        return facts

    async def fill(
        self, volumes: Iterable[Volume], cells: Sequence[tuple[Workload, Cell]], media: Path | None = None
    ) -> None:
        """Runs the prefill of every workload once for every volume and verifies each: by the counters of the block
        device, the blocks of a file, and the blocks of the file on this machine behind it (in ``media``). Raises
        RunFailed."""
        todo = [(v, text, least) for v in volumes for text, least in self._prefills(v, cells).items()]
        texts: dict[Guest, list[str]] = {}
        total = 0
        for number, (v, text, least) in enumerate(todo):
            total += least
            d = self.folders.device(v.name)
            counted = f"[ -f {d} ] || read -r _ _ _ _ _ _ w _ < /sys/class/block/$(basename $(readlink -f {d}))/stat"
            texts.setdefault(self.guests[v.guest], []).append(f"""
mkdir {number}; cd {number}
w=0
{self.guard(v)}{counted}
before=$w
( {text.strip()}
) || {{ s=$?; echo "the prefill of {v.name} failed ($s): $(tail -n 3 *.err)" >&2; exit 1; }}
{counted}
[ ! -f {d} ] || w=$(($(stat -c '%b * %B' "$(readlink -f {d})") / 512))
echo $(((w - before) * 512)) > written
cd ..
""")
        slow = sum(workload.patience(cell) for workload, cell in cells) * len({v.name for v, _, _ in todo})
        timeout = _TIMEOUT + total / _SLOWEST + slow
        answers = await asyncio.gather(*(g.ask("\n".join(parts), timeout) for g, parts in texts.items()))
        outputs = {name: data for files in answers for name, data in files.items()}
        for number, (v, _, least) in enumerate(todo):
            written = int(outputs[f"{number}/written"])
            _enough(v, written, least, "its device received" if v.name in self.recorded else "its file holds")
            self.filled[v.name] = max(written, self.filled.get(v.name, 0))
            if media and (file := v.file(media)).exists():
                allocated = file.stat().st_blocks * 512
                _enough(v, allocated, int(_ALLOCATED * least), "its backing file holds")
                self.allocated[v.name] = allocated

    def _prefills(self, volume: Volume, cells: Sequence[tuple[Workload, Cell]]) -> dict[str, int]:
        """Shell text of each prefill -> bytes that it must write."""
        if volume.kept or (volume.name not in self.recorded and volume.name not in self.files):
            return {}
        capacity, device = self.capacity(volume), self.folders.device(volume.name)
        prefills = {w.prepare(cell, device): w.prepares(cell, capacity) for w, cell in cells}
        return {text: least for text, least in prefills.items() if text}

    async def settle(
        self,
        lane: str,
        volumes: Sequence[Volume],
        cells: Sequence[tuple[Workload, Cell]],
        notify: Callable[[str], None],
    ) -> None:
        """Loads the lane in rounds before its first trial until it is steady, if the study sets ``steady``. Records a
        lane that is not steady within the limit, which is no error."""
        if any(workload.rounds(cell) for workload, cell in cells):
            notify(f"loading {lane} until it is steady")
        done: list[object] = []
        for workload, cell in cells:
            rounds = workload.rounds(cell)
            if rounds is None or rounds in done:
                continue
            done.append(rounds)
            rates: list[float] = []
            judged: Steadiness | None = None
            while len(rates) < rounds.most and not (judged and judged.steady):
                rates.append(await self._round(volumes, workload, rounds.cell, len(rates)))
                judged = steadiness(rates)
            verdict = asdict(judged) if judged else {}
            self.steady[lane] = {"rounds": len(rates), "iops": [round(r, 1) for r in rates], "what": rounds.cell.name,
                                 "seconds": rounds.seconds * len(rates), "reached": bool(judged and judged.steady),
                                 **verdict}  # fmt: skip

    async def _round(self, volumes: Sequence[Volume], workload: Workload, cell: Cell, number: int) -> float:
        """Runs one round on all machines and returns the sum of their IOPS."""
        parts = []
        for index, guest in enumerate(self.guests):
            own = [v for v in volumes if v.guest == index]
            if own:
                names = [self.folders.device(v.name) for v in own]
                text = self.guards(own) + workload.script(cell, names, number)
                parts.append(guest.ask(text, _TIMEOUT + 3 * cell.params["runtime"] / 1e9))
        outputs = await asyncio.gather(*parts)
        return sum(workload.observe(cell, files).metrics.get("iops", 0.0) for files in outputs)


def fills(cells: Iterable[tuple[Workload, Cell]]) -> bool:
    """Whether any of the cells fills volumes before its trials."""
    return any(workload.prepare(cell, "/dev/lane/x") for workload, cell in cells)


def _enough(volume: Volume, written: int, least: int, evidence: str) -> None:
    if written < least:
        raise RunFailed(
            "prefill",
            f"the prefill of {volume.name} is incomplete: {evidence} {format_size(written)} of {format_size(least)}",
            hint="is the volume thin and its pool full? set prefill: false only if the volume is already filled",
        )
