"""Transports that keep data below their volume (nfs, lvm), and those that need a link of a kind (fcoe, nvme_rdma):
what they say of themselves, what they refuse, and how large a medium they need."""

from dataclasses import replace
from typing import Any

import pytest

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.lanes.base import Ground, Site, Step, Transport
from fairlane.lanes.fcoe import wwpn
from fairlane.study.base import LaneSpec
from fairlane.study.load import parse_study
from tests.words import kind

MIB = 2**20
GROUND = Ground(keeps=True, fleet=1, mtu=9000)
MACS = ("52:54:00:a0:00:00", "52:54:00:b0:00:00")


def lane(text: str) -> LaneSpec:
    study = parse_study(
        f"name: s\nplatform: {{kind: lab, clock: wall}}\nbaseline: a\nlanes:\n  a: {text}\n  b: {{transport: iscsi}}\n"
        "workloads: {main: {kind: fio}}\n",
        "s.yaml",
    )
    return study.lanes["a"]


SITE = Site("/dev/nullb3", "10.77.0.1", "path0", 3, "", size=64 * MIB, hardware=MACS)


def of(spec: LaneSpec, name: str = "a", site: Site = SITE) -> Transport[Any]:
    found: Transport[Any] = registry.load("lanes", spec.transport)(name, spec, site)
    return found


def problems(transport: Transport[Any], ground: Ground = GROUND) -> list[FairlaneError]:
    return list(transport.problems(ground))


def steps(text: str) -> tuple[Step, ...]:
    return of(lane(text)).steps()


LANES = {
    "nfs": "{transport: nfs}",
    "nfs3": "{transport: nfs, version: '3', filesystem: ext4, sparse: true, sync: false}",
    "rdma": "{transport: nvme_rdma}",
    "fcoe": "{transport: fcoe}",
    "lvm": "{transport: lvm, over: {transport: iscsi}}",
    "striped": "{transport: lvm, over: {transport: nvme_tcp}, stripes: 3, thin: true}",
}


@pytest.mark.parametrize("text", LANES.values(), ids=LANES)
def test_every_change_can_be_undone_and_is_read_back(text: str) -> None:
    built = steps(text)
    assert built[0].place == "target"
    assert built[-1].place == "initiator"
    assert all(step.remove or "iscsid" in step.name for step in built)
    assert any(step.expect for step in built if step.place == "target") or "lvm" in text
    assert any(step.expect for step in built if step.place == "initiator")
    spec = lane(text)
    assert of(spec).path()[0] == "fio"
    assert of(spec).path()[-1].startswith("/dev/")
    assert spec.known()["path_settings"]


@pytest.mark.parametrize("text", [LANES["nfs"], LANES["lvm"]])
def test_a_medium_that_keeps_nothing_is_no_ground(text: str) -> None:
    transport = of(lane(text))
    assert problems(transport) == []
    [problem] = problems(transport, Ground(keeps=False, fleet=1, mtu=9000))
    assert kind("medium-kept", where="lanes.a.transport")(problem)
    assert "memory_backed: true" in str(problem.hint)


@pytest.mark.parametrize(
    ("text", "ground", "told"),
    [
        (LANES["fcoe"], Ground(keeps=False, fleet=2, mtu=9000), ("fcoe-guests", "fleet: 1")),
        (LANES["fcoe"], Ground(keeps=False, fleet=1, mtu=9000, faults=("link",)), ("fcoe-faults", "")),
        (LANES["fcoe"], Ground(keeps=False, fleet=1, mtu=1500), ("mtu", "mtu: 2500")),
        (LANES["rdma"], Ground(keeps=False, fleet=1, mtu=1500), ("mtu", "mtu: 4200")),
    ],
)
def test_links_that_cannot_carry_it_are_refused(text: str, ground: Ground, told: tuple[str, str]) -> None:
    [problem] = problems(of(lane(text)), ground)
    assert (problem.kind, told[1] in problem.hint) == (told[0], True)
    assert problem.hint


def test_lanes_of_one_version_of_nfs_share_connections_and_must_agree() -> None:
    one, two, old = (lane(f"{{transport: nfs, version: '{v}', nconnect: {n}}}") for v, n in
                     (("4.2", 1), ("4.2", 4), ("4.1", 2)))  # fmt: skip
    ground = Ground(keeps=True, fleet=1, mtu=9000, lanes={"one": one, "two": two, "old": old})
    [problem] = problems(of(one, "one"), ground)
    assert (problem.kind, "two" in problem.message) == ("nfs-shared-connections", True)
    assert problems(of(two, "two"), ground) == []
    assert problems(of(old, "old"), ground) == []


