"""Loads of a command line: profiles, options, job files, captured workloads."""

from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.versus.loads import acceptable, limits, load
from fairlane.versus.profiles import DEFAULT, PROFILES

JOB = "[global]\nsize=64m\n[reader]\nrw=randread\nbs=8k\n[writer]\nrw=randwrite\nbs=16k\n"


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_is_a_load_with_a_source(name: str) -> None:
    of = load({}, name, None, None)
    assert of.cells
    assert of.source
    assert len(PROFILES[name].summary) <= 64
    assert of.reads_only is False


def test_the_default_is_two_cells_and_only_reads_where_it_must() -> None:
    of = load({}, None, None, None)
    assert [cell.name for cell in of.cells] == ["4k randread qd1", "4k randwrite qd16"]
    assert of.workloads == DEFAULT.workloads
    assert [cell.name for cell in of.reading().cells] == ["4k randread qd1", "4k randread qd16"]
    assert of.reading().reads_only


def test_etcd_writes_2300_bytes_through_the_cache_and_has_a_limit() -> None:
    of = load({}, "etcd", None, None)
    (cell,) = of.cells
    assert (cell.params["bs"], cell.params["direct"], cell.params["engine"]) == (2300, False, "psync")
    assert of.syncs
    assert of.cached
    assert of.tail
    assert (cell.params["prefill"], cell.params["size"]) == (False, 22 * 2**20)
    assert [limit.below for limit in limits(of.cells)] == [10_000_000]


def test_a_workload_that_is_only_called_etcd_has_no_limit(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("workloads:\n  etcd: {kind: fio, rw: [write], bs: [4k], fdatasync: [1]}\n")
    assert limits(load({}, None, None, str(tmp_path / "mine.yaml")).cells) == []


def test_options_are_lists_and_a_rate_is_judged_by_latency() -> None:
    of = load({"rw": ["randread"], "iodepth": [1, 32]}, None, None, None)
    assert [cell.name for cell in of.cells] == ["4k randread qd1", "4k randread qd32"]
    assert load({"rate_iops": [500]}, None, None, None).workloads["main"]["primary"] == "lat_p99"


def test_a_job_file_and_a_captured_workload_keep_their_regions(tmp_path: Path) -> None:
    (tmp_path / "my.fio").write_text(JOB)
    of = load({}, None, str(tmp_path / "my.fio"), None)
    assert of.needs == 64 * 2**20
    assert not of.reads_only
    (tmp_path / "captured.yaml").write_text(
        "kind: fio\njobs:\n  data: {rw: randrw, rwmixread: 80, bs: 8k, rate_iops: 300, size: 32m}\n"
        "  log: {rw: write, bs: 4k, fdatasync: 1, offset: 32m, size: 8m}\nsize: 40m\nruntime: 30s\nramp: 2s\n"
    )
    of = load({}, None, None, str(tmp_path / "captured.yaml"))
    assert of.needs == 40 * 2**20
    assert of.workloads["main"]["primary"] == "lat_p99"
    assert "runtime" not in of.workloads["main"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (({"rw": ["randread"]}, "oltp", None, None), "loads-several"),
        (({}, "oltp", "x.fio", None), "loads-several"),
        (({}, "nothing", None, None), "profile-unknown"),
        (({}, None, "missing.fio", None), "file-missing"),
        (({}, None, None, "missing.yaml"), "file-missing"),
    ],
)
def test_what_is_no_load_is_refused(arguments: tuple[dict[str, list[str]], str, str, str], kind: str) -> None:
    with pytest.raises(FairlaneError) as refused:
        load(*arguments)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("text", "line"), [("[one]\nrw=randread\n[two]\nrw=randwrite\nexitall\n", 5), ("size=64m\nnonsense\n", 1)]
)
def test_an_error_of_a_job_file_names_its_own_line_and_repeats_nothing(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "my.fio"
    file.write_text(text)
    with pytest.raises(FairlaneError) as refused:
        _ = load({}, None, str(file), None).cells
    assert refused.value.where == f"{file}:{line}"
    assert "\\n" not in str(refused.value)


def test_an_error_of_options_names_them() -> None:
    with pytest.raises(FairlaneError) as refused:
        _ = load({"bs": ["5000"]}, None, None, None).cells
    assert str(refused.value).startswith("--bs: ")
    with pytest.raises(FairlaneError) as refused:
        _ = load({"bs": ["5000"], "rw": ["foo"]}, None, None, None).cells
    assert [line.split(":")[0] for line in refused.value.message.splitlines()[1:]] == ["  --rw", "  --bs"]
    with pytest.raises(FairlaneError) as refused:
        acceptable({"foo": "bar"})
    assert str(refused.value).startswith("--accept: ")
