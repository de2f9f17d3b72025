"""The five published studies as presets: what the pages say is in them, nothing in them is refused by the guard, and
their quick forms run in the lab. Figures are those of the pages; each test names its page."""

import re
from pathlib import Path
from typing import Any

import pytest

from fairlane import registry
from fairlane.cli.main import run
from fairlane.compare.mapping import parse_mapping
from fairlane.errors import Exit
from fairlane.records import Evidence, Finding, Observation
from fairlane.stats.efficiency import efficient
from fairlane.stats.ladders import ladders
from fairlane.study.load import load_study, presets
from fairlane.study.spec import Study
from tests.words import kinds

ROOT = Path(__file__).parents[2]
GIB = 1024**3
SECOND = 10**9

STUDIES = {
    "study-000-fio": "000_6cb4bbf41520d673",
    "study-000-clone": "000_6cb4bbf41520d673",
    "study-000-oltp": "000_6cb4bbf41520d673",
    "study-001-roce": "001_de5dedbb0e4eba95",
    "study-002-rac": "002_2290e7e0e73dbac9",
    "study-003-roks": "003_a9f74f408b1f51cf",
    "study-003-vcf": "003_a9f74f408b1f51cf",
    "study-004-virtio": "004_b39fa82fc84e8a1f",
}
AWAITED = [name for name in STUDIES if name != "study-004-virtio"]
"""Those whose platform is described and not carried out yet."""


def study(name: str, *, quick: bool = False) -> Study:
    return load_study(name, quick=quick)[0]


def lanes(of: Study) -> dict[str, Any]:
    """Those of the page: without copies, which are ours."""
    return {name: lane for name, lane in of.lanes.items() if not lane.copy_of}


def said(of: Study, lane: str = "") -> dict[str, Any]:
    """What platform and lane say of themselves."""
    return {**of.platform.known(), **of.conditions, **(of.lanes[lane].known() if lane else {})}


def carried_out(of: Study) -> Evidence:
    """A run of two blocks in which every trial went well, with no figures to speak of."""
    seen = tuple(
        Observation(cell.key, block, lane, n, "", {"iops": 1000.0}, {}, {})
        for cell in of.cells()
        for block in range(2)
        for n, lane in enumerate(of.lanes)
    )
    began = ({"type": "start", "at": "2026-01-10T10:00:00Z"},)
    return Evidence("run", of, "", 1, (), seen, {}, {}, began)


def guarded(of: Study) -> list[Finding]:
    return list(registry.load("checks", "unmatched").check(carried_out(of)))


def test_every_preset_of_a_study_is_looked_at_here() -> None:
    assert sorted(STUDIES) == sorted(name for name in presets() if name.startswith("study-"))


@pytest.mark.parametrize(("name", "source"), STUDIES.items())
def test_each_names_its_source_and_says_where_that_is_silent(name: str, source: str) -> None:
    text = presets()[name]
    head = text.partition("\nname:")[0]
    assert source in head
    assert f"fairlane run {name} --quick" in head
    assert re.search(r"\b(?:not|never) stated|does not state|names none|lost", text)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", STUDIES)
def test_the_guard_refuses_no_lane_and_misses_nothing(name: str, quick: bool) -> None:
    of = study(name, quick=quick)
    found = guarded(of)
    assert [f.message for f in found if f.refuses] == []
    assert [f.message for f in found if f.kind in ("unknown", "accepted-in-vain")] == []


@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_form_is_of_the_lab_and_has_nothing_of_another_platform(name: str) -> None:
    of = study(name, quick=True)
    assert of.platform.kind == "lab"
    named = {lane.transport for lane in of.lanes.values()}
    assert not named & {"storage_class", "datastore"}
    assert {load.kind for load in of.workloads.values()} <= {"fio", "clone"}
    if name != "study-004-virtio":
        assert "copies" not in of.conditions, "what is known of another array says nothing of the lab"


@pytest.mark.parametrize("name", ["study-000-fio", "study-000-oltp", "study-001-roce"])
def test_questions_of_protocols_alone_run_under_the_virtual_clock(name: str) -> None:
    of = study(name, quick=True)
    assert getattr(of.platform, "clock", "") == "virtual"
    assert {lane.transport for lane in of.lanes.values()} == {"iscsi", "nvme_tcp"}
    assert registry.load("platforms", "lab").of(of).problems() == []


