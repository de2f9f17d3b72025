"""Probes on nodes, with a real node exporter behind a real API server's pod proxy, under real Pod Security admission,
quota and RBAC. DaemonSet controller and kubelets are played: ``testkit/node_pods.py``."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane import registry
from fairlane.platforms.kubevirt import exporter
from fairlane.platforms.kubevirt.api import Api
from fairlane.platforms.kubevirt.node_probes import NodeProbes
from fairlane.platforms.kubevirt.permissions import PERMISSIONS
from fairlane.platforms.kubevirt.spec import KubevirtSpec
from fairlane.records import Figures
from testkit.control_plane import ControlPlane
from testkit.node_pods import PULLED, NodePods, addresses, node_exporter

RUN = "00c0ffee42"
BUSY = ("user", "nice", "system", "irq", "softirq")
BURN = "import time\nwhile time.process_time() < {seconds}: pass\nprint(time.process_time())"
ANY = {"name": "a", "image": "a"}
SPEC = KubevirtSpec(kind="kubevirt", image="docker://quay.io/x/y:1", fleet=2)


@pytest.fixture(scope="module")
def program() -> Path:
    return node_exporter()


@pytest.fixture
def nodes() -> Iterator[Mapping[str, str]]:
    with addresses(2) as found:
        yield {f"worker-{number}": address for number, address in enumerate(found)}


def ask(plane: ControlPlane, do: Callable[[Api], Awaitable[None]], *, user: str = "admin", patience: float = 5) -> None:
    async def whole() -> None:
        async with await Api.connect(patience=patience) as api:
            await do(api)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(plane.kubeconfig(user)))
        asyncio.run(whole())


async def opened(
    api: Api, namespace: str, nodes: Mapping[str, str], said: list[str], patience: float = 200
) -> NodeProbes:
    return await NodeProbes.open(api, namespace, RUN, list(nodes), SPEC, notify=said.append, patience=patience)


def stat() -> dict[str, list[float]]:
    """Mode -> seconds of each CPU, as this machine's kernel tells them."""
    lines = [
        line.split() for line in Path("/proc/stat").read_text().splitlines() if line[:3] == "cpu" and line[3] != " "
    ]
    order = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return {mode: [int(line[1 + n]) / 100 for line in lines] for n, mode in enumerate(order)}


def moved(first: Mapping[str, list[float]], last: Mapping[str, list[float]]) -> float:
    return sum(sum(last[mode]) - sum(first[mode]) for mode in BUSY)


def sets(plane: ControlPlane, namespace: str) -> list[Any]:
    found: list[Any] = plane.call("GET", f"/apis/apps/v1/namespaces/{namespace}/daemonsets")["items"]
    return found


