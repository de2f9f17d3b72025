"""The content of an export, against the run itself."""

import cProfile
import dataclasses
import json
import math
import shutil
import tracemalloc
from datetime import UTC, datetime

import numpy as np
import pytest

from fairlane import registry
from fairlane.export import _gather
from fairlane.export._columns import metric_column
from fairlane.export._values import harmless, instant, of_days
from fairlane.export.base import COMMON, PROVENANCE, iso
from fairlane.metrics import METRICS
from fairlane.records import Verdict
from fairlane.report import prose
from fairlane.runs import plan
from fairlane.verdicts.judged import Judged
from tests.export.known_run import LABELS, known


def rows(content, name):
    return list(content.table(name).records())


def test_every_field_of_every_verdict(hostile):
    found = rows(hostile.content, "verdicts")
    assert len(found) == len(hostile.verdicts) > 50
    names = {f.name: f.name for f in dataclasses.fields(Verdict)} | {"key": "cell_key"}
    for row, verdict in zip(found, hostile.verdicts, strict=True):
        assert {name: row[column] for name, column in names.items()} == vars(verdict)
        assert row["unit"] == METRICS[verdict.metric].unit
        assert row["lane_label"] == LABELS[verdict.lane]
        if verdict.verdict == "refused":
            assert row["reason"] == verdict.notes[0]


def test_every_finding(hostile):
    found = rows(hostile.content, "findings")
    assert [(r["check"], r["severity"], r["refuses"], r["cells"], r["lanes"]) for r in found] == [
        (f.check, f.severity, f.refuses, f.cells, f.lanes) for f in hostile.findings
    ]
    assert any(r["refuses"] for r in found)


def test_every_trial_with_its_figures_its_raw_file_and_its_time(hostile):
    found = {row["trial"]: row for row in rows(hostile.content, "trials")}
    assert set(found) == {seen.trial for seen in hostile.evidence.observations}
    journal = [json.loads(line) for line in (hostile.folder / "journal.jsonl").read_text().splitlines()]
    done = {f"{e['cell']}.b{e['block']:03d}.{e['lane']}": e for e in journal if e["type"] == "trial"}
    for seen in hostile.evidence.observations:
        row, event = found[seen.trial], done[seen.trial]
        figures = {name: row[metric_column(name).name] for name in METRICS if name in seen.metrics}
        assert figures == seen.metrics
        assert (row["failed"] or "") == seen.failed
        assert (row["block"], row["position"], row["lane"]) == (seen.block, seen.position, seen.lane)
        assert (hostile.folder / row["raw"]).is_file()
        assert row["raw_sha256"] == event["sha256"]
        assert iso(row["at"]).replace("Z", "+00:00") == event["at"]
        depth = 16 if seen.cell.endswith("qd16") else 1
        assert (row["bs_bytes"], row["iodepth"], row["rwmixread_percent"]) == (
            4096,
            depth,
            70 if "randrw" in seen.cell else None,
        )


def test_percentiles_are_of_all_ios_together(hostile):
    found = {(r["cell_key"], r["lane"], r["histogram"]): r for r in rows(hostile.content, "percentiles")}
    assert {histogram for _, _, histogram in found} >= {"lat", "read.lat", "write.lat", "read.clat"}
    for (cell, lane, histogram), row in found.items():
        mine = [o for o in hostile.evidence.observations if (o.cell, o.lane, o.failed) == (cell, lane, "")]
        ways = ("read.lat", "write.lat") if histogram == "lat" else (histogram,)
        bins: dict[int, int] = {}
        for seen in mine:
            for way in ways:
                for ns, n in seen.histograms.get(way, {}).items():
                    bins[ns] = bins.get(ns, 0) + n
        every = np.repeat(list(bins), list(bins.values()))
        every.sort()
        assert row["ios"] == len(every)
        assert row["mean_ns"] == pytest.approx(every.mean(), rel=1e-12)
        assert row["trials"] == len(mine)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p9999", 0.9999)):
            rank = math.ceil(share * len(every) - 1e-9)
            assert row[f"{name}_ns"] == (every[rank - 1] if len(every) - rank >= 10 else None)
    assert any(row["p9999_ns"] is None for row in found.values())
    assert any(row["p9999_ns"] for row in found.values())


def test_lanes_and_their_parameters(hostile):
    found = rows(hostile.content, "lanes")
    assert {r["lane"]: r["lane_label"] for r in found} == LABELS
    assert [r["lane"] for r in found if r["is_baseline"]] == ["base"]
    assert {r["lane"]: r["copy_of"] for r in found if r["copy_of"]} == {"again": "base"}
    told = {(r["lane"], r["cell_key"], r["source"], r["parameter"]): r for r in rows(hostile.content, "parameters")}
    assert told["fast", None, "asked", "transport"]["value"] == "nvme_tcp"
    assert told["fast", None, "read back", "device"]["value"] == "fake:fast"
    copies = told["other", "main.4k-randread-qd16", "condition", "copies"]
    assert (copies["value"], copies["number"], copies["role"]) == ("3", 3.0, "controlled")
    assert told["base", "main.4k-randread-qd16", "condition", "bs"]["number"] == 4096.0


