"""Clone storms through a real API server: played controllers, real sshd behind the portforward, files as volumes."""

import asyncio
import json
import platform
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from fairlane.errors import RunFailed
from fairlane.machines.keys import Keys
from fairlane.machines.scratch import scratch
from fairlane.machines.session import Session
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api import Api
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.storm import WATCHED, Clone, Outcome, Storm
from fairlane.platforms.kubevirt.storm_golden import GuestAccess
from fairlane.platforms.kubevirt.storm_phases import PHASES
from fairlane.records import Block, Cell
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
from fairlane.workloads.clone import PLUGIN
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from testkit.play import Behaviour, Class, Pace, Play, Record, Site
from testkit.play.kinds import QUOTA, VM, VMI
from tests.platforms.kubevirt.furnished import NO_CONFIG_MAPS, quota_in_force
from tests.platforms.kubevirt.sshd_machines import SshdMachines
from tests.words import kind

pytestmark = pytest.mark.cluster

STUDY = """
name: storm
platform:
  kind: kubevirt
  image: docker://registry.example/debian:12
  nodes: 2
  root_size: 1GiB
  disk_size: 1GiB
  memory: 512MiB
  qps: 400
  burst: 400
  boot_timeout: 2m
baseline: a
lanes:
  a: {transport: storage_class, storage_class: now, LANE}
  b: {transport: storage_class, storage_class: waits, LANE}
workloads: {storm: {kind: clone, counts: [2], data: 1m}}
"""
CLASSES = (
    Class("now", default=True, clone="copy"),
    Class("waits", "topolvm.io", "WaitForFirstConsumer", clone="snapshot"),
)
COUNT = 4


class Followed(Storm):
    """A storm whose machines' tracks can be looked at while it goes on."""

    def _clones(self, storm: str, count: int) -> list[Clone]:
        made = super()._clones(storm, count)
        self.tracks = {clone.track.name: clone.track for clone in made}
        return made

    def has(self, name: str, phase: str) -> bool:
        """Whether it knows that this machine of it has reached ``phase``."""
        return phase in self.tracks[name].at


@dataclass
class Cluster:
    """A played cluster and a run in it."""

    plane: ControlPlane
    folder: Path
    namespace: str = field(default_factory=lambda: f"storm-{secrets.token_hex(4)}")
    play: Play | None = None
    machines: SshdMachines | None = None

    def storm(
        self,
        work: Callable[[Followed, "Cluster"], Awaitable[Any]],
        lane: str = "clone: csi-clone",
        *,
        name: str = "a",
        behaviour: Behaviour | None = None,
        still: float | None = None,
        classes: Sequence[Class] = CLASSES,
        storage_class: str = "now",
        **machines: Any,
    ) -> Any:
        """What ``work`` returns of the storms of a lane whose golden volume is made."""

        async def whole(scratch: Path) -> Any:
            (scratch / "keys").mkdir()
            keys = Keys.make(scratch / "keys")
            self.machines = SshdMachines(keys, self.folder / "volumes", **machines)
            kubeconfig = self.plane.kubeconfig()
            behaviour_ = behaviour or Behaviour(schedule=0.1, start=0.1, pace=Pace(bind=0.1))
            async with Play(kubeconfig, behaviour=behaviour_, machines=self.machines, site=Site(classes)) as self.play:
                study = parse_study(STUDY.replace("LANE", lane).replace("now", storage_class), "x")
                manifests = Manifests(study, secrets.token_hex(5), self.namespace)
                async with await Api.connect(qps=400, burst=400) as api:
                    await api.create(kinds.NAMESPACE, manifests.namespace_object())
                    await api.create(kinds.SECRET, manifests.secret(keys.files()), self.namespace)
                    way = GuestAccess(api, self.namespace, "portforward", keys, scratch)
                    nodes = ("worker-0", "worker-1")
                    storm = Followed(way, manifests, name, nodes, notify=lambda _: None, still=still, gone=200)
                    await storm.prepare()
                    try:
                        return await work(storm, self)
                    finally:
                        await api.delete(kinds.NAMESPACE, self.namespace)

        with scratch() as place:
            return asyncio.run(whole(place))

    async def left(self, api: Api) -> list[str]:
        """What of storms is in the cluster: machines, instances, volumes."""
        found = []
        for each in (kinds.VM, kinds.VMI, kinds.DATA_VOLUME, kinds.PVC):
            found += [one["metadata"]["name"] for one in await api.list(each, self.namespace)]
        claims = [volume["spec"]["claimRef"] for volume in await api.list(kinds.PV)]
        found += [claim["name"] for claim in claims if claim["namespace"] == self.namespace]
        return [name for name in found if "--golden-" not in name]


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig()))
    return Cluster(control_plane, tmp_path)


