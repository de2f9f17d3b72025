"""What the doctor says of a real API server: each line when it is well, and with its fix when it is not."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.platforms._examined import Line, able
from fairlane.platforms.kubevirt import preflight
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.readback import quantity
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from testkit.control_plane import ControlPlane
from tests.platforms.kubevirt import furnished
from tests.platforms.kubevirt.conftest import Connected
from tests.platforms.kubevirt.furnished import GIB, allocatable, changed, node, storage_class

Ask = Callable[..., list[Line]]


@pytest.fixture(scope="module")
def plane(plane: ControlPlane) -> ControlPlane:
    furnished.furnish(plane)
    return plane


@pytest.fixture
def ask(plane: ControlPlane, connected: Connected) -> Ask:
    """What an administrator is told of a study, or of none; with ``name`` only those lines."""

    def asked(study: Study | None = None, name: str = "") -> list[Line]:
        lines = connected(plane.kubeconfig(), lambda api: preflight.examine(api, study))
        return [line for line in lines if line.name == name] if name else lines

    return asked


def one(lines: list[Line]) -> Line:
    (line,) = lines
    return line


def ways(found: str) -> dict[str, str]:
    """Lane -> way of cloning, or class -> moment of binding: what a line lists at its end."""
    return dict(re.findall(r"(\w+): ([\w-]+)(?=,|$)", found))


@pytest.mark.cluster
def test_a_cluster_that_has_everything(ask: Ask) -> None:
    lines = ask(furnished.study(storm=True))
    assert {line.state for line in lines} == {"ok"}, [line for line in lines if line.state != "ok"]
    told = {line.name: line.found for line in lines}
    assert list(told) == [
        *("API server", "permissions", "KubeVirt", "CDI", "storage class fast", "storage class slow"),
        *("clones", "binding", "nodes", "image"),
    ]
    assert (told["KubeVirt"], told["CDI"]) == ("v1.7.0", "v1.63.0")
    assert "admin" in told["API server"]
    # 2 machines and a storm of 2, root and data volume each; what a storm is cloned from; the storm on one lane alone
    assert re.search(r"\b9\b.*\b65 GiB$", told["storage class fast"])
    assert ways(told["clones"]) == {"fast": "snapshot", "slow": "snapshot"}
    assert re.findall(r"worker-\d", told["nodes"]) == ["worker-0", "worker-1"]


@pytest.mark.cluster
def test_without_a_study_the_cluster_is_told(ask: Ask) -> None:
    lines = ask()
    assert able(lines)
    classes = one([line for line in lines if line.name == "storage classes"]).found
    assert re.findall(r"(\w+) \(([^)]+)\)", classes) == [("fast", "csi.example.com"), ("slow", "csi.example.com")]


# --- storage


@pytest.mark.cluster
def test_a_class_that_is_not_there_is_named_with_the_nearest(ask: Ask) -> None:
    line = one(ask(furnished.study("storage_class: fast -> storage_class: fats"), "storage class fats"))
    assert (line.state, re.findall("fast|slow", line.fix)) == ("missing", ["fast"])
    line = one(ask(furnished.study("storage_class: fast -> storage_class: premium"), "storage class premium"))
    assert (line.state, re.findall("fast|slow", line.fix)) == ("missing", ["fast", "slow"])


@pytest.mark.cluster
def test_a_class_that_provisions_nothing_and_one_without_its_driver(ask: Ask, plane: ControlPlane) -> None:
    gone = storage_class("gone", "csi.gone.example.com")
    with changed(plane, storage_class("byhand", "kubernetes.io/no-provisioner"), gone):
        study = furnished.study(
            "storage_class: fast -> storage_class: byhand\nstorage_class: slow -> storage_class: gone"
        )
        line = one(ask(study, "storage class byhand"))
        assert (line.state, "kubernetes.io/no-provisioner" in line.found) == ("warn", True)
        first, second, *_ = ask(study, "storage class gone")
        assert (first.state, second.state) == ("ok", "warn")
        assert "csi.gone.example.com" in second.found


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ("", {}, ["claimPropertySets"]),
        (
            "storage_class: fast, -> storage_class: fast, volume_mode: Filesystem,",
            None,
            ["fast", "Filesystem", "Block ReadWriteOnce/ReadWriteMany"],
        ),
        (
            "storage_class: fast, -> storage_class: fast, access_mode: ReadWriteOncePod,",
            None,
            ["fast", "Block ReadWriteOncePod", "Block ReadWriteOnce/ReadWriteMany"],
        ),
    ],
)
def test_what_a_storage_profile_does_not_know(
    ask: Ask, plane: ControlPlane, change: str, status: dict[str, Any] | None, told: list[str]
) -> None:
    meta = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "StorageProfile", "metadata": {"name": "fast"}, "spec": {}}
    with changed(plane, {**meta, "status": furnished.PROFILE if status is None else status}):
        line = one(ask(furnished.study(change), "storage profile fast"))
        assert line.state == "warn"
        assert [token for token in told if token not in f"{line.found}; {line.fix}"] == []


@pytest.mark.cluster
def test_a_driver_that_has_less_than_is_needed(ask: Ask, plane: ControlPlane) -> None:
    def free(name: str, size: str) -> dict[str, Any]:
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity"}
        return {
            **kind,
            "metadata": {"name": name, "namespace": "kubevirt"},
            "storageClassName": "fast",
            "capacity": size,
        }

    with changed(plane, free("a", "10Gi"), free("b", "5Gi")):
        _, line = ask(furnished.study(), "storage class fast")
        assert (line.state, re.findall(r"[\d.]+ [KMGT]iB", line.found)) == ("warn", ["15 GiB", "30 GiB"])
    with changed(plane, free("a", "20Gi"), free("b", "10Gi")):
        assert one(ask(furnished.study(), "storage class fast")).state == "ok"


@pytest.mark.cluster
def test_a_storm_from_snapshots_needs_a_class_of_the_driver(ask: Ask, plane: ControlPlane) -> None:
    study = furnished.study("storage_class: fast -> storage_class: other", storm=True)
    with changed(plane, storage_class("other", "csi.other.example.com")):
        line = one(ask(study, "snapshots"))
        assert line.state == "missing"
        assert re.search(r"\bfast\b", line.found)
        assert "csi.other.example.com" in line.found
        assert not ask(furnished.study("storage_class: fast -> storage_class: other"), "snapshots")


@pytest.mark.cluster
def test_ways_of_cloning_that_differ_or_are_left_to_cdi(ask: Ask, plane: ControlPlane) -> None:
    mixed = furnished.study("storage_class: fast, clone: snapshot -> storage_class: fast, clone: copy", storm=True)
    line = one(ask(mixed, "clones"))
    assert (line.state, ways(line.found)) == ("warn", {"fast": "copy", "slow": "snapshot"})
    assert "vary: [provisioning]" in line.fix
    asked = mixed.model_copy(update={"design": mixed.design.model_copy(update={"vary": ("provisioning",)})})
    line = one(ask(asked, "clones"))
    assert (line.state, ways(line.found)) == ("ok", {"fast": "copy", "slow": "snapshot"})
    with changed(plane, storage_class("late", volumeBindingMode="Immediate")):
        line = one(ask(furnished.study("storage_class: fast -> storage_class: late", storm=True), "binding"))
        assert line.state == "warn"
        assert ways(line.found) == {"late": "Immediate", "slow": "WaitForFirstConsumer"}


# --- KubeVirt


@pytest.mark.cluster
def test_operators_that_are_not_done_yet(ask: Ask, plane: ControlPlane) -> None:
    kubevirt = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt"}
    kubevirt |= {"metadata": {"name": "kubevirt", "namespace": "kubevirt"}}  # type: ignore[dict-item]
    emulating = {"configuration": {"developerConfiguration": {"useEmulation": True}}}
    status = {"phase": "Deploying", "observedKubeVirtVersion": "v1.7.0\x1b[31m\u202e"}
    with changed(plane, {**kubevirt, "spec": emulating, "status": status}):
        line = one(ask(None, "KubeVirt"))
        assert (line.state, line.found.startswith("v1.7.0 [31m"), "Deploying" in line.found) == ("warn", True, True)
        assert line.found.isprintable()
        assert one(ask(None, "emulation")).state == "warn"


@pytest.mark.cluster
def test_lanes_of_another_kind_are_told_before_anything_else_goes_wrong(ask: Ask) -> None:
    text = furnished.STUDY.replace("clone: snapshot ", "")
    for name in ("fast", "slow"):
        text = text.replace(f"transport: storage_class, storage_class: {name},", "transport: iscsi")
    study = parse_study(text, "study.yaml")
    missing = [line for line in ask(study) if line.state == "missing"]
    assert [(line.name, *re.findall("fast|slow|iscsi", line.found), line.fix) for line in missing] == [
        ("lanes", name, "iscsi", "transport: storage_class") for name in ("fast", "slow")
    ]


@pytest.mark.cluster
def test_a_pool_of_threads_without_queues(ask: Ask) -> None:
    pool = "storage_class: fast, -> storage_class: fast, io_threads_policy: supplementalPool, io_threads: 2,"
    line = one(ask(furnished.study(pool), "IO threads"))
    assert (line.state, line.fix) == ("warn", "set block_multi_queue: true")
    assert not ask(furnished.study(f"{pool} block_multi_queue: true,"), "IO threads")


@pytest.mark.cluster
def test_a_kubevirt_that_knows_no_pool(ask: Ask, plane: ControlPlane) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
    names = ("virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io")
    before = {
        crd["metadata"]["name"]: crd
        for crd in plane.call("GET", path)["items"]
        if crd["spec"]["group"] == "kubevirt.io" and "supplementalPoolThreadCount" in json.dumps(crd)
    }
    assert set(names) <= set(before)
    try:
        for name, crd in before.items():
            older = json.loads(json.dumps(crd).replace("supplementalPoolThreadCount", "another"))
            plane.call("PATCH", path + name, {"spec": older["spec"]}, kind="application/merge-patch+json")
        plane.wait(
            lambda: (
                "supplementalPoolThreadCount" not in json.dumps(plane.call("GET", "/openapi/v3/apis/kubevirt.io/v1"))
            ),
            "the types to be published anew",
        )
        pool = "io_threads_policy: supplementalPool, io_threads: 2, block_multi_queue: true,"
        pool = f"storage_class: fast, -> storage_class: fast, {pool}"
        line = one(ask(furnished.study(pool), "IO threads"))
        assert line.state == "missing"
        assert re.findall("supplementalPool|fast|slow", line.found) == ["supplementalPool", "fast"]
    finally:
        for name, crd in before.items():
            # By a patch: the server's own controllers write these objects too, and a PUT might meet one of them.
            plane.call("PATCH", path + name, {"spec": crd["spec"]}, kind="application/merge-patch+json")


# --- nodes


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("spec", "labels", "why"),
    [
        ({"unschedulable": True}, {}, "cordon"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {}, "gpu"),
        ({}, {"kubevirt.io/schedulable": "false"}, "kubevirt.io/schedulable"),
    ],
)
def test_too_few_nodes_are_told_with_the_reason(
    ask: Ask, plane: ControlPlane, spec: dict[str, Any], labels: dict[str, str], why: str
) -> None:
    wrong = node("worker-1", spec=spec, status=allocatable())
    wrong["metadata"]["labels"] |= labels
    with changed(plane, wrong):
        line = one(ask(furnished.study(), "nodes"))
        assert line.state == "missing"
        assert counts(line) == ["2", "1", "2"]
        assert re.findall(r"worker-\d", line.found) == ["worker-1"]
        assert why in line.found


def counts(line: Line) -> list[str]:
    """Of nodes: asked for, usable, there."""
    return re.findall(r"(?<![\w-])\d+(?![\w-])", line.found)


@pytest.mark.cluster
def test_a_selector_that_fits_no_node(ask: Ask) -> None:
    line = one(ask(furnished.study(node_selector="{rack: a7}"), "nodes"))
    assert counts(line) == ["2", "0", "2"]
    assert re.findall(r"worker-\d|rack=\w+", line.found) == ["worker-0", "rack=a7", "worker-1", "rack=a7"]


@pytest.mark.cluster
def test_pinned_machines_need_nodes_that_pin(ask: Ask, plane: ControlPlane) -> None:
    pinned = furnished.study("storage_class: fast, -> storage_class: fast, dedicated_cpus: true,")
    assert one(ask(pinned, "nodes")).state == "ok"
    without = node("worker-1", status=allocatable())
    without["metadata"]["labels"]["cpumanager"] = "false"
    with changed(plane, without):
        line = one(ask(pinned, "nodes"))
        assert line.state == "missing"
        assert counts(line) == ["2", "1", "2"]
        assert re.findall(r"worker-\d|cpumanager=\w+", line.found) == ["worker-1", "cpumanager=true"]
        assert "cpuManagerPolicy: static" in line.fix
        assert one(ask(furnished.study(), "nodes")).state == "ok"


# --- image


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("image", "state", "found", "fix"),
    [
        ("docker://quay.io/containerdisks/fedora:41", "ok", "containerdisks/fedora:41", ""),
        ("docker://quay.io/containerdisks/fedora:42", "warn", "containerdisks/fedora:42", "kubectl run pull"),
        ("docker://quay.io:5000/containerdisks/fedora", "warn", "containerdisks/fedora", "digest"),
        ("https://example.com/fedora.qcow2", "warn", "example.com/fedora.qcow2", "kubectl run pull"),
        ("datasource:images/debian", "missing", "images/debian", "kubectl get datasources"),
    ],
)
def test_images(ask: Ask, image: str, state: str, found: str, fix: str) -> None:
    line = one(ask(furnished.study(f"datasource:images/fedora -> {image}"), "image"))
    assert line.state == state
    assert found in line.found
    assert (fix in line.fix) if fix else not line.fix


@pytest.mark.cluster
def test_an_image_that_is_being_imported(ask: Ask, plane: ControlPlane) -> None:
    thing = next(x for x in furnished.objects() if x["kind"] == "DataSource")
    waiting = {"type": "Ready", "status": "False", "reason": "NoSource", "message": "import in progress\x1b[2J"}
    with changed(plane, {**thing, "status": {"conditions": [waiting]}}):
        line = one(ask(furnished.study(), "image"))
        assert line.state == "missing"
        assert "images/fedora" in line.found
        assert line.found.endswith(": import in progress [2J")


# --- no cluster


@pytest.mark.cluster
@pytest.mark.slow  # a server of its own
def test_a_cluster_without_kubevirt(connected: Connected) -> None:
    with ControlPlane() as bare:
        lines = connected(bare.kubeconfig(), lambda api: preflight.examine(api, furnished.study()))
    assert [line.name for line in lines if line.state == "missing"] == ["KubeVirt", "CDI"]
    assert all(line.fix for line in lines if line.state == "missing")


@pytest.mark.cluster
def test_an_expired_token_is_one_line(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.service_account_kubeconfig("bench", "late", seconds=-60)))
    assert run(["doctor", "--platform", "kubevirt", "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (line,) = [line for line in told if line["state"] == "missing"]
    assert line["name"] == "cluster"
    assert "Unauthorized" in line["found"]
    assert line["fix"]


def test_no_kubeconfig_is_one_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert run(["doctor", "--platform", "kubevirt"]) == 1
    out, err = capsys.readouterr()
    assert re.findall(rf"^missing +cluster +{re.escape(str(tmp_path))}/none\b", out, re.MULTILINE)
    assert re.search(r"^kubevirt: .*\bcluster\b", out.splitlines()[-1])
    assert "Traceback" not in out + err


def test_a_server_that_nobody_listens_at_is_one_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(preflight, "PATIENCE", 0.1)
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert run(["doctor", "--platform", "kubevirt", "--format", "json"]) == 1
    (line,) = [x for x in json.loads(capsys.readouterr().out) if x["state"] == "missing"]
    assert "127.0.0.1:1" in line["found"]
    assert line["fix"]


def test_the_extra_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.aio", None)  # what Python does where it is not installed
    assert run(["doctor", "--platform", "kubevirt"]) == 1
    assert "'fairlane[kubevirt]'" in capsys.readouterr().out


# --- what is needed of storage classes


@pytest.mark.parametrize("image", ["datasource:images/fedora", "docker://fedora:41"])
def test_what_is_counted_is_what_is_sent(image: str) -> None:
    study = furnished.study(f"datasource:images/fedora -> {image}", disks=3, root_class="slow")
    manifests = Manifests(study, "0123456789", "bench")
    sent: dict[str, list[float]] = {}
    for machine in (machine for lane in study.lanes for machine in manifests.machines(lane)):
        for template in manifests.vm(machine, "n")["spec"]["dataVolumeTemplates"]:
            storage = template["spec"]["storage"]
            sent.setdefault(storage["storageClassName"], []).append(
                quantity(storage["resources"]["requests"]["storage"])
            )
    needed = preflight.volumes(study)
    assert {name: sorted(sizes) for name, sizes in needed.items()} == {n: sorted(sizes) for n, sizes in sent.items()}


def test_storms_come_one_after_the_other() -> None:
    """Each class needs room for its own storm; golden volumes stay for all."""
    fleet, golden, storm = 2 * (5 + 10), 5, 2 * (5 + 10)
    needed = preflight.volumes(furnished.study(storm=True))
    assert {name: sum(sizes) for name, sizes in needed.items()} == dict.fromkeys(
        ("fast", "slow"), (fleet + golden + storm) * GIB
    )
    assert {name: len(sizes) for name, sizes in needed.items()} == {"fast": 9, "slow": 9}
    shared = preflight.volumes(furnished.study("storage_class: slow -> storage_class: fast", storm=True))
    assert {name: sum(sizes) for name, sizes in shared.items()} == {"fast": (2 * (fleet + golden) + storm) * GIB}
