"""What is sent to a cluster: names, lane settings in KubeVirt's words, volumes that leave nothing to a profile."""

import base64
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.kubevirt.cloudinit import user_data
from fairlane.platforms.kubevirt.manifests import Manifests, quantity, slugs, unspecified_clones
from fairlane.platforms.kubevirt.placement import dealt, fits
from fairlane.study.load import load_study, parse_study
from tests.platforms.kubevirt import furnished
from tests.platforms.kubevirt.furnished import allocatable, node
from tests.words import kind

RUN = "0123456789"
NAME = st.from_regex(r"[a-z0-9][a-z0-9-]{0,30}", fullmatch=True)
DNS = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
KEYS = {"host_key": "-----BEGIN-----\n: # {{ }}\n-----END-----\n", "authorized_keys": "ssh-ed25519 AAAA me\n\n"}


def study(lane: str = "", platform: str = "", more: str = "") -> str:
    return f"""\
name: s
platform: {{kind: kubevirt, image: "docker://quay.io/fedora:41", {platform}}}
baseline: a
lanes:
  a: {{transport: storage_class, storage_class: one, {lane}}}
  b: {{transport: storage_class, storage_class: two, clone: copy}}
workloads:
  disk: {{kind: fio, runtime: 1s}}
{more}"""


STORM = "  storm: {kind: clone, counts: [1, 2]}\n"


def of(lane: str = "", platform: str = "", more: str = "") -> Manifests:
    return Manifests(parse_study(study(lane, platform, more), "s.yaml"), RUN, f"fl-{RUN}")


def vm(lane: str = "", platform: str = "") -> dict[str, Any]:
    made = of(lane, platform)
    return made.vm(made.machines("a")[0], "node-a")


def guest(body: Mapping[str, Any]) -> Any:
    return body["spec"]["template"]["spec"]


def disk(body: Mapping[str, Any], name: str = "disk0") -> dict[str, Any]:
    (found,) = [d for d in guest(body)["domain"]["devices"]["disks"] if d["name"] == name]
    return dict(found)


def volumes(body: Mapping[str, Any]) -> dict[str, Any]:
    return {t["metadata"]["name"]: t["spec"] for t in body["spec"].get("dataVolumeTemplates", [])}


# --- names


@given(st.lists(NAME, min_size=1, max_size=12, unique=True))
def test_every_lane_has_a_label_of_its_own(names: list[str]) -> None:
    found = slugs(names)
    assert len(set(found.values())) == len(names)
    for slug in found.values():
        assert DNS.fullmatch(slug)
        assert "--" not in slug


@given(st.lists(NAME, min_size=2, max_size=6, unique=True), st.integers(1, 3))
def test_no_two_objects_of_a_run_have_one_name(names: list[str], disks: int) -> None:
    text = yaml.safe_load(study(platform=f"fleet: 12, disks: {disks}", more=STORM))
    lane = {"transport": "storage_class", "storage_class": "x", "clone": "copy", "golden": "per-node"}
    made = Manifests(
        parse_study(json.dumps({**text, "baseline": names[0], "lanes": dict.fromkeys(names, lane)}), "s"), RUN, "n"
    )
    machines = [m for lane in names for m in (*made.machines(lane), *(made.clone(lane, "s1", n) for n in range(12)))]
    goldens = [g.name for lane in names for g in made.goldens(lane, 3)]
    claims = [d.name for m in machines for d in m.disks] + [m.root for m in machines if m.root] + goldens
    serials = [d.serial for m in machines for d in m.disks]
    for every in ([m.name for m in machines] + goldens, claims, serials):
        assert len(set(every)) == len(every)
    assert all(DNS.fullmatch(name) for name in (*claims, *(m.name for m in machines)))
    assert all(re.fullmatch(r"fl-[0-9a-f]{17}", serial) for serial in serials), "virtio-blk carries 20 characters"


def test_the_same_study_gives_the_same_objects_and_another_run_other_serials() -> None:
    one, two = of(platform="fleet: 2"), of(platform="fleet: 2")
    assert [one.vm(m, "x") for m in one.machines("a")] == [two.vm(m, "x") for m in two.machines("a")]
    other = Manifests(one.study, "9876543210", one.namespace)
    assert not {d.serial for m in one.machines("a") for d in m.disks} & {
        d.serial for m in other.machines("a") for d in m.disks
    }