def test_a_file_below_a_share_says_so() -> None:
    known = lane(LANES["nfs"]).known()
    assert (known["volume_mode"], known["provisioning"]) == ("file in a share", "thick")
    assert "write_ack" not in known, "as the platform says: when the medium has it"
    loose = lane(LANES["nfs3"]).known()
    assert loose["provisioning"] == "thin"
    assert loose["write_ack"] == "when the array's memory has it"
    assert of(lane(LANES["nfs"])).stores_files


@pytest.mark.parametrize("text", LANES.values(), ids=LANES)
def test_a_medium_has_room_for_more_than_the_volume_where_something_lies_between(text: str) -> None:
    spec = lane(text)
    for size in (64 * MIB, 1000 * MIB, 16 * 1024 * MIB):
        needed = of(spec, site=replace(SITE, size=size)).medium_size()
        assert needed >= size + 8 * MIB if spec.transport in ("nfs", "lvm") else needed == size


def test_soft_roce_is_named_and_is_a_stand_in() -> None:
    spec = lane(LANES["rdma"])
    assert "soft-RoCE" in spec.stand_in
    assert "soft-RoCE" in spec.known()["path_settings"]
    assert not lane(LANES["nfs"]).stand_in


def test_fcoe_names_ports_after_their_interfaces_and_has_no_faults() -> None:
    assert wwpn("52:54:00:A0:00:01") == "20:00:52:54:00:a0:00:01"
    spec = lane(LANES["fcoe"])
    assert of(spec).fault("port", 0) is None
    assert of(spec).fault("state", 0) is None
    with pytest.raises(FairlaneError, match="MAC", check=kind("fcoe-address")):
        of(spec, site=replace(SITE, hardware=())).steps()


def test_lvm_is_written_on_devices_of_the_inner_transport_after_the_guard_alone() -> None:
    group = next(step for step in steps(LANES["striped"]) if "vgcreate" in step.apply)
    before, _, after = group.apply.partition("vgcreate")
    for n in range(3):
        assert f"nqn.2026-01.dev.fairlane:a-pv{n}" in before
    assert 'guard_own "$d"' in before
    assert after.rstrip().endswith("$pvs")
    assert "--devices $d" in before, "LVM sees no other device"


def test_stripes_lie_on_equal_parts_of_one_medium_with_ports_of_their_own() -> None:
    built = steps(LANES["striped"])
    assert built[0].apply.count("dmsetup create") == 3
    told = "".join(step.apply for step in built)
    assert all(f"echo {4423 + 4096 * n} > addr_trsvcid" in told for n in range(3))


BAD = [
    ("{transport: nfs, rsize: 3k}", "value", r"a\.rsize\b.*\b4k\b.*\b1m\b"),
    ("{transport: nfs, wsize: 2m}", "value", r"a\.wsize\b.*\b4k\b.*\b1m\b"),
    ("{transport: nfs, version: '4.0'}", "value", r"a\.version\b.*\b4\.2\b"),
    ("{transport: lvm}", "key-missing", r"\bover\b"),
    ("{transport: lvm, over: {transport: nfs}}", "kind-unknown", r"a\.over\.transport\b"),
    ("{transport: lvm, over: {transport: iscsi, label: x}}", "value", r"a\.over\.label\b"),
    ("{transport: lvm, over: {transport: iscsi}, stripe_size: 32k}", "value", r"a\.stripe_size\b.*\bstripes: 2\b"),
    ("{transport: lvm, over: {transport: iscsi}, stripes: 2, stripe_size: 33k}", "value",
     r"a\.stripe_size\b.*\b4k\b.*\b1g\b"),
    ("{transport: nvme_rdma, queue_size: 256}", "limit", r"a\.queue_size\b.*\b128\b"),
    ("{transport: fcoe, initiator: hypervisor}", "value", r"a\.initiator\b.*\bfcoe\b"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "what", "told"), BAD)
def test_bad_keys_are_told(text: str, what: str, told: str) -> None:
    with pytest.raises(FairlaneError, match=told, check=kind(what)):
        lane(text)
