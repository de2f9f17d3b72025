"""Times at which each machine of a storm reached each phase, and how its volume was cloned, from watch events. Pure.

Times are of this machine's monotonic clock when the event arrived: an API server's stamps are whole seconds of another
clock. They are recorded too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.kinds import Kind

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.watching import WatchEvent

PHASES = ("requested", "bound", "cloned", "scheduled", "running", "answers", "first_io")
"""Phases in order. requested: the API server has stored the machine. bound: all its claims are bound. cloned: the clone
has its data (DataVolume phase Succeeded; a claim copied by CDI from pod to pod is bound long before). scheduled: its
pod is on a node (VMI phase Scheduled). running: its QEMU runs (Running). answers: its sshd sent the banner. first_io: a
read and a flushed write of the clone completed."""
CLONE_TYPE = "cdi.kubevirt.io/cloneType"
"""Annotation of a claim and its DataVolume: CDI's way of cloning (clone-populator.go, pvc-clone-controller.go of
CDI)."""
FALLBACK = "cdi.kubevirt.io/cloneFallbackReason"
"""Annotation of a claim that CDI copied because the better way was impossible (doc/efficient-cloning.md of CDI)."""
_SIGNS = {
    "CSICloneInProgress": "csi-clone",
    "SnapshotForSmartCloneInProgress": "snapshot",
    "CloneFromSnapshotSourceInProgress": "snapshot",
    "SmartClonePVCInProgress": "snapshot",
    "CloneInProgress": "copy",
}
"""DataVolume phases specific to one way of cloning; the copy of a snapshot has those of both."""
_SOURCES = {"PersistentVolumeClaim": "csi-clone", "VolumeSnapshot": "snapshot"}
_SCHEDULED = ("Scheduled", "Running")
_ENDED = ("Succeeded", "Failed")
_CONDITIONS = 4

Object = Mapping[str, Any]


@dataclass
class Track:
    """One machine of a storm."""

    name: str
    node: str
    volumes: tuple[str, ...]
    """Names of its DataVolumes, which their claims share; the first is the clone."""
    began: float = 0.0
    """Monotonic time of the storm's begin."""
    at: dict[str, float] = field(default_factory=dict)
    """Phase -> seconds since the storm began."""
    within: dict[str, float] = field(default_factory=dict)
    """Phase -> seconds by which it may have been reached earlier, if any."""
    volume: list[tuple[str, float]] = field(default_factory=list)
    """Phases of the clone's DataVolume, each with the seconds since the storm began."""
    failed: str = ""
    failure: str = ""
    """Kind of the error in ``failed``."""
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    """Kind and name -> its last state."""
    _progress: str = ""

    def update(self, kind: Kind, event: "WatchEvent", since: float) -> bool:
        """Process an event of one of this machine's objects; ``since``: time of the watch's previous event, after which
        a listed change must have happened. Returns whether the machine made progress."""
        name = str(event.object["metadata"]["name"])
        self.objects[kind.kind, name] = event.object
        when = event.monotonic - self.began
        within = max(0.0, min(when, event.monotonic - since)) if event.listed else 0.0
        status = event.object.get("status") or {}
        if kind == kinds.PVC:
            return self._bound() and self.mark("bound", when, within)
        if kind == kinds.DATA_VOLUME:
            return name == self.volumes[0] and self._volume(status, when, within)
        if kind == kinds.VMI:
            return self._instance(status, when, within)
        return False

    def mark(self, phase: str, when: float, within: float = 0.0) -> bool:
        """Record ``phase`` as reached; False if it was before."""
        if phase in self.at:
            return False
        self.at[phase] = when
        if within > 0:
            self.within[phase] = within
        return True

    def fail(self, kind: str, reason: str) -> None:
        """Record that the machine failed; the first reason stays."""
        if not self.failed:
            self.failure, self.failed = kind, reason

    def _bound(self) -> bool:
        claims = [self.objects.get((kinds.PVC.kind, name)) or {} for name in self.volumes]
        return all((claim.get("status") or {}).get("phase") == "Bound" for claim in claims)

    def _volume(self, status: Object, when: float, within: float) -> bool:
        phase, progress = plain(str(status.get("phase") or ""), 40), str(status.get("progress") or "")
        moved, self._progress = progress != self._progress, progress
        if phase and phase not in {known for known, _ in self.volume}:
            self.volume.append((phase, when))
            moved = True
        if phase == "Succeeded":
            moved = self.mark("cloned", when, within) or moved
        return moved

    def _instance(self, status: Object, when: float, within: float) -> bool:
        phase = status.get("phase")
        if phase in _ENDED and not self.failed:
            ended = "failed" if phase == "Failed" else "ended"
            self.fail(f"instance-{ended}", f"its instance {ended}")
        moved = False
        if phase in _SCHEDULED:
            # A phase without an event of its own was reached between the previous event and this one.
            moved = self.mark("scheduled", when, within or (self._since_last(when) if phase == "Running" else 0.0))
        if phase == "Running":
            moved = self.mark("running", when, within) or moved
        return moved

    def _since_last(self, when: float) -> float:
        return when - max((t for t in self.at.values() if t <= when), default=0.0)

    @property
    def last(self) -> str:
        """The latest phase, in words."""
        reached = [phase for phase in PHASES if phase in self.at]
        return reached[-1] if reached else "not requested"

    def used(self) -> str:
        """Way in which the clone was made: by its volume's phases, else by its claim; empty: not known. The driver
        clones a claim whose source is another claim, without CDI."""
        signs = {_SIGNS[phase] for phase, _ in self.volume if phase in _SIGNS}
        if signs:
            return "copy" if "copy" in signs else signs.pop()
        claim = self.objects.get((kinds.PVC.kind, self.volumes[0])) or {}
        source = (claim.get("spec") or {}).get("dataSourceRef") or (claim.get("spec") or {}).get("dataSource") or {}
        return self.annotation(CLONE_TYPE) or _SOURCES.get(str(source.get("kind")), "")

    def annotation(self, key: str) -> str:
        """An annotation of the clone's claim, else of its DataVolume; empty: none."""
        for kind in (kinds.PVC, kinds.DATA_VOLUME):
            item = self.objects.get((kind.kind, self.volumes[0])) or {}
            if text := ((item.get("metadata") or {}).get("annotations") or {}).get(key):
                return plain(str(text), 300)
        return ""

    def complaints(self) -> list[str]:
        """Bad conditions of machine, instance and volumes."""
        texts = []
        for (kind, _), item in self.objects.items():
            status = item.get("status") or {}
            if kind == kinds.VM.kind and (printed := str(status.get("printableStatus", ""))).startswith(
                ("Err", "Data")
            ):
                texts.append(printed)
            for condition in status.get("conditions") or []:
                if condition.get("status") == "False" and condition.get("message"):
                    texts.append(f"{kind} {condition.get('type')}: {condition['message']}")
        return [plain(text, 300) for text in dict.fromkeys(texts)][:_CONDITIONS]

    def stamps(self) -> dict[str, Any]:
        """The API's times, RFC 3339, whole seconds: creation of each object, and the instance's phases
        (``phaseTransitionTimestamps``)."""
        stamps: dict[str, Any] = {}
        for key, kind, name in (
            ("vm", kinds.VM, self.name), ("vmi", kinds.VMI, self.name), ("volume", kinds.DATA_VOLUME, self.volumes[0]),
        ):  # fmt: skip
            meta = (self.objects.get((kind.kind, name)) or {}).get("metadata") or {}
            if stamp := meta.get("creationTimestamp"):
                stamps[key] = plain(str(stamp), 40)
        status = (self.objects.get((kinds.VMI.kind, self.name)) or {}).get("status") or {}
        phases = status.get("phaseTransitionTimestamps") or []
        stamps["phases"] = {
            plain(str(p.get("phase")), 40): plain(str(p.get("phaseTransitionTimestamp")), 40) for p in phases
        }
        return stamps

    def _there(self) -> float:
        """When the volumes of a successful machine had their data. After a cut watch the event is late or missing: the
        machine's start is the latest possible time."""
        ran = self.at.get("running", self.at["answers"])
        return min(ran, max(self.at.get("bound", ran), self.at.get("cloned", 0.0)))

    def record(self) -> dict[str, Any]:
        """Record for a trial's raw output; of a successful machine also ``created``, ``booted``, ``answered``."""
        record: dict[str, Any] = {"name": self.name, "node": self.node}
        if not self.failed:
            at = {**self.at, "bound": self._there()}
            record |= {key: round(at[phase], 6) for key, phase in _AS_IN_THE_LAB.items()}
        record["phases"] = {phase: round(self.at[phase], 6) for phase in PHASES if phase in self.at}
        record["within"] = {phase: round(within, 6) for phase, within in self.within.items()}
        record["volume"] = [[phase, round(when, 6)] for phase, when in self.volume]
        record["api"] = self.stamps()
        if self.failed:
            record |= {"failed": plain(self.failed, 600), "failure": self.failure, "last": self.last}
        if complaints := self.complaints():
            record["complaints"] = complaints
        return record