@pytest.mark.slow
@pytest.mark.cluster
def test_a_load_of_known_size_is_seen_through_the_api_server(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    """Two snapshots hold what the kernel counted between them, no more and no less, and in it the load."""
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        assert probes.refused == ""
        outer = stat()
        files = await probes.around("before")
        inner = stat()
        burned = float(await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", BURN.format(seconds=2)]))
        within = moved(inner, stat())
        files |= await probes.around("after")
        without = moved(outer, stat())
        assert files.keys() == {"probe.node_usage.before", "probe.node_usage.after"}
        before, after = (json.loads(data) for data in files.values())
        for node in nodes:
            seen = moved(before[node]["cpu"], after[node]["cpu"])
            assert within - 1e-6 <= seen <= without + 1e-6
            # Not closer: the kernel's ticks miss some of the time that a busy hypervisor takes from this machine.
            assert seen >= 0.5 * burned
        load = Figures(context={"cpu": {"window_ios": 1000}})
        told = registry.load("probes", "node_usage").observe(*(data.decode() for data in files.values()), load)
        total = sum(moved(before[node]["cpu"], after[node]["cpu"]) for node in nodes)
        assert told.metrics["cpu_per_io_node"] == pytest.approx(1e9 * total / 1000)
        described = probes.describe()
        assert isinstance(described, dict)
        assert described["network"] == "host"
        assert "interfaces" not in described
        assert described["pulled"] == [PULLED]
        for clock in described["nodes"].values():  # it is this machine's own
            assert clock["exporter"]
            assert abs(clock["clock_ahead_ms"]) <= clock["clock_within_ms"] + 0.1
        assert "lo" not in before["worker-0"].get("nics", {})
        assert before["worker-0"]["retransmits"] >= 0
        await probes.close()
        assert sets(control_plane, namespace) == []

    with NodePods(control_plane, namespace, nodes, program) as pods:
        ask(control_plane, whole)
    assert said == []
    assert [ds["metadata"]["name"] for ds in pods.daemon_sets] == [f"fairlane-nodes-{RUN}"]


@pytest.mark.cluster
def test_a_restricted_namespace_gets_the_pods_without_the_nodes_network(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    enforce(control_plane, namespace, "restricted")
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        assert probes.refused == ""
        described = probes.describe()
        assert isinstance(described, dict)
        assert described["network"] == "pod"
        assert "PodSecurity" in described["interfaces"]
        told = json.loads((await probes.around("before"))["probe.node_usage.before"])
        assert told.keys() == nodes.keys()
        for kept in told.values():
            assert {"cpu", "switches", "disks"} <= kept.keys()
            assert not kept.keys() & {"nics", "retransmits"}
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program) as pods:
        ask(control_plane, whole)
    assert [ds["spec"]["template"]["spec"].get("hostNetwork", False) for ds in pods.daemon_sets] == [True, False]
    assert len(said) == 1
    assert "PodSecurity" in said[0]


@pytest.mark.cluster
def test_nodes_that_the_api_server_does_not_reach_are_watched_from_the_pods_network(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        described = probes.describe()
        assert isinstance(described, dict)
        assert described["network"] == "pod"
        assert "connection refused" in described["interfaces"]
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program, firewall=True):
        ask(control_plane, whole)
    assert len(said) == 1


@pytest.mark.cluster
def test_on_openshift_the_namespace_gives_the_user_id(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    """Elsewhere the pod has to name one: the image's user has a name only, and a kubelet does not know who that is."""

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, [])
        assert probes.refused == ""
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program) as pods:
        with openshift(control_plane):
            ask(control_plane, whole)
        ask(control_plane, whole)
    users = [ds["spec"]["template"]["spec"]["securityContext"].get("runAsUser") for ds in pods.daemon_sets]
    assert users == [None, 65534]


@pytest.mark.cluster
def test_without_room_for_the_pods_it_is_said_once_with_the_clusters_reason(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    control_plane.call("POST", path, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    filled = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    control_plane.call("PATCH", f"{path}/none/status", filled, kind="application/merge-patch+json")
    pods, pod = f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "a"}, "spec": {"containers": [ANY]}}
    control_plane.wait(lambda: control_plane.refuses(pods, pod, "exceeded quota"), "the quota")
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        assert (probes.refusal, "quota: none" in probes.refused) == ("probe-refused", True)
        assert probes.describe() == probes.refused
        assert await probes.around("before") == {}
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program):
        ask(control_plane, whole)
    assert len(said) == 1
    assert "quota: none" in said[0]
    assert sets(control_plane, namespace) == []


@pytest.mark.cluster
@pytest.mark.parametrize("missing", ["", "daemonsets", "pods/proxy", "events"])
def test_the_listed_permissions_are_enough_and_each_is_needed(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path, missing: str
) -> None:
    allow(control_plane, namespace, "fairlane", missing)
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        if missing in ("", "events"):  # events only make it quicker to see that pods are not admitted
            assert probes.refused == ""
            assert json.loads((await probes.around("before"))["probe.node_usage.before"]).keys() == nodes.keys()
        else:
            assert probes.refusal == "forbidden"
            assert f'cannot {"get" if "/" in missing else "delete"} resource "{missing}"' in probes.refused
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program) as pods:
        ask(control_plane, whole, user="fairlane")
    assert len(said) == (missing not in ("", "events"))
    assert len(pods.daemon_sets) == (missing != "daemonsets")  # the other form of the pods would need the same
    assert sets(control_plane, namespace) == []


