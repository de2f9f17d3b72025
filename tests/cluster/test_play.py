"""The played controllers do what a cluster does: what other tests take for granted is tried here."""

import asyncio
import base64
import os
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp
import pytest

from testkit.control_plane import ControlPlane
from testkit.play import Behaviour, Class, NoMachines, Pace
from testkit.play.hands import PATIENCE, Hands, claim, machine, played, volume
from testkit.play.kinds import (
    API_SERVICE,
    CONFIG_MAP,
    DATA_SOURCE,
    DATA_VOLUME,
    NAMESPACE,
    POD,
    PV,
    PVC,
    QUOTA,
    SECRET,
    SNAPSHOT,
    VM,
    VMI,
    Object,
    annotation,
    owner,
    phase,
)
from testkit.play.launch import SELECTED
from testkit.play.storage import CLONE_TYPE, POPULATES

pytestmark = pytest.mark.cluster

LOCAL = "local"
"""The class of the usual site that waits for a first consumer."""


@dataclass
class Recorder(NoMachines):
    """Remembers what volumes are made from."""

    made: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Volume -> (volume or snapshot, way). The site has volumes of its own, which may be made meanwhile."""

    async def provision(self, volume: str, size: int, source: str, way: str) -> None:
        self.made[volume] = (source, way)


def ready(obj: Object) -> bool:
    return bool((obj.get("status") or {}).get("ready"))


def bound(obj: Object) -> bool:
    return phase(obj) == "Bound"


def shows(status: str) -> Callable[[Object], bool]:
    return lambda vm: (vm.get("status") or {}).get("printableStatus") == status


def test_a_machine_from_templates_reaches_running_through_every_phase(control_plane: ControlPlane) -> None:
    async def body() -> None:
        behaviour = Behaviour(pace=Pace(bind=0.2, fill=0.8), schedule=0.05, start=0.05)
        async with played(control_plane.kubeconfig(), behaviour) as hands:
            filling = "ImportInProgress"
            hands.play.world.holds["fill"] = lambda _: filling in hands.steps(DATA_VOLUME, "disk")
            await hands.make(VM, "one", machine(("disk", volume({"source": {"http": {"url": "http://x/y"}}}))))
            vm = await hands.until(VM, "one", shows("Running"))
            assert vm["status"]["ready"]
            assert vm["status"]["created"]
            vmi = await hands.until(VMI, "one", lambda vmi: True)
            passed = [t["phase"] for t in vmi["status"]["phaseTransitionTimestamps"]]
            assert passed == ["Pending", "Scheduling", "Scheduled", "Running"]
            assert vmi["status"]["nodeName"] == vmi["metadata"]["labels"]["kubevirt.io/nodeName"]
            assert await hands.logged(VMI, "one", "created", "Running") == ["created", *passed]
            assert await hands.logged(VM, "one", "Running") == ["Provisioning", "Starting", "Running"]
            filled = ["created", "ImportScheduled", filling, "Succeeded"]
            assert await hands.logged(DATA_VOLUME, "disk", *filled) == filled
            assert await hands.logged(PVC, "disk", "created", "Bound") == ["created", "Bound"]
            made = await hands.until(PVC, "disk", bound)
            assert [o["kind"] for o in made["metadata"]["ownerReferences"]] == ["DataVolume"]
            assert phase(await hands.get(PV, made["spec"]["volumeName"])) == "Bound"
            assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "cdi-controller"

    asyncio.run(body())


def test_the_log_says_when_a_step_could_be_seen_at_the_earliest(control_plane: ControlPlane) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig(), Behaviour(schedule=0.02, start=0.02)) as hands:
            seen: dict[str, float] = {}
            listening = asyncio.Event()

            async def watch() -> None:
                async for happened, obj in hands.client.watch(VMI):
                    listening.set()  # from its list on, which comes first, nothing escapes it
                    if happened != "LIST" and obj["metadata"]["namespace"] == hands.namespace:
                        seen.setdefault(phase(obj), time.time())

            watching = asyncio.create_task(watch())
            await asyncio.wait_for(listening.wait(), PATIENCE)
            await hands.make(VM, "one", machine())
            await hands.until(VM, "one", ready)
            async with asyncio.timeout(PATIENCE):
                while "Running" not in seen:
                    await asyncio.sleep(0.01)
            watching.cancel()
            await hands.logged(VMI, "one", "Running")
            sent = {r.phase: r.sent for r in hands.play.log if r.kind == VMI.name and r.name == "one"}
            steps = ("Pending", "Scheduling", "Scheduled", "Running")
            assert {step: seen[step] > sent[step] for step in steps} == dict.fromkeys(steps, True)
            assert all(record.sent <= record.acked for record in hands.play.log)

    asyncio.run(body())


def test_volumes_wait_for_their_first_consumer(control_plane: ControlPlane) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig(), subresources=True) as hands:
            hands.play.world.holds["bind"] = lambda claim: claim["metadata"]["namespace"] != hands.namespace
            await hands.make(VM, "one", machine(("disk", volume(name=LOCAL)), strategy="Halted"))
            await hands.until(DATA_VOLUME, "disk", lambda dv: phase(dv) == "PendingPopulation")
            assert "first consumer" in await hands.event_message("WaitForFirstConsumer")
            waiting = await hands.until(PVC, "disk", lambda pvc: True)
            assert phase(waiting) == "Pending"
            assert not annotation(waiting, SELECTED)
            start = f"/apis/subresources.kubevirt.io/v1/namespaces/{hands.namespace}/virtualmachines/one/start"
            await hands.client.request("PUT", start)
            await hands.until(VM, "one", shows("WaitingForVolumeBinding"))
            del hands.play.world.holds["bind"]
            await hands.until(VM, "one", ready)
            vmi = await hands.until(VMI, "one", lambda vmi: True)
            assert annotation(await hands.until(PVC, "disk", bound), SELECTED) == vmi["status"]["nodeName"]

    asyncio.run(body())


def test_a_machine_goes_to_the_node_it_asks_for_and_others_are_spread(control_plane: ControlPlane) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig()) as hands:
            await hands.make(VM, "chosen", machine(nodeSelector={"kubernetes.io/hostname": "worker-1"}))
            vmi = await hands.until(VMI, "chosen", lambda vmi: phase(vmi) == "Running")
            assert vmi["status"]["nodeName"] == "worker-1"
            await hands.make(VM, "free", machine())
            vmi = await hands.until(VMI, "free", lambda vmi: phase(vmi) == "Running")
            assert vmi["status"]["nodeName"] == "worker-0"
            await hands.make(VM, "nowhere", machine(nodeSelector={"kubernetes.io/hostname": "worker-9"}))
            await hands.until(VM, "nowhere", shows("ErrorUnschedulable"))

    asyncio.run(body())


@pytest.mark.parametrize(("strategy", "again"), [("Always", True), ("RerunOnFailure", True), ("Once", False)])
def test_an_evicted_machine_comes_again_where_its_strategy_says_so(
    control_plane: ControlPlane, strategy: str, again: bool
) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig()) as hands:
            await hands.make(VM, "one", machine(strategy=strategy))
            await hands.until(VM, "one", ready)
            first = await hands.until(VMI, "one", lambda vmi: True)
            await hands.logged(VMI, "one", "Running")
            await hands.play.evict(hands.namespace, "one")
            if again:
                uid = first["metadata"]["uid"]
                await hands.until(VMI, "one", lambda vmi: vmi["metadata"]["uid"] != uid and phase(vmi) == "Running")
                async with asyncio.timeout(PATIENCE):  # as ``logged`` says
                    while hands.steps(VMI, "one").count("Running") < 2:
                        await asyncio.sleep(0.01)
            else:
                await hands.until(VM, "one", shows("Stopped"))
            counted = Counter(hands.steps(VMI, "one"))
            assert (counted["Failed"], counted["Running"]) == (1, 1 + again)

    asyncio.run(body())


def test_a_namespace_takes_everything_in_it_along(control_plane: ControlPlane) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig()) as hands:
            await hands.make(VM, "one", machine(("disk", volume())))
            await hands.make(SECRET, "keys")
            await hands.make(PVC, "own", claim())
            await hands.make(SNAPSHOT, "kept", {"spec": {"source": {"persistentVolumeClaimName": "own"}}})
            await hands.until(VM, "one", ready)
            claims = [await hands.until(PVC, name, bound) for name in ("disk", "own")]
            await hands.client.delete(NAMESPACE, "", hands.namespace)
            await hands.until_gone(NAMESPACE, hands.namespace)
            for kind in (VM, VMI, DATA_VOLUME, PVC, SECRET, SNAPSHOT):
                left = await hands.client.request("GET", kind.path())
                assert [o for o in left["items"] if o["metadata"]["namespace"] == hands.namespace] == []
            for one in claims:
                await hands.until_gone(PV, one["spec"]["volumeName"])
            assert hands.steps(VMI, "one")[-2:] == ["Succeeded", "gone"]

    asyncio.run(body())


def test_what_nobody_owns_any_more_goes_and_what_waits_for_it_waits(control_plane: ControlPlane) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig()) as hands:
            parent = await hands.make(CONFIG_MAP, "parent")
            await hands.make(SECRET, "child", ownerReferences=owner(CONFIG_MAP, parent))
            stranger = {**owner(CONFIG_MAP, parent)[0], "name": "never", "uid": "no-such-uid"}
            await hands.make(SECRET, "orphan", ownerReferences=[stranger])
            await hands.make(SECRET, "free")
            await hands.until_gone(SECRET, "orphan")
            path = CONFIG_MAP.path(hands.namespace, "parent")
            await hands.client.request("DELETE", path, {"propagationPolicy": "Foreground"})
            await hands.until_gone(CONFIG_MAP, "parent")
            assert await hands.get(SECRET, "child") is None
            assert await hands.get(SECRET, "free")

    asyncio.run(body())


def test_clones_are_made_the_way_that_was_asked_for(control_plane: ControlPlane) -> None:
    async def body() -> None:
        recorder = Recorder()
        classes = (
            Class("ceph-rbd", default=True),
            Class("snapshots", clone="snapshot"),
        )
        async with played(control_plane.kubeconfig(), machines=recorder, classes=classes) as hands:

            async def origin(name: str) -> tuple[str, str]:
                return recorder.made[(await hands.until(PVC, name, bound))["spec"]["volumeName"]]

            async def cloned(name: str, spec: Object, kind: str = "", **meta: object) -> tuple[str, str]:
                """What the volume of a DataVolume was made from, and how."""
                await hands.make(DATA_VOLUME, name, {"spec": spec}, **meta)
                made = await hands.until(DATA_VOLUME, name, lambda dv: phase(dv) == "Succeeded")
                assert annotation(made, CLONE_TYPE) == kind
                return await origin(name)

            await hands.make(DATA_VOLUME, "golden", {"spec": volume({"source": {"registry": {"url": "docker://x"}}})})
            golden = (await hands.until(PVC, "golden", bound))["spec"]["volumeName"]
            assert await origin("golden") == ("", "import")
            source = {"source": {"pvc": {"name": "golden", "namespace": hands.namespace}}}
            assert await cloned("driver", volume(source), "csi-clone") == (golden, "csi-clone")
            assert await cloned("other-class", volume(source, "snapshots"), "copy") == (golden, "copy")
            older = {"annotations": {POPULATES: "false"}}
            assert await cloned("older", volume(source), "copy", **older) == (golden, "copy")
            taken = {"kind": "PersistentVolumeClaim", "name": "golden"}
            assert await cloned("kubernetes", volume({}, dataSource=taken)) == (golden, "csi-clone")

            of = {"persistentVolumeClaimName": "golden"}
            wanted = {"source": of, "volumeSnapshotClassName": "openshift-storage-snapshots"}
            await hands.make(SNAPSHOT, "kept", {"spec": wanted})
            kept = await hands.until(SNAPSHOT, "kept", lambda s: (s.get("status") or {}).get("readyToUse"))
            handle = f"snapshot-{kept['metadata']['uid']}"
            named = {"source": {"snapshot": {"name": "kept", "namespace": hands.namespace}}}
            await hands.make(DATA_SOURCE, "kept", {"spec": named})
            await hands.until(DATA_SOURCE, "kept", lambda s: s.get("status"))
            refers = {"sourceRef": {"kind": "DataSource", "name": "kept", "namespace": hands.namespace}}
            assert await cloned("restored", volume(refers), "snapshot") == (handle, "snapshot")
            restore = {"kind": "VolumeSnapshot", "name": "kept", "apiGroup": "snapshot.storage.k8s.io"}
            await hands.make(PVC, "plain", claim(restore))
            assert await origin("plain") == (handle, "snapshot")

    asyncio.run(body())


def test_what_goes_wrong_is_told_as_a_cluster_tells_it(control_plane: ControlPlane) -> None:
    async def body() -> None:
        faults = {"crashes": "CrashLoopBackOff", "homeless": "ErrorUnschedulable", "imageless": "ErrImagePull"}
        behaviour = Behaviour(
            never_bind=frozenset({LOCAL}), fail_provision={"full": "full-up"}, fail_vm=faults
        )  # fmt: skip
        classes = (Class("ceph-rbd", default=True), Class(LOCAL), Class("full"))
        async with played(control_plane.kubeconfig(), behaviour, classes=classes) as hands:
            for name, status in faults.items():
                await hands.make(VM, name, machine())
                await hands.until(VM, name, shows(status))
            await hands.make(PVC, "never", claim(name=LOCAL))
            assert "external provisioner" in await hands.event_message("ExternalProvisioning")
            await hands.make(PVC, "refused", claim(name="full"))
            assert "full-up" in await hands.event_message("ProvisioningFailed")
            await hands.make(QUOTA, "little", {"spec": {"hard": {"persistentvolumeclaims": "2"}}})
            await hands.until(QUOTA, "little", lambda q: (q.get("status") or {}).get("used") is not None)
            await hands.make(DATA_VOLUME, "beyond", {"spec": volume()})
            assert "quota: little" in await hands.event_message("ErrExceededQuota")
            for name in ("never", "refused"):
                assert phase(await hands.get(PVC, name)) == "Pending"

    asyncio.run(body())


def test_a_node_whose_clock_is_ahead_stamps_what_its_kubelet_says(control_plane: ControlPlane) -> None:
    async def body() -> None:
        behaviour = Behaviour(skew={"worker-0": 3600.0, "worker-1": 3600.0})
        async with played(control_plane.kubeconfig(), behaviour) as hands:
            await hands.make(VM, "one", machine())
            vmi = await hands.until(VMI, "one", lambda vmi: phase(vmi) == "Running")
            at = {t["phase"]: datetime.fromisoformat(t["phaseTransitionTimestamp"])
                  for t in vmi["status"]["phaseTransitionTimestamps"]}  # fmt: skip
            assert (at["Running"] - at["Scheduled"]).total_seconds() >= 3600
            made = datetime.fromisoformat(vmi["metadata"]["creationTimestamp"])
            assert (at["Scheduled"] - made).total_seconds() < 3600

    asyncio.run(body())


def test_slow_controllers_a_guest_agent_and_pods_are_played_too(control_plane: ControlPlane) -> None:
    async def body() -> None:
        behaviour = Behaviour(slow=1.0, agent=0.1, pods=True)
        async with played(control_plane.kubeconfig(), behaviour) as hands:
            made = time.time()  # before it: its first news may come before the answer does
            await hands.make(VM, "one", machine())
            vmi = await hands.until(VMI, "one", lambda vmi: len((vmi.get("status") or {}).get("conditions") or ()) == 3)
            assert vmi["status"]["conditions"][-1]["type"] == "AgentConnected"
            first = [r.sent for r in hands.play.log if r.namespace == hands.namespace][:1]
            assert first > [made + 0.9]
            pods = await hands.client.request("GET", POD.path(hands.namespace))
            assert [pod["spec"]["nodeName"] for pod in pods["items"]] == [vmi["status"]["nodeName"]]
            assert [phase(pod) for pod in pods["items"]] == ["Running"]
            await hands.client.delete(VM, hands.namespace, "one")
            await hands.until_gone(VM, "one")
            await hands.until_gone(POD, pods["items"][0]["metadata"]["name"])

    asyncio.run(body())


def test_a_paused_cluster_does_nothing_and_goes_on_after_a_restart_of_its_api_server(
    control_plane: ControlPlane,
) -> None:
    async def body() -> None:
        async with played(control_plane.kubeconfig()) as hands:
            hands.play.pause()
            await hands.make(VM, "one", machine(("disk", volume())))
            control_plane.restart_apiserver()  # in this thread: the server ends with the one that starts it
            assert "status" not in await hands.until(VM, "one", lambda vm: True)
            hands.play.resume()
            await hands.until(VM, "one", ready)

    asyncio.run(body())


async def _serve(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> asyncio.Server:
    return await asyncio.start_server(serve, "127.0.0.1", 0)


def test_a_stream_carries_bytes_both_ways_and_ends_with_either_side(control_plane: ControlPlane) -> None:
    sent, ended = os.urandom(3_000_000), asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        ended.set()
        writer.close()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        writer.close()

    async def body() -> None:
        echoes, speaks = await _serve(echo), await _serve(speak)
        closed = await _serve(speak)
        ports = {22: echoes, 80: speaks, 81: closed}
        machines = NoMachines(ports={port: one.sockets[0].getsockname() for port, one in ports.items()})
        closed.close()
        async with played(control_plane.kubeconfig(), None, machines, subresources=True) as hands:
            starting = asyncio.Event()
            hands.play.world.holds["start"] = lambda _: starting.is_set()
            assert (await hands.refusal("one", 22))["reason"] == "NotFound"
            await hands.make(VM, "one", machine())
            await hands.until(VMI, "one", lambda vmi: phase(vmi) == "Scheduled")
            assert (await hands.refusal("one", 22))["reason"] == "Conflict"
            starting.set()
            await hands.until(VMI, "one", lambda vmi: phase(vmi) == "Running")
            refused = await hands.refusal("one", 23), await hands.refusal("one", 81)
            assert [told["code"] for told in refused] == [500, 500]
            assert all("dialing VM" in told["message"] for told in refused)
            with pytest.raises(aiohttp.WSServerHandshakeError, match="500"):
                await hands.forward("one", 23)

            stream = await hands.forward("one", 22)
            sending = asyncio.create_task(stream.send_bytes(sent))
            back = b""
            while len(back) < len(sent):
                back += (await stream.receive()).data
            await sending
            assert back == sent
            assert not ended.is_set()
            await stream.close()
            async with asyncio.timeout(PATIENCE):
                await ended.wait()

            stream = await hands.forward("one", 80)
            assert b"".join([message.data async for message in stream]) == sent
            assert stream.close_code == aiohttp.WSCloseCode.OK
            await _only_the_aggregator_may(hands)
        for one in (echoes, speaks):
            one.close()

    asyncio.run(body())


async def _only_the_aggregator_may(hands: Hands) -> None:
    """Whoever comes to virt-api past the API server is turned away."""
    service = await hands.client.request("GET", API_SERVICE.path(name="v1.subresources.kubevirt.io"))
    authority = base64.b64decode(service["spec"]["caBundle"]).decode()
    url = f"https://localhost:{service['spec']['service']['port']}/apis/subresources.kubevirt.io/v1/version"
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(url, ssl=ssl.create_default_context(cadata=authority), headers={"X-Remote-User": "me"})
