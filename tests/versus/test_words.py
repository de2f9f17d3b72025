"""What a user reads before and after: the plan as a whole, the study, the verdicts."""

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.errors import FairlaneError
from fairlane.machines.behind import Behind, Direct, Disk, Flush
from fairlane.records import Evidence, Finding, Observation, Verdict
from fairlane.stats.histogram import SYNCS
from fairlane.study.load import parse_study
from fairlane.versus import before, ending
from fairlane.versus.compose import Asked, Paths, compose
from fairlane.versus.given import given
from fairlane.versus.loads import Load, limits, load
from fairlane.versus.plan import Wanted
from fairlane.versus.scout import Found
from fairlane.versus.study import Options

GIB = 2**30


def disk(name: str) -> Disk:
    return Disk(name, f"serial:{name.upper()}", "Model 9", "nvme", 512 * GIB, False, "write back", True, "none", None,
                False, 512)  # fmt: skip


def directory(path: str, on: str, number: int) -> Behind:
    return Behind(
        "here", path, "directory", path, f"259:{number}", 2 + number, mount_point=path, source=f"/dev/{on}",
        fstype="xfs", options=("rw", "noatime"), total_bytes=500 * GIB, free_bytes=200 * GIB, readable=True,
        writable=True, medium="disks", disks=(disk(on),), direct=Direct(True, 512),
        flush=Flush("volatile", "stable", ""),
    )  # fmt: skip


def composed(*paths: str, behind: dict[str, Behind] | None = None, **more: Any) -> Paths:
    named = given(paths, "/home/me")
    found = Found({g.lane: directory(g.path, f"nvme{n}n1", n) for n, g in enumerate(named)} | (behind or {}))
    found.fill = {g.lane: 800e6 for g in named if found.behind[g.lane].kind == "directory"}
    found.identity = more.pop("identity", {})
    options = Options(destroy=frozenset(more.pop("destroy", ())), buffered=more.pop("buffered", False))
    what = load(more.pop("shapes", {}), more.pop("profile", None), None, None)
    asked = Asked(what, Wanted(**more), options, "fairlane versus ...")
    return compose(named, found, asked)


def test_the_plan_of_two_directories(snapshot: SnapshotAssertion) -> None:
    plan = composed("/mnt/old", "new=/mnt/new disk")
    lines = before.lines(plan)
    assert "\n".join(lines) == snapshot
    assert max(map(len, lines)) <= 80
    assert plan.text == snapshot(name="study")


def test_a_job_file_on_files_keeps_its_own_size() -> None:
    text = "[reader]\nrw=randread\nbs=4k\nsize=8m\ndirect=1\n"
    named = given(("/mnt/one", "/mnt/two"), "/home/me")
    found = Found({
        g.lane: replace(directory(g.path, f"nvme{n}n1", n), kind="file", size=GIB) for n, g in enumerate(named)
    })  # fmt: skip
    options = Options()
    file = Load({"job": {"job_file": text}}, "job file x.fio")
    plan = compose(named, found, Asked(file, Wanted(size=64 * 2**20), options, "fairlane versus ..."))
    (cell,) = parse_study(plan.text, "saved").workloads["job"].cells("job")
    assert cell.params["size"] == 8 * 2**20


def test_the_plan_of_paths_on_two_machines_says_that_these_differ(snapshot: SnapshotAssertion) -> None:
    plan = composed("/mnt/a", "me@storage1:/srv/b", profile="etcd", seconds=600.0)
    assert "\n".join(before.lines(plan)) == snapshot
    study = parse_study(plan.text, "saved")
    assert study.lanes["b"].machines == ("storage1",)
    assert {"guest_kernel", "vm_cpus"} <= {*study.design.vary}


def drives(*names: str) -> tuple[dict[str, Behind], dict[str, str]]:
    """Disks, and their identities."""
    disks = {
        name: Behind("here", f"/dev/{name}", "device", f"/dev/{name}", f"259:{n}", size=512 * GIB, readable=True,
                     writable=True, medium="disks", disks=(disk(name),), direct=Direct(True, 512))
        for n, name in enumerate(names)
    }  # fmt: skip
    return disks, {name: f"serial:{name.upper()}" for name in names}


