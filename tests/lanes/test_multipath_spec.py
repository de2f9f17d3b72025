"""Multipath and external arrays as far as no machine is needed: what is accepted, what is said, what is never said."""

import re
from pathlib import Path
from typing import Any

import pytest

from fairlane.errors import FairlaneError
from fairlane.fleet.volumes import by_lane
from fairlane.guard.conditions import declared
from fairlane.lanes.base import Ground, Site, Transport
from fairlane.lanes.iscsi import Iscsi
from fairlane.lanes.nvme_tcp import NvmeTcp
from fairlane.platforms._living.volumes import Volume, volumes
from fairlane.platforms.base import Platform
from fairlane.platforms.hosts import Hosts
from fairlane.platforms.lab import Lab
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from tests.words import kind

TWO = Site(
    "/dev/nullb3", "10.77.0.1", "path0", 3, "s3cret", addresses=("10.77.0.1", "10.77.1.1"),
    interfaces=("path0", "path1"),
)  # fmt: skip
PLUGINS: dict[str, type[Transport[Any]]] = {"nvme_tcp": NvmeTcp, "iscsi": Iscsi}
NAMES = {"nvme_tcp": "nqn: nqn.x", "iscsi": "iqn: iqn.x"}


def platform(lane: str, keys: str = "clock: wall, paths: 2") -> Platform:
    text = f"""
name: t
platform: {{kind: lab, {keys}}}
baseline: base
lanes:
  base: {{transport: local}}
  new: {{{lane}}}
workloads:
  main: {{kind: fio, prefill: false}}
"""
    return Lab.of(parse_study(text, "t.yaml"))


def spec(lane: str) -> LaneSpec:
    found: LaneSpec = platform(lane).study.lanes["new"]
    return found


def bound(lane: str, site: Site = TWO) -> Transport[Any]:
    found = spec(lane)
    return PLUGINS[found.transport]("new", found, site)


def steps(lane: str, site: Site = TWO) -> str:
    """All that the lane's steps do and describe."""
    found = bound(lane, site).steps()
    return "\n".join(f"{s.apply}\n{s.describe}\n{s.remove}\n{dict(s.expect)}" for s in found)


REFUSED = [
    ("transport: nvme_tcp, multipath: {policy: service-time}", "value", r"multipath\.policy\b.*\bround-robin\b"),
    ("transport: iscsi, multipath: {policy: numa}", "value", r"multipath\.policy\b.*\bservice-time\b"),
    ("transport: nvme_tcp, multipath: {keep_alive: 1500ms}", "value", r"multipath\.keep_alive\b.*\b1500ms\b"),
    ("transport: nvme_tcp, multipath: {keep_alive: 0s}", "value", r"multipath\.keep_alive\b.*\b1s\b"),
    ("transport: iscsi, multipath: {replacement_timeout: 48h}", "value", r"replacement_timeout\b.*\b24h\b"),
    ("transport: iscsi, multipath: {no_path_retry: 0}", "several-problems", r"multipath\.no_path_retry\b"),
    ("transport: iscsi, initiator: hypervisor, multipath: {}", "value", r"new\.multipath\b.*\bguest\b"),
    ("transport: iscsi, chap: true, external: {addresses: [192.0.2.1], iqn: iqn.x}", "value",
     r"new\.chap\b.*\bexternal\.user\b.*\bexternal\.secret\b"),
    ("transport: iscsi, external: {addresses: [192.0.2.1], iqn: iqn.x, user: me}", "value",
     r"external\.user\b.*\bsecret\b"),
    ("transport: iscsi, external: {addresses: [192.0.2.1], iqn: 'iqn.x; reboot'}", "value", r"external\.iqn\b"),
    ("transport: nvme_tcp, external: {addresses: [example.org], nqn: nqn.x}", "value", r"external\.addresses\.0\b"),
    ("transport: nvme_tcp, external: {addresses: [], nqn: nqn.x}", "too-few", r"external\.addresses\b"),
    ("transport: nvme_tcp, external: {addresses: [192.0.2.1, 192.0.2.2], nqn: nqn.x}", "value",
     r"external\.addresses\b.*\bmultipath\b"),
    ("transport: nvme_tcp, external: {addresses: [192.0.2.1], nqn: nqn.x, secret: {env: A, file: b}}", "value",
     r"external\.secret\b.*\benv\b.*\bfile\b"),
    ("transport: nvme_tcp, external: {addresses: [192.0.2.1], nqn: nqn.x, secret: {}}", "value",
     r"external\.secret\b.*\benv\b.*\bfile\b"),
]  # fmt: skip


@pytest.mark.parametrize(("lane", "what", "told"), REFUSED)
def test_refused_when_the_study_is_read(lane: str, what: str, told: str) -> None:
    with pytest.raises(FairlaneError, match=told, check=kind(what)):
        spec(lane)


