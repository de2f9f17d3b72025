"""Steps for machines that belong to somebody, as far as no machine is needed: what they never touch, what they are
called, and what a study cannot ask for. tests/platforms/lab/wall/test_living.py runs them."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.lanes import _living, _medium
from fairlane.lanes.base import Site, Step, Transport
from tests.words import kind

RUN = "0123456789"
ARRAY = "addresses: [192.0.2.1, 192.0.2.2]"
LANES = {
    "iscsi-plain": "external: {addresses: [192.0.2.1], iqn: iqn.x}",
    "iscsi-all": f"""sessions: 2, header_digest: true, data_digest: true, multipath: {{no_path_retry: 12}},
      external: {{{ARRAY}, iqn: iqn.x, host: iqn.me, lun: 3, serial: abc, user: me, secret: {{env: A_SECRET}}}}""",
    "iscsi-found": "multipath: {}, external: {addresses: [192.0.2.1], discovery: true, iqn: iqn.x}",
    "iscsi-own": "chap: true, sessions: 2",
    "iscsi-own-paths": "multipath: {}",
    "nvme_tcp-plain": "external: {addresses: [192.0.2.1], nqn: nqn.x}",
    "nvme_tcp-all": f"""queues: 4, multipath: {{fast_io_fail: 9s}},
      external: {{{ARRAY}, nqn: nqn.x, host: nqn.me, namespace: 7, secret: {{env: A_SECRET}}}}""",
    "nvme_tcp-found": "external: {addresses: [192.0.2.1], discovery: true, nqn: nqn.x}",
    "nvme_tcp-own": "multipath: {}",
    "nvme_rdma-plain": "external: {addresses: [192.0.2.1], nqn: nqn.x}",
    "nvme_rdma-all": f"multipath: {{}}, external: {{{ARRAY}, nqn: nqn.x, secret: {{env: A_SECRET}}}}",
    "nfs-plain": "external: {server: files.example.org, share: /export/a}",
    "nfs-all": """version: '3', nconnect: 4, wsize: 64k, sparse: true,
      external: {server: '2001:db8::1', share: /a/, folder: /sub, options: [noac, timeo=50]}""",
    "rbd-plain": "external: {pool: p, image: i}",
    "rbd-all": """destroy: 'rbd:p/n/i', external: {pool: p, namespace: n, image: i, user: me, conf: /etc/ceph/two.conf,
      keyring: /etc/ceph/me.keyring, options: [queue_depth=256, ms_mode=secure]}""",
    "cephfs-plain": "external: {}",
    "cephfs-all": """external: {monitors: [mon1, 192.0.2.3], path: /vol, filesystem: fast, user: me,
      secretfile: /etc/ceph/me.key, folder: /tests, options: [wsync]}""",
}  # fmt: skip
"""Name -> keys; the name begins with the transport."""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "hidden-word")


def lane(name: str, keys: str = "", run: str = RUN, **site: Any) -> Transport[Any]:
    transport = name.partition("-")[0]
    plugin = registry.load("lanes", transport)
    spec = plugin.Spec.model_validate(yaml.safe_load(f"{{transport: {transport}, {keys or LANES[name]}}}"))
    several = ("192.0.2.8", "192.0.2.9") if getattr(spec, "multipath", None) else ("192.0.2.8",)
    offer = {"medium": _medium.path(run, "new"), "address": "192.0.2.8", "interface": "", "index": 5, "host": 1,
             "secret": "hidden-word", "addresses": several, "size": 2**25, "living": True, "run": run}  # fmt: skip
    bound: Transport[Any] = plugin("new", spec, Site(**{**offer, **site}))
    return bound


def every(name: str) -> tuple[Step, ...]:
    return lane(name).steps()


MEDIA = (
    _medium.file_medium("/srv/my files", "new", 2**25, RUN),
    _medium.device_medium("serial:A", "serial:A", "new", RUN),
)
STEPS = [pytest.param(name, id=name) for name in LANES]


@pytest.mark.parametrize("name", STEPS)
def test_whole_texts(name: str, snapshot: SnapshotAssertion) -> None:
    made = lane(name)
    parts = []
    for step in made.steps():
        parts += [f"### {step.name} ({step.place})", step.apply, "--- describe", step.describe]
        parts += ["--- remove", step.remove, str(dict(step.expect))]
    assert "\n".join([*parts, f"### find\n{made.find()}", " > ".join(made.path())]) == snapshot


@pytest.mark.parametrize("name", STEPS)
def test_nothing_of_the_machine_is_overwritten_unloaded_or_ended_by_name(name: str) -> None:
    for step in every(name):
        text = step.apply + step.remove
        assert not re.findall(r"(?:>|tee|cp \S+) */etc/(?!multipath/conf\.d/fairlane-)\S*", text)
        assert not re.findall(r"\b(?:rmmod|modprobe -r|killall|pkill|kill) ", text)
        assert not re.findall(r"--logout=?all|disconnect-all|disconnect -n|unmap -a|umount -a|clearconfig", text)
        # only files and folders of the run are removed
        for removed in re.findall(r"\brm (?:-\w+ )*([^\n;|]*)", text):
            assert RUN in removed or re.match(r"\$[LfDT]\b|\"\$f\"|/run/(?:iscsid|multipathd)\.pid", removed), removed


@pytest.mark.parametrize("name", STEPS)
def test_secrets_are_in_no_undo_and_in_no_arguments(name: str) -> None:
    for step in every(name):
        assert "hidden-word" not in step.remove + step.describe + step.name + str(dict(step.expect))
        for line in step.apply.splitlines():
            assert "hidden-word" not in line or re.match(r"(node\.session\.auth\.password = |\[\{|hidden-word$)", line)


@pytest.mark.parametrize("name", STEPS)
def test_two_runs_share_no_name(name: str) -> None:
    """Of all that a run makes, no line is the same in another run, but those that only look or load."""
    first, second = lane(name, run="aaaaaaaaaa"), lane(name, run="bbbbbbbbbb")
    for one, other in zip(first.steps(), second.steps(), strict=True):
        assert one.remove != other.remove
        assert "aaaaaaaaaa" not in other.apply + other.remove + other.describe
        assert one.apply.replace("aaaaaaaaaa", "bbbbbbbbbb").count("bbbbbbbbbb") == other.apply.count("bbbbbbbbbb")


@pytest.mark.parametrize("name", [*STEPS, "media"])
def test_the_shell_is_sound(name: str) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed: run make setup")
    # what lib.sh defines; words that are meant to be split; a find or loop whose output is read line by line
    quiet = (
        "SC2005,SC2012,SC2013,SC2015,SC2016,SC2030,SC2031,SC2034,SC2045,SC2046,SC2086,SC2094,SC2116,SC2154,SC2165,"
        "SC2167,SC2174"
    )
    for step in MEDIA if name == "media" else every(name):
        for text in (step.apply, step.describe, step.remove):
            script = f"#!/bin/sh\nset -eu\n{text}\n"
            done = subprocess.run(
                ["shellcheck", "-S", "warning", "-s", "sh", "-e", quiet, "-"], input=script, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{step.name}:\n{done.stdout}"


@pytest.mark.parametrize("name", STEPS)
def test_undos_begin_by_looking(name: str) -> None:
    """An undo that finds nothing changes nothing, and ends well: here for what a program is not needed for."""
    for step in every(name):
        assert step.remove or not step.apply, step.name
        assert step.root


def test_what_lanes_of_the_lab_do_is_not_what_these_do() -> None:
    """The same plugin, the same keys: only where the machine is somebody's are names those of the run."""
    for name in ("iscsi-own", "nvme_tcp-own"):
        lab = lane(name, living=False, run="", medium="/dev/nullb0")
        assert lab.title == "new"
        assert not any(_living.state("") in step.apply for step in lab.steps())


