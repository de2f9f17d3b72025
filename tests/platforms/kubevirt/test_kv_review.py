"""What is not ours stays, whatever its labels say, and what goes on is not taken for dead: on a real API server."""

import asyncio
import resource
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import RunFailed
from fairlane.machines.keys import Keys
from fairlane.platforms.kubevirt import Kubevirt, cleanup, diagnose, heartbeat, kinds, placement, virtual_machines
from fairlane.platforms.kubevirt.api import Api
from fairlane.platforms.kubevirt.heartbeat import Heartbeat
from fairlane.platforms.kubevirt.labels import labels
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.virtual_machines import _wrong
from fairlane.platforms.kubevirt.watching import Watcher
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from tests.platforms.kubevirt import furnished
from tests.platforms.kubevirt.conftest import Connected
from tests.words import kind

RUN = "0123456789"
cluster = pytest.mark.cluster


def space(name: str, run_id: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels(run_id)}}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is watched for a moment, and shows itself more often than that."""
    monkeypatch.setattr(heartbeat, "PATIENCE", 1.5)
    monkeypatch.setattr(heartbeat, "EVERY", 0.2)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets this be another machine of the same name, on which no process has the number of the run's."""

    def change() -> None:
        monkeypatch.setattr(heartbeat, "_processes", lambda: "another boot")

    return change


@cluster
@pytest.mark.usefixtures("soon")
def test_a_namespace_that_only_has_the_labels_of_a_run_is_left_alone(
    control_plane: ControlPlane, connected: Connected
) -> None:
    """Tools that copy namespaces copy labels."""

    async def work(api: Api) -> None:
        await api.create(kinds.NAMESPACE, space("copied-from-a-run", RUN))
        strange = space("ours-but-for-the-annotation-" + RUN, RUN)
        await api.call("POST", kinds.NAMESPACE.path(), body={"apiVersion": "v1", "kind": "Namespace", **strange})
        await api.create(kinds.NAMESPACE, space("nameless", ""))
        told: list[str] = []
        await cleanup.sweep(api, "", "", told.append)
        for name in ("copied-from-a-run", strange["metadata"]["name"], "nameless"):
            there = await api.get(kinds.NAMESPACE, name)
            assert there is not None
            assert "deletionTimestamp" not in there["metadata"]
            assert name not in " ".join(told)
            with pytest.raises(RunFailed, match=name, check=kind("namespace-foreign")):
                await cleanup.remove(api, cleanup.Left(RUN, name, "", "", own=True), told.append)

    connected(control_plane.kubeconfig(), work)


