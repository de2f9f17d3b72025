"""How quick the played cluster is, and what goes wrong in it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """Seconds that the volumes of a storage class take."""

    bind: float = 0.0
    """A claim from seen (WaitForFirstConsumer: from its consumer's node being known) to Bound."""
    fill: float = 0.0
    """Import of an image into a DataVolume, beside ``bind``."""
    csi_clone: float = 0.0
    snapshot: float = 0.0
    """Taking a snapshot; restoring from one as well."""
    copy: float = 0.0
    """Host-assisted copy."""

    def of(self, way: str) -> float:
        """Of a claim's data: ``import``, ``csi-clone``, ``snapshot``, ``copy``, or empty (a blank volume)."""
        return {"import": self.fill, "csi-clone": self.csi_clone, "snapshot": self.snapshot, "copy": self.copy}.get(
            way, 0.0
        )


@dataclass(frozen=True)
class Behaviour:
    """Nothing waits and nothing fails unless it is said here. Times are seconds."""

    schedule: float = 0.0
    """A VMI from Scheduling to Scheduled."""
    start: float = 0.0
    """A VMI from Scheduled to its machine's start; Running as soon as that has been started."""
    stop: float = 0.0
    """A VMI from deleted to gone."""
    agent: float | None = None
    """A VMI from Running to AgentConnected; None: no guest agent."""
    pace: Pace = Pace()
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """Of storage classes that differ from ``pace``."""
    jitter: float = 0.0
    """Each time is multiplied by a factor from 1 - jitter to 1 + jitter that seed, object and step decide."""
    seed: int = 1
    slow: float = 0.0
    """The controllers look at an object for the first time that long after it was made."""
    never_bind: frozenset[str] = frozenset()
    """Storage classes whose provisioner does not answer: claims stay Pending, with the event of that."""
    fail_provision: Mapping[str, str] = field(default_factory=dict)
    """Storage classes whose provisioner refuses: class -> message of the ProvisioningFailed events."""
    fail_vm: Mapping[str, str] = field(default_factory=dict)
    """VirtualMachines that do not come up: name -> printableStatus (CrashLoopBackOff, ErrorUnschedulable,
    ErrImagePull)."""
    skew: Mapping[str, float] = field(default_factory=dict)
    """Nodes whose clock is ahead: name -> seconds. It shows in what virt-handler on the node stamps: a VMI's Running
    and later phases, its Ready and AgentConnected conditions."""
    pods: bool = False
    """A virt-launcher Pod stands beside each VMI: as in KubeVirt, for four more requests per VM."""
    workers: int = 16
    """Objects that are worked on at the same time."""

    def takes(self, seconds: float, *what: str) -> float:
        """``seconds`` with the jitter of this object and step."""
        draw = random.Random("/".join((str(self.seed), *what))).uniform(-1, 1)  # noqa: S311
        return seconds * (1 + self.jitter * draw)
