"""The whole chain: fairlane as a program, a real API server, a played KubeVirt, real machines of the lab behind it.

Machines are emulated where KVM boots none, and every report of these runs must say so.
"""

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import Exit
from fairlane.platforms.kubevirt import permissions
from fairlane.platforms.kubevirt.permissions import Deployed
from fairlane.platforms.lab.wall import rootfs
from fairlane.study.load import parse_study
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from testkit.play.controller import Play
from testkit.play.kinds import VM
from testkit.play.lab import IOPS, LabMachines
from testkit.play.site import Class, Site
from testkit.process import judged
from testkit.stand import Program, Stand, end
from tests.platforms.kubevirt.furnished import in_force

pytestmark = [pytest.mark.cluster, pytest.mark.lab, pytest.mark.timeout(1500)]

SLOW = 25
"""IOPS that a volume of class slow does at most."""
STUDY = """
name: two-classes
question: Which storage class should machines use?
platform:
  kind: kubevirt
  image: docker://registry.invalid/lab:1
  install: false
  cpus: 1
  memory: 768MiB
  disk_size: 32MiB
  nodes: 1
  boot_timeout: 5m
  settle: 100ms
  node_probes: "off"
lanes:
  slow: { transport: storage_class, storage_class: slow, protocol: local }
  fast: { transport: storage_class, storage_class: fast, protocol: local }
baseline: slow
conditions: { copies: 1, write_ack: after one copy, flush: honoured, link_speed: none }
workloads:
  disk: { kind: fio, rw: [randread], bs: [4k], iodepth: [4], runtime: 2s, ramp: 500ms, prefill: true }
design: { looks: [4] }
"""
STORM = """
name: two-ways
platform:
  kind: kubevirt
  image: docker://registry.invalid/lab:1
  install: false
  cpus: 1
  memory: 512MiB
  root_size: 4GiB
  nodes: 1
  boot_timeout: 5m
lanes:
  snap: { transport: storage_class, storage_class: fast, protocol: local, clone: snapshot }
  copy: { transport: storage_class, storage_class: fast, protocol: local, clone: copy }
baseline: copy
workloads:
  storm: { kind: clone, counts: [1], data: 4m }
design: { looks: [2], vary: [provisioning] }
"""


@pytest.fixture(scope="module")
def stand(plane: ControlPlane) -> Iterator[Stand]:
    root = rootfs.cached_root()
    if root is None:
        pytest.skip("the lab's root disk is not built: run fairlane lab build --wall (once, two minutes)")
    local = "local.csi.test"
    classes = [Class("slow", local, parameters={IOPS: str(SLOW)}), Class("fast", local)]
    with Stand(Play(plane.kubeconfig(), site=Site(classes=classes), machines=LabMachines(root))) as stand:
        yield stand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def fairlane(folder: Path) -> Iterator[Callable[[Path], Program]]:
    """The program for a kubeconfig; no process outlives a test that failed."""
    with ExitStack() as held:
        yield lambda kubeconfig: held.enter_context(Program(kubeconfig, folder))


def trials(folder: Path) -> int:
    """Of the run so far, without those of blocks that were begun anew."""
    return len(judged(folder / "run"))


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in (folder / "run" / "journal.jsonl").read_text().splitlines()]
    return [event for event in told if event["type"] == kind]


def primary(folder: Path) -> dict[str, Any]:
    """The one primary verdict."""
    (found,) = [v for v in json.loads((folder / "run" / "verdicts.json").read_text()) if v["primary"]]
    assert isinstance(found, dict)
    return found


def left(plane: ControlPlane) -> list[str]:
    """What runs left in the cluster: namespaces, and volumes of claims in them."""
    spaces = plane.call("GET", "/api/v1/namespaces?labelSelector=app.kubernetes.io/managed-by%3Dfairlane")["items"]
    volumes = plane.call("GET", "/api/v1/persistentvolumes")["items"]
    claimed = [v for v in volumes if v["spec"].get("claimRef", {}).get("namespace", "").startswith("fairlane-")]
    return [one["metadata"]["name"] for one in [*spaces, *claimed]]


def wait(condition: Any, process: Any, what: str) -> None:
    """Until ``condition()``; the program must not end before."""
    while not condition():
        assert process.poll() is None, f"it ended before {what}:\n{process.communicate()[0]}"
        time.sleep(0.1)


