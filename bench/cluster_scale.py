"""Five hundred virtual machines made, watched until ready, and removed: by Fairlane and by kube-burner, side by side.

    uv run python bench/cluster_scale.py --kube-burner PATH      pairs of runs, some 15 minutes on 2 cores
    uv run python bench/cluster_scale.py --rate 5 ...            5/s, which does not saturate a small machine
    uv run python bench/cluster_scale.py --rate 0 ...            each with its own default rate
    uv run python bench/cluster_scale.py --vms 1000 --pairs 1    without PATH: Fairlane alone

Both talk to the same kube-apiserver and etcd (``make cluster-servers``), behind which the played controllers of
testkit/play do what KubeVirt, CDI and a scheduler would: the same VirtualMachine, the same rate, a process each,
pairs of random order. Judged by what neither of them says: the API server's audit log (requests, by user), the
controllers' own log (when each machine came to each phase), and /proc (memory). PATH is any kube-burner that has
vmiLatency; the published figures are of 2.7.3.

Exit code 1: in a pair Fairlane asked as much or more; it told a machine wrong; or that it is more than 5 % slower in a
step is not excluded with 95 % confidence.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.cluster import audit, kube_burner, process  # noqa: E402 - needs the path
from bench.cluster.judge import OURS, THEIRS, Pair, missed, table  # noqa: E402
from bench.cluster.machine import IMAGE, IMAGES, STORAGE_CLASS, machine  # noqa: E402
from bench.cluster.outcome import PHASES, Run, Told  # noqa: E402
from bench.cluster.truth import truth  # noqa: E402
from testkit.control_plane import ControlPlane  # noqa: E402
from testkit.play.behaviour import Behaviour, Pace  # noqa: E402
from testkit.play.controller import Play  # noqa: E402
from testkit.play.kinds import DATA_VOLUME, POD, PVC, VM, VMI  # noqa: E402
from testkit.play.site import Class, Site  # noqa: E402

BEHAVIOUR = Behaviour(schedule=0.4, start=2.0, jitter=0.5, pace=Pace(csi_clone=1.0), workers=32)
"""Without times of their own all machines would be ready within the same second. There are no virt-launcher pods:
kube-burner, which watches them, has less to do for it."""
SITE = Site(classes=(Class(STORAGE_CLASS, default=True),), golden=f"{IMAGES}/{IMAGE}")
LIMIT = 1800
"""s that a client may take."""
SETTLE = 120
"""s for what is left of a run to go."""
WARM_UP = 10
"""Machines of the first run of each client, which does not count: programs are read and compiled, and the server serves
each kind for the first time."""
LABEL = "bench.fairlane.io/storm"


@dataclass(frozen=True)
class Asked:
    """What is to be run."""

    vms: int
    pairs: int
    rate: tuple[float, int] | None
    kube_burner: Path | None
    seed: int


class Arena:
    """The API server and its controllers, in which one client after the other runs."""

    def __init__(self, plane: ControlPlane, play: Play, log: audit.Log, folder: Path, asked: Asked) -> None:
        self.plane, self.play, self.log, self.folder, self.asked = plane, play, log, folder, asked
        self._runs = 0

    async def run(self, client: str, vms: int) -> Run:
        """One run of ``client`` in a namespace of its own. RuntimeError where it failed or left something behind."""
        self._runs += 1
        namespace = f"storm-{self._runs}"
        folder = self.folder / namespace
        folder.mkdir()
        self.plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        user = audit.CLIENTS[0 if client == THEIRS else 1]
        # Python keeps what it compiled, as where fairlane is installed.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {
            "KUBECONFIG": str(self.plane.kubeconfig(user)),
            "PYTHONPYCACHEPREFIX": f"{self.folder}/compiled",
        }
        command = (self._kube_burner if client == THEIRS else self._fairlane)(folder, namespace, vms)
        begun = len(self.play.log)
        used = await asyncio.to_thread(process.run, command, folder, environment, LIMIT)
        await self._quiet(namespace)
        audited = self.log.read()
        requests = tuple(request for request in audited if request.user == user)
        told = kube_burner.read(folder, requests) if client == THEIRS else _told(folder)
        steps = [record for record in self.play.log[begun:] if record.namespace == namespace]
        return Run(client, told, used, requests, *truth([r for r in audited if r.namespace == namespace], steps))

    async def _quiet(self, namespace: str) -> None:
        """Until the controllers have nothing left of a run, so that the next begins as it did."""
        until = time.monotonic() + SETTLE
        while left := sum(
            one["metadata"]["namespace"] == namespace
            for kind in (VM, VMI, DATA_VOLUME, PVC, POD)
            for one in self.play.world.all(kind)
        ):
            if time.monotonic() > until:
                raise RuntimeError(f"{left} objects of {namespace} are still there after {SETTLE} s")
            await asyncio.sleep(0.5)

    def _kube_burner(self, folder: Path, namespace: str, vms: int) -> list[str]:
        template = machine(kube_burner.REPLICA, namespace, {})
        arguments = kube_burner.write_config(folder, template, vms, self.asked.rate)
        return [str(self.asked.kube_burner), *arguments]

    def _fairlane(self, folder: Path, namespace: str, vms: int) -> list[str]:
        labels = {LABEL: namespace}
        qps, burst = self.asked.rate or (None, None)
        order = {
            "namespace": namespace,
            "label": f"{LABEL}={namespace}",
            "machines": [machine(number, namespace, labels) for number in range(1, vms + 1)],
            "qps": qps,
            "burst": burst,
        }
        (folder / "order.json").write_text(json.dumps(order))
        return [sys.executable, str(ROOT / "bench/cluster/client.py"), "order.json", "told.json"]


def _told(folder: Path) -> Told:
    """What Fairlane's process wrote: local instants, from its first news of the VirtualMachine on."""
    told = json.loads((folder / "told.json").read_text())
    latencies = {
        name: {phase: at[phase] - at["made"] for phase in PHASES if phase in at} for name, at in told["at"].items()
    }
    return Told(told["observed"], told["gone"], latencies)


