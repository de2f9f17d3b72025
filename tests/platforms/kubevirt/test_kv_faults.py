"""What a user sees when the cluster fails: fairlane as a program, a real API server, a played KubeVirt.

Whatever happens, the run goes on, is resumed, or ends with one error that names the object and the cause; and nothing
is left in the cluster, or what is left is told and removed by the next command.
"""

import json
import re
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from fairlane.platforms.kubevirt.storm import Outcome, Storm
from fairlane.platforms.lab.wall import rootfs
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from testkit.plain_client import RefusedError
from testkit.play import Behaviour, Class, Play, Site
from testkit.play.kinds import QUOTA, VM, VMI
from testkit.play.lab import LabMachines
from testkit.stand import Program, Stand
from tests.platforms.kubevirt.furnished import NO_CONFIG_MAPS, quota_in_force
from tests.platforms.kubevirt.test_kv_end_to_end import STUDY, events, left, trials, wait
from tests.platforms.kubevirt.test_kv_storm import Cluster, observed, once
from tests.words import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

HASTY = STUDY.replace("boot_timeout: 5m", "boot_timeout: 60s")
"""A study for which "never" is soon, and the played cluster has long told what is the matter, busy as it may be."""
SITE = Site(classes=[Class("slow", "local.csi.test"), Class("fast", "local.csi.test")])
HOUR = 3600.0


@pytest.fixture
def program(plane: ControlPlane, tmp_path: Path) -> Iterator[Program]:
    """In a folder that has the study."""
    (tmp_path / "study.yaml").write_text(HASTY)
    program = Program(plane.kubeconfig(), tmp_path)
    yield program
    program.close()


def played(plane: ControlPlane, behaviour: Behaviour | None = None) -> Stand:
    """A cluster whose machines have no guests."""
    return Stand(Play(plane.kubeconfig(), behaviour=behaviour, site=SITE))


def carry_out(program: Program) -> tuple[int, str]:
    return program.run("run", "study.yaml", "--out", "run")


def error(said: str) -> tuple[str, str, str]:
    """Kind, message and hint of the one error, at the end of what a program said."""
    assert "Traceback" not in said, said
    assert said.count("Error: ") == 1, said
    message, _, hint = said.partition("Error: ")[2].strip().partition("\nHint: ")
    (kind,) = kinds(message) or [message]  # an interruption is its own kind
    return kind, message, hint


def of_both(fault: str) -> Behaviour:
    return Behaviour(fail_vm={"slow-0": fault, "fast-0": fault})


BOTH = ("slow", "fast")
NEVER = {
    "never bound": (
        Behaviour(never_bind=frozenset(BOTH)),
        "volume-unbound",
        r"\b(slow|fast)-0-disk0\b.*\b\1\b.*\bPending\b.*\bExternalProvisioning\b",
    ),
    "not provisioned": (
        Behaviour(fail_provision=dict.fromkeys(BOTH, "the pool is full")),
        "volume-unbound",
        r"\b(slow|fast)-0-disk0\b.*\b\1\b.*\bPending\b.*\bProvisioningFailed: .* desc = the pool is full",
    ),
    "no room": (of_both("ErrorUnschedulable"), "nodes-full", r"\bErrorUnschedulable\b.*0/2 nodes are available"),
    "no image": (of_both("ErrImagePull"), "image-pull", r"\bErrImagePull\b.*failed to pull image: manifest unknown"),
    "no boot": (of_both("CrashLoopBackOff"), "boot-failed", r"\bCrashLoopBackOff\b"),
}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault == "never bound" else pytest.mark.slow) for fault in NEVER]
)
def test_a_machine_that_never_comes_up_ends_the_run_with_what_the_cluster_says_of_it(
    plane: ControlPlane, program: Program, fault: str
) -> None:
    behaviour, kind, cause = NEVER[fault]
    with played(plane, behaviour):
        code, said = carry_out(program)
        assert not left(plane)
    told, message, hint = error(said)
    assert (code, told, bool(hint)) == (3, kind, True), said
    assert re.search(r"\b(slow|fast)-0\b.*\b60 s\b", message)
    assert re.search(cause, message), message
    assert re.search(r"\b2 of 2\b.*\bslow-0\b.*\bfast-0\b", message)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["count/virtualmachines.kubevirt.io: 1", "requests.storage: 20Mi"])