async def once(storm: Storm, cluster: Cluster) -> Outcome:
    found = await storm.run(COUNT)
    assert await cluster.left(storm.access.api) == []
    assert [vm.get("failed", "") for vm in found.vms] == [""] * COUNT, found
    return found


def observed(outcome: Outcome) -> Any:
    """The storm as its trial is read."""
    outputs = {"clones.json": json.dumps({"vms": outcome.vms}).encode(), "storm.json": outcome.record()}
    return PLUGIN.observe(Cell("storm", "clone", "x", {"count": len(outcome.vms), "data": 2**20}), outputs)


@pytest.mark.parametrize(
    ("lane", "name", "used"),
    [pytest.param("clone: csi-clone", "a", "csi-clone", marks=pytest.mark.slow),
     pytest.param("clone: snapshot", "a", "snapshot", marks=pytest.mark.slow),
     pytest.param("clone: copy", "a", "copy", marks=pytest.mark.slow),
     pytest.param("clone: snapshot, golden: per-node", "b", "snapshot", marks=pytest.mark.slow)],
)  # fmt: skip
def test_every_machine_is_followed_to_its_first_io(cluster: Cluster, lane: str, name: str, used: str) -> None:
    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        assert {traits["kernel"] for traits in storm.traits} == {platform.release()}  # its machines are sshds here
        return await once(storm, cluster)

    found: Outcome = cluster.storm(work, lane, name=name)
    assert found.storm["strategy"] == found.storm["used"][0] == used
    assert [vm["node"] for vm in found.vms] == ["worker-0", "worker-1"] * 2
    for vm in found.vms:
        assert set(vm["phases"]) == set(PHASES)
        assert next(iter(vm["phases"].values())) == vm["phases"]["requested"] > 0
        assert vm["phases"]["running"] >= vm["phases"]["scheduled"] >= vm["phases"]["requested"]
        assert vm["created"] <= vm["booted"] <= vm["answered"]
        assert set(vm["api"]["phases"]) >= {"Pending", "Scheduling", "Scheduled", "Running"}
    metrics = observed(found).metrics
    assert metrics["vm_created_mean"] < metrics["vm_running_mean"] < metrics["vm_ready_mean"] <= metrics["job_time"]
    assert found.storm["removal"]["volumes"] >= found.storm["removal"]["objects"] > 0
    assert found.storm["rates"]["requests"]["create virtualmachines"] == COUNT
    assert found.storm["gaps"] == []


@pytest.mark.slow
def test_times_are_those_of_the_controllers_own_log(cluster: Cluster) -> None:
    """Each instant lies after its write was sent and before the machine's next phase was; the API has whole seconds."""

    async def work(storm: Followed, cluster: Cluster) -> tuple[Outcome, Mapping[tuple[str, str, str], Record]]:
        assert cluster.play
        # However late the news of a phase comes, the next one waits for it.
        cluster.play.world.holds |= {
            "schedule": lambda vmi: storm.has(vmi["metadata"]["name"], "bound"),
            "start": lambda vmi: storm.has(vmi["metadata"]["name"], "scheduled"),
        }
        found = await once(storm, cluster)
        truth: dict[tuple[str, str, str], Record] = {}
        for record in cluster.play.log:
            truth.setdefault((record.kind, record.name, record.phase), record)
        return found, truth

    found, truth = cluster.storm(work, behaviour=Behaviour(schedule=1.0, start=1.0, pace=Pace(bind=1.0)))
    for vm in found.vms:
        steps = (
            ("bound", "PersistentVolumeClaim", f"{vm['name']}-root", "Bound"),
            ("scheduled", "VirtualMachineInstance", vm["name"], "Scheduled"),
            ("running", "VirtualMachineInstance", vm["name"], "Running"),
        )
        ours = [found.storm["began"] + vm["phases"][phase] for phase, *_ in steps]
        sent = [truth[kind, name, step].sent for _, kind, name, step in steps]
        assert all(seen >= was for seen, was in zip(ours, sent, strict=True)), (ours, sent)
        assert all(seen < following for seen, following in zip(ours, sent[1:], strict=False)), (ours, sent)
        for (phase, *_), seen in zip(steps[1:], ours[1:], strict=True):
            stamp = datetime.fromisoformat(vm["api"]["phases"][phase.capitalize()]).timestamp()
            assert stamp == int(stamp) <= seen


