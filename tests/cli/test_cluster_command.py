"""``fairlane cluster``: what it prints, for whom, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlane.cli.main import run
from fairlane.study.load import preset_text
from tests.words import kinds

STUDY = """
name: example
platform: { kind: kubevirt, image: "docker://fedora:41", namespace: bench }
lanes:
  a: { transport: storage_class, storage_class: a }
  b: { transport: storage_class, storage_class: b }
baseline: a
workloads: { disk: { kind: fio, rw: [randread], bs: [4k], runtime: 10s } }
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def printed(capsys: pytest.CaptureFixture[str], *line: str) -> list[dict[str, Any]]:
    assert run(["cluster", *line]) == 0
    out, err = capsys.readouterr()
    assert not err
    return list(yaml.safe_load_all(out))


def refused(capsys: pytest.CaptureFixture[str], code: int, *line: str) -> str:
    assert run(["cluster", *line]) == code
    out, err = capsys.readouterr()
    assert not out
    return err


def sorts(objects: list[dict[str, Any]]) -> list[str]:
    return [one["kind"] for one in objects]


def complaint(err: str) -> str:
    """What stands behind the usage line."""
    return err.partition("Error: ")[2]


def granted(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    rules = [rule for one in objects for rule in one.get("rules", ())]
    return {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_a_service_account_with_a_namespace_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "rbac")
    assert sorts(objects) == ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    assert objects[-1]["subjects"] == [{"kind": "ServiceAccount", "name": "fairlane", "namespace": "fairlane"}]
    assert ("create", "namespaces") in granted(objects)


def test_a_namespace_that_is_there_gets_a_role_and_is_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "rbac", "--use-existing", "--namespace", "mine")
    assert sorts(objects) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    assert {one["metadata"].get("namespace") for one in objects if one["kind"] == "Role"} == {"mine"}
    assert ("create", "namespaces") not in granted(objects)


@pytest.mark.parametrize(("option", "kind"), [("--user", "User"), ("--group", "Group")])
def test_a_person_or_a_group_in_place_of_a_service_account(
    capsys: pytest.CaptureFixture[str], option: str, kind: str
) -> None:
    objects = printed(capsys, "rbac", option, "a: b # c")
    assert sorts(objects) == ["ClusterRole", "ClusterRoleBinding"]
    subject = {"kind": kind, "name": "a: b # c", "apiGroup": "rbac.authorization.k8s.io"}
    assert objects[1]["subjects"] == [subject]


def test_a_study_is_granted_what_it_needs_and_no_more(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    every, needed = granted(printed(capsys, "rbac")), granted(printed(capsys, "rbac", str(study)))
    assert needed < every
    assert ("create", "volumesnapshots") in every - needed
    assert ("create", "virtualmachines") in needed
    objects = printed(capsys, "rbac", str(study))
    assert objects[0]["metadata"]["name"] == "bench"


def test_an_image_of_another_namespace_is_granted_there_alone(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    study.write_text(STUDY.replace("docker://fedora:41", "datasource:images/fedora"))
    objects = printed(capsys, "rbac", str(study))
    (role,) = [one for one in objects if one["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "images"
    assert granted([role]) == {("get", "datasources"), ("create", "datavolumes/source")}


def test_all_of_it_for_a_study(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    objects = printed(capsys, "manifests", str(study), "--image", "r.example.com/f:1", "--runs-class", "nfs")
    assert sorts(objects)[-4:] == ["ConfigMap", "PersistentVolumeClaim", "Deployment", "Job"]
    assert printed(capsys, "manifests", str(study), "--image", "i", "--without-rbac") == [
        *printed(capsys, "manifests", str(study), "--image", "i")[-4:]
    ]
    assert objects[-4]["data"]["study.yaml"] == STUDY
    assert objects[-3]["spec"]["storageClassName"] == "nfs"
    job = objects[-1]["spec"]["template"]["spec"]
    assert job["serviceAccountName"] == "fairlane"
    assert {one["metadata"].get("namespace", "bench") for one in objects} == {"bench"}


def test_a_preset_is_a_study_too(capsys: pytest.CaptureFixture[str]) -> None:
    objects = printed(capsys, "manifests", "study-000-fio", "--image", "i", "--on", "role=infra", "--on", "x=")
    (config,) = [one for one in objects if one["kind"] == "ConfigMap"]
    assert config["data"]["study.yaml"] == preset_text("study-000-fio")
    assert objects[-1]["spec"]["template"]["spec"]["nodeSelector"] == {"role": "infra", "x": ""}


def test_what_contradicts_itself_is_refused(capsys: pytest.CaptureFixture[str], study: Path) -> None:
    assert "STUDY" in complaint(refused(capsys, 2, "rbac", str(study), "--namespace", "x"))
    assert "--group" in complaint(refused(capsys, 2, "rbac", "--user", "a", "--group", "b"))
    assert kinds(refused(capsys, 1, "rbac", "fake")) == ["platform-other"]
    assert "--image" in refused(capsys, 2, "manifests", str(study))
    assert "10Gi" in refused(capsys, 2, "manifests", str(study), "--image", "i", "--runs-size", "much")
    assert "LABEL=VALUE" in refused(capsys, 2, "manifests", str(study), "--image", "i", "--on", "infra")
    study.write_text(STUDY.replace("namespace: bench", "namespace: bench, context: prod"))
    assert kinds(refused(capsys, 1, "manifests", str(study), "--image", "i")) == ["context-in-cluster"]


def test_names_are_checked_before_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--namespace" in complaint(refused(capsys, 2, "rbac", "--namespace", "Bench\n---\nkind: Secret"))