def test_a_disk_that_is_written_is_said_to_be_lost(snapshot: SnapshotAssertion) -> None:
    disks, identity = drives("nvme0n1", "nvme1n1")
    kept = composed("/dev/nvme0n1", "/dev/nvme1n1", behind=disks, identity=identity)
    assert kept.load.reads_only
    assert "\n".join(before.lines(kept)) == snapshot(name="read")
    lost = composed("/dev/nvme0n1", "/dev/nvme1n1", behind=disks, identity=identity, destroy=identity.values())
    assert not lost.load.reads_only
    assert "\n".join(before.lines(lost)) == snapshot(name="written")
    assert lost.study.lanes["nvme0n1"].destroy == "serial:NVME0N1"
    with pytest.raises(FairlaneError) as refused:
        composed("/dev/nvme0n1", "/dev/nvme1n1", behind=disks, identity=identity, destroy=["serial:X"])
    assert refused.value.kind == "destroy-unknown"


def test_a_load_that_only_reads_writes_to_no_disk_also_where_its_contents_may_go() -> None:
    disks, identity = drives("nvme0n1", "nvme1n1")
    plan = composed("/dev/nvme0n1", "/dev/nvme1n1", behind=disks, identity=identity, destroy=identity.values(),
                    shapes={"rw": ["randread"]})  # fmt: skip
    assert (before.as_json(plan)["writes"], [*plan.lost]) == ("nothing", [])
    assert plan.sizes.warnings
    assert [cell.params["prefill"] for cell in plan.study.cells()] == [False]
    assert not any(lane.destroy for lane in plan.study.lanes.values())
    with pytest.raises(FairlaneError) as refused:
        composed("/mnt/a", "/dev/nvme0n1", behind=drives("nvme0n1")[0], identity=identity,
                 destroy=["serial:NVME0N1"], shapes={"rw": ["randread"]})  # fmt: skip
    assert refused.value.kind == "kinds-mixed"


def test_of_a_disk_beside_a_directory_a_part_is_lost_and_no_more_is_used() -> None:
    disks, identity = drives("nvme0n1")
    plan = composed("/mnt/a", "/dev/nvme0n1", behind=disks, identity=identity, destroy=identity.values())
    assert plan.sizes.size
    assert {cell.params["size"] for cell in plan.study.cells()} == {plan.sizes.size}
    assert "LOST" in str(before.as_json(plan)["writes"])
    assert [identity for _, identity in plan.lost] == ["serial:NVME0N1"]
    alone = composed("/mnt/a", "/mnt/b")
    assert plan.sizes.fill_seconds / plan.sizes.size > alone.sizes.fill_seconds / (alone.sizes.size or 1)


VERDICT = Verdict(
    "read", "4k randread qd1", "read.4k-randread-qd1", "b", "a", "iops", primary=True, verdict="faster", ratio=1.32,
    low=1.29, high=1.352, tie_low=None, tie_high=None, margin=0.05, level=0.05, blocks=8, voided=0, lane_value=132.0,
    baseline_value=100.0, headline=True,
)  # fmt: skip
NAMES = {"a": "./a", "b": "./b"}


@pytest.mark.parametrize(
    "verdict",
    [
        VERDICT,
        replace(VERDICT, verdict="slower", ratio=0.5, low=0.49, high=0.52),
        replace(VERDICT, verdict="faster", metric="sync_lat_p99", ratio=0.4, low=0.3, high=0.5),
        replace(VERDICT, verdict="tie", ratio=1.004, low=0.99, high=1.018, tie_low=0.99, tie_high=1.01),
        replace(VERDICT, verdict="inconclusive", ratio=1.1, low=0.9, high=1.3, headline=False, more_blocks=9),
        replace(VERDICT, headline=False, held_because="neighbouring blocks are correlated, +0.36"),
        replace(VERDICT, verdict="refused", ratio=None, low=None, high=None, headline=False, notes=("no figures",)),
        replace(VERDICT, verdict="faster", ratio=123.4, low=110.0, high=140.0),
    ],
    ids=["faster", "slower", "latency", "tie", "open", "withheld", "refused", "far"],
)
def test_a_verdict_is_one_sentence(verdict: Verdict, snapshot: SnapshotAssertion) -> None:
    rows = [verdict, replace(verdict, cell="4k randwrite qd16", verdict="slower", ratio=0.8, low=0.7, high=0.9)]
    one, two = ending.Verdicts([verdict], NAMES), ending.Verdicts(rows, NAMES)
    said = [ending.sentence(verdict, one), *ending.overall(one), *ending.overall(two)]
    assert said == snapshot
    assert all("\n" not in line for line in said)


OPEN = replace(VERDICT, verdict="inconclusive", headline=False, ratio=0.55, low=0.33, high=0.92, joint_low=0.25,
               joint_high=1.21, more_blocks=5)  # fmt: skip


def test_comparisons_that_need_too_many_blocks_are_hopeless() -> None:
    found = ending.Verdicts([OPEN, replace(OPEN, cell="other")], NAMES)
    assert not ending.hopeless(found)
    assert "across 2 comparisons" in ending.sentence(OPEN, found)
    assert ending.hopeless(ending.Verdicts([replace(OPEN, more_blocks=700)], NAMES))