def test_timeouts_go_where_they_belong() -> None:
    nvme = steps(
        "transport: nvme_tcp, multipath: {keep_alive: 2s, reconnect_delay: 7s, ctrl_loss: 1m, fast_io_fail: 9s}"
    )
    assert nvme.count("nvme connect") == 2
    assert nvme.count("-k 2 -c 7 -l 60 ") == 2
    assert "echo 9 > $c/fast_io_fail_tmo" in nvme
    assert "'multipath.ctrl_loss': '63'" in nvme  # nine attempts, as the kernel counts them
    iscsi = steps("transport: iscsi, multipath: {noop_interval: 0s, noop_timeout: 3s, replacement_timeout: 4s}")
    for key, value in (("noop_out_interval", 0), ("noop_out_timeout", 3), ("replacement_timeout", 4)):
        assert iscsi.count(f"timeo.{key}' -v '{value}'") == 2
    assert "no_path_retry queue" in iscsi
    assert "'multipath.no_path_retry': 'on'" in iscsi


def test_every_path_has_a_target_port_of_its_own() -> None:
    nvme, iscsi = steps("transport: nvme_tcp, multipath: {}"), steps("transport: iscsi, multipath: {}")
    assert [port for port in ("ports/4423", "ports/14423") if f"mkdir -p $N/{port}" in nvme] == [
        "ports/4423", "ports/14423",
    ]  # fmt: skip
    assert nvme.count("echo 4423 > addr_trsvcid") == 2
    for group, address in ((1, "10.77.0.1"), (2, "10.77.1.1")):
        assert f"tpgt_{group}/np/{address}:3263" in iscsi
        assert f"echo path{group} > lun/lun_0/alua_tg_pt_gp" in iscsi


def test_sessions_are_per_path_with_multipath_and_joined_by_hand_without() -> None:
    assert "'sessions': '6'" in steps("transport: iscsi, sessions: 3, multipath: {}")
    one = Site("/dev/nullb3", "10.77.0.1", "path0", 3, "s3cret", addresses=("10.77.0.1",))
    plain = steps("transport: iscsi, sessions: 3", one)
    assert "'sessions': '3'" in plain
    assert "round-robin 0 3 1" in plain
    assert "multipathd" not in plain


@pytest.mark.parametrize("transport", PLUGINS)
def test_every_guest_has_a_name_of_its_own(transport: str) -> None:
    names = [
        set(re.findall(r"(?:iqn|nqn)\.2026-01\.dev\.fairlane:host\d*|00000000-0000-4000-8000-\w+",
                       steps(f"transport: {transport}", Site("/dev/nullb0", "a", "b", 0, "c", host=host))))
        for host in range(3)
    ]  # fmt: skip
    assert all(names)
    assert not names[0] & names[1]
    assert not names[1] & names[2]


@pytest.mark.parametrize("transport", PLUGINS)
def test_faults_are_undone_where_they_were_made(transport: str) -> None:
    lane = bound(f"transport: {transport}, multipath: {{}}")
    kinds: tuple[FaultKind, ...] = ("port", "state")
    for what in kinds:
        first, second = lane.fault(what, 0), lane.fault(what, 1)
        assert first
        assert second
        assert first.place == "target"
        assert first.apply != second.apply
        assert first.remove
    assert lane.fault("link", 0) is None
    with pytest.raises(FairlaneError, match=r"\b2\b", check=kind("path-unknown")):
        lane.fault("port", 2)
    outside = f"transport: {transport}, external: {{addresses: [192.0.2.1], {NAMES[transport]}}}"
    assert on_hosts(outside).transport.fault("port", 0) is None


@pytest.mark.parametrize("transport", PLUGINS)
def test_the_virtual_clock_refuses_several_paths(transport: str) -> None:
    lab = platform(f"transport: {transport}, multipath: {{}}", "medium: {size: 1g}")
    (problem,) = [p for p in lab.problems() if p.where.startswith("lanes.new")]
    assert kind("wall-clock-only", where="lanes.new.multipath")(problem)
    assert "clock: wall" in problem.hint


def test_more_queues_than_cpus_are_refused() -> None:
    lane = "transport: nvme_tcp, queues: 2"
    assert [p.kind for p in platform(lane).problems() if p.where == "lanes.new.queues"] == ["queues"]
    assert not [p for p in platform(lane, "clock: wall, cpus: 2").problems() if p.where == "lanes.new.queues"]
    ground = Ground(keeps=True, fleet=1, mtu=9000)
    assert list(bound(lane).problems(ground)) == []  # CPUs are not known


# --- external arrays

OUTSIDE = (
    "transport: iscsi, external: {addresses: [192.0.2.9], iqn: iqn.x, lun: 2, serial: abc, user: me, secret: SECRET}"
)


