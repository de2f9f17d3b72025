"""What is known of lanes and cells: from every source, in their order, whatever the sources hold."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.guard.conditions import conditions
from fairlane.guard.parameters import parameter
from fairlane.guard.values import MIXED
from fairlane.records import Evidence, Observation
from fairlane.study.load import parse_study

STUDY = """\
name: known
platform: {kind: PLATFORM}
baseline: a
conditions: {notes: here, host_cpu: any}
lanes:
  a: {transport: iscsi, sessions: 2}
  b: {transport: nvme_tcp, conditions: {notes: there, disk_size: 8g}}
workloads: {main: {kind: fio, rw: [randread, randrw], runtime: 1s}}
"""
READ, MIX = "main.4k-randread-qd1", "main.4k-randrw-70-30-qd1"


def evidence(*contexts, platform="lab", lane="b", cell=READ, **fields):
    study = parse_study(STUDY.replace("PLATFORM", platform), "known")
    seen = tuple(Observation(cell, n, lane, 0, context=context) for n, context in enumerate(contexts))
    return replace(Evidence("r", study, STUDY, 1, (), seen, {}, {}), **fields)


def known(*contexts, lane="b", cell=READ, **fields):
    return conditions(evidence(*contexts, lane=lane, cell=cell, **fields))[lane, cell]


def test_platform_study_workload_and_lane_add_up_and_the_nearer_one_wins():
    found = conditions(evidence())
    a, b = found["a", READ], found["b", READ]
    assert (a["notes"], b["notes"], b["host_cpu"]) == ("here", "there", "any")
    assert (a["transport"], b["transport"], a["platform"]) == ("iscsi", "nvme_tcp", "lab")
    assert (a["disk_size"], b["disk_size"]) == (16 * 2**30, 8 * 2**30)
    assert (a["tool"], a["direct"], a["bs"], a["runtime"], a["size"]) == ("fio", True, 4096, 10**9, "whole disk")
    assert "2 sessions" in a["path_settings"]
    assert "queues" in b
    assert b["queues"] == "none"  # of a guest device; those of NVMe/TCP are part of the path
    assert "rate_iops" not in a


def test_a_mix_is_known_only_where_there_is_one():
    found = conditions(evidence({"conditions": {"rwmixread": 50}}))
    assert found["b", MIX]["rwmixread"] == 70
    assert "rwmixread" not in found["b", READ]


def test_what_was_read_back_wins_over_what_was_asked_and_the_trials_over_that():
    back = {
        "lanes": {"b": {"device.bytes": "4096000", "conditions": {"bus": "virtio-blk"}}},
        "platform": {"link.mtu": "1500"},
    }
    found = known({"conditions": {"disk_size": 1024}}, description=back)
    assert (found["disk_size"], found["mtu"], found["bus"]) == (1024, 1500, "virtio-blk")
    assert known(description=back)["disk_size"] == 4096000
    assert known(fingerprint={"kernel": "6.1.0", "qemu": "7.2"})["guest_kernel"] == "6.1.0"


def test_the_date_is_the_journals_only_where_it_was_measured_here():
    events = (
        {"type": "start", "at": "1970-01-11T00:00:00.000+00:00"},
        {"type": "end", "at": "1970-01-12T00:00:00+00:00"},
    )
    assert known(events=events)["date"] == 10.0
    imported = (
        STUDY.replace("PLATFORM", "imported").replace("iscsi, sessions: 2", "imported").replace("nvme_tcp", "imported")
    )
    study = parse_study(imported, "known")
    there = conditions(Evidence("r", study, imported, 1, (), (), {}, {"kernel": "of the importer"}, events))["a", READ]
    assert not {"date", "guest_kernel", "platform", "transport"} & there.keys()


def test_the_version_that_fio_tells_is_the_tools():
    assert known({"fio": {"version": "fio-3.33"}})["tool_version"] == "3.33"
    assert known({"fio": {"version": "fio-3.33"}, "conditions": {"tool_version": "3.42"}})["tool_version"] == "3.42"


def test_trials_that_disagree_are_mixed_and_failed_ones_say_nothing():
    told = [{"conditions": {"tool_version": v}} for v in ("3.33", "3.42", "fio-3.33")]
    assert known(*told)["tool_version"] == MIXED + "3.33, 3.42"
    one = evidence(*told)
    failed = replace(one, observations=tuple(replace(o, failed="x" * (o.block == 1)) for o in one.observations))
    assert conditions(failed)["b", READ]["tool_version"] == "3.33"
    assert known({"conditions": {"prefill": True}}, {"conditions": {"prefill": "yes"}})["prefill"] is True
    assert known({"conditions": {"of_a_tool": True}}, {"conditions": {"of_a_tool": 1}})["of_a_tool"].startswith(MIXED)


def test_dates_of_trials_within_a_week_are_one_date():
    days = [{"conditions": {"date": day}} for day in ("2026-01-01", "2026-01-05", "2026-01-07")]
    assert parameter("date").shown(known(*days)["date"]) == "2026-01-04"
    assert known(*days, {"conditions": {"date": "2026-02-01"}})["date"] == MIXED + "2026-01-01, 2026-02-01"


def test_a_mixed_value_stays_mixed_when_it_is_gathered_again():
    mixed = MIXED + "4k, 8k"
    assert known({"conditions": {"bs": mixed}}, {"conditions": {"bs": mixed}})["bs"] == mixed
    assert known({"conditions": {"bs": mixed}}, {"conditions": {"bs": 4096}})["bs"].startswith(MIXED)


def test_long_text_is_cut_but_stays_different():
    one, other = known({"conditions": {"notes": "x" * 10**6}}), known({"conditions": {"notes": "x" * 10**6 + "y"}})
    assert len(one["notes"]) < 300
    assert one["notes"] != other["notes"]


@pytest.mark.parametrize(
    "bad", [[4096], {"a": 1}, None, math.nan, math.inf, 10**400, -(10**400), "", "  ", b"x"], ids=repr
)  # fmt: skip
def test_what_is_no_scalar_is_not_known(bad):
    assert "of_a_tool" not in known({"conditions": {"of_a_tool": bad}})


@pytest.mark.parametrize("name", [7, "", "UPPER", "a b", "\x1b[2J", "x" * 1000])
def test_what_is_no_name_is_left_out(name):
    assert name not in known({"conditions": {name: 1}})


def test_so_many_parameters_are_not_taken():
    assert len(known({"conditions": {f"p{n}": n for n in range(10_000)}})) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["bs", "date", "copies", "tool_version", "rw", "prefill", "of_a_tool"])


@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"conditions": st.dictionaries(NAMES, JSON) | JSON, "fio": JSON}), max_size=4
    ),
    st.dictionaries(st.sampled_from(["lanes", "platform"]), st.dictionaries(st.just("b"), JSON)),
    st.lists(st.fixed_dictionaries({"type": st.just("start")}, optional={"at": JSON}), max_size=2),
)
def test_whatever_trials_description_and_journal_hold(contexts, description, events):
    for value in known(*contexts, description=description, events=tuple(events)).values():
        assert isinstance(value, str | int | float | bool)
        assert len(str(value)) < 2500