def test_every_lun_has_a_wwid_of_its_own() -> None:
    """LIO makes it of the serial's hexadecimal digits."""
    serials = [lane("iscsi-own", index=i, run=r).serial for i in (1, 2) for r in (RUN, "abcdef0123")]  # type: ignore[attr-defined]
    assert len({re.sub("[^0-9a-f]", "", serial)[:25] for serial in serials}) == 4


def test_the_port_is_the_platforms_choice() -> None:
    assert (lane("iscsi-own").port, lane("iscsi-own", port=13260).port) == (3265, 13260)
    assert lane("nfs-plain", port=13260).port == 0
    assert "echo 13260 > addr_trsvcid" in lane("nvme_tcp-own", port=13260).steps()[0].apply


def test_only_the_lanes_own_initiator_is_let_in() -> None:
    for name, open_to_all in (("iscsi-own", "echo 1 > attrib/generate_node_acls"),
                              ("nvme_tcp-own", "echo 1 > attr_allow_any_host")):  # fmt: skip
        export, connect = lane(name).steps()[0], lane(name).steps()[-1]
        assert open_to_all not in export.apply
        (host,) = set(re.findall(rf"[in]qn\.2026-01\.dev\.fairlane:{RUN}-host1\b", export.apply))
        assert host in connect.apply
        assert connect.expect["initiator.name"] == host