@cluster
@pytest.mark.usefixtures("soon")
def test_a_lease_that_names_no_run_does_not_stand_for_all_of_them(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        nameless = {"metadata": {"name": "strange", "labels": labels("")}, "spec": {"holderIdentity": "somebody/1"}}
        await api.create(kinds.LEASE, nameless, namespace)
        await api.create(kinds.SECRET, {"metadata": {"name": "of-another", "labels": labels(RUN)}}, namespace)
        await cleanup.sweep(api, namespace, "", lambda _: None)
        assert await api.get(kinds.SECRET, "of-another", namespace)

    connected(control_plane.kubeconfig(), work)


@cluster
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("told", ["no lease yet", "a lease of another machine"])
def test_a_run_that_goes_on_is_seen_to(
    told: str, control_plane: ControlPlane, connected: Connected, elsewhere: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its Lease is about to be made; or its host has our name and a process number that nobody has here."""
    monkeypatch.setattr(heartbeat, "PATIENCE", 200)  # it ends once the run is seen
    run_id = "aaaaaaaaaa" if told == "no lease yet" else "bbbbbbbbbb"
    name = f"review-{run_id}"

    async def work(api: Api) -> None:
        await api.create(kinds.NAMESPACE, space(name, run_id))
        beat = Heartbeat(api, name, run_id)
        monkeypatch.setattr(heartbeat, "holder", lambda: f"{socket.gethostname()}/{2**22 + 7}")
        if told == "a lease of another machine":
            await beat.start("mine")
            elsewhere()
        said: list[str] = []
        sweeping = asyncio.ensure_future(cleanup.sweep(api, "", run_id, said.append))
        if told == "no lease yet":
            while not said:
                await asyncio.sleep(0.01)
            await beat.start("mine")
        await sweeping
        there = await api.get(kinds.NAMESPACE, name)
        assert there
        assert "deletionTimestamp" not in there["metadata"]
        assert len(said) == 2, "it is watched for, and stays"
        assert run_id in said[-1]
        await beat.close()

    connected(control_plane.kubeconfig(), work)


@cluster
def test_of_two_processes_that_begin_a_run_at_once_the_second_leaves_the_first_alone(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        for use_existing, where in (("false", f"twice-{RUN}"), ("true", namespace)):
            first, second = (Kubevirt(furnished.study(use_existing=use_existing)) for _ in range(2))
            first.run_id = second.run_id = RUN
            second.api = await Api.connect()
            await first._begin(api, where)
            with pytest.raises(RunFailed, match=RUN, check=kind("run-busy")):
                await second._begin(second.api, where)
            await second.close()
            there = await api.get(kinds.LEASE, heartbeat.name(RUN), where)
            assert there
            assert "deletionTimestamp" not in there["metadata"]
            assert first._heartbeat
            await first._heartbeat.close()

    connected(control_plane.kubeconfig(), work)


@cluster
def test_a_namespace_that_is_to_be_there_and_is_not_is_named(control_plane: ControlPlane, connected: Connected) -> None:
    async def work(api: Api) -> None:
        with pytest.raises(RunFailed, match="nowhere", check=kind("namespace-missing")) as error:
            await cleanup.make_way(api, "nowhere", RUN, own=False, notify=lambda _: None)
        assert "use_existing" in error.value.hint

    connected(control_plane.kubeconfig(), work)


@cluster
def test_a_sign_of_life_outlives_whatever_a_renewal_ends_with(
    control_plane: ControlPlane, namespace: str, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "EVERY", 0.05)

    async def work(api: Api) -> None:
        beat = Heartbeat(api, namespace, RUN)
        await beat.start("mine")
        headers, failed = api._transport.access.headers, 0

        async def refuse() -> list[tuple[str, str]]:
            nonlocal failed
            failed += 1
            raise ValueError("the credential plugin printed what is no token")

        monkeypatch.setattr(api._transport.access, "headers", refuse)
        async with asyncio.timeout(200):
            while failed < 3:
                await asyncio.sleep(0.01)
        monkeypatch.setattr(api._transport.access, "headers", headers)
        before = await api.get(kinds.LEASE, heartbeat.name(RUN), namespace)
        assert before
        async with Watcher(api, kinds.LEASE, namespace) as leases:
            await leases.until(
                lambda items: items[heartbeat.name(RUN)]["spec"]["renewTime"] > before["spec"]["renewTime"] or None,
                200, "it is dead",
            )  # fmt: skip
        await beat.close()

    connected(control_plane.kubeconfig(), work)


@cluster
def test_watches_that_ended_for_good_are_opened_anew_and_do_not_keep_the_end_from_coming(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected, tmp_path: Path
) -> None:
    async def work(api: Api) -> None:
        platform = Kubevirt(furnished.study())
        platform.run_id = RUN
        made = virtual_machines.Fleet(
            api, platform.study, Manifests(platform.study, RUN, namespace), [*platform.study.lanes], places=["a", "b"],
            keys=Keys(tmp_path), scratch=tmp_path, notify=lambda _: None,
        )  # fmt: skip
        made.lanes = {}
        await made._look()
        assert not made.vms.ended
        proxy.answer("GET .*virtualmachines.*watch=1", 403, times=1)
        proxy.cut("end")
        with pytest.raises(RunFailed):
            await made.vms.until(lambda _: None, 200, "it did not end")
        assert made.vms.ended
        await made.heal(())
        assert not made.vms.ended
        proxy.answer("GET .*virtualmachines.*watch=1", 403, times=1)
        proxy.cut("end")
        with pytest.raises(RunFailed):
            await made.vms.until(lambda _: None, 200, "it did not end")
        await made.close()  # raises nothing, or nothing would be removed

    control_plane.install_crds()
    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


# --- without a server


def vmi(*conditions: dict[str, str], phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": "a-0", "uid": "1"}, "status": {"phase": phase, "conditions": list(conditions)}}


def test_a_machine_that_stands_still_is_no_machine_that_runs() -> None:
    stopped = {"type": "Paused", "status": "True", "message": "VMI was paused, low-level IO error \x1b[31mdetected"}
    assert "low-level IO error [31mdetected" in _wrong(vmi(stopped), "1")
    assert _wrong(vmi({**stopped, "status": "False"}), "1") == ""
    assert _wrong(vmi(), "1") == ""
    lost = _wrong(None, "1")
    assert _wrong(vmi(), "2") == _wrong(vmi(phase="Failed"), "1") == lost != ""


def test_what_stops_no_machine_is_no_reason() -> None:
    moving = {"type": "LiveMigratable", "status": "False", "message": "PVC a is not shared"}
    real = {"type": "Synchronized", "status": "False", "message": "no space left"}
    assert list(diagnose._conditions(vmi(moving, real))) == [f"{real['type']}: {real['message']}"]


def test_nodes_are_chosen_by_what_the_machines_need_of_them() -> None:
    nodes = [furnished.node(name, status=furnished.allocatable()) for name in ("c", "b", "a")]
    del nodes[2]["metadata"]["labels"]["cpumanager"]
    study = furnished.study("nodes: 2 -> nodes: 1")
    assert [node["metadata"]["name"] for node in placement.chosen(nodes, study)] == ["a"]
    pinned = furnished.study("nodes: 2 -> nodes: 1\nstorage_class: fast, -> storage_class: fast, dedicated_cpus: true,")
    assert [node["metadata"]["name"] for node in placement.chosen(nodes, pinned)] == ["b"]
    named = {"metadata": {"name": "a.example.com", "labels": {"kubernetes.io/hostname": "a"}}}
    assert placement.hosts([named, {"metadata": {"name": "b"}}]) == {"a.example.com": "a", "b": "b"}


def test_a_large_fleet_finds_files_to_open() -> None:
    """Of a shell's usual 1024, which a process may raise."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = "import resource; from fairlane.platforms.kubevirt.guests import allow_files; allow_files(); "
    text += "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    done = subprocess.run(["sh", "-c", f'ulimit -S -n 1024; exec "$0" -c {shlex.quote(text)}', sys.executable],
                          check=True, capture_output=True, text=True)  # fmt: skip
    assert done.stdout.split() == [str(min(hard, 65536) if hard > 0 else 65536), str(hard)]