_AS_IN_THE_LAB = {"created": "bound", "booted": "answers", "answered": "first_io"}


def warnings(events: Iterable[Object], tracks: Sequence[Track], most: int = 5) -> dict[str, list[str]]:
    """Machine -> the first warnings of its objects among ``events``, its launcher pod's included."""
    owner = {name: track.name for track in tracks for name in (track.name, *track.volumes)}
    texts: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda e: str(e.get("firstTimestamp") or e.get("eventTime") or "")):
        name = str((event.get("involvedObject") or {}).get("name", ""))
        machine = owner.get(name) or owner.get(name.removeprefix("virt-launcher-").rpartition("-")[0])
        if event.get("type") == "Warning" and machine:
            text = plain(f"{event.get('reason')}: {event.get('message')}", 300)
            if text not in texts.setdefault(machine, []) and len(texts[machine]) < most:
                texts[machine].append(text)
    return texts


def wrong_way(tracks: Sequence[Track], strategy: str | None) -> str:
    """Why the clones were not all made by ``strategy`` (None: all in one way, whichever); empty: they were."""
    used = {track.name: track.used() for track in tracks if "bound" in track.at}
    wanted = strategy or next(iter(used.values()), "")
    others = [name for name, how in used.items() if how != wanted]
    if not others:
        return ""
    first = next(track for track in tracks if track.name == others[0])
    reason = first.annotation(FALLBACK)
    how = f"CDI made {len(others)} of {len(used)} by {used[first.name] or 'an unknown method'}"
    return f"expected all clones by {wanted or 'one method'}, but {how}" + (f": {reason}" if reason else "")