def test_provenance(hostile):
    about = hostile.content.provenance
    assert (about["figures"], about["invented"], about["modelled"], about["emulated"]) == (
        "invented",
        True,
        False,
        False,
    )
    assert about["complete"] is True
    assert (about["seed"], about["study"], about["run"]) == (5, "hostile", "=done")
    assert about["study_sha256"] == plan.read(hostile.folder).sha256
    assert about["trials"] == about["planned"] == 4 * 5 * 8
    assert about["failed_trials"] == sum(bool(o.failed) for o in hostile.evidence.observations)
    assert about["question"] == "=cmd|' /C calc'!A0 \\u202e</script>"
    assert any(caveat.startswith(prose.INVENTED.title) for caveat in about["caveats"])
    assert list(about) == [column.name for column in PROVENANCE]


def test_a_name_means_one_thing_in_all_tables(hostile):
    kinds: dict[str, set[str]] = {}
    for columns in (COMMON, PROVENANCE, *(table.columns for table in hostile.content.tables)):
        for column in columns:
            kinds.setdefault(column.name, set()).add(column.kind)
    assert {name: kind for name, kind in kinds.items() if len(kind) > 1} == {}
    for table in hostile.content.tables:
        assert len(set(table.names)) == len(table.names)


def test_keys_tell_rows_apart(hostile):
    for table in hostile.content.tables:
        keys = [str([row[name] for name in table.key]) for row in table.records()]
        assert keys
        assert len(set(keys)) == len(keys), table.name


def test_metric_columns_have_their_unit():
    columns = {name: metric_column(name).name for name in METRICS}
    assert columns["iops"] == "iops_per_s"
    assert columns["bw"] == "bw_bytes_per_s"
    assert columns["lat_p99"] == "lat_p99_ns"
    assert columns["tpm"] == "tpm_per_min"
    assert len(set(columns.values())) == len(columns)


def test_values_that_no_table_can_hold():
    given = {"a\x1b": [float("nan"), float("inf"), 2**63, -(2**63) + 1, np.int64(3), np.float64(0.5), {1, 2}, b"x"]}
    assert harmless(given) == {"a\\x1b": [None, None, str(2**63), -(2**63) + 1, 3, 0.5, [1, 2], "b'x'"]}
    assert harmless((True, None, "\ud800")) == (True, None, "\\ud800")


def test_times_that_are_none():
    assert instant("2026-11-22T07:44:35.341+02:00") == datetime(2026, 11, 22, 5, 44, 35, 341000, UTC)
    assert instant("2026-11-22T07:44:35") == datetime(2026, 11, 22, 7, 44, 35, tzinfo=UTC)
    assert [instant(x) for x in (None, 5, "", "soon", "0001-01-01T00:00:00+23:00")] == [None] * 5
    assert of_days(20779.5) == datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert [of_days(x) for x in (None, True, "none", 1e300, float("nan"))] == [None] * 5


@pytest.mark.slow
def test_the_work_grows_with_the_trials_and_no_faster(hostile):
    """2,000 trials: calls of functions, and bytes held at once, are at most 13 times those of a 13th of them."""
    once = hostile.evidence.observations

    def grown(times):
        seen = tuple(dataclasses.replace(o, block=o.block + 8 * n) for n in range(times) for o in once)
        return dataclasses.replace(hostile.evidence, observations=seen)

    def export(evidence):
        content = _gather.gather(_gather.Tables(Judged(evidence, hostile.verdicts, hostile.findings)))
        return [writer.files(content) for _, writer in registry.every("export")]

    large = grown(13)
    assert len(large.observations) > 2000
    export(hostile.evidence)  # what is imported and kept is there from now on
    calls, peaks = [], []
    for evidence in (grown(1), large):
        with cProfile.Profile() as profile:
            export(evidence)
        calls.append(sum(entry.callcount for entry in profile.getstats()))
        tracemalloc.start()
        try:
            export(evidence)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert calls[0] < calls[1] < calls[0] * 13
    assert peaks[0] < peaks[1] < peaks[0] * 13


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_its_uuid_and_the_other_does_not(hostile, tmp_path):
    shutil.copytree(hostile.folder, tmp_path / "copy")
    copy = known(tmp_path / "copy")
    assert copy.content.provenance["uuid"] == hostile.content.provenance["uuid"]
    manifest = json.loads((tmp_path / "copy" / "run.json").read_text())
    (tmp_path / "copy" / "run.json").write_text(json.dumps({**manifest, "created": "2020-01-01T00:00:00+00:00"}))
    assert known(tmp_path / "copy").content.provenance["uuid"] != hostile.content.provenance["uuid"]
