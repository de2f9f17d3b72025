"""``fairlane versus sc:A sc:B`` from the command line, against a real API server, up to where machines would be made.

``test_kv_end_to_end.py`` has one that goes on to the verdict."""

import json
from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from testkit.control_plane import ControlPlane
from tests.platforms.kubevirt.furnished import changed, furnish, storage_class
from tests.words import kinds

pytestmark = pytest.mark.cluster


@pytest.fixture
def furnished(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ControlPlane:
    furnish(plane)
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig()))
    monkeypatch.chdir(tmp_path)
    return plane


def made(plane: ControlPlane) -> list[str]:
    """Namespaces that runs made, and everything that Fairlane would label."""
    spaces = plane.call("GET", "/api/v1/namespaces?labelSelector=app.kubernetes.io/managed-by%3Dfairlane")["items"]
    machines = plane.call("GET", "/apis/kubevirt.io/v1/virtualmachines")["items"]
    return [one["metadata"]["name"] for one in [*spaces, *machines]]


@pytest.mark.slow
def test_the_plan_names_permissions_cluster_and_volumes_and_makes_nothing(
    furnished: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["versus", "sc:fast", "sc:slow", "--size", "20Gi", "--for", "15m", "--dry-run"]
    assert run([*words, "--format", "json", "--save-study", "saved.yaml"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert [(c["storage_class"], c["volume_mode"], c["access_mode"]) for c in told["classes"]] == [
        ("fast", "Block", "ReadWriteOnce"),
        ("slow", "Block", "ReadWriteOnce"),
    ]
    assert told["volumes"] == {"fast": [20 * 2**30], "slow": [20 * 2**30]}
    states = {line["name"]: line["state"] for line in told["cluster"]}
    assert {
        states[name] for name in ("API server", "KubeVirt", "CDI", "permissions", "storage class fast", "nodes")
    } == {"ok"}
    assert told["problems"] == []
    assert run(["study", "check", "saved.yaml"]) == Exit.OK
    capsys.readouterr()
    assert run(words) == Exit.OK
    plan = " ".join(capsys.readouterr().out.split())
    assert "fairlane lab clean --platform kubevirt" in plan
    assert "datasource:NAME): images/fedora" in plan
    assert made(furnished) == []
    assert not Path("runs").exists()


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    assert run(["versus", *words, "--dry-run"]) == Exit.USER_ERROR
    error = capsys.readouterr().err
    return [*kinds(error)], error


def test_what_the_cluster_has_not_is_one_error_before_anything_is_made(
    furnished: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    default = storage_class("fast")
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    with changed(furnished, default):
        found, error = refusal(capsys, "sc:fst", "sc:slow")
    assert found == ["storage-class-unknown"]
    assert "fast (default), slow" in error
    assert refusal(capsys, "sc:fast", "sc:slow", "--namespace", "none")[0] == ["namespace-missing"]
    assert refusal(capsys, "sc:fast", "sc:slow", "--context", "none")[0] == ["context-unknown"]
    assert refusal(capsys, "sc:fast", "./a")[0] == ["targets-mixed"]
    assert refusal(capsys, "sc:fast", "sc:slow", "--keep-free", "5%")[0] == ["option-elsewhere"]
    assert refusal(capsys, "./a", "./b", "--image", "docker://x")[0] == ["option-elsewhere"]
    assert refusal(capsys, "sc:fast", "sc:slow", "--image", "datasource:images/none")[0] == ["cluster-unfit"]
    assert made(furnished) == []


def test_a_user_without_permissions_reads_which_are_missing(
    furnished: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(furnished.kubeconfig("somebody")))
    found, error = refusal(capsys, "sc:fast", "sc:slow")
    assert set(found) == {"several-problems"} or "cluster-unfit" in found
    assert "virtualmachines.kubevirt.io" in error
    assert "fairlane cluster rbac" in error
    assert made(furnished) == []
