"""The guard refuses what differs, warns of what nobody says, and prints what was accepted; never more, never less."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane import registry
from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.guard.accept import accepting
from fairlane.guard.matched import table_of
from fairlane.guard.parameters import PARAMETERS, UNKNOWN, WANTED
from fairlane.records import Block, Evidence, Observation
from fairlane.stats.judge import judge
from fairlane.study.load import load_study, parse_study
from tests.words import kind

CELLS = ("4k randread qd1", "4k randread qd32", "64k randread qd1")
KEYS = tuple(f"main.{name.replace(' ', '-')}" for name in CELLS)
FULL = {
    "vm_cpus": 4, "vm_memory": "8g", "guest_kernel": "6.1", "fleet": 1, "bus": "virtio-blk", "io_threads": 1,
    "queues": 4, "cache_mode": "none", "volume_mode": "Block", "disk_size": "150g", "copies": 3,
    "write_ack": "after all copies", "flush": "honoured", "link_speed": "25gbit", "tool": "fio", "tool_version": "3.33",
    "numjobs": 4, "ramp": "10s", "runtime": "60s", "date": "2026-01-10", "engine": "io_uring", "direct": "yes",
    "rw": "randread", "bs": "4k", "iodepth": 32, "size": "4g", "prefill": "yes",
}  # fmt: skip
"""Everything that is wanted of a block load."""


def imported(told, *, vary=(), accept=None, baseline="vcf", blocks=1):
    """``told``: lane -> conditions of its trials, alike in all cells, or cell number -> conditions."""
    study = parse_study(
        f"""
