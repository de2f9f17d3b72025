from dataclasses import replace

import pytest

from fairlane.records import Finding
from fairlane.report import html, lanes, markdown, model, phrases, prose
from fairlane.report.pictures import pictures
from fairlane.report.text import DASH
from tests.figures import figures


def test_the_baseline_is_never_compared_with_itself(case):
    report = model.build(*case)
    assert {(c.lane, c.baseline) for c in report.answers} == {("local", "iSCSI"), ("NVMe/TCP", "iSCSI")}


def test_the_answers_say_what_is_true_of_the_lanes(case):
    """Four wins, a win too small to matter, a tie, a loss, and one lost in noise: the effects in conftest."""
    nvme = next(c for c in model.build(*case).answers if c.lane == "NVMe/TCP")
    words = [row.word for row in nvme.rows]
    assert words == ["faster", "faster", "faster", "tie", "different-but-small", "faster", "slower", "inconclusive"]
    assert dict(nvme.words) == {"faster": 4, "slower": 1, "different-but-small": 1, "tie": 1, "inconclusive": 1}


def test_a_critical_finding_takes_the_headline_away_and_is_told(case):
    report = model.build(*case)
    local = next(c for c in report.answers if c.lane == "local")
    assert [bool(row.withheld) for row in local.rows] == [True] + [False] * 7
    assert local.withheld == 1
    assert dict(local.words) == {"faster": 7}
    assert figures(local.summary)[0] == "8"
    assert "4k randread qd1" in local.summary
    assert report.findings[0].severity == "critical"
    assert report.findings[0].items[0].where == "local: 4k randread qd1"
    assert ("by.lo", "3") in report.findings[0].items[0].evidence


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"modelled": True}, [prose.MODELLED]),
        ({"modelled": False}, []),
        ({"modelled": False, "platform": "fake"}, [prose.INVENTED]),
    ],
)
def test_banners(make_case, changes, shown):
    assert list(model.build(*make_case(**changes)).banners) == shown


def test_an_emulated_run_says_so(case):
    evidence, verdicts, findings = case
    banners = model.build(replace(evidence, modelled=False, emulated=True), verdicts, findings).banners
    assert banners == (prose.EMULATED,)


def test_failed_trials_are_counted_and_named(make_case):
    case = make_case(failed=frozenset({"main.4k-randread-qd16.b002.iscsi"}))
    report = model.build(*case)
    assert ["1", "144"] in [figures(line) for line in report.sureness]
    failed = [t for row in report.trials for t in row.trials if t.failed]
    assert [(t.block, t.failed) for t in failed] == [(2, "fio ended with code 1")]
    nvme = next(c for c in report.answers if c.lane == "NVMe/TCP")
    assert [row.voided for row in nvme.rows] == [0, 1, 0, 0, 0, 0, 0, 0]
    assert [figures(row.counted) for row in nvme.rows[:2]] == [["6"], ["5", "6"]]
    assert nvme.blocks is None


@pytest.fixture(scope="module")
def lost(make_case):
    """One lane never works, another not at one cell, a block of a third cell is void."""
    trials = [f"main.{cell}.b{b:03d}.{lane}" for b in range(6) for cell, lane in _LOST if b == 0 or lane != "iscsi"]
    return make_case(failed=frozenset(trials), findings=())


_LOST = [
    *((f"{bs}-{rw}-qd{qd}", "local") for bs in ("4k", "64k") for rw in ("randread", "randwrite") for qd in (1, 16)),
    ("64k-randread-qd1", "nvme-tcp"),
    ("4k-randwrite-qd16", "iscsi"),
]


def test_where_nothing_can_be_compared_the_reason_stands_everywhere(lost):
    report = model.build(*lost)
    local, nvme = report.answers
    whys = {v.lane: v.notes[0] for v in lost[1] if v.primary and v.verdict == "refused"}
    assert {lane for lane, why in whys.items() if lane in why} == {"local", "nvme-tcp"}
    assert figures(local.summary) == ["8"]
    assert whys["local"] in local.summary
    assert all(part in nvme.summary for part in ("64k randread qd1", whys["nvme-tcp"]))
    row = nvme.rows[2]
    why = whys["nvme-tcp"]
    assert (row.word, row.reason, figures(row.counted)) == ("refused", why, ["0", "6"])
    assert [row.reason for row in nvme.rows if row.word != "refused"] == [""] * 7
    page, text = html.render(report), markdown.render(report)
    assert page.count(f'<small class="why">{why}</small>') == 1
    assert f"✕ refused ({why})" in text
    drawn = {f.id for f in pictures(report).every()}
    assert "forest-1-1" not in drawn  # a picture without a single mark
    assert "forest-1-2" in drawn
    assert 'id="forest-1-2"' not in page  # the first screen has all of it