class Ending(dict[str, str]):
    """Names that end so: those of a storm's machines are new each time."""

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for end, value in self.items() if name.endswith(end)), default)


def failing(outcome: Outcome) -> str:
    """Why the trial of a storm failed, as a run would tell it."""
    kept: dict[str, bytes] = {}

    class Told:
        keep = staticmethod(kept.__setitem__)

        @staticmethod
        async def clones(count: int) -> Any:
            return outcome.vms

    cell = Cell("storm", "clone", "x", {"count": len(outcome.vms), "data": 2**20})
    asyncio.run(PLUGIN.drive(cell, lambda _: (), 1, cast(Any, Told())))
    block = Block(cell, 0, ("a",), 1)
    observation = observe(block, "a", {**kept, "storm.json": outcome.record()})
    assert not observation.metrics
    return observation.failed


async def go(storm: Storm, cluster: Cluster) -> Outcome:
    found = await storm.run(COUNT)
    assert await cluster.left(storm.access.api) == []
    return found


@pytest.mark.slow
def test_machines_that_do_not_come_up_fail_the_trial_and_say_why(cluster: Cluster) -> None:
    faults = Ending({"-1": "ErrorUnschedulable", "-2": "CrashLoopBackOff"})
    found: Outcome = cluster.storm(go, behaviour=Behaviour(fail_vm=faults), still=60)
    alone, apart, broken, other = found.vms
    assert "answered" in alone
    assert "answered" in other
    assert apart["last"] == "cloned"
    assert "answered" not in apart
    assert any("0/2 nodes are available" in text for text in apart["complaints"])
    assert broken["failure"] == "instance-failed"
    assert apart["failure"] == "stalled"
    reason = failing(found)
    assert re.search(r"\b2 of 4\b", reason)
    assert "60 s" in reason


@pytest.mark.slow
def test_a_provisioner_that_refuses_is_told_with_its_own_words(cluster: Cluster) -> None:
    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        assert cluster.play
        world = cluster.play.world
        world.behaviour = replace(world.behaviour, fail_provision={"now": "the pool is full"})
        return await go(storm, cluster)

    found: Outcome = cluster.storm(work, still=60)
    assert {vm["last"] for vm in found.vms} == {"requested"}
    assert set(found.storm["warnings"]) == {vm["name"] for vm in found.vms}
    assert all("the pool is full" in text for said in found.storm["warnings"].values() for text in said)


@pytest.mark.slow
def test_what_others_do_to_a_machine_is_seen(cluster: Cluster) -> None:
    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        assert cluster.play
        world, done = cluster.play.world, asyncio.Event()
        world.holds["start"] = lambda _: done.is_set()
        storming = asyncio.create_task(go(storm, cluster))
        waited = {"-0": "Scheduled", "-1": "Scheduled"}
        while waited:
            await asyncio.sleep(0.05)
            for vmi in world.all(VMI):
                name = vmi["metadata"]["name"]
                ours = next((end for end in waited if name.endswith(end) and "golden" not in name), "")
                if ours and (vmi.get("status") or {}).get("phase") == waited[ours]:
                    del waited[ours]
                    if ours == "-0":
                        await cluster.play.evict(cluster.namespace, name)
                    else:
                        await cluster.play.delete(VM, cluster.namespace, name)
        done.set()
        return await storming

    found: Outcome = cluster.storm(work, behaviour=Behaviour(schedule=0.5))
    evicted, deleted, *others = found.vms
    assert evicted["failure"] == "instance-failed"
    assert (deleted["failure"], deleted["name"] in deleted["failed"]) == ("machine-deleted", True)
    assert all("answered" in vm for vm in others)