def test_everything_carries_the_labels_that_it_is_found_by() -> None:
    made = of("clone: snapshot", more=STORM)
    golden = made.goldens("a", 1)[0]
    clone = made.clone("a", "s1", 1)
    for body in (
        made.namespace_object(), made.secret(KEYS), made.vm(made.machines("a")[0], ""), made.golden_volume(golden),
        made.base_vm(golden, ""), made.snapshot(golden, "x"), made.data_source(golden),
        made.clone_vm(clone, "", golden),
    ):  # fmt: skip
        own = [body["metadata"], *(t["metadata"] for t in body.get("spec", {}).get("dataVolumeTemplates", []))]
        own += [body["spec"]["template"]["metadata"]] if body["kind"] == "VirtualMachine" else []
        for metadata in own:
            assert metadata["labels"]["fairlane.io/run"] == RUN
            assert metadata["labels"]["app.kubernetes.io/managed-by"] == "fairlane"
    assert made.clone_vm(clone, "", golden)["metadata"]["labels"]["fairlane.io/machine"] == "1"


# --- how many, how large


def test_a_fleet_is_as_large_as_its_largest_cell() -> None:
    oltp = Manifests(load_study("study-000-oltp")[0], RUN, "n")
    assert (oltp.fleet, oltp.disk_size) == (9, 500 * 2**30)
    assert Manifests(load_study("study-000-clone")[0], RUN, "n").fleet == 0, "storms alone: nothing stands"
    assert of(platform="per_node: 2, nodes: 3").fleet == 6
    assert of(platform="fleet: 3", more=STORM).fleet == 3


@pytest.mark.parametrize(
    ("size", "text"), [(50 * 2**30, "50Gi"), (512 * 2**20, "512Mi"), (3 * 2**10, "3Ki"), (1000, "1000"), (0, "0")]
)
def test_amounts_are_exact(size: int, text: str) -> None:
    assert quantity(size) == text


# --- a lane in KubeVirt's words


@pytest.mark.parametrize(
    ("lane", "path", "value"),
    [
        ("io_threads_policy: shared", ("ioThreadsPolicy",), "shared"),
        ("io_threads_policy: supplementalPool, io_threads: 8", ("ioThreads", "supplementalPoolThreadCount"), 8),
        ("block_multi_queue: true", ("devices", "blockMultiQueue"), True),
        ("", ("devices", "blockMultiQueue"), False),
        ("dedicated_cpus: true", ("cpu", "dedicatedCpuPlacement"), True),
        ("dedicated_cpus: true, isolate_emulator_thread: true", ("cpu", "isolateEmulatorThread"), True),
        ("", ("cpu", "maxSockets"), 1),
        ("", ("memory", "guest"), "4Gi"),
    ],
)
def test_a_setting_of_the_machine(lane: str, path: tuple[str, ...], value: object) -> None:
    found: Any = guest(vm(lane))["domain"]
    for key in path:
        found = found[key]
    assert found == value


def test_what_a_lane_does_not_ask_is_not_sent() -> None:
    domain = guest(vm())["domain"]
    assert not {"ioThreadsPolicy", "ioThreads"} & domain.keys()
    assert not {"dedicatedCpuPlacement", "isolateEmulatorThread"} & domain["cpu"].keys()


@pytest.mark.parametrize(
    ("lane", "told"),
    [
        ("", {"cache": "none", "io": "native", "dedicatedIOThread": False, "disk": {"bus": "virtio"}}),
        ("bus: scsi", {"cache": "none", "io": "native", "dedicatedIOThread": False, "disk": {"bus": "scsi"}}),
        ("bus: sata, cache: writeback, io: threads",
         {"cache": "writeback", "io": "threads", "dedicatedIOThread": False, "disk": {"bus": "sata"}}),
        ("dedicated_io_thread: true", {"cache": "none", "io": "native", "dedicatedIOThread": True,
                                       "disk": {"bus": "virtio"}}),
        ("cache: writethrough, io: default",
         {"cache": "writethrough", "dedicatedIOThread": False, "disk": {"bus": "virtio"}}),
    ],
)  # fmt: skip
def test_a_disk_under_test(lane: str, told: dict[str, object]) -> None:
    found = disk(vm(lane))
    assert {key: value for key, value in found.items() if key not in ("name", "serial")} == told


def test_only_the_disks_under_test_are_what_the_lane_says() -> None:
    body = vm("bus: scsi", "disks: 3")
    assert [disk(body, f"disk{n}")["disk"]["bus"] for n in range(3)] == ["scsi"] * 3
    for other in ("root", "cloud-init"):
        assert disk(body, other)["disk"] == {"bus": "virtio"}
        assert not {"cache", "io", "serial"} & disk(body, other).keys()
    assert [v["name"] for v in guest(body)["volumes"]] == [d["name"] for d in guest(body)["domain"]["devices"]["disks"]]