name: apart
platform: {{kind: imported}}
baseline: {baseline}
lanes: {{{", ".join(f"{lane}: {{transport: imported, label: {lane.upper()}}}" for lane in told)}}}
workloads: {{main: {{kind: imported, points: [{", ".join(f"{{name: {name}}}" for name in CELLS)}]}}}}
design: {{paired: false, vary: [{", ".join(vary)}]}}
""",
        "apart",
    )
    seen, schedule = [], []
    for number, cell in enumerate(study.cells()):
        for n in range(blocks):
            schedule.append(Block(cell, n, tuple(told), 1))
            for place, (lane, given_) in enumerate(told.items()):
                here = given_.get(number, {}) if number in given_ or given_.keys() <= {0, 1, 2} else given_
                seen.append(Observation(cell.key, n, lane, place, "", {"iops": 1000.0 + n}, {}, {"conditions": here}))
    seen.sort(key=lambda o: (o.cell, o.block, o.lane))
    evidence = Evidence("apart", study, "", 1, tuple(schedule), tuple(seen), {}, {})
    return accepting(evidence, accept or {})


def guard(evidence):
    return list(registry.load("checks", "unmatched").check(evidence))


def refusals(evidence):
    return [f for f in guard(evidence) if f.refuses]


def without(*names):
    return {name: value for name, value in FULL.items() if name not in names}


def test_full_wanted_list_is_covered_by_the_fixture():
    assert set(FULL) == set(WANTED["block"])


def test_lanes_that_are_known_to_match_have_no_finding():
    assert guard(imported({"vcf": FULL, "roks": FULL})) == []


def words(text):
    """Names and values of a text, in their order."""
    return re.findall(r"[\w.-]+", text)


def values(found, name, lane="roks"):
    """Value and label of both sides, as the finding has them."""
    assert words(found.evidence[name][lane])[0] in words(found.message), "the sentence shows the value"
    return [tuple(words(part)[::2]) for part in found.evidence[name][lane].split(", ")]


def test_a_difference_refuses_and_the_sentence_says_it():
    (found,) = guard(imported({"vcf": {**FULL, "ramp": 0}, "roks": FULL}))
    assert found.refuses
    assert (found.severity, found.kind) == ("critical", "refused")
    assert (found.cells, found.lanes) == ((), ("roks",))
    assert found.evidence.keys() == {"ramp"}
    assert values(found, "ramp") == [("10s", "ROKS"), ("0s", "VCF")]


def test_known_on_one_side_only_refuses():
    (found,) = guard(imported({"vcf": without("prefill", "ramp"), "roks": FULL}))
    assert found.refuses
    assert (found.kind, set(found.evidence)) == ("refused", {"prefill", "ramp"})
    assert values(found, "ramp") == [("10s", "ROKS"), (UNKNOWN, "VCF")]
    assert values(found, "prefill") == [("yes", "ROKS"), (UNKNOWN, "VCF")]


def test_unknown_on_both_sides_is_one_warning_that_lists_them():
    bare = without("prefill", "copies")
    (found,) = guard(imported({"vcf": bare, "roks": bare, "other": bare}))
    assert (found.severity, found.refuses, found.lanes) == ("warning", False, ("roks", "other"))
    assert (found.kind, set(found.evidence)) == ("unknown", {"copies", "prefill"})
    assert {"copies", "prefill", "ROKS", "OTHER", "VCF"} <= set(words(found.message))


def test_what_does_not_matter_for_the_load_is_not_missed():
    database = {"scale": 500, "tool": "hammerdb", "numjobs": 16}
    (found,) = guard(imported({"vcf": database, "roks": database}))
    assert "prefill" not in found.evidence
    assert "ramp" in found.evidence
    assert "scale" not in found.evidence


def test_values_that_differ_by_cell_are_one_finding_that_names_a_cell():
    other = {n: {**FULL, "iodepth": 8 * (n + 1)} for n in range(3)}
    (found,) = guard(imported({"vcf": FULL, "roks": other}))
    assert (found.kind, set(found.evidence)) == ("refused", {"iodepth"})
    text = found.evidence["iodepth"]["roks"]
    assert words(text)[:4:2] == ["8", "ROKS"]
    assert CELLS[0] in text
    assert CELLS[1] not in text
    assert "2" in words(text), "as many other cells"


def test_a_difference_in_some_cells_refuses_those_only():
    evidence = imported({"vcf": FULL, "roks": {0: FULL, 1: {**FULL, "bs": "8k"}, 2: FULL}}, blocks=6)
    (found,) = guard(evidence)
    assert found.cells == (KEYS[1],)
    words = {v.key: v.verdict for v in judge(evidence, [found]) if v.metric == "iops"}
    assert words[KEYS[1]] == "refused"
    assert words[KEYS[0]] != "refused"


def test_trials_of_one_lane_that_disagree_refuse_whatever_is_varied():
    evidence = imported({"vcf": FULL, "roks": FULL}, vary=["tool_version"], blocks=2)
    later = tuple(
        replace(o, context={"conditions": {**FULL, "tool_version": "3.42"}}) if o.lane == "roks" and o.block else o
        for o in evidence.observations
    )
    (found,) = guard(replace(evidence, observations=later))
    assert (found.refuses, found.kind, set(found.evidence)) == (True, "refused", {"tool_version"})
    (row,) = (row for row in table_of(replace(evidence, observations=later)).rows if row.name == "tool_version")
    assert row.status == "differs"
    shown = words(found.evidence["tool_version"]["roks"])
    assert shown[shown.index("3.42") - 1] == "3.33"
    assert shown.index("3.42") < shown.index("ROKS")


def test_the_question_of_the_study_is_no_refusal():
    (found,) = guard(imported({"vcf": {**FULL, "copies": 2}, "roks": FULL}, vary=["copies"]))
    assert (found.severity, found.refuses) == ("info", False)
    assert found.kind == "varied"
    assert values(found, "copies") == [("3", "ROKS"), ("2", "VCF")]


def test_what_may_vary_and_nobody_knows_is_no_difference():
    bare = without("prefill", "copies")
    (found,) = (
        f
        for f in guard(imported({"vcf": {**bare, "ramp": 0}, "roks": bare}, vary=["copies", "prefill", "ramp"]))
        if f.kind == "varied"
    )
    assert set(found.evidence) == {"copies", "prefill", "ramp"}
    differ, unknown = found.message.split("; not stated by either side")
    assert "ramp" in differ
    assert "copies" in unknown
    assert "prefill" in unknown
    assert "copies" not in differ


def test_what_is_accepted_is_printed_with_values_and_reason():
    (found,) = guard(
        imported({"vcf": {**FULL, "ramp": 0}, "roks": FULL}, accept={"ramp": "both steady from the start"})
    )
    assert (found.severity, found.refuses) == ("warning", False)
    assert found.kind == "accepted"
    assert values(found, "ramp") == [("10s", "ROKS"), ("0s", "VCF")]
    assert "both steady from the start" in found.message


def test_accepting_what_nobody_knows_takes_it_from_the_warning():
    bare = without("prefill", "copies")
    found = guard(imported({"vcf": bare, "roks": bare}, accept={"prefill": "reads only"}))
    assert [(f.kind, set(f.evidence)) for f in found] == [("unknown", {"copies"}), ("accepted", {"prefill"})]
    assert "reads only" in found[1].message


def test_accepting_for_nothing_is_said():
    (found,) = guard(imported({"vcf": FULL, "roks": FULL}, accept={"ramp": "why not"}))
    assert (found.severity, found.kind) == ("info", "accepted-in-vain")
    assert "ramp-up" in words(found.message)


def test_a_name_that_no_registry_knows_is_controlled_and_can_be_accepted():
    told = {"vcf": {**FULL, "numa": "off"}, "roks": {**FULL, "numa": "on"}}
    (found,) = guard(imported(told))
    assert found.refuses
    assert refusals(imported(told, accept={"numa": "one socket"})) == []


@pytest.mark.parametrize(
    ("name", "reason", "error"), [("rmp", "x", "parameter-unknown"), ("ramp", " - ", "reason-missing")]
)
def test_an_acceptance_must_name_a_parameter_and_a_reason(name, reason, error):
    with pytest.raises(FairlaneError, check=kind(error)) as told:
        imported({"vcf": FULL, "roks": FULL}, accept={name: reason})
    assert "ramp" in told.value.message + told.value.hint


def test_what_the_lanes_are_meant_to_differ_in_and_what_is_only_reported_never_refuses():
    free = {name: f"of {name}" for name, p in PARAMETERS.items() if p.role != "controlled" and name != "mtu"}
    assert guard(imported({"vcf": FULL, "roks": {**FULL, **free}})) == []


def test_a_lane_whose_trials_all_failed_is_not_judged_by_what_it_could_not_say():
    evidence = imported({"vcf": FULL, "roks": FULL})
    broken = tuple(replace(o, failed="no", context={}) if o.lane == "roks" else o for o in evidence.observations)
    assert guard(replace(evidence, observations=broken)) == []
    assert {row.status for row in table_of(replace(evidence, observations=broken)).rows} == {""}


@pytest.mark.parametrize("preset", ["demo", "nvme-tcp-stall", "fake"])
def test_own_presets_are_clean(preset):
    study, text = load_study(preset)
    seen = tuple(
        Observation(cell.key, 0, lane, n, "", {"iops": 1.0}, {}, {"fio": {"version": "fio-3.33"}})
        for cell in study.cells()
        for n, lane in enumerate(study.lanes)
    )
    fingerprint = {"kernel": "6.12", "qemu": "7.2"}
    evidence = Evidence(
        "r", study, text, 1, (), seen, {}, fingerprint, ({"type": "start", "at": "2026-01-10T10:00:00Z"},)
    )
    assert guard(evidence) == []
    assert {row.status for row in table_of(evidence).rows} == {"match", "varied"}


def test_side_by_side_only_what_belongs_to_the_path_is_missed():
    study = parse_study(
        """