@dataclass(frozen=True)
class Apart(GuestAccess):
    """The API by one way, SSH by another: the proxy that cuts watches carries no websockets."""

    tunnels: GuestAccess | None = None

    async def banner(self, name: str, address: str, timeout: float) -> bool:
        assert self.tunnels
        return await self.tunnels.banner(name, address, timeout)

    @asynccontextmanager
    async def session(self, name: str, address: str, timeout: float = 60) -> AsyncIterator[Session]:
        assert self.tunnels
        async with self.tunnels.session(name, address, timeout) as session:
            yield session


@pytest.mark.slow
def test_a_storm_outlives_an_absent_api_server_and_knows_what_it_did_not_see(
    cluster: Cluster, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        plain = storm.access
        monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(cluster.plane.kubeconfig())))
        async with await Api.connect(qps=400, burst=400) as api:
            storm.access = Apart(api, plain.namespace, plain.reach, plain.keys, plain.scratch, plain)
            assert cluster.play
            away = asyncio.Event()
            cluster.play.world.holds["start"] = lambda _: away.is_set()
            storming = asyncio.create_task(go(storm, cluster))
            await until(cluster, "Scheduled")
            await asyncio.to_thread(proxy.down)
            away.set()
            await until(cluster, "Running")
            await asyncio.to_thread(proxy.up)
            return await storming

    found: Outcome = cluster.storm(work, behaviour=Behaviour(schedule=0.5))
    assert [vm.get("failed", "") for vm in found.vms] == [""] * COUNT
    assert {plural for plural, *_ in found.storm["gaps"]} == {kind.plural for kind in WATCHED}
    assert all(vm["within"]["running"] > 0 for vm in found.vms)  # they began to run while nobody told us
    assert observed(found).steps["vm_ready_mean"] > 0


async def until(cluster: Cluster, phase: str) -> None:
    """Every machine of the storm has reached ``phase``, by the controllers' own log."""
    assert cluster.play
    while (
        sum(r.phase == phase and r.name[-2:] in _NUMBERS and "--golden" not in r.name for r in cluster.play.log) < COUNT
    ):
        await asyncio.sleep(0.05)


_NUMBERS = tuple(f"-{number}" for number in range(COUNT))


@pytest.mark.parametrize(
    ("volumes", "failures", "read"),
    [
        pytest.param("shared", {"clone-shared", "clone-data"}, "", marks=pytest.mark.slow),
        pytest.param("empty", {"clone-data"}, "'' .*'golden'", marks=pytest.mark.slow),
    ],
)
def test_clones_that_are_none_are_found_out(cluster: Cluster, volumes: str, failures: set[str], read: str) -> None:
    found: Outcome = cluster.storm(go, volumes=volumes)
    failed = [vm for vm in found.vms if vm.get("failure") in failures]
    assert any(re.search(read, vm["failed"]) for vm in failed), found


@pytest.mark.slow
def test_a_quota_that_is_full_fails_the_machines_that_it_stops(cluster: Cluster) -> None:
    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        quota = {
            "metadata": {"name": "few"},
            "spec": {"hard": {"count/virtualmachines.kubevirt.io": "2", **NO_CONFIG_MAPS}},
        }
        await storm.access.api.create(
            kinds.QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota}, cluster.namespace
        )
        assert cluster.play
        while not any((one.get("status") or {}).get("used") for one in cluster.play.world.all(QUOTA)):
            await asyncio.sleep(0.05)
        await asyncio.to_thread(quota_in_force, cluster.plane, cluster.namespace)
        return await go(storm, cluster)

    found: Outcome = cluster.storm(work)
    full, through = (sum(key in vm for vm in found.vms) for key in ("failed", "answered"))
    assert full
    assert full + through == COUNT
    assert {vm.get("failure", "quota-full") for vm in found.vms} == {"quota-full"}
    assert all("few" in vm.get("failed", "few") for vm in found.vms)
    assert re.search(rf"\b{full} of 4\b", failing(found))


def test_a_driver_without_snapshots_is_told_before_anything_is_made(cluster: Cluster) -> None:
    classes = (*CLASSES, Class("bare", "bare.example", snapshots=False))
    with pytest.raises(RunFailed, match=r"bare\.example.*\bbare\b", check=kind("snapshot-class")):
        cluster.storm(go, "clone: snapshot", classes=classes, storage_class="bare")