def test_a_machine_stays_where_it_is_and_is_gone_at_once() -> None:
    body = guest(vm(platform='node_selector: {zone: "a"}'))
    assert body["evictionStrategy"] == "None"
    assert body["terminationGracePeriodSeconds"] == 0
    assert body["nodeSelector"] == {"zone": "a", "kubernetes.io/hostname": "node-a"}
    made = of()
    assert "nodeSelector" not in guest(made.vm(made.machines("a")[0], ""))
    named = replace(made, hosts={"node-a.example.com": "node-a"})
    told = guest(named.vm(named.machines("a")[0], "node-a.example.com"))
    assert told["nodeSelector"] == {"kubernetes.io/hostname": "node-a"}, "a node's name may be longer than its label"


def test_an_instance_type_says_what_it_says_alone() -> None:
    body = vm("dedicated_cpus: true", "instance_type: u1.medium, preference: fedora")
    assert body["spec"]["instancetype"] == {"kind": "VirtualMachineClusterInstancetype", "name": "u1.medium"}
    assert body["spec"]["preference"] == {"kind": "VirtualMachineClusterPreference", "name": "fedora"}
    assert "memory" not in guest(body)["domain"]
    assert guest(body)["domain"]["cpu"] == {"dedicatedCpuPlacement": True}, "KubeVirt's webhook drops a false word"
    assert "cpu" not in guest(vm("", "instance_type: u1.medium"))["domain"]


# --- volumes


@pytest.mark.parametrize(
    ("image", "source"),
    [
        ("https://example.com/a.qcow2", {"source": {"http": {"url": "https://example.com/a.qcow2"}}}),
        ("datasource:os/fedora", {"sourceRef": {"kind": "DataSource", "namespace": "os", "name": "fedora"}}),
    ],
)
def test_an_image_that_is_no_container_disk_becomes_a_volume(image: str, source: dict[str, object]) -> None:
    made = Manifests(
        parse_study(study(platform="root_class: fast").replace("docker://quay.io/fedora:41", image), "s.yaml"), RUN, "n"
    )
    (machine, *_) = made.machines("a")
    root = volumes(made.vm(machine, ""))[machine.root]
    assert {key: root[key] for key in source} == source
    assert root["storage"]["storageClassName"] == "fast"


def test_a_container_disk_is_the_root_as_it_is_and_a_volume_only_where_it_is_cloned() -> None:
    made = of("clone: copy", more=STORM)
    machine = made.machines("a")[0]
    assert machine.root == ""
    body = made.vm(machine, "")
    assert list(volumes(body)) == ["a-0-disk0"]
    assert guest(body)["volumes"][0] == {"name": "root", "containerDisk": {"image": "quay.io/fedora:41"}}
    golden = made.golden_volume(made.goldens("a", 1)[0])["spec"]
    assert golden["source"] == {"registry": {"url": "docker://quay.io/fedora:41", "pullMethod": "node"}}


@pytest.mark.parametrize("lane", ["", "volume_mode: Filesystem, access_mode: ReadWriteMany"])
def test_no_part_of_a_claim_is_left_to_the_storage_profile(lane: str) -> None:
    made = of(f"clone: snapshot, {lane}", more=STORM)
    golden = made.goldens("a", 1)[0]
    bodies = (made.vm(made.machines("a")[0], ""), made.clone_vm(made.clone("a", "s", 0), "", golden))
    found = [made.golden_volume(golden)["spec"], *(spec for body in bodies for spec in volumes(body).values())]
    assert len(found) == 4
    mode, access = ("Filesystem", "ReadWriteMany") if lane else ("Block", "ReadWriteOnce")
    for spec in found:
        assert spec["preallocation"] is False
        claim = spec["storage"]
        assert (claim["volumeMode"], claim["accessModes"], claim["storageClassName"]) == (mode, [access], "one")
        assert claim["resources"]["requests"]["storage"] in ("10Gi", "50Gi")


# --- clones