@pytest.mark.cluster
def test_an_image_that_is_not_to_be_had_is_the_reason(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    said: list[str] = []
    tried: list[str] = []

    async def whole(api: Api) -> None:
        for patience in (4, 16, 64):
            probes = await opened(api, namespace, nodes, said, patience=patience)
            tried.append(probes.refused)
            if probes.refusal != "probe-late":  # those that are played may need longer than the patience
                break
        assert probes.refusal == "probe-image"
        assert re.findall(r"worker-\d|ImagePullBackOff", probes.refused)[:2] == ["worker-0", "ImagePullBackOff"]
        assert exporter.IMAGE in probes.refused

    with NodePods(control_plane, namespace, nodes, program, image_there=False) as pods:
        ask(control_plane, whole)
    late = len(tried) - 1
    assert len(pods.daemon_sets) in range(1, 2 * late + 2)  # the pods' other form has the same image: it is not tried
    assert len(said) == late + 1


@pytest.mark.cluster
def test_a_cluster_that_makes_no_pods_is_not_waited_for_longer_than_said(
    control_plane: ControlPlane, namespace: str
) -> None:
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, {"worker-0": ""}, said, patience=0.5)
        assert (probes.refusal, re.findall(r"[\d.]+", probes.refused)) == ("probe-late", ["0", "1", "0.5"])

    ask(control_plane, whole)
    assert sets(control_plane, namespace) == []


