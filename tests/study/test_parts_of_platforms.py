"""Transports and workloads that belong to one platform; quick forms that put a part of another kind in its place."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.study.load import parse_study
from tests.words import kind

CLUSTER = """\
name: cluster
platform: {kind: kubevirt, image: "docker://quay.io/containerdisks/fedora:41", nodes: 3, per_node: 2}
baseline: a
lanes:
  a: {transport: storage_class, storage_class: one, volume_mode: Filesystem}
  b: {transport: storage_class, storage_class: two, label: Two}
workloads:
  main: {kind: fio, bs: [8k], runtime: 60s}
  db: {kind: oltp, load: hammerdb, database: mariadb}
quick:
  platform: {kind: lab}
  lanes:
    a: {transport: iscsi}
    b: {label: TWO}
  workloads:
    main: {runtime: 1s}
    db: {kind: fio, rw: [randrw], runtime: 1s}
"""
AS_QUICK = CLUSTER.replace("b: {label: TWO}", "b: {transport: nvme_tcp}")


def complaint(text: str) -> FairlaneError:
    with pytest.raises(FairlaneError) as caught:
        parse_study(text, "s.yaml")
    return caught.value


def test_a_part_of_another_kind_takes_the_place_of_the_whole_part() -> None:
    study = parse_study(AS_QUICK, "s.yaml", quick=True)
    assert study.platform.kind == "lab"
    assert study.platform.model_fields_set == {"kind"}
    assert study.lanes["a"].model_fields_set == {"transport"}
    assert study.lanes["b"].label == "", "a label belongs to the lane that it was given to"
    assert study.workloads["db"].model_fields_set == {"kind", "rw", "runtime"}


def test_a_part_of_the_same_kind_is_merged_key_by_key() -> None:
    study = parse_study(AS_QUICK.replace("main: {runtime: 1s}", "main: {kind: fio, runtime: 1s}"), "s.yaml", quick=True)
    assert [cell.name for cell in study.cells() if cell.workload == "main"] == ["8k randread qd1"]


def test_conditions_are_no_part_of_a_kind() -> None:
    text = AS_QUICK.replace("lanes:\n  a: {", "lanes:\n  a: {conditions: {transport: x, copies: 3}, ", 1)
    merged = text.replace("a: {transport: iscsi}", "a: {conditions: {transport: y}}")
    with pytest.raises(
        FairlaneError, check=kind("not-for-platform")
    ) as caught:  # storage_class still, and so not for the lab
        parse_study(merged, "s.yaml", quick=True)
    assert caught.value.message.startswith("lanes.a.transport: ")
    here = merged.replace("  platform: {kind: lab}\n", "").replace("    b: {transport: nvme_tcp}\n", "")
    assert parse_study(here, "s.yaml", quick=True).lanes["a"].conditions == {"transport": "y", "copies": 3}


def test_an_error_in_what_was_put_in_place_has_its_own_line() -> None:
    error = complaint(AS_QUICK.replace("a: {transport: iscsi}", "a: {transport: iscsi, storage_class: one}"))
    assert (error.kind, error.where) == ("key-unknown", "s.yaml:13")
    assert error.message.startswith("lanes.a.storage_class: ")


def test_a_lane_of_another_platform_is_refused_where_it_stands() -> None:
    error = complaint(CLUSTER)
    assert (error.kind, error.where) == ("not-for-platform", "s.yaml:6")
    assert error.message.startswith("lanes.b.transport: ")
    assert all(name in error.message for name in ("'storage_class'", "'lab'", "kubevirt"))


@pytest.mark.parametrize(
    ("platform", "name"),
    [("{kind: fake}", "'fake'"), ("{kind: lab, clock: wall}", "'lab'")],
)
def test_no_other_platform_takes_a_storage_class(platform: str, name: str) -> None:
    text = CLUSTER.partition("quick:")[0]
    first = text.splitlines()[1]
    error = complaint(text.replace(first, f"platform: {platform}"))
    assert (error.kind, error.where) == ("not-for-platform", "s.yaml:5")
    assert error.message.startswith("lanes.a.transport: ")
    assert "'storage_class'" in error.message
    assert name in error.message


@pytest.mark.parametrize(
    ("platform", "load"),
    [
        ("{kind: fake}", "{kind: oltp, load: pgbench}"),
        *((platform, "{kind: slob}") for platform in ("{kind: lab}", "{kind: lab, clock: wall}", "{kind: fake}")),
    ],
)
def test_no_platform_that_runs_takes_a_workload_that_is_only_described(platform: str, load: str) -> None:
    text = f"""\
name: db
platform: {platform}
baseline: a
lanes: {{a: {{transport: iscsi}}, b: {{transport: nvme_tcp}}}}
workloads:
  main: {load}
"""
    error = complaint(text)
    assert (error.kind, error.where) == ("not-for-platform", "s.yaml:6")
    assert error.message.startswith("workloads.main.kind: ")
    assert "kubevirt, vsphere" in error.message


def test_a_cluster_takes_no_lane_that_the_lab_would_build() -> None:
    error = complaint(
        CLUSTER.partition("quick:")[0].replace("transport: storage_class, storage_class: two", "transport: nfs")
    )
    assert error.kind == "platform-cannot"
    assert all(names in error.message for names in ("'kubevirt'", "'nfs'", "storage_class, iscsi, nvme_tcp"))