@pytest.mark.parametrize(
    ("clone", "source", "notes"),
    [
        ("snapshot", {"sourceRef": {"kind": "DataSource", "namespace": f"fl-{RUN}", "name": "a--golden-0"}}, None),
        ("copy", {"sourceRef": {"kind": "DataSource", "namespace": f"fl-{RUN}", "name": "a--golden-0"}},
         {"cdi.kubevirt.io/storage.usePopulator": "false"}),
        ("csi-clone", {}, None),
    ],
)  # fmt: skip
def test_a_clone_is_made_in_one_way_alone(clone: str, source: dict[str, object], notes: object) -> None:
    made = of(f"clone: {clone}", more=STORM)
    golden = made.goldens("a", 3)[0]
    machine = made.clone("a", "s1", 4)
    body = made.clone_vm(machine, "node-b", golden)
    (template, *_) = body["spec"]["dataVolumeTemplates"]
    assert template["metadata"].get("annotations") == notes
    assert {key: template["spec"][key] for key in template["spec"] if key.startswith("source")} == source
    handed = template["spec"]["storage"].get("dataSource")
    assert handed == ({"kind": "PersistentVolumeClaim", "name": "a--golden-0"} if clone == "csi-clone" else None)
    what = "snapshot" if clone == "snapshot" else "pvc"
    assert made.data_source(golden)["spec"]["source"] == {what: {"namespace": f"fl-{RUN}", "name": "a--golden-0"}}
    assert guest(body)["volumes"][0]["dataVolume"]["name"] == machine.root == "a--s1-4-root"
    assert list(volumes(body)) == ["a--s1-4-root", "a--s1-4-disk0"]


@pytest.mark.parametrize("clone", ["snapshot", "copy", "csi-clone"])
def test_a_clone_is_as_large_as_the_driver_made_the_golden_volume(clone: str) -> None:
    made = of(f"clone: {clone}, volume_mode: Filesystem", more=STORM)
    golden = replace(made.goldens("a", 1)[0], size="11Gi")
    machine = made.clone("a", "s1", 0)
    spec = volumes(made.clone_vm(machine, "", golden))[machine.root]
    assert "storage" not in spec, "which CDI would make larger still for a file system"
    assert spec["pvc"]["resources"]["requests"] == {"storage": "11Gi"}
    assert ("dataSource" in spec["pvc"]) is (clone == "csi-clone")
    assert ("sourceRef" in spec) is (clone != "csi-clone")


def test_golden_volumes_are_shared_or_one_on_each_node() -> None:
    made = of("clone: snapshot, golden: per-node", more=STORM)
    assert [g.name for g in made.goldens("a", 3)] == ["a--golden-0", "a--golden-1", "a--golden-2"]
    assert [g.name for g in made.goldens("b", 3)] == ["b--golden-0"]
    base = made.base_vm(made.goldens("a", 3)[1], "node-b")
    assert guest(base)["nodeSelector"] == {"kubernetes.io/hostname": "node-b"}
    assert guest(base)["volumes"][0] == {"name": "root", "dataVolume": {"name": "a--golden-1"}}
    assert "dataVolumeTemplates" not in base["spec"], "the volume outlives the machine"
    assert guest(base)["terminationGracePeriodSeconds"] > 0, "what it wrote is cloned"


def test_a_lane_must_say_how_it_is_cloned_where_anything_is() -> None:
    assert unspecified_clones(of().study) == []
    (problem,) = unspecified_clones(of(more=STORM).study)
    assert isinstance(problem, FairlaneError)
    assert kind("clone-unspecified", where="lanes.a")(problem)
    assert re.findall("snapshot|csi-clone|copy", problem.hint) == ["snapshot", "csi-clone", "copy"]
    assert unspecified_clones(load_study("study-000-clone")[0]) == []


# --- first boot


def read(text: str) -> dict[str, Any]:
    first, rest = text.split("\n", 1)
    assert first == "#cloud-config"
    found: dict[str, Any] = yaml.safe_load(rest)
    return found


@given(st.text(st.characters(max_codepoint=0xD7FF)))
def test_nothing_in_a_key_becomes_anything_else(key: str) -> None:
    told = read(user_data({"host_key": key, "authorized_keys": f"one\n{key}"}))
    assert told["ssh_keys"] == {"ed25519_private": key}
    assert told["ssh_authorized_keys"] == [line for line in f"one\n{key}".splitlines() if line.strip()]
    assert told.keys() == read(user_data(KEYS)).keys()


def test_only_root_may_log_in_with_the_run_s_key() -> None:
    told = read(user_data(KEYS))
    assert (told["disable_root"], told["ssh_pwauth"], told["users"]) == (False, False, [])
    assert told["ssh_authorized_keys"] == ["ssh-ed25519 AAAA me"]
    assert "runcmd" not in told


def test_one_secret_serves_all_machines_and_says_whether_anything_is_installed() -> None:
    def told(made: Manifests) -> dict[str, Any]:
        secret = made.secret(KEYS, ["fio"])
        assert secret["immutable"] is True
        return read(base64.b64decode(secret["data"]["userdata"]).decode())

    assert "fio" in told(of())["runcmd"][0][2]
    assert "runcmd" not in told(of(platform="install: false"))
    machine = guest(vm())["volumes"][-1]
    assert machine == {"name": "cloud-init", "cloudInitNoCloud": {"secretRef": {"name": "cloud-init"}}}