@pytest.mark.cluster
def test_a_pod_that_is_replaced_is_found_and_one_that_is_gone_is_told_once(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    said: list[str] = []

    async def whole(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        await asyncio.to_thread(pods.replace, "worker-1")
        told = json.loads((await probes.around("before"))["probe.node_usage.before"])
        assert "cpu" in told["worker-1"]
        pods.end("worker-0")
        for _ in range(2):
            told = json.loads((await probes.around("after"))["probe.node_usage.after"])
            assert told["worker-0"].keys() == {"failed"}
            assert "cpu" in told["worker-1"]
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program) as pods:
        ask(control_plane, whole)
    assert len(said) == 1
    assert "worker-0" in said[0]


@pytest.mark.cluster
def test_a_resumed_run_takes_the_place_of_what_it_left(
    control_plane: ControlPlane, namespace: str, nodes: Mapping[str, str], program: Path
) -> None:
    said: list[str] = []

    async def killed(api: Api) -> None:
        await opened(api, namespace, nodes, said)

    async def resumed(api: Api) -> None:
        probes = await opened(api, namespace, nodes, said)
        assert probes.refused == ""
        await probes.close()

    with NodePods(control_plane, namespace, nodes, program) as pods:
        ask(control_plane, killed)
        ask(control_plane, resumed)
    assert len({ds["metadata"]["uid"] for ds in pods.daemon_sets}) == 2
    assert said == []
    assert sets(control_plane, namespace) == []


@pytest.mark.cluster
def test_switched_off_nothing_is_asked(control_plane: ControlPlane, namespace: str) -> None:
    async def whole(api: Api) -> None:
        spec = SPEC.model_copy(update={"node_probes": "off"})
        probes = await NodeProbes.open(api, namespace, RUN, ["worker-0"], spec, notify=pytest.fail)
        assert probes.describe() == "off"
        assert await probes.around("before") == {}
        await probes.close()
        assert not api.counts

    ask(control_plane, whole)


def test_a_container_of_its_own_sees_the_nodes_cpu(program: Path, tmp_path: Path) -> None:
    """What the pods without rights rest on: nobody's user, no capability, own PIDs, own /proc, own network, and still
    the kernel tells the whole machine's CPU, pressure and disks."""
    port = 9300
    script = f"""ip link set lo up
setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@" &
python='import time, urllib.request
for _ in range(2000):
    try: print(urllib.request.urlopen("http://127.0.0.1:{port}/metrics").read().decode()); break
    except OSError: time.sleep(0.05)'
{sys.executable} -c "$python" > {tmp_path}/told
kill $!"""
    arguments = [a.replace("$(ADDRESS)", "127.0.0.1") for a in exporter.arguments("pod", port)]
    alone = ["unshare", "--pid", "--fork", "--mount-proc", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to make namespaces")
    first = stat()
    subprocess.run([*alone, "bash", "-c", script, "x", program, *arguments], check=True, capture_output=True)
    last = stat()
    kept = exporter.compact((tmp_path / "told").read_text())
    for mode in BUSY:
        for cpu, value in enumerate(kept["cpu"][mode]):
            assert first[mode][cpu] <= value <= last[mode][cpu]
    assert kept["disks"]
    assert "nics" not in kept


def test_what_is_kept_of_an_answer() -> None:
    text = """# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="10",mode="idle"} 1.5e+06
node_cpu_seconds_total{cpu="2",mode="idle"} 7
node_cpu_seconds_total{cpu="2",mode="user"} 0.25
node_cpu_guest_seconds_total{cpu="2",mode="user"} 5
node_disk_read_bytes_total{device="a\\"}b,c=\\"d"} 512
node_network_speed_bytes{device="eth0"} -125000
node_network_receive_bytes_total{device="eth0"} NaN
node_network_transmit_bytes_total{device="eth0"} 12
node_context_switches_total 6.74351898e+08
node_time_seconds 1.7953590263250284e+09
node_load1 +Inf
nonsense
"""
    assert exporter.compact(text) == {
        "cpu": {"idle": [7.0, 1.5e6], "user": [0.25, 0.0]},
        "disks": {'a\\"}b,c=\\"d': {"read_bytes": 512.0}},
        "nics": {"eth0": {"tx_bytes": 12.0}},
        "switches": 674351898.0,
        "time": 1795359026.3250284,
    }


@given(st.text(max_size=200) | st.from_regex(r"node_[a-z_]{1,30}\{[a-z]+=\"[^\n]{0,9}\"\} [0-9eE.+-]{1,9}"))
def test_no_answer_makes_it_raise(text: str) -> None:
    json.dumps(exporter.compact(text), allow_nan=False)


@contextlib.contextmanager
def openshift(plane: ControlPlane) -> Iterator[None]:
    """The API group by which a cluster is known as OpenShift."""
    names = {"plural": "securitycontextconstraints", "singular": "securitycontextconstraints", "kind": "Scc"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.security.openshift.io"},
        "spec": {"group": "security.openshift.io", "scope": "Cluster", "names": names, "versions": [version]},
    }  # fmt: skip

    def known() -> bool:
        return any(group["name"] == "security.openshift.io" for group in plane.call("GET", "/apis")["groups"])

    plane.apply([crd])
    try:
        while not known():
            time.sleep(0.05)
        yield
    finally:
        plane.call("DELETE", plane.path(crd))
        while known():
            time.sleep(0.05)


def enforce(plane: ControlPlane, namespace: str, level: str) -> None:
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}}
    plane.call("PATCH", f"/api/v1/namespaces/{namespace}", labels, kind="application/merge-patch+json")


def allow(plane: ControlPlane, namespace: str, user: str, missing: str) -> None:
    """Lets the user do in the namespace what is listed, but for one resource."""
    rules = [
        {"apiGroups": [p.group], "resources": [p.resource], "verbs": list(p.verbs)}
        for p in PERMISSIONS
        if p.scope == "run" and p.resource != missing
    ]
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    plane.call("POST", f"{path}/roles", {"metadata": {"name": user}, "rules": rules})
    plane.call("POST", f"{path}/rolebindings", {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })  # fmt: skip
    plane.wait(lambda: plane.allows(user, namespace, rules[0]), "the role to count")
