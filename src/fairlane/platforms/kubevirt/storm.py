"""Clone storms: machines made at once of one golden volume, timed by watches up to their first I/O, and removed.

Red Hat's virt-clone of kube-burner, with three things added: the way of cloning is asked for and read back, instants
are those of watch events on this machine's clock, and a machine counts as there when its volume has answered.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from fairlane.errors import RunFailed
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import storm_golden
from fairlane.platforms.kubevirt.labels import RUN, STORM
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.placement import dealt
from fairlane.platforms.kubevirt.storm_golden import Filled, of_lane
from fairlane.platforms.kubevirt.storm_guest import Way
from fairlane.platforms.kubevirt.storm_run import WATCHED, Clone, Course
from fairlane.platforms.kubevirt.storm_times import Track, misled
from fairlane.platforms.kubevirt.watching import Watcher

_GONE = 900.0
"""Seconds for everything of a storm to be gone."""


@dataclass(frozen=True)
class Outcome:
    """What a storm was like."""

    vms: list[dict[str, Any]]
    """Of each machine what ``storm_times.Track.told`` says."""
    storm: dict[str, Any]
    """How it was made: strategy, rates, gaps of the watches, removal."""

    @property
    def seconds(self) -> float:
        """Until the last machine answered, of those that did."""
        return max((vm["answered"] for vm in self.vms if "answered" in vm), default=0.0)

    def record(self) -> bytes:
        """For the file ``storm.json`` of a trial."""
        return json.dumps(self.storm, indent=1).encode() + b"\n"


class Storm:
    """The storms of one lane, one after the other. ``prepare`` before the first."""

    def __init__(
        self,
        way: Way,
        manifests: Manifests,
        lane: str,
        nodes: Sequence[str],
        *,
        notify: Notify,
        fits: Mapping[str, int] | None = None,
        still: float | None = None,
        gone: float = _GONE,
    ) -> None:
        """``nodes``: names. ``fits``: machines that each has room for, where they are packed; else they go to the
        nodes in turn. ``still``: seconds in which no machine of a storm gets any further, after which it is given up
        (platform.boot_timeout); ``gone``: for its removal."""
        self.way, self.manifests, self.lane, self.nodes = way, manifests, lane, tuple(nodes)
        self._notify, self._fits = notify, fits
        self._still = manifests.spec.boot_timeout / 1e9 if still is None else still
        self._gone = gone
        self._filled: list[Filled] = []

    @property
    def strategy(self) -> str | None:
        """How clones are to be made: csi-clone, snapshot, copy; None: as the storage profile prefers."""
        found: str | None = getattr(self.manifests.study.lanes[self.lane], "clone", None)
        return found

    @property
    def traits(self) -> list[Mapping[str, str]]:
        """What the guests of the golden volumes said of themselves."""
        return [filled.traits for filled in self._filled]

    async def prepare(self) -> None:
        """Makes the golden volume. Raises RunFailed."""
        size = max(cell.params["data"] for cell in self.manifests.study.cells() if cell.kind == "clone")
        self._filled = await storm_golden.prepare(
            self.way, self.manifests, self.lane, self.nodes, size=size, notify=self._notify
        )

    async def run(self, count: int) -> Outcome:
        """A storm of ``count`` machines. Those that did not come through say so in the outcome. Afterwards all of it
        is gone, its volumes at the driver included. Raises RunFailed if it is not, or if the clones were not made as
        they were to be."""
        storm = secrets.token_hex(3)
        own = f"{RUN}={self.manifests.run_id},{STORM}={storm}"
        one = Course(self.way, self._clones(storm, count), own, qps=self.manifests.spec.qps, still=self._still)
        labels = of_lane(self.manifests, self.lane)
        async with AsyncExitStack() as held:
            for kind in WATCHED:
                watcher = Watcher(self.way.api, kind, self.way.namespace, labels)
                one.watch(kind, await held.enter_async_context(watcher))
            try:
                await one.make()
            except RunFailed:
                with suppress(RunFailed):  # the first failure is the one to tell
                    await one.remove(self._gone)
                raise
            removal = await one.remove(self._gone)
        if wrong := misled([clone.track for clone in one.clones], self.strategy):
            raise RunFailed(
                f"lane {self.lane}: {wrong}",
                hint="the storage profile of its class tells what the driver can: fairlane doctor --platform kubevirt",
            )
        rates = {"qps": self.manifests.spec.qps, "burst": self.manifests.spec.burst, **one.rates()}
        record = {"strategy": self.strategy, **one.described(), "rates": rates, "removal": removal}
        return Outcome([clone.track.told() for clone in one.clones], record)

    def _clones(self, storm: str, count: int) -> list[Clone]:
        """The machines of a storm, in its order: to the nodes in turn."""
        if not self._filled:
            raise RunFailed(f"lane {self.lane} has no golden volume yet")
        found = []
        own = {filled.node: filled for filled in self._filled}
        for number, node in enumerate(dealt(count, self.nodes, self._fits)):
            filled = own.get(node, self._filled[0])  # one for each node, or one for all
            machine = self.manifests.clone(self.lane, storm, number)
            volumes = (machine.root, *(disk.name for disk in machine.disks))
            body = self.manifests.clone_vm(machine, node, filled.golden)
            found.append(Clone(Track(machine.name, node, volumes), body, filled.stamp))
        return found