@pytest.mark.parametrize(
    ("there", "manager", "ran", "status"),
    [
        (("fio", "jq"), "dnf", [], 0),
        (("jq",), "dnf", ["dnf -y install fio"], 0),
        ((), "dnf", ["dnf -y install fio jq"], 0),
        ((), "apt-get", ["apt-get update", "apt-get -o DPkg::Lock::Timeout=300 -y install fio jq"], 0),
        ((), "zypper", ["zypper --non-interactive install fio jq"], 0),
        ((), "apk", ["apk add fio jq"], 0),
        ((), "", [], 1),
    ],
)
def test_what_is_missing_is_installed_by_whatever_the_image_has(
    there: tuple[str, ...], manager: str, ran: list[str], status: int, tmp_path: Path
) -> None:
    for name in filter(None, (*there, manager)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/ran\n')
        (tmp_path / name).chmod(0o755)
    (command,) = read(user_data(KEYS, ["fio", "jq"]))["runcmd"]
    assert command[:2] == ["sh", "-c"]
    done = subprocess.run(["/bin/sh", "-c", command[2]], env={**os.environ, "PATH": str(tmp_path)}, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == status, done.stderr
    said = (tmp_path / "ran").read_text().splitlines() if (tmp_path / "ran").exists() else []
    assert said == ran


def test_an_image_s_own_work_is_put_off_where_it_has_any(tmp_path: Path) -> None:
    (command,) = read(user_data(KEYS))["bootcmd"]
    for status, ran in ((None, ""), (0, "--no-block mask --now"), (1, "fstrim.timer")):
        if status is not None:
            (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/ran\nexit {status}\n')
            (tmp_path / "systemctl").chmod(0o755)
        done = subprocess.run(["/bin/sh", *command[1:]], env={"PATH": str(tmp_path)}, check=False)
        assert done.returncode == 0, "a boot does not fail of it"
        assert ran in ((tmp_path / "ran").read_text() if ran else "")


# --- placement


def test_machines_are_dealt_in_turn_or_packed() -> None:
    assert dealt(5, ["x", "y"]) == ("x", "y", "x", "y", "x")
    assert dealt(5, ["x", "y", "z"], {"x": 3, "y": 0, "z": 9}) == ("x", "x", "x", "z", "z")
    with pytest.raises(RunFailed, match=r"\b2\b.*\b4\b.*\b5\b", check=kind("nodes-full")):
        dealt(5, ["x", "y"], {"x": 3, "y": 1})
    with pytest.raises(RunFailed, match=r"\b1\b.*\b0\b.*\b1\b", check=kind("nodes-full")):
        dealt(1, ["x"], {})


@pytest.mark.parametrize(
    ("has", "times"),
    [
        ({"cpu": "800m"}, 2),
        ({"memory": "6Gi"}, 2),
        ({"pods": "5"}, 2),
        ({"cpu": "100m"}, 0),
    ],
)
def test_a_node_has_room_for_so_many_machines_of_every_lane(has: dict[str, str], times: int) -> None:
    """By hand, of KubeVirt's GetMemoryOverhead: 1 GiB, page tables, processes, 8 MiB per virtual CPU: 1.271 GiB."""
    empty = node("a", status=allocatable(**{"cpu": "800", "memory": "1Ti", "pods": "999", **has}))
    assert fits(furnished.study(), empty, []) == times


def test_pods_of_others_and_pinned_processors_leave_less_room() -> None:
    def pod(node: str, phase: str = "Running", **requests: str) -> dict[str, Any]:
        containers = [{"resources": {"requests": requests}}]
        return {"spec": {"nodeName": node, "containers": containers}, "status": {"phase": phase}}

    empty = node("a", status=allocatable(cpu="8", memory="16Gi", pods="110"))
    assert fits(furnished.study(), empty, []) == 6
    others = [pod("a", memory="8Gi"), pod("b", memory="8Gi"), pod("a", "Succeeded", memory="8Gi")]
    assert fits(furnished.study(), empty, others) == 3
    assert fits(furnished.study(), empty, [pod("a", memory="1Ti")]) == 0
    assert fits(furnished.study("storage_class: fast, -> storage_class: fast, dedicated_cpus: true,"), empty, []) == 3
    assert fits(furnished.study(storm=True), empty, []) == 4, "a machine of each fleet, and one of a storm"