name: own
platform: {kind: lab}
baseline: a
lanes: {a: {transport: iscsi}, b: {transport: iscsi, conditions: {copies: 3}}}
workloads: {main: {kind: fio, runtime: 1s}}
""",
        "own",
    )
    nothing_said = type("Silent", (type(study.platform),), {"known": lambda self: {}})
    study = study.model_copy(update={"platform": nothing_said(kind="lab")})
    seen = tuple(Observation("main.4k-randread-qd1", 0, lane, 0, "", {"iops": 1.0}) for lane in "ab")
    refused, warned = guard(Evidence("own", study, "", 1, (), seen, {}, {}))
    assert refused.evidence.keys() == {"copies"}
    assert warned.evidence.keys() == {"write_ack", "flush", "link_speed"}


def test_a_run_that_took_weeks_is_told():
    evidence = imported({"vcf": FULL, "roks": FULL})
    events = (
        {"type": "start", "at": "2026-01-01T00:00:00Z"},
        {"type": "end", "at": "2026-02-01T00:00:00Z"},
        {"at": 7, "type": "x"},
    )
    check = registry.load("checks", "long_run")
    assert (
        list(check.check(replace(evidence, events=events))) == []
    )  # the journal of an import is not of the measurement
    own = load_study("fake")[0]
    (found,) = check.check(replace(evidence, study=own, events=events))
    assert found.evidence == {"first": "2026-01-01", "last": "2026-02-01", "days": 31.0}
    assert list(check.check(replace(evidence, study=own, events=events[:1]))) == []


VALUES = st.sampled_from([None, 1, 2, True, "a", "none", "3.33"])
TOLD = st.dictionaries(
    st.sampled_from(["ramp", "copies", "prefill", "tool_version", "date", "link_speed", "mtu", "numa"]), VALUES
)


@given(TOLD, TOLD)
def test_swapping_the_lanes_refuses_the_same(one, other):
    there = refusals(imported({"vcf": one, "roks": other}))
    back = refusals(imported({"vcf": one, "roks": other}, baseline="roks"))
    assert {name for f in there for name in f.evidence} == {name for f in back for name in f.evidence}


@given(TOLD, TOLD)
def test_what_is_accepted_never_refuses_and_never_goes_unsaid(one, other):
    told = {"vcf": one, "roks": other}
    names = {name for f in refusals(imported(told)) for name in f.evidence}
    found = guard(imported(told, accept=dict.fromkeys(names, "tried it")))
    assert not any(f.refuses for f in found)
    assert sum("tried it" in f.message for f in found) == len(names)


@given(TOLD)
def test_equal_lanes_never_refuse(told):
    assert refusals(imported({"vcf": told, "roks": dict(told)})) == []


@given(TOLD, TOLD)
def test_the_table_says_differs_exactly_where_the_guard_refuses(one, other):
    evidence = imported({"vcf": one, "roks": other})
    differing = {row.name for row in table_of(evidence).rows if row.status == "differs"}
    assert differing == {name for f in refusals(evidence) for name in f.evidence}
    unknown = {row.name for row in table_of(evidence).rows if row.status == "unknown"}
    assert unknown == {name for f in guard(evidence) if f.severity == "warning" for name in f.evidence}


def test_a_hundred_parameters_and_three_lanes_are_few_findings():
    many = {f"p{n}": 1 for n in range(60)}
    found = guard(imported({"vcf": FULL, "roks": {**FULL, **many}, "x": {**FULL, **many}}))
    assert len(found) == 2
    assert all(len(f.message) < 1000 and words(f.message)[-2] == "48" and len(f.evidence) == 60 for f in found)


def test_versions_of_results_from_elsewhere_are_the_guards_affair():
    told = {"vcf": FULL, "roks": {**FULL, "tool_version": "3.42"}}
    evidence = imported(told)
    seen = tuple(
        replace(o, context={**o.context, "fio": {"version": f"fio-{told[o.lane]['tool_version']}"}})
        for o in evidence.observations
    )
    found = [
        f.check
        for f in run_all(replace(evidence, observations=seen))
        if "tool_version" in f.evidence or "fio" in f.evidence
    ]
    assert found == ["unmatched"]


def test_the_guard_runs_with_all_checks_on_whatever_trials_hold():
    evidence = imported({"vcf": {**FULL, "ramp": [1], "bs": {"a": 1}}, "roks": {**FULL, "notes": "\x1b[2J" * 10**5}})
    assert any(f.check == "unmatched" and f.refuses for f in run_all(evidence))