def study_on_hosts(lane: str, machines: str = "{here: local}") -> Study:
    text = f"""
name: t
platform: {{kind: hosts, machines: {machines}}}
baseline: base
lanes:
  base: {{transport: directory, path: /mnt}}
  new: {{{lane}}}
workloads:
  main: {{kind: fio, prefill: false}}
"""
    return parse_study(text, "t.yaml")


def on_hosts(lane: str) -> Volume:
    (volume,) = by_lane(volumes(study_on_hosts(lane), "0123456789"))["new"]
    return volume


@pytest.mark.parametrize("clock", ["virtual", "wall"])
@pytest.mark.parametrize("key", ["iqn: iqn.x, secret: {env: NOT_SET}, user: me", "iqn: iqn.x"])
def test_the_lab_reaches_no_external_array(clock: str, key: str) -> None:
    """One problem, whatever else the study or this machine lacks."""
    lab = platform(f"transport: iscsi, external: {{addresses: [192.0.2.9], {key}}}", f"clock: {clock}")
    for problems in (lab.problems(), lab.unfit()):
        (problem,) = problems
        assert kind("external-on-lab", where="lanes.new.external")(problem)
        assert "kind: hosts" in problem.hint


@pytest.mark.parametrize("lane", ["nvme_tcp, external: {addresses: [192.0.2.9], nqn: n}",
                                  "nvme_rdma, external: {addresses: [192.0.2.9], nqn: n}",
                                  "nfs, external: {server: a, share: /b}", "rbd, external: {pool: p, image: i}",
                                  "cephfs, external: {}"])  # fmt: skip
def test_nor_a_share_or_cluster(lane: str) -> None:
    assert [(p.kind, p.where) for p in platform(f"transport: {lane}").problems()] == [
        ("external-on-lab", "lanes.new.external")
    ]


def test_nothing_is_set_up_on_an_external_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "it's hidden")
    for lane in (OUTSIDE.replace("SECRET", "{env: A_SECRET}"),
                 "transport: nvme_tcp, external: {addresses: [192.0.2.9], nqn: nqn.x}"):  # fmt: skip
        made = on_hosts(lane).steps()
        assert {step.place for step in made} == {"initiator"}
        assert not any("/sys/kernel/config" in step.apply + step.remove for step in made)
        assert made[-1].remove
    serial = on_hosts(OUTSIDE.replace("SECRET", "{env: A_SECRET}")).steps()[-1].expect["volume.serial"]
    assert serial == "abc"


def test_a_secret_is_found_and_never_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("  it's hidden\n")
    monkeypatch.setenv("A_SECRET", "it's hidden")
    for place in ("{env: A_SECRET}", f"{{file: {file}}}"):
        lane = OUTSIDE.replace("SECRET", place)
        study, volume = study_on_hosts(lane), on_hosts(lane)
        made = volume.steps()
        applied = "".join(step.apply for step in made)
        # as a here-document, which is no argument of a process
        assert re.findall(".*hidden.*", applied) == ["node.session.auth.password = it's hidden"]
        assert applied.index("it's hidden") < applied.index("--login")
        told = [str(volume.spec), volume.spec.model_dump_json(), str(declared(study, "new"))]
        told += [f"{step.name}{step.describe}{step.remove}{dict(step.expect)}" for step in made]
        told.append(str(volume.transport.path()))
        assert not any("hidden" in text for text in told)


@pytest.mark.parametrize("place", ["{env: NOT_SET}", "{env: EMPTY}", "{file: /nowhere/at/all}", "{env: TWO_LINES}"])
def test_a_missing_secret_is_told_before_anything_is_built(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("EMPTY", " \n")
    monkeypatch.setenv("TWO_LINES", "hid\nden")
    (problem,) = Hosts.of(study_on_hosts(OUTSIDE.replace("SECRET", place))).problems()
    assert problem.where == "lanes.new.external.secret"
    assert place[1:-1].partition(": ")[2] in problem.message
    assert "hid" not in problem.message


def test_one_volume_is_for_one_machine() -> None:
    lane = "transport: nvme_tcp, external: {addresses: [192.0.2.9], nqn: nqn.x}"
    (problem,) = Hosts.of(study_on_hosts(lane, "{here: local, there: alpha}")).unfit()
    assert kind("external-one-machine", where="lanes.new")(problem)


def test_what_is_not_known_of_an_external_array_is_not_claimed() -> None:
    known = declared(study_on_hosts("transport: nvme_tcp, external: {addresses: [192.0.2.9], nqn: nqn.x}"), "new")
    assert "192.0.2.9" in known["backend"]
    assert not any(known[key] for key in ("copies", "write_ack", "flush", "link_speed", "mtu"))