REFUSED = [
    ("iscsi", f"multipath: {{}}, external: {{{ARRAY}, discovery: true, iqn: iqn.x}}", r"discovery\b.*\bone\b"),
    ("nvme_rdma", f"external: {{{ARRAY}, nqn: nqn.x}}", r"addresses\b.*\bmultipath\b"),
    ("nvme_rdma", "multipath: {}", r"multipath\b.*\bone path\b"),
    ("nfs", "threads: 4, external: {server: a, share: /b}", r"threads\b.*\bremove threads\b"),
    ("nfs", "external: {server: 'a;reboot', share: /b}", r"host name"),
    ("nfs", "external: {server: a, share: b}", r"absolute path"),
    ("nfs", "external: {server: a, share: /b/../c}", r"absolute path"),
    ("nfs", "external: {server: a, share: /b, options: ['rw,exec']}", r"one mount option"),
    ("rbd", "redundancy: 2, external: {pool: p, image: i}", r"redundancy\b.*\bremove redundancy\b"),
    ("rbd", "device: {bus: virtio-blk}, external: {pool: p, image: i}", r"device\b"),
    ("rbd", "external: {pool: p}", r"image"),
]  # fmt: skip


@pytest.mark.parametrize(("transport", "keys", "told"), REFUSED)
def test_refused_when_the_study_is_read(transport: str, keys: str, told: str) -> None:
    with pytest.raises(ValidationError, match=re.compile(told, re.DOTALL)):
        registry.load("lanes", transport).Spec.model_validate(yaml.safe_load(f"{{transport: {transport}, {keys}}}"))


@pytest.mark.parametrize(("name", "keys", "what"), [("nfs-x", "sync: true", "nfs-own-server"),
                                                    ("nvme_rdma-x", "queues: 1", "rdma-own-target")])  # fmt: skip
def test_what_is_not_set_up_on_a_machine_of_somebodys(name: str, keys: str, what: str) -> None:
    with pytest.raises(FairlaneError, check=kind(what, where="lanes.new.external")):
        lane(name, keys).steps()


def test_the_run_owns_a_file_that_it_makes_in_a_share() -> None:
    owned = {name: not lane(name).spec.existing for name in LANES if "external" in LANES[name]}
    assert {name for name, own in owned.items() if own} == {n for n in owned if n.startswith(("nfs", "cephfs"))}


def test_real_rdma_is_ranked_and_soft_rdma_is_not() -> None:
    assert not lane("nvme_rdma-plain").spec.stand_in
    assert "soft-RoCE" not in str(lane("nvme_rdma-plain").spec.known())


def test_which_transports_are_for_such_machines() -> None:
    able = {name for name, transport in registry.every("lanes") if transport.living}
    assert able >= {"iscsi", "nvme_tcp", "nvme_rdma", "nfs", "rbd", "cephfs"}
    assert not able & {"local", "fcoe", "lvm", "clone_rbd", "storage_class"}