def test_a_single_block_has_an_estimate_and_says_why_no_interval(make_case):
    failed = {f"main.4k-randread-qd1.b{b:03d}.nvme-tcp" for b in range(1, 6)}
    row = model.build(*make_case(failed=frozenset(failed), findings=())).answers[1].rows[0]
    assert (row.word, figures(row.counted), row.low) == ("no-spread", ["1", "6"], None)
    assert row.ratio
    assert row.reason


def said(case, token):
    """The sentences of how sure it is that have a token."""
    return [line for line in model.build(*case).sureness if token in line]


def test_what_holm_keeps_is_told_and_no_more(case, make_case):
    (told,) = said(case, "Holm")
    widest = min(v.level for v in case[1] if v.primary)
    assert figures(told) == ["16", "5", *figures(phrases.coverage(widest))]
    one = make_case(blocks=6, findings=())
    only = [v for v in one[1] if v.key == "main.4k-randread-qd1" and v.lane == "local"]
    assert said((one[0], only, ()), "Holm") == []


@pytest.mark.parametrize(("blocks", "few"), [(3, True), (4, True), (6, False)])
def test_few_blocks_under_the_virtual_clock_are_told_for_what_they_are(make_case, blocks, few):
    told = said(make_case(blocks=blocks, findings=()), "log-ratios")
    assert [figures(line) for line in told] == [[str(blocks)]] * few
    if few:
        real = said(make_case(blocks=blocks, findings=(), modelled=False), "log-ratios")
        assert [figures(line) for line in real] == [[str(blocks)]]
        assert real != told  # of real machines more than addresses and order is in the spread


def test_a_run_that_is_not_complete_says_how_far_it_is(case):
    evidence, verdicts, findings = case
    part = replace(evidence, observations=evidence.observations[:100], complete=False)
    assert figures(model.build(part, verdicts, findings).sureness[0]) == ["100", "144"]


def test_a_run_without_any_trial_has_a_report(case):
    evidence, _, _ = case
    report = model.build(replace(evidence, observations=(), complete=False), (), ())
    assert report.answers == ()
    assert figures(report.sureness[0]) == ["0", "144"]
    assert [line for line in report.sureness[1:] if "0" in figures(line)] == []  # nothing is said of their success
    assert report.sections[0].levels == ()
    assert report.sections[0].cpu is None
    assert report.trials == ()


def test_levels_come_from_the_verdicts_so_that_table_and_bar_agree(case):
    evidence, verdicts, findings = case
    report = model.build(evidence, verdicts, findings)
    shown = {(level.metric, cell.cell, bar.lane): bar for level in report.sections[0].levels
             for cell in level.cells for bar in cell.bars}  # fmt: skip
    label = lanes.labels(evidence.study)
    for v in verdicts:
        assert shown[v.metric, v.cell, label[v.lane]].value == v.lane_value
        assert shown[v.metric, v.cell, label[v.baseline]].value == v.baseline_value
        assert len(shown[v.metric, v.cell, label[v.lane]].points) == 6


def test_cpu_by_place_is_the_mean_over_blocks(case):
    evidence, verdicts, findings = case
    cpu = model.build(evidence, verdicts, findings).sections[0].cpu
    assert cpu
    stack = cpu.cells[0].stacks[1]
    seen = [o for o in evidence.observations if o.cell == evidence.study.cells()[0].key and o.lane == "iscsi"]
    assert stack.lane == "iSCSI"
    assert sum(stack.parts) == pytest.approx(sum(o.metrics["cpu_per_io"] for o in seen) / 6)


def test_a_place_that_nobody_knows_counts_as_other(case):
    evidence, verdicts, findings = case
    odd = tuple(
        replace(o, context={"cpu": {"by_place": {"generator": 5.0, "moon": 2.0}}}) for o in evidence.observations
    )
    cpu = model.build(replace(evidence, observations=odd), verdicts, findings).sections[0].cpu
    assert cpu
    assert cpu.places == ("generator", "other")
    assert cpu.cells[0].stacks[0].parts == (5.0, 2.0)


def test_lanes_side_by_side_sorts_what_differs_from_what_is_shared(case):
    table = lanes.side_by_side(case[0])
    differing = {row.key: row.values for row in table.differing}
    assert differing[f"{lanes.ASKED}transport"] == ("local", "iscsi", "nvme_tcp")
    assert differing[f"{lanes.READ_BACK}nr_requests"] == ("1023", "256", "127")
    assert {row.key for row in table.same} == {f"{lanes.ASKED}initiator", f"{lanes.READ_BACK}scheduler"}
    own = {row.key: row.values for row in table.own}
    assert own[f"{lanes.READ_BACK}negotiated.MaxBurstLength"] == (DASH, "262144", DASH)
    assert own[f"{lanes.ASKED}queues"] == (DASH, DASH, "1")