def test_why_a_verdict_is_withheld_is_said() -> None:
    few = replace(VERDICT, headline=False, held_because="3 blocks, 6 are needed")
    assert "3 blocks, 6 are needed" in ending.sentence(few, ending.Verdicts([few], NAMES))


def test_findings_that_say_the_same_of_several_paths_are_one_line() -> None:
    same = [Finding("c", "warning", "the disk is slow", lanes=(lane,)) for lane in NAMES]
    grave = Finding("d", "critical", "a cache answered", lanes=("b",))
    lines = [*ending.finding_lines([*same, grave], NAMES)]
    assert lines == ["critical: a cache answered (./b)", "warning: the disk is slow"]


def etcd(*trials: dict[int, int] | None) -> ending.Checked:
    """What is said of a path whose trials have these syncs (ns -> count); None: a trial failed."""
    study = composed("/mnt/a", "/mnt/b", profile="etcd").study
    (cell,) = study.cells()
    rows = [
        Observation(cell.key, n, "a", 0, histograms={SYNCS: trial} if trial else {}, failed="" if trial else "fio died")
        for n, trial in enumerate(trials)
    ]
    evidence = Evidence("made", study, "", 1, (), tuple(rows), {}, {})
    return next(c for c in ending.limits(evidence, limits(study.cells())) if c.lane == "a")


MS = 1_000_000


def test_a_limit_is_kept_by_the_syncs_of_all_trials_together() -> None:
    fast, slow = {2 * MS: 2000}, {2 * MS: 900, 40 * MS: 100}
    assert etcd(fast, fast).passed is True
    assert etcd(fast, fast, slow).passed is False
    assert etcd(fast, fast, slow).value == 40 * MS
    assert etcd(slow, None).passed is False
    assert (etcd(fast, None).passed, etcd(fast, None).missing) == (None, 1)
    assert etcd(None).passed is None


def test_trials_too_short_for_their_percentile_are_to_be_longer() -> None:
    study = composed("/mnt/a", "/mnt/b", profile="etcd").study
    (cell,) = study.cells()
    rows = tuple(Observation(cell.key, 0, lane, 0, histograms={SYNCS: {20 * MS: 500}}) for lane in "ab")
    evidence = Evidence("made", study, "", 1, (), rows, {}, {})
    none = replace(VERDICT, key=cell.key, metric="sync_lat_p99", ratio=None, low=None, high=None, verdict="refused")
    found = ending.Verdicts.of(evidence, [none])
    runtime = cell.params["runtime"] / 1e9
    assert ending.longer_trials(evidence, found) >= runtime * 2
    assert ending.longer_trials(evidence, replace(found, rows=[VERDICT])) == 0


def test_too_few_syncs_for_a_percentile_can_fail_a_limit_and_not_keep_it() -> None:
    assert (etcd({20 * MS: 50}).value, etcd({20 * MS: 50}).passed) == (None, False)
    assert etcd({2 * MS: 500, 20 * MS: 4}).passed is None
    assert "FAIL" in ending.limit_line(etcd({20 * MS: 50}), NAMES)


def test_findings_of_one_kind_are_one_paragraph_no_wider_than_a_terminal() -> None:
    busy = [
        Finding("host_io", "warning", f"{n} MiB of the 550 MiB of vda were others', so the lane is slower than it is",
                lanes=(lane,), kind="others") for n, lane in ((489, "a"), (12, "b"))
    ]  # fmt: skip
    rows = [*ending.finding_lines(busy, NAMES)]
    assert max(map(len, rows)) <= 80
    assert sum(row.startswith("warning: ") for row in rows) == 1
    assert "./b" in " ".join(rows)


def test_small_files_are_said_to_fit_into_a_cache() -> None:
    assert ending.small(composed("/mnt/a", "/mnt/b").study)
    assert not ending.small(composed("/mnt/a", "/mnt/b", size=4 * GIB).study)
    assert not ending.small(composed("/mnt/a", "/mnt/b", profile="etcd").study)
    disks, identity = drives("nvme0n1", "nvme1n1")
    small = composed("/dev/nvme0n1", "/dev/nvme1n1", behind=disks, identity=identity, size=GIB)
    assert ending.small(small.study)


def test_the_page_cache_is_warned_of_before_the_start() -> None:
    def warned(plan: Paths) -> bool:
        return "page cache" in str(before.as_json(plan)["warnings"])

    assert warned(composed("/mnt/a", "/mnt/b", buffered=True))
    assert not warned(composed("/mnt/a", "/mnt/b"))
