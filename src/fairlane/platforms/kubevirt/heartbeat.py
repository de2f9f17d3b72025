"""A run's Lease in its namespace, renewed during the run to protect its objects from removal.

A run is alive if its Lease changes. Time stamps are not compared, because the clocks of two machines may differ by more
than the time-out; Kubernetes' leader election does the same (client-go's ``leaderelection`` package).
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.labels import RUN, labels

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

EVERY = 15.0
"""Seconds between two renewals."""
PATIENCE = 3 * EVERY
"""Seconds without a renewal after which a run counts as dead."""
_STUDY = "fairlane.io/study"
_PROCESSES = "fairlane.io/processes"


def name(run_id: str) -> str:
    """Name of the run's Lease."""
    return f"fairlane-{run_id}"


def holder() -> str:
    """This process: HOST/PID."""
    return f"{socket.gethostname()}/{os.getpid()}"


def _processes() -> str:
    """Scope of process ids: this boot of this machine, this container. A host name is not unique: many are
    localhost."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def body(run_id: str, study: str) -> dict[str, Any]:
    """The Lease of a new run."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name(run_id),
            "labels": labels(run_id),
            "annotations": {_STUDY: study, _PROCESSES: _processes()},
        },
        "spec": {"holderIdentity": holder(), "leaseDurationSeconds": int(PATIENCE), "renewTime": _now()},
    }


def study(lease: Mapping[str, Any]) -> str:
    """Study of the run that holds ``lease``."""
    return str(lease["metadata"].get("annotations", {}).get(_STUDY, ""))


def run_of(lease: Mapping[str, Any]) -> str:
    """Run that holds ``lease``."""
    return str(lease["metadata"].get("labels", {}).get(RUN, ""))


class Heartbeat:
    """Renews the Lease of a run until it is closed."""

    def __init__(self, api: "Api", namespace: str, run_id: str) -> None:
        self._api, self._namespace, self._run_id = api, namespace, run_id
        self._task: asyncio.Task[None] | None = None

    async def start(self, study: str) -> None:
        """Creates the Lease, which ``cleanup.make_way`` has removed. Raises RunFailed: of two processes that start at
        once, one fails."""
        await self._api.create(kinds.LEASE, body(self._run_id, study), self._namespace)
        self._task = asyncio.create_task(self._beat())

    async def _renew(self) -> None:
        spec = {"holderIdentity": holder(), "renewTime": _now()}
        await self._api.patch(kinds.LEASE, name(self._run_id), {"spec": spec}, self._namespace)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            with suppress(Exception):  # other requests report a cluster that does not answer
                await self._renew()

    async def close(self) -> None:
        """Stops renewing; never raises."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


async def living(api: "Api", runs: Mapping[str, tuple[str, Mapping[str, Any] | None]]) -> set[str]:
    """The live ones among ``runs``: id -> namespace, and Lease as read. Watches for ``PATIENCE``, or until all are
    known to live; a run without Lease may be about to create it. Raises RunFailed."""
    unsure = {run_id: known for run_id, known in runs.items() if not ended_here(known[1])}
    alive: set[str] = set()
    left = PATIENCE
    while left > 0 and alive != unsure.keys():
        await asyncio.sleep(min(EVERY, left))
        left -= EVERY
        for run_id, (namespace, before) in unsure.items():
            now = await api.get(kinds.LEASE, name(run_id), namespace)
            if now and (not before or now["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]):
                alive.add(run_id)
    return alive


def ended_here(lease: Mapping[str, Any] | None) -> bool:
    """Whether the holder of ``lease`` ran on this machine and has ended, or is this process."""
    if lease is None:
        return False
    host, _, pid = str(lease.get("spec", {}).get("holderIdentity", "")).rpartition("/")
    processes = (lease["metadata"].get("annotations") or {}).get(_PROCESSES)
    if host != socket.gethostname() or not pid.isdigit() or not processes or processes != _processes():
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
