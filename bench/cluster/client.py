"""Fairlane's side, a process of its own: makes machines, watches them until all are ready, removes them, and tells it.

    python bench/cluster/client.py ORDER.json TOLD.json

ORDER.json: namespace, label (KEY=VALUE), machines (the objects), qps and burst (null: Fairlane's own). The cluster is
that of $KUBECONFIG. It is what a clone storm does (platforms/kubevirt/storm.py) without the guests: the same four
watches, as many creations under way at once, and all machines removed with one request: so does kube-burner.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fairlane.platforms.kubevirt.api import Api
from fairlane.platforms.kubevirt.kinds import DATA_VOLUME, PVC, VM, VMI
from fairlane.platforms.kubevirt.storm import AT_ONCE
from fairlane.platforms.kubevirt.watching import Watcher, WatchEvent

PATIENCE = 900
"""s that a step may take."""


class Story:
    """When each machine came to what, by this process's clock: s since 1970, as the news came in."""

    def __init__(self) -> None:
        self.at: dict[str, dict[str, float]] = {}
        self.ready = self.running = 0

    def made(self, name: str) -> None:
        """The server has answered that it has it."""
        self.at.setdefault(name, {}).setdefault("made", time.time())

    def machine(self, seen: WatchEvent) -> None:
        at = self.at.setdefault(seen.object["metadata"]["name"], {})
        at.setdefault("made", seen.time)
        if "ready" not in at and _ready(seen.object):
            at["ready"] = seen.time
            self.ready += 1

    def instance(self, seen: WatchEvent) -> None:
        at = self.at.setdefault(seen.object["metadata"]["name"], {})
        phase = seen.object.get("status", {}).get("phase", "")
        if phase in ("Scheduled", "Running") and phase.lower() not in at:
            at[phase.lower()] = seen.time
            self.running += phase == "Running"


def _ready(machine: dict[str, Any]) -> bool:
    """Whether a VirtualMachine says that it is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in machine.get("status", {}).get("conditions", []))


async def storm(api: Api, order: dict[str, Any]) -> dict[str, Any]:
    """TOLD.json's content."""
    namespace, label, story, many = order["namespace"], order["label"], Story(), len(order["machines"])
    async with AsyncExitStack() as held:
        machines, instances, *others = [
            await held.enter_async_context(Watcher(api, kind, namespace, label)) for kind in (VM, VMI, DATA_VOLUME, PVC)
        ]
        machines.listen(story.machine)
        instances.listen(story.instance)
        gate = asyncio.Semaphore(AT_ONCE)

        async def make(machine: dict[str, Any]) -> None:
            async with gate:
                await api.create(VM, machine, namespace)
            story.made(machine["metadata"]["name"])

        await api.rested()
        await asyncio.gather(*(make(machine) for machine in order["machines"]))
        await machines.until(lambda _: story.ready == many or None, PATIENCE, "not all machines are ready")
        await instances.until(lambda _: story.running == many or None, PATIENCE, "not all instances run")
        observed = time.time()
        await api.delete_all(VM, namespace, label)
        for watcher in (machines, instances, *others):
            await watcher.until(lambda items: not items or None, PATIENCE, "not everything of the machines is gone")
        gone = time.time()
    gaps = [watcher.gaps for watcher in (machines, instances, *others) if watcher.gaps]
    return {"observed": observed, "gone": gone, "at": story.at, "sent": api.counts.total(), "gaps": gaps}


async def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    rate = {key: order[key] for key in ("qps", "burst") if order[key] is not None}
    async with await Api.connect(**rate) as api:
        Path(sys.argv[2]).write_text(json.dumps(await storm(api, order)))


if __name__ == "__main__":
    asyncio.run(main())
