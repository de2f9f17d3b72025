"""Speed and faults of the played cluster."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """Seconds per operation on volumes of a storage class."""

    bind: float = 0.0
    """From a claim's first sight (WaitForFirstConsumer: from knowing its consumer's node) to Bound."""
    fill: float = 0.0
    """Import of an image into a DataVolume, in addition to ``bind``."""
    csi_clone: float = 0.0
    snapshot: float = 0.0
    """Taking or restoring a snapshot."""
    copy: float = 0.0
    """Host-assisted copy."""

    def of(self, way: str) -> float:
        """Seconds to fill a claim: ``import``, ``csi-clone``, ``snapshot``, ``copy``, or empty (a blank volume)."""
        return {"import": self.fill, "csi-clone": self.csi_clone, "snapshot": self.snapshot, "copy": self.copy}.get(
            way, 0.0
        )


@dataclass(frozen=True)
class Behaviour:
    """Delays and faults; by default there are none. Times are seconds."""

    schedule: float = 0.0
    """VMI from Scheduling to Scheduled."""
    start: float = 0.0
    """VMI from Scheduled to its machine's start; Running once that has started."""
    stop: float = 0.0
    """VMI from deletion to removal."""
    agent: float | None = None
    """VMI from Running to AgentConnected; None: no guest agent."""
    pace: Pace = Pace()
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """Paces of storage classes that differ from ``pace``."""
    jitter: float = 0.0
    """Each time is multiplied by a factor from 1 - jitter to 1 + jitter, determined by seed, object and step."""
    seed: int = 1
    slow: float = 0.0
    """Delay of the controllers' first look at a new object."""
    never_bind: frozenset[str] = frozenset()
    """Storage classes with a silent provisioner: claims stay Pending, with the usual event."""
    fail_provision: Mapping[str, str] = field(default_factory=dict)
    """Storage classes with a refusing provisioner: class -> message of the ProvisioningFailed events."""
    fail_vm: Mapping[str, str] = field(default_factory=dict)
    """VirtualMachines that do not start: name -> printableStatus (CrashLoopBackOff, ErrorUnschedulable,
    ErrImagePull)."""
    skew: Mapping[str, float] = field(default_factory=dict)
    """Nodes with a fast clock: name -> seconds. Affects virt-handler's stamps: a VMI's Running and later phases, its
    Ready and AgentConnected conditions."""
    pods: bool = False
    """Create a virt-launcher Pod per VMI, as KubeVirt does, for four more requests per VM."""
    workers: int = 16
    """Objects processed at the same time."""

    def takes(self, seconds: float, *what: str) -> float:
        """``seconds`` with the jitter of this object and step."""
        draw = random.Random("/".join((str(self.seed), *what))).uniform(-1, 1)  # noqa: S311
        return seconds * (1 + self.jitter * draw)