def test_figures_of_a_moment_are_no_parameters_of_a_lane(case):
    evidence = case[0]
    free = {"fstype": "ext4", "free_bytes": 1, "volumes": [{"name": "/", "used": 0.7}]}
    found = {"verdict": "disks", "seconds": 0.7, "read": {"disk_bytes": 9}}
    described = {lane: {"behind": free, "probed": {"here": found}} for lane in evidence.study.lanes}
    table = lanes.side_by_side(replace(evidence, description={"lanes": described}))
    read = {row.key.removeprefix(lanes.READ_BACK) for row in table.same if row.key.startswith(lanes.READ_BACK)}
    assert read == {"behind.fstype", "probed.here.verdict"}


def test_the_path_of_a_lane_marks_what_the_baseline_does_not_have(case):
    views = lanes.views(case[0])
    assert [v.baseline for v in views] == [False, True, False]
    assert not any(own for _, own in views[1].hops)
    nvme = dict(views[2].hops)
    assert nvme["fio"] is False
    assert nvme["nvmet"] is True


def test_a_described_path_goes_before_the_drawn_one(case):
    evidence = case[0]
    told = {"lanes": {"local": {"path": ["fio", "dm-crypt", "/dev/nullb0"]}}}
    view = lanes.views(replace(evidence, description=told))[0]
    assert view.path == ("fio", "dm-crypt", "/dev/nullb0")
    assert not any("path" in row.key for row in lanes.side_by_side(replace(evidence, description=told)).own)


def test_two_lanes_with_one_label_are_told_apart(make_case):
    study = make_case(nvme="fast", local="fast")[0].study
    assert list(lanes.labels(study).values()) == ["fast (local)", "iSCSI", "fast (nvme-tcp)"]


def test_how_to_repeat_names_only_what_departs_from_the_study(case):
    evidence, verdicts, findings = case
    assert model.build(*case).commands[0] == "fairlane run demo.yaml --out repeat"
    design = evidence.study.design.model_copy(update={"seed": 9, "looks": (3,)})
    other = replace(evidence, study=evidence.study.model_copy(update={"design": design}), seed=9)
    assert (
        model.build(other, verdicts, findings).commands[0] == "fairlane run demo.yaml --seed 9 --blocks 3 --out repeat"
    )


def test_raw_files_are_linked_by_trial(case):
    row = model.build(*case).trials[0]
    assert (row.cell, row.lane, row.anchor) == ("4k randread qd1", "local", "trials-1")
    assert row.trials[3].href == "raw/main.4k-randread-qd1.b003.local.tar.gz"


def test_cells_stand_in_the_order_of_the_study_not_of_the_schedule(case):
    evidence = case[0]
    names = [cell.name for cell in evidence.study.cells()]
    assert list(dict.fromkeys(block.cell.name for block in evidence.blocks)) != names
    assert [cell.name for cell in evidence.cells()] == names
    report = model.build(*case)
    assert [row.cell for row in report.answers[0].rows] == names
    assert [cell.cell for cell in report.sections[0].levels[0].cells] == names
    assert list(dict.fromkeys(row.cell for row in report.trials)) == names


def test_the_baseline_has_the_quiet_colour(case):
    bars = model.build(*case).sections[0].levels[0].cells[0].bars
    assert [(bar.lane, bar.index) for bar in bars] == [("local", 1), ("iSCSI", 0), ("NVMe/TCP", 2)]


def test_findings_of_one_check_stand_together_and_name_nothing_twice(make_case):
    keys = [cell.key for cell in make_case()[0].study.cells()]
    told = (
        Finding("bound", "warning", "4k randread qd1: fio is the limit on local", (keys[0],), ("local",)),
        Finding("spread", "critical", "two modes", (keys[1],)),
        Finding("bound", "warning", "fio is the limit", tuple(keys), ("local", "nvme-tcp")),
        Finding("bound", "warning", "worst at 64k randread qd16", (keys[0],), ("nvme-tcp",)),  # not "4k randread qd1"
        Finding("bound", "warning", "fio is the limit", tuple(keys[:7]), ("nvme-tcp",)),
    )
    groups = model.build(*make_case(findings=told)).findings
    assert [(g.severity, g.check, len(g.items)) for g in groups] == [("critical", "spread", 1), ("warning", "bound", 4)]
    every, one, some, nowhere = (f.where for f in groups[1].items)  # what is of local alone qualifies no answer
    assert nowhere == ""
    assert every.startswith("local, NVMe/TCP: ")
    assert figures(every) == ["8"]
    assert one == "NVMe/TCP: 4k randread qd1"
    five = "4k randread qd1, 4k randread qd16, 64k randread qd1, 64k randread qd16, 4k randwrite qd1"
    assert some.startswith(f"NVMe/TCP: {five} ")
    assert figures(some) == ["2"]


def test_long_lists_of_the_fingerprint_are_kept_apart(case):
    evidence, verdicts, findings = case
    packages = {f"lib{i}": f"1.{i}" for i in range(40)}
    report = model.build(replace(evidence, fingerprint={"qemu": "7.2", "packages": packages}), verdicts, findings)
    assert dict(report.provenance) == {"run": "demo-run", "study": "demo", "seed": "7", "qemu": "7.2"}
    assert report.inventories == (("packages", tuple(packages.items())),)