def _allowed(plane: ControlPlane) -> Any:
    """Gives the user fairlane what `fairlane` lists for this study, and nothing else; returns that list."""
    held = permissions.wanted(permissions.needs(parse_study(STUDY, "study.yaml")))
    in_force(plane, permissions.roles(held, Deployed(user="fairlane")))
    return held


def _is_throttled(iops: float, seconds: float) -> None:
    """The throttle is what was measured. An emulated guest on a busy machine may not quite get there; after a pause
    QEMU lets through what a tenth of a second holds at once (docs/throttle.txt), and one I/O more ends in time."""
    assert 0.5 * SLOW < iops < SLOW + (0.1 * SLOW + 1) / seconds


def _is_right(folder: Path) -> None:
    """The verdict, and what the run says of its volumes and machines."""
    verdict = primary(folder)
    assert verdict["lane"] == "fast"
    assert verdict["verdict"] == "faster"
    _is_throttled(verdict["baseline_value"], 2)
    assert verdict["lane_value"] > 3 * SLOW
    assert "emulated" in (folder / "run" / "report.md").read_text()
    told = json.loads((folder / "run" / "description.json").read_text())
    slow = told["lanes"]["slow"]
    assert slow["storageClass.provisioner"] == "local.csi.test"
    assert slow[f"storageClass.parameters.{IOPS}"] == str(SLOW)
    assert slow["prefill.bytes_written"] == 32 * 2**20
    assert told["lanes"]["fast"]["machines"]["fast-0"] == slow["machines"]["slow-0"], "lanes take turns on one node"


@pytest.mark.slow
def test_a_known_difference_gets_the_right_verdict_with_the_listed_permissions_alone(
    plane: ControlPlane, stand: Stand, folder: Path, fairlane: Callable[[Path], Program]
) -> None:
    held, before = _allowed(plane), plane.requests("fairlane")
    code, said = fairlane(plane.kubeconfig("fairlane")).run("run", "study.yaml", "--out", "run")
    assert code == 0, said
    _is_right(folder)
    _as_listed(plane.requests("fairlane") - before, held)
    assert not left(plane)


@pytest.mark.slow
def test_versus_compares_two_classes_to_the_verdict_and_nothing_stays(
    plane: ControlPlane, stand: Stand, folder: Path, fairlane: Callable[[Path], Program]
) -> None:
    """Without a study file, with the permissions that a run must have and no further ones: the node has no probe.
    Ctrl-C in between removes everything, and --resume makes it anew."""
    _allowed(plane)
    program = fairlane(plane.kubeconfig("fairlane"))
    begun = program.begin(
        "versus", "old=sc:slow", "new=sc:fast", "--size", "32m", "--rw", "randread", "--iodepth", "4",
        "--blocks", "6", "--runtime", "1s", "--image", "docker://registry.invalid/lab:1", "--out", "run",
    )  # fmt: skip
    wait(lambda: trials(folder) >= 3, begun, "three trials were done")
    end(begun, signal.SIGINT)
    before, _ = begun.communicate(timeout=300)
    assert begun.returncode == Exit.INTERRUPTED, before
    assert "fairlane versus --resume run" in before
    assert not left(plane)
    code, said = program.run("versus", "--resume", "run")
    assert code == 0, said
    *_, sentence, overall = said.strip().splitlines()
    assert overall == "Overall: new is better.", said
    ratio = re.match(r"new is ([\d.,]+)x as fast as old \(4k randread qd4: ", sentence)
    assert ratio, said
    assert float(ratio[1].replace(",", "")) > 3
    verdict = primary(folder)
    assert (verdict["lane"], verdict["verdict"], verdict["blocks"]) == ("new", "faster", 6)
    _is_throttled(verdict["baseline_value"], 1)
    lanes = json.loads((folder / "run" / "description.json").read_text())["lanes"]
    assert lanes["old"][f"storageClass.parameters.{IOPS}"] == str(SLOW)
    assert lanes["new"]["prefill.bytes_written"] == 32 * 2**20
    assert lanes["old"]["machines"]["old-0"] == lanes["new"]["machines"]["new-0"], "on one node"
    assert not left(plane)


@pytest.mark.slow
def test_storms_alone_are_carried_out_and_say_what_their_machines_were(
    plane: ControlPlane, stand: Stand, folder: Path, fairlane: Callable[[Path], Program]
) -> None:
    (folder / "study.yaml").write_text(STORM)
    code, said = fairlane(plane.kubeconfig()).run("run", "study.yaml", "--out", "run")
    assert code == 0, said
    assert trials(folder) == 4
    assert not events(folder, "block-failed")
    assert primary(folder)["metric"] == "job_time"
    assert "emulated" in (folder / "run" / "report.md").read_text()
    told = json.loads((folder / "run" / "fingerprint.json").read_text())
    assert told["nodes"] == "worker-0"
    assert told["kernel"]
    assert told["system"].startswith("Debian")
    assert not left(plane)