def test_a_quota_that_is_exceeded_is_named_with_what_it_leaves_no_room_for(
    plane: ControlPlane, program: Program, limit: str
) -> None:
    """The first is refused to Fairlane itself, the second to CDI: the real admission of the API server does both."""
    name, hard = limit.split(": ")
    allowed = {"hard": {name: hard, **NO_CONFIG_MAPS}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": allowed}
    with FaultProxy(plane.url, plane.authority.certificate) as proxy, played(plane) as stand:
        held = Program(proxy.kubeconfig(plane.kubeconfig()), program.folder)
        proxy.answer("POST .*virtualmachines", 429, times=1e9)  # until the new namespace has its quota, as a template's
        process = held.begin("run", "study.yaml", "--out", "run")
        wait(lambda: left(plane), process, "its namespace was there")
        plane.call("POST", f"/api/v1/namespaces/{left(plane)[0]}/resourcequotas", quota)
        wait(lambda: any((q.get("status") or {}).get("used") for q in stand.play.world.all(QUOTA)), process, "a count")
        quota_in_force(plane, left(plane)[0])
        proxy.calm()
        said, _ = process.communicate(timeout=300)
        assert not left(plane)
    kind, message, hint = error(said)
    assert (process.returncode, kind, bool(hint)) == (3, "quota-full", True), said
    assert f"team, requested: {name}=" in message
    assert re.search(r"(slow|fast)-0", message)


@pytest.mark.slow
def test_a_token_that_has_ended_is_told_before_anything_is_made(plane: ControlPlane, program: Program) -> None:
    ended = Program(plane.service_account_kubeconfig("default", "late", -70), program.folder)
    with played(plane):
        code, said = carry_out(ended)
        assert not left(plane)
    assert code == 1
    kind, message, hint = error(said)
    assert (kind, bool(hint)) == ("cluster-unfit", True)
    assert re.search(r"\bSelfSubjectReview\b.*\bUnauthorized\b", message)
    assert not (program.folder / "run").exists()


@pytest.mark.slow
def test_what_is_interrupted_or_loses_its_namespace_while_machines_are_made_leaves_nothing(
    plane: ControlPlane, program: Program
) -> None:
    (program.folder / "study.yaml").write_text(STUDY)
    with played(plane) as stand:
        process = program.begin("run", "study.yaml", "--out", "run")
        wait(lambda: len(stand.play.world.all(VM)) == 2, process, "machines were made")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 130, said
        kind, _, hint = error(said)
        assert (kind, "fairlane run --resume run" in hint) == ("interrupted", True)
        assert not left(plane)

        process = program.begin("run", "--resume", "run")
        wait(lambda: len(stand.play.world.all(VM)) == 2, process, "machines were made")
        (space,) = {vm["metadata"]["namespace"] for vm in stand.play.world.all(VM)}
        plane.call("DELETE", f"/api/v1/namespaces/{space}")
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 3, said
        kind, message, _ = error(said)
        assert (kind, space in message) == ("namespace-deleted", True)
        assert not left(plane)


@pytest.mark.slow
def test_what_an_absent_server_keeps_is_told_and_removed_later(plane: ControlPlane, program: Program) -> None:
    """It wants its clients to stay away for longer than any patience."""
    (program.folder / "study.yaml").write_text(STUDY)
    with FaultProxy(plane.url, plane.authority.certificate) as proxy, played(plane) as stand:
        away = Program(proxy.kubeconfig(plane.kubeconfig()), program.folder)
        process = away.begin("run", "study.yaml", "--out", "run")
        wait(lambda: len(stand.play.world.all(VM)) == 2, process, "machines were made")
        (space,) = {vm["metadata"]["namespace"] for vm in stand.play.world.all(VM)}
        proxy.answer(".*", 503, after="9999", times=1e9)
        proxy.cut("reset")
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 3, said
        assert "ServiceUnavailable" in error(said)[1]
        assert re.search(rf"\b{space}\b.*`fairlane run --resume`.*`fairlane lab clean --platform kubevirt", said)
        assert space in left(plane)
        proxy.calm()
        code, said = away.run("lab", "clean", "--platform", "kubevirt")
        assert code == 0, said
        assert re.search(rf"(?m)\b{space.removeprefix('fairlane-')} \(two-classes\).*\b{space}$", said)
        assert not left(plane)


@pytest.mark.slow
def test_clocks_of_nodes_that_are_wrong_by_an_hour_move_no_latency_of_a_storm(
    plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig()))
    skew = {"worker-0": HOUR, "worker-1": -HOUR}
    running: dict[str, float] = {}

    async def work(storm: Storm, cluster: Cluster) -> Outcome:
        found = await once(storm, cluster)
        assert cluster.play
        log = cluster.play.log
        running.update({r.name: r.sent for r in log if (r.kind, r.phase) == (VMI.name, "Running")})
        return found

    found: Outcome = Cluster(plane, tmp_path).storm(work, behaviour=Behaviour(skew=skew))
    assert {vm["node"] for vm in found.vms} == set(skew)
    for vm in found.vms:
        seen, truth = found.storm["began"] + vm["phases"]["running"], running[vm["name"]]
        assert truth <= seen <= found.storm["began"] + vm["phases"]["answers"]
        told = datetime.fromisoformat(vm["api"]["phases"]["Running"]).timestamp() - skew[vm["node"]]
        assert int(truth) <= told <= seen, "the stamp itself is wrong by that much, and kept"
    metrics = observed(found).metrics
    assert 0 < metrics["vm_running_mean"] < metrics["vm_ready_mean"] <= metrics["job_time"] < HOUR * 1e9