async def compare(asked: Asked, folder: Path) -> list[Pair]:
    """All pairs; each prints a line per run as it ends."""
    policy, log = folder / "policy.json", folder / "audit.log"
    policy.write_text(json.dumps(audit.POLICY))
    admins = ("system:masters",)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    clients = [OURS, *([THEIRS] if asked.kube_burner else [])]
    pairs: list[Pair] = []
    order = random.Random(asked.seed)  # noqa: S311 - no secret
    with ControlPlane(*flags, users=dict.fromkeys(("admin", audit.CONTROLLERS, *audit.CLIENTS), admins)) as plane:
        plane.install_crds()
        user = plane.kubeconfig(audit.CONTROLLERS)
        async with Play(user, behaviour=BEHAVIOUR, site=SITE, subresources=False) as play:
            arena = Arena(plane, play, audit.Log(log), folder, asked)
            for client in clients:
                await arena.run(client, WARM_UP)
            for number in range(1, asked.pairs + 1):
                pair: Pair = {}
                for client in order.sample(clients, len(clients)):
                    pair[client] = run = await arena.run(client, asked.vms)
                    told = ", ".join(f"{name} {value:.4g}" for name, value in run.figures.items())
                    print(f"pair {number}, {client}: {told}", flush=True)
                    print(f"    {dict(run.kinds.most_common())}", flush=True)
                pairs.append(pair)
                (folder / "table.md").write_text(table(pairs) + "\n")
    return pairs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kube-burner", type=Path, help="the program; without it Fairlane runs alone")
    parser.add_argument("--vms", type=int, default=500)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--rate", type=int, default=100, help="requests per second of both, and burst (100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for what clients wrote, the audit log, the table so far")
    given = parser.parse_args()
    if not given.kube_burner:
        print("no --kube-burner: that side is SKIPPED, Fairlane runs alone", file=sys.stderr)
    asked = Asked(
        given.vms, given.pairs, (given.rate, given.rate) if given.rate else None, given.kube_burner, given.seed
    )
    with tempfile.TemporaryDirectory(prefix="cluster-scale-") as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        pairs = asyncio.run(compare(asked, folder.resolve()))
    load = os.getloadavg()[1]
    print(f"\n{asked.vms} machines, {len(pairs)} pairs, {len(os.sched_getaffinity(0))} CPUs, load {load:.1f}\n")
    print(table(pairs))
    wrong = missed(pairs)
    print("\n".join(["", *(f"not met: {line}" for line in wrong)]) if wrong else "\nall met")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
