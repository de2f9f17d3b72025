"""What is to be put into a cluster, put before a real API server; and what the image runs, run here."""

import copy
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlane.cli.main import run
from fairlane.platforms.kubevirt import deployment, permissions
from fairlane.platforms.kubevirt.deployment import Plan
from fairlane.platforms.kubevirt.labels import MANAGED_BY
from fairlane.platforms.kubevirt.permissions import Deployed
from testkit.control_plane import ControlPlane
from testkit.plain_client import RefusedError
from tests.platforms.kubevirt import furnished

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
IMAGE = "registry.example.com/fairlane:0.1.0"
PLAN = Plan("example", furnished.STUDY, IMAGE, "bench")
FULL = Plan(
    "example-", furnished.STUDY, IMAGE, "bench", "5Gi", "nfs", openshift=True,
    pull_secret="registry",  # noqa: S106 - the name of one
    node_labels={"node-role.kubernetes.io/infra": ""},
)  # fmt: skip


# --- the printed objects


def test_each_rule_has_its_reason() -> None:
    granted = permissions.wanted(permissions.needs(None))
    text = deployment.text(permissions.roles(granted, Deployed()), granted)
    assert text.count("- apiGroups") == len(granted)
    for one in granted:
        pattern = (
            rf"# {re.escape(one.why)}\n- apiGroups: \['?{re.escape(one.group)}'?\]\n +resources: \[{one.resource}\]"
        )
        assert re.search(pattern, text), one


@pytest.mark.parametrize("plan", [PLAN, FULL], ids=["plain", "full"])
def test_what_is_printed_is_what_was_meant(plan: Plan) -> None:
    objects = [*deployment.account(Deployed("bench")), *deployment.job(plan)]
    assert list(yaml.safe_load_all(deployment.text(objects))) == objects


def test_a_hostile_study_stays_a_string() -> None:
    text = "name: x # \u202e\x1b[31m\n---\nkind: ClusterRoleBinding\n  \n'\"\t\n"
    printed = deployment.text(deployment.job(Plan("x", text, IMAGE, "bench")))
    assert printed.isascii()
    assert "\x1b" not in printed
    first, *others = yaml.safe_load_all(printed)
    assert first["data"]["study.yaml"] == text
    assert [one["kind"] for one in others] == ["PersistentVolumeClaim", "Deployment", "Job"]


def test_what_removes_a_run_does_not_remove_the_job() -> None:
    for one in [*deployment.account(Deployed()), *deployment.job(PLAN)]:
        assert MANAGED_BY not in str(one)