@pytest.mark.parametrize("name", AWAITED)
def test_the_whole_ends_before_anything_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """vSphere is not carried out, nor are databases; and no cluster is here for the others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert run(["run", name]) == Exit.USER_ERROR
    out, err = capsys.readouterr()
    of = study(name)
    assert out == ""
    if of.platform.kind == "vsphere":
        assert kinds(err.splitlines()[0]) == ["platform-unsupported"]
        assert "'vsphere'" in err
        assert "--quick" in err
        assert "docs/presets.md" in err
    elif any(workload.kind == "oltp" for workload in of.workloads.values()):
        assert "workload-unsupported" in kinds(err)
        assert "'oltp'" in err
    else:
        assert kinds(err) == ["cluster-unfit"]
        assert str(tmp_path / "nowhere") in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", AWAITED)
def test_its_plan_is_printed_all_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "check", name]) == Exit.OK
    assert f"platform  {study(name).platform.kind}" in capsys.readouterr().out


@pytest.mark.parametrize("name", presets())
def test_the_whole_has_an_a_a_copy_of_the_baseline_and_several_provisionings(name: str) -> None:
    of = study(name)
    if of.platform.same_anew or of.platform.invented:
        assert of.design.provisionings == 1
        return
    assert of.baseline in {lane.copy_of for lane in of.lanes.values()}
    if of.platform.living:  # a new file in every round; machines and arrays that are there cannot be made anew
        assert of.design.provisionings == 1
        return
    existing = [lane for lane in of.lanes.values() if lane.existing]
    assert of.design.provisionings == (1 if existing else 6)
    short = study(name, quick=True)
    assert short.design.provisionings == 1
    copies = {lane.copy_of: lane.cells for lane in short.lanes.values() if lane.copy_of}
    assert copies == ({} if short.platform.same_anew else {short.baseline: "first"})


# --- what the pages say -----------------------------------------------------------------------------------------------


def test_000_disk_is_as_published() -> None:
    of = study("study-000-fio")
    cells = of.cells()
    assert {(c.params["bs"], c.params["rw"]) for c in cells} == {
        (bs * 1024, rw) for bs in (4, 8, 128, 1024, 4096) for rw in ("read", "write", "randread", "randwrite")
    }
    assert {(c.params["numjobs"], c.params["iodepth"], c.params["runtime"]) for c in cells} == {(4, 16, 300 * SECOND)}
    told = said(of, "lvms-iscsi")
    assert (told["fleet"], told["vm_cpus"], told["vm_memory"], told["disk_size"]) == (10, 8, 8 * GIB, 50 * GIB)
    for lane in of.lanes.values():
        assert (lane.known()["io_threads"], lane.known()["queues"]) == ("pool of 8", "one per CPU")
    assert [lane.known()["transport"] for lane in lanes(of).values()] == ["iscsi", "nvme_tcp"]
    paths = {name: lane.conditions["multipath"] for name, lane in lanes(of).items()}
    assert paths == {"lvms-iscsi": "dm-multipath with ALUA", "lvms-nvme": "native NVMe with ANA, round-robin"}


def test_000_clones_are_as_published() -> None:
    of = study("study-000-clone")
    nodes = of.platform.nodes  # type: ignore[attr-defined]
    assert [c.params["count"] / nodes for c in of.cells()] == [1, 2, 5, 10, 20, 50]
    told = said(of)
    assert (told["vm_cpus"], told["vm_memory"], told["disk_size"]) == (1, 512 * 2**20, GIB)
    assert of.platform.root_size == 6 * GIB  # type: ignore[attr-defined]
    assert of.workloads["storm"].primary == "job_time"


def test_000_databases_are_as_published() -> None:
    of = study("study-000-oltp")
    seen: dict[str, list[dict[str, Any]]] = {}
    for cell in of.cells():
        told = {**of.platform.known(), **of.workloads[cell.workload].known(cell)}
        seen.setdefault(told["database"], []).append(told)
    maria, postgres = seen["MariaDB"], seen["PostgreSQL"]
    assert {(t["scale"], t["runtime"]) for t in maria} == {(500, 900 * SECOND)}
    assert sorted({t["fleet"] for t in maria}) == [1, 2, 5, 9]
    assert max(t["fleet"] for t in postgres) == 5
    assert max(t["numjobs"] for t in postgres) >= 150
    assert ({t["disk_size"] for t in maria}, {t["disk_size"] for t in postgres}) == ({200 * GIB}, {500 * GIB})
    assert {(t["vm_cpus"], t["vm_memory"]) for t in (*maria, *postgres)} == {(32, 32 * GIB)}
    for lane in of.lanes.values():
        assert (lane.known()["cpu_pinning"], lane.known()["io_threads"]) == (True, 0)


def test_001_is_as_published() -> None:
    of = study("study-001-roce")
    climbs = {(ladder.cells[0].params["rw"], ladder.cells[0].params["bs"]): ladder for ladder in ladders(of)}
    for rw, most in (("randread", 32), ("randwrite", 16)):
        for ladder in (found for (way, _), found in climbs.items() if way == rw):
            threads = [cell.params["numjobs"] for cell in ladder.cells]
            assert (threads[0], threads[-1], ladder.climb) == (1, most, "numjobs")
    assert {64 * 1024, 128 * 1024} <= {bs for _, bs in climbs}, "above 64K, where iSCSI failed at first"
    assert said(of)["disks"] == 8
    for lane in of.lanes.values():
        assert lane.known()["initiator"] == "hypervisor"
    assert (of.conditions["controllers"], of.conditions["link_speed"]) == (4, 2 * 25 * 10**9)
    assert [of.lanes[n].known()["transport"] for n in ("iscsi", "nvme-roce")] == ["iscsi", "nvme_rdma"]
    sessions = [of.lanes[n].conditions["path_settings"] for n in ("iscsi", "iscsi-one-session")]
    assert sessions == ["4 sessions to each portal", "1 session to each portal"]


def test_001_tells_a_stand_in_in_the_question_and_on_the_lane() -> None:
    of = study("study-001-roce", quick=True)
    assert "NVMe/RoCE" in of.question
    label = of.lanes["nvme-tcp"].label
    assert label.startswith("NVMe/TCP ")
    assert label.endswith(" NVMe/RoCE")


def test_002_is_as_published_and_normalised_by_the_link() -> None:
    of = study("study-002-rac")
    speeds = {name: float(lane.conditions["link_speed"]) for name, lane in lanes(of).items()}
    assert {1 - speed / speeds["fc"] for name, speed in speeds.items() if name != "fc"} == {0.375}
    assert [said(of, lane)["initiator"] for lane in lanes(of)] == ["hypervisor"] * 4 + ["guest"]
    assert (said(of)["fleet"], of.design.looks[0]) == (4, 5)
    one, two = (of.lanes[name].conditions["multipath"] for name in ("nvme-tcp", "nvme-tcp-split"))
    assert (one, two) == ("one VLAN for both paths", "A/B split")
    per_gbit = {seen.lane: seen.metrics["iops_per_gbit"] for seen in efficient(of, carried_out(of).observations)}
    assert per_gbit["nvme-tcp-guest"] / per_gbit["fc"] == pytest.approx(1.6)


def test_003_has_the_same_machine_and_load_on_both_sides() -> None:
    roks, vcf = study("study-003-roks"), study("study-003-vcf")
    machine = ("vm_cpus", "vm_memory", "disk_size", "fleet", "disks")
    assert {key: said(roks)[key] for key in machine} == {key: said(vcf)[key] for key in machine}
    assert [said(roks)[key] for key in machine] == [4, 8 * GIB, 150 * GIB, 1, 1]
    assert [cell.key for cell in roks.cells()] == [cell.key for cell in vcf.cells()]
    for ours, theirs in zip(roks.cells(), vcf.cells(), strict=True):
        assert ours.params == theirs.params
        known = roks.workloads[ours.workload].known(ours)
        load = ("iodepth", "numjobs", "runtime", "ramp", "size", "prefill", "direct")
        assert [known[key] for key in load] == [32, 4, 60 * SECOND, 10 * SECOND, 4 * GIB, True, True]


def test_003_a_mix_is_a_mix_and_directions_are_never_added_up() -> None:
    cells = {cell.name: cell.params for cell in study("study-003-roks").cells()}
    assert list(cells) == [
        "4k randread qd32 x4", "4k randwrite qd32 x4", "1m read qd32 x4", "1m write qd32 x4", "4k randrw 70/30 qd32 x4",
    ]  # fmt: skip
    assert [p["rwmixread"] for p in cells.values()] == [None, None, None, None, 70]
    assert {p["rate_iops"] for p in cells.values()} == {None}


def test_003_lanes_are_those_of_the_mapping_and_tiers_have_their_caps() -> None:
    sides = {name: study(f"study-003-{name}") for name in ("roks", "vcf")}
    text = (ROOT / "examples/study-003/mapping.yaml").read_text("utf-8")
    pairs = parse_mapping(text, "mapping.yaml", {name: list(of.lanes) for name, of in sides.items()}).pairs
    assert {pair.lanes["roks"] for pair in pairs} == set(lanes(sides["roks"]))
    assert {pair.lanes["vcf"] for pair in pairs} == set(lanes(sides["vcf"]))
    caps = {name: lane.cap_iops for name, lane in sides["roks"].lanes.items() if lane.cap_iops}
    assert caps == {"ibmc-vpc-file-1000-iops": 1000, "ibmc-vpc-file-500-iops": 500}


def test_004_is_as_published() -> None:
    of = study("study-004-virtio")
    told = [(c.params["rw"], c.params["rwmixread"], c.params["iodepth"]) for c in of.cells()]
    mixes = [("randread", None), ("randrw", 75), ("randrw", 50), ("randrw", 25), ("randwrite", None)]
    assert told == [(rw, mix, depth) for rw, mix in mixes for depth in (1, 4, 8)]
    assert sorted((d["bus"], d["io_threads"]) for d in (lane.known() for lane in lanes(of).values())) == [
        (bus, threads) for bus in ("virtio-blk", "virtio-scsi") for threads in (0, 4, 8)
    ]
    known = said(of)
    assert (known["disks"], known["vm_cpus"], known["vm_memory"]) == (9, 8, 10 * GIB)