def _as_listed(requests: Iterable[tuple[str, str]], held: Any) -> None:
    """What was asked of the API server, by its own audit log, is in the list; but for what everybody may ask, and what
    the preflight would tell more of where it may."""
    listed = {(verb, one.resource) for one in held for verb in one.verbs}
    more = {("get", "clusterversions"), ("list", "csistoragecapacities")}
    more |= {("create", "selfsubjectaccessreviews"), ("create", "selfsubjectreviews")}
    asked = {(verb, resource) for verb, resource in requests if not resource.startswith("/")}
    assert asked <= listed | more, asked - listed - more


@pytest.mark.slow
def test_a_run_goes_on_or_is_resumed_whatever_happens_to_cluster_and_machines(
    plane: ControlPlane, stand: Stand, folder: Path, fairlane: Callable[[Path], Program]
) -> None:
    """Storms of errors, lost watches, a conflict, an eviction, a deletion, a restart of the API server."""
    (folder / "study.yaml").write_text(STUDY.replace("looks: [4]", "looks: [7]").replace("runtime: 2s", "runtime: 1s"))
    play = stand.play
    with FaultProxy(plane.url, plane.authority.certificate) as proxy:
        program = fairlane(proxy.kubeconfig(plane.kubeconfig()))
        proxy.answer(".*", 429, times=8, after="1", every=3)
        proxy.answer("POST .*virtualmachines", 500, times=2, carried_out=True)
        process = program.begin("run", "study.yaml", "--out", "run")

        def space() -> str:
            (name,) = left(plane)[:1]
            return name

        faults = [
            (1, lambda: proxy.cut("gone")),
            (2, lambda: proxy.answer("PATCH .*leases", 409, times=3)),
            (3, lambda: stand.call(play.evict(space(), "slow-0"))),
            (5, lambda: proxy.answer("GET .*", 500, times=8)),
            (7, lambda: stand.call(play.delete(VM, space(), "fast-0"))),
            (10, plane.restart_apiserver),
        ]
        for count, fault in faults:
            wait(lambda count=count: trials(folder) >= count, process, f"trial {count}")
            fault()
        said, _ = process.communicate(timeout=900)
        codes = [process.returncode]
        while codes[-1] == 3 and len(codes) < 4:
            code, more = program.run("run", "--resume", "run")
            codes.append(code)
            said += more
    assert codes[-1] == 0, said
    assert trials(folder) == 14, said
    failed = events(folder, "block-failed")
    told = " ".join(event["reason"] for event in failed)
    assert re.search(r"slow-0", told), told
    assert re.search(r"fast-0", told), told
    assert "Traceback" not in said
    verdict = primary(folder)
    assert verdict["verdict"] == "faster"
    assert not left(plane)


@pytest.mark.slow
def test_a_killed_run_is_found_removed_and_resumed_with_the_listed_permissions_and_the_right_verdict(
    plane: ControlPlane, stand: Stand, folder: Path, fairlane: Callable[[Path], Program]
) -> None:
    """Killed while its machines start, it leaves its namespace; whoever cleans up leaves alone one that is alive."""
    held, before = _allowed(plane), plane.requests("fairlane")
    program, cleaner = fairlane(plane.kubeconfig("fairlane")), fairlane(plane.kubeconfig())
    ended = threading.Event()
    stand.play.world.holds["start"] = lambda _: ended.is_set()  # so that the run does not end before it is looked at
    process = program.begin("run", "study.yaml", "--out", "run")
    wait(lambda: len(stand.play.world.all(VM)) == 2, process, "machines were made")
    (space, *_) = left(plane)
    code, said = cleaner.run("lab", "clean", "--platform", "kubevirt")
    assert code == 0, said
    assert space in said
    assert space in left(plane), "it goes on, and stays"
    end(process)
    process.communicate()
    ended.set()
    assert space in left(plane), "nobody was there to remove it"
    code, said = program.run("run", "--resume", "run")
    assert code == 0, said
    assert space in said
    assert trials(folder) == 8
    _is_right(folder)
    _as_listed(plane.requests("fairlane") - before, held)
    assert not left(plane)