@pytest.mark.slow
def test_the_jobs_command_begins_a_run_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pod of the Job has the same arguments: the first begins, the next goes on."""
    (tmp_path / "study").mkdir()
    assert run(["init", "fake", "-o", str(tmp_path / "study/study.yaml")]) == 0
    job = deployment.job(PLAN)[-1]
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    here = [str(tmp_path / word[1:]) if word.startswith("/") else word for word in arguments]
    assert run(here) == 0
    begun = (tmp_path / "runs/example/journal.jsonl").read_bytes()
    assert begun
    capsys.readouterr()
    assert run(here) == 0
    assert (tmp_path / "runs/example/journal.jsonl").read_bytes() == begun
    assert "verdict" in capsys.readouterr().out


# --- a real API server


@pytest.fixture
def dry(control_plane: ControlPlane) -> Callable[[dict[str, Any], str], Any]:
    """Creates an object in a namespace without storing it, with strict validation and every admission plugin."""

    def create(thing: dict[str, Any], namespace: str) -> Any:
        thing = copy.deepcopy(thing)
        if "namespace" in thing["metadata"]:
            thing["metadata"]["namespace"] = namespace
        path = control_plane.path(thing).rpartition("/")[0]
        return control_plane.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", thing)

    return create


@pytest.mark.cluster
@pytest.mark.parametrize("plan", [PLAN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("use_existing", [False, True])
def test_every_object_is_taken(dry: Callable[..., Any], namespace: str, plan: Plan, use_existing: bool) -> None:
    deployed = Deployed("elsewhere", use_existing=use_existing, source="images")
    study = furnished.study(storm=True, use_existing=str(use_existing).lower())
    granted = permissions.wanted(permissions.needs(study))
    objects = [*deployment.account(deployed), *permissions.roles(granted, deployed), *deployment.job(plan)]
    kinds = {one["kind"] for one in objects}
    assert {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Job"} <= kinds
    assert ("Namespace" in kinds) is not use_existing
    for one in objects:
        stored = dry(one, namespace)
        assert stored["kind"] == one["kind"]


def restricted(plane: ControlPlane, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": namespace, "labels": labels}
    plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": meta}])
    path = f"/api/v1/namespaces/{namespace}/pods"
    pod = {"metadata": {"name": "one"}, "spec": {"hostNetwork": True, "containers": [{"name": "a", "image": "b"}]}}
    # admission learns of the label from a watch
    plane.wait(lambda: plane.refuses(path, pod, "PodSecurity"), "the namespace to be restricted")


@pytest.mark.cluster
@pytest.mark.parametrize("plan", [PLAN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_the_pods_are_restricted_ones(
    dry: Callable[..., Any], control_plane: ControlPlane, namespace: str, plan: Plan, kind: str
) -> None:
    restricted(control_plane, namespace)
    (owner,) = [one for one in deployment.job(plan) if one["kind"] == kind]
    spec = owner["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": namespace}, "spec": spec}
    dry(pod, namespace)
    # the same pod with any one of these taken away is refused: the check is in force
    for where, key in (
        (("securityContext",), "seccompProfile"),
        (("securityContext",), "runAsNonRoot"),
        (("containers", 0, "securityContext"), "allowPrivilegeEscalation"),
        (("containers", 0, "securityContext"), "capabilities"),
    ):
        worse = copy.deepcopy(pod)
        part: Any = worse["spec"]
        for step in where:
            part = part[step]
        del part[key]
        with pytest.raises(RefusedError, match="PodSecurity"):
            dry(worse, namespace)


def test_on_openshift_no_user_or_group_is_named() -> None:
    for one in deployment.job(FULL):
        assert not re.search(r"runAsUser|runAsGroup|fsGroup", str(one))
        if one["kind"] in ("Job", "Deployment"):
            pod = one["spec"]["template"]["spec"]
            assert pod["imagePullSecrets"] == [{"name": "registry"}]
            assert pod["nodeSelector"] == {"node-role.kubernetes.io/infra": ""}


# --- the image


def test_the_image_is_made_of_files_that_are_there() -> None:
    lines = (DEPLOY / "Containerfile").read_text()
    for source in re.findall(r"^COPY (?:--\S+ )*(\S+) ", lines, re.MULTILINE):
        if not source.startswith("dist/"):  # what is built before
            assert (ROOT / source).exists()
            assert os.access(ROOT / source, os.X_OK)
    assert f"--uid {deployment.USER} " in lines
    assert f"USER {deployment.USER}\n" in lines


def test_the_image_installs_what_the_lock_file_names_and_nothing_else(tmp_path: Path) -> None:
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install [^&\n]*", lines)
    assert len(installs) == 2
    assert re.search("--require-hashes --only-binary :all: --requirement /tmp/dist/requirements.txt", installs[0])
    assert re.search("--no-deps --no-index /tmp/dist/fairlane", installs[1])

    (export,) = re.findall(r"^# +uv (export .*) dist/requirements.txt$", lines, re.MULTILINE)
    file = tmp_path / "requirements.txt"
    cache = Path(os.environ.get("FAIRLANE_CACHE") or Path.home() / ".cache/fairlane")
    uv = shutil.which("uv") or cache / "uv/bin/uv"  # where `make setup` puts one
    subprocess.run([uv, *export.split(), file], cwd=ROOT, check=True, env={**os.environ, "UV_OFFLINE": "1"})
    asked = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE).strip())
    lock = {(p["name"], p["version"]): p for p in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    names = set()
    for one in asked:
        name, version = one.split()[0].split("==")
        names.add(name)
        locked = lock[name, version]
        files = [*locked.get("wheels", []), *([locked["sdist"]] if "sdist" in locked else [])]
        hashes = set(re.findall(r"--hash=(\S+)", one))
        assert hashes
        assert hashes == {f["hash"] for f in files}
    assert {"kubernetes", "pydantic", "scipy"} <= names
    assert not {"pytest", "ruff", "pyarrow", "fairlane"} & names


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH on which ``fairlane`` says how it was started."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("id", "getent"):
        (folder / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    (folder / "fairlane").write_text('#!/bin/sh\necho "$@"\necho "$LD_PRELOAD $NSS_WRAPPER_PASSWD"\n')
    (folder / "fairlane").chmod(0o755)
    shutil.copy(DEPLOY / "entrypoint", folder)  # nobody may be able to read this checkout
    return folder


def enter(programs: Path, home: Path, uid: int | None = None) -> list[str]:
    clean = {"PATH": str(programs), "TMPDIR": str(home), "HOME": str(home)}
    done = subprocess.run(
        ["/bin/sh", str(programs / "entrypoint"), "run", "a study"],
        env=clean, capture_output=True, text=True, check=True, user=uid,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_user_that_is_known_starts_the_program_as_it_is(programs: Path, tmp_path: Path) -> None:
    assert enter(programs, tmp_path) == ["run a study", " "]
    assert not (tmp_path / "passwd").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become a user that nobody is")
def test_a_user_that_nobody_is_gets_an_entry_of_its_own(
    programs: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp()  # anywhere, by --basetemp
    for folder in (*tmp_path.parents, tmp_path):
        if folder.is_relative_to(base) or (folder.is_relative_to("/tmp") and folder != Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o755)
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    said = enter(programs, home, uid=1_000_680_000)
    # the loader of this machine has no libnss_wrapper, and says so to stderr; the program runs all the same
    assert said == ["run a study", f"libnss_wrapper.so {home}/passwd"]
    entry = (home / "passwd").read_text().split(":")
    assert entry[0] == "fairlane"
    assert entry[2] == "1000680000"
    assert entry[5] == str(home)