@pytest.mark.lab
@pytest.mark.slow
def test_a_run_comes_to_its_end_through_slow_controllers_wrong_clocks_lost_tokens_and_a_lost_namespace(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """One run, and everything that may happen to it: interrupted and resumed until it has all of its trials."""
    root = rootfs.cached_root()
    if root is None:
        pytest.skip("the lab's root disk is not built: run fairlane lab build --wall (once, two minutes)")
    study = STUDY.replace("looks: [4]", "looks: [9]").replace("runtime: 2s", "runtime: 1s")
    (tmp_path / "study.yaml").write_text(study)
    behaviour = Behaviour(skew={"worker-0": HOUR})
    play = Play(plane.kubeconfig(), behaviour=behaviour, site=SITE, machines=LabMachines(root))
    with FaultProxy(plane.url, plane.authority.certificate) as proxy, Stand(play) as stand:
        course = _Course(plane, proxy, stand, tmp_path)
        try:
            course.interrupted_in_a_trial()
            course.goes_on_with_a_token_that_was_renewed_and_loses_its_namespace()
            course.ends_with_a_token_that_was_not_renewed()
            course.is_finished_with_a_fresh_token()
        finally:
            course.program.close()


class _Course:
    """A run in the hands of a service account with a token file, and what happens to it."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy, stand: Stand, folder: Path) -> None:
        self.plane, self.proxy, self.stand, self.folder = plane, proxy, stand, folder
        group = "rbac.authorization.k8s.io"
        subject = {"kind": "ServiceAccount", "name": "runner", "namespace": "default"}
        role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "runner"}}
        plane.apply([{**binding, "roleRef": role, "subjects": [subject]}])
        self.program = Program(proxy.kubeconfig(self._token()), folder)

    def _token(self) -> Path:
        """A new token, in the file that the kubeconfig names."""
        return self.plane.service_account_kubeconfig("default", "runner", file=True)

    def _end_token(self) -> None:
        """No request is carried out with it any more; watches that stand are not told, so they are cut."""
        token = (self.plane.folder / "default-runner.token").read_text()
        self.plane.call("DELETE", "/api/v1/namespaces/default/serviceaccounts/runner")
        self.plane.wait(lambda: not self._accepts(token), "the token's end")

    def _accepts(self, token: str) -> bool:
        try:
            self.plane.call("GET", "/api/v1/namespaces", token=token)
        except RefusedError as refused:
            return refused.status != 401
        return True

    def _space(self) -> str:
        return left(self.plane)[0]

    def interrupted_in_a_trial(self) -> None:
        """After the controllers have been away for a minute, and with the node's clock an hour ahead."""
        process = self.program.begin("run", "study.yaml", "--out", "run")
        wait(lambda: left(self.plane), process, "its namespace was there")
        self.stand.play.pause()
        time.sleep(60)
        assert process.poll() is None
        assert trials(self.folder) == 0
        self.stand.play.resume()
        wait(lambda: trials(self.folder) >= 1, process, "the first trial")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 130, said
        kind, _, hint = error(said)
        assert (kind, "fairlane run --resume run" in hint) == ("interrupted", True)
        assert not left(self.plane)
        told = json.loads((self.folder / "run" / "description.json").read_text())["platform"]["boot_seconds"]
        assert all(60 <= seconds < HOUR for seconds in told.values()), "seconds of our own clock"

    def goes_on_with_a_token_that_was_renewed_and_loses_its_namespace(self) -> None:
        done = trials(self.folder)
        process = self.program.begin("run", "--resume", "run")
        wait(lambda: trials(self.folder) > done, process, "a trial")
        self._end_token()
        self._token()
        self.proxy.cut("reset")
        done = trials(self.folder)
        wait(lambda: trials(self.folder) > done + 1, process, "trials with the new token")
        assert not events(self.folder, "block-failed")
        space = self._space()
        self.plane.call("DELETE", f"/api/v1/namespaces/{space}")
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 3, said
        kind, message, hint = error(said)
        assert (kind, space in message) == ("namespace-deleted", True)
        assert "fairlane run --resume" in hint
        assert len(events(self.folder, "block-failed")) == 1
        assert not left(self.plane)

    def ends_with_a_token_that_was_not_renewed(self) -> None:
        done = trials(self.folder)
        process = self.program.begin("run", "--resume", "run")
        wait(lambda: trials(self.folder) > done, process, "a trial")
        self._end_token()
        self.proxy.cut("reset")
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 3, said
        kind, message, hint = error(said)
        assert (kind, bool(hint)) == ("blocks-failed", True)
        assert re.search(r"\b3\b.*: Unauthorized\b", message)
        assert self._space() in said

    def is_finished_with_a_fresh_token(self) -> None:
        self._token()
        code, said = self.program.run("run", "--resume", "run")
        assert code == 0, said
        assert re.search(r"\bfairlane-[0-9a-f]{10}\b", said)
        assert trials(self.folder) == 18
        assert not left(self.plane)
