"""What somebody with an interest may do to results before they are imported, and what Fairlane says of it.

Files in the shape of fio 3.33's json+, written here with chosen latencies, go the whole way: import, checks, verdict.
"""

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run
from fairlane.compare.comparison import compare
from fairlane.compare.mapping import LaneMap, Pair
from fairlane.errors import FairlaneError
from fairlane.importers._map import parse_map
from fairlane.importers._run import import_files
from fairlane.records import Evidence, Finding, Verdict
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from tests.words import kind

NOON = 1_795_262_400
MINUTE, DAY = 60, 86_400
CELL = "main.4k-randread-qd8"
RAN = 30
"""Seconds that each trial took."""
SEED = 40
"""Of the baseline's first trial: blocks that happen not to resemble their neighbours, as one study in twenty does."""


def trial(level: float, seed: int, began: float, version: str = "fio-3.33", **options: str) -> dict[str, Any]:
    """A fio document: 3000 reads or so at ``level`` times 100 IOPS."""
    rng = random.Random(seed)  # noqa: S311
    ios = round(3000 * level * (1 + 0.01 * rng.gauss(0, 1)))
    bins = Counter(2**14 + 256 * round(32 * rng.random()) for _ in range(ios))
    mean = sum(ns * n for ns, n in bins.items()) / ios
    lat = {"min": min(bins), "max": max(bins), "mean": mean, "N": ios, "bins": {str(k): bins[k] for k in sorted(bins)}}
    given = {"name": "job", "rw": "randread", "bs": "4k", "iodepth": "8", "ioengine": "libaio", "direct": "1",
             "runtime": str(RAN), **options}  # fmt: skip
    side = {"io_bytes": ios * 4096, "total_ios": ios, "runtime": RAN * 1000, "iops": ios / RAN, "lat_ns": lat}
    return {
        "fio version": version,
        "timestamp": int(began) + RAN,
        "timestamp_ms": int(began * 1000) + RAN * 1000,
        "jobs": [{"jobname": "job", "groupid": 0, "error": 0, "elapsed": RAN, "job options": given, "read": side}],
    }


def put(path: Path, document: dict[str, Any], indent: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=indent))


def honest(folder: Path, **of_new: str) -> Path:
    """Two lanes in turn, a trial a minute; ``new`` does 30 % better."""
    for block in range(6):
        began = NOON + 2 * MINUTE * block
        put(folder / "base" / f"{block}.json", trial(1.0, SEED + block, began))
        put(folder / "new" / f"{block}.json", trial(1.3, 100 + block, began + MINUTE, **of_new))
    return folder


def judged(tmp_path: Path, source: Path, chosen: str = "{}") -> tuple[Evidence, Verdict, list[Finding]]:
    import_files([source], tmp_path / "out", parse_map(chosen, "map.yaml"))
    evidence = load_run(tmp_path / "out")
    findings = run_all(evidence)
    (verdict,) = [v for v in judge(evidence, findings) if v.primary]
    return evidence, verdict, list(findings)


def of(findings: list[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def values(finding: Finding, parameter: str) -> tuple[str, str]:
    """The parameter's value on ``new`` and on ``base``, of the guard's refusal."""
    assert (finding.kind, finding.lanes) == ("refused", ("new",))
    first, second = finding.evidence[parameter]["new"].split(", ")
    return first.split()[0], second.split()[0]


def test_honest_results_are_believed(tmp_path):
    _, verdict, findings = judged(tmp_path, honest(tmp_path / "in"))
    assert (verdict.verdict, verdict.headline) == ("faster", True)
    assert not [
        f
        for f in findings
        if f.severity == "critical" or f.check in ("repeated", "shared_trials", "unequal_trials", "sequential")
    ]


def test_one_trial_in_other_white_space_and_at_other_times_is_one_trial(tmp_path):
    source = honest(tmp_path / "in")
    for copy in range(2, 6):
        relabelled = trial(1.3, 100, NOON + MINUTE + 2 * MINUTE * copy)
        put(source / "new" / f"{copy}.json", relabelled, indent=copy)
    _, verdict, findings = judged(tmp_path, source)
    (found,) = of(findings, "repeated")
    assert (found.refuses, found.kind, found.lanes) == (True, "same-trial", ("new",))
    assert found.evidence == {"trials": [f"{CELL}.b00{block}.new" for block in (0, 2, 3, 4, 5)], "equal": "bins"}
    assert (verdict.verdict, verdict.headline) == ("refused", False)


def test_one_trial_under_the_names_of_two_lanes_is_no_tie(tmp_path):
    source = honest(tmp_path / "in")
    for block in range(6):
        put(source / "new" / f"{block}.json", trial(1.0, SEED + block, NOON + 2 * MINUTE * block + MINUTE))
    _, verdict, findings = judged(tmp_path, source)
    assert verdict.verdict == "refused"
    assert [(f.kind, sorted(f.evidence["trials"])) for f in of(findings, "shared_trials")] == [
        ("same-trial", [f"{CELL}.b00{block}.base", f"{CELL}.b00{block}.new"]) for block in range(6)
    ]


def test_a_run_that_is_compared_with_itself_is_no_tie(tmp_path):
    evidence, _, _ = judged(tmp_path, honest(tmp_path / "in"))
    itself = LaneMap("a", (Pair("new", "new", {"a": "new", "b": "new"}),))
    comparison = compare({"a": evidence, "b": evidence}, itself, {})
    assert {v.verdict for v in comparison.verdicts if v.primary} == {"refused"}
    assert {f.check for f in comparison.findings if f.refuses} == {"shared_trials"}


def test_tables_may_repeat_short_figures_but_not_long_ones(tmp_path):
    table = "tool: table\ntable: {block: run, figures: [{column: iops, metric: iops}]}\n"
    for lane, figures in (("base", ("3000", "3000", "2990")), ("new", ("4000.125", "4000.125", "4100.5"))):
        (tmp_path / "in" / lane).mkdir(parents=True)
        lines = "".join(f"{n},{figure}\n" for n, figure in enumerate(figures))
        (tmp_path / "in" / lane / "all.csv").write_text("run,iops\n" + lines)
    _, _, findings = judged(tmp_path, tmp_path / "in", table)
    (found,) = of(findings, "repeated")
    assert (found.lanes, found.kind, found.evidence["equal"]) == (("new",), "same-trial", "figures")


def test_the_machines_of_one_run_are_not_its_repetitions(tmp_path):
    for vm in range(6):
        put(tmp_path / "in" / "base" / f"vm{vm}.json", trial(1.0, vm, NOON + 0.2 * vm))
        put(tmp_path / "in" / "new" / f"vm{vm}.json", trial(1.3, 100 + vm, NOON + MINUTE + 0.2 * vm))
    _, verdict, findings = judged(tmp_path, tmp_path / "in")
    assert verdict.verdict == "refused"
    assert [f.lanes for f in of(findings, "repeated")] == [("base",), ("new",)]
    assert {f.kind for f in of(findings, "repeated")} == {"same-time"}


def test_lanes_under_load_together_are_told(tmp_path):
    for block in range(6):
        put(tmp_path / "in" / "base" / f"{block}.json", trial(1.0, block, NOON + MINUTE * block))
        put(tmp_path / "in" / "new" / f"{block}.json", trial(1.3, 100 + block, NOON + MINUTE * block + 2))
    _, _, findings = judged(tmp_path, tmp_path / "in")
    (found,) = of(findings, "shared_trials")
    assert (found.severity, found.refuses) == ("warning", False)
    assert (found.kind, found.lanes) == ("together", ("base", "new"))


def test_lanes_that_ran_one_after_the_other_are_not_made_pairs_by_saying_so(tmp_path):
    for lane, level, later in (("base", 1.0, 0), ("new", 1.3, 3600)):
        for block in range(6):
            put(
                tmp_path / "in" / lane / f"{block}.json",
                trial(level, 100 * later + block, NOON + later + MINUTE * block),
            )
    _, verdict, findings = judged(tmp_path, tmp_path / "in", "paired: true")
    (found,) = of(findings, "sequential")
    assert found.severity == "critical"
    assert not verdict.headline


def test_results_of_last_year_are_no_baseline(tmp_path):
    source = honest(tmp_path / "in")
    for block in range(6):
        put(source / "base" / f"{block}.json", trial(1.0, block, NOON - 365 * DAY + MINUTE * block))
    _, verdict, findings = judged(tmp_path, source)
    assert verdict.verdict == "refused"
    assert values(of(findings, "unmatched")[0], "date") == ("2026-11-21", "2025-11-21")


def test_trials_that_were_left_away_leave_a_trace(tmp_path):
    source = honest(tmp_path / "in")
    for block in (1, 4, 5):
        (source / "new" / f"{block}.json").unlink()
    _, _, findings = judged(tmp_path, source)
    (found,) = of(findings, "unequal_trials")
    assert (found.kind, found.evidence) == ("counts", {CELL: {"new": 3, "base": 6}})


@pytest.mark.parametrize(
    ("options", "parameter", "of_new", "of_base"),
    [
        ({"direct": "0"}, "direct", "no", "yes"),
        ({"version": "fio-3.36"}, "tool_version", "3.36", "3.33"),
        ({"ramp_time": "10"}, "ramp", "10s", "0s"),
        ({"runtime": "60"}, "runtime", "unknown", "30s"),
        ({"zero_buffers": ""}, "zero_buffers", "1", "unknown"),
        ({"offset": "50%"}, "offset", "50%", "unknown"),
        ({"hipri": "1"}, "hipri", "1", "unknown"),
        ({"size": "64m"}, "size", "64m", "unknown"),
        ({"mem": "mmaphuge"}, "mem", "mmaphuge", "malloc"),
    ],
)
def test_a_load_that_was_another_is_refused(tmp_path, options, parameter, of_new, of_base):
    _, verdict, findings = judged(tmp_path, honest(tmp_path / "in", **options))
    assert verdict.verdict == "refused"
    assert values(of(findings, "unmatched")[0], parameter) == (of_new, of_base)


def test_options_that_change_nothing_refuse_nothing(tmp_path):
    same = {"filename": "/data/x", "norandommap": "1", "write_lat_log": "lat", "invalidate": "1", "randseed": "9"}
    assert judged(tmp_path, honest(tmp_path / "in", **same))[1].verdict == "faster"


@pytest.mark.parametrize("how", ["halved", "cut"])
def test_bins_that_were_edited_take_the_headline(tmp_path, capsys, how):
    source = honest(tmp_path / "in")
    for path in (source / "new").iterdir():
        document = json.loads(path.read_text())
        lat = document["jobs"][0]["read"]["lat_ns"]
        bins = lat["bins"]
        if how == "halved":
            lat["bins"] = {str(int(k) // 2): n for k, n in bins.items()}
        else:  # the slowest half percent: what p99.9 would tell of
            bins[max(bins, key=int)] -= lat["N"] // 200
        put(path, document)
    evidence, verdict, findings = judged(tmp_path, source, "primary: lat_p50")
    assert evidence.cells()[0].name == "4k randread qd8"
    assert not verdict.headline
    (found,) = of(findings, "missing_percentile")
    assert (found.severity, found.kind) == ("critical", "bins" if how == "halved" else "counts")
    assert run(["verdicts", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "(withheld)" in told
    assert verdict.verdict in told


def test_a_percentile_too_rare_to_report_is_refused_and_not_replaced(tmp_path):
    evidence, verdict, _ = judged(tmp_path, honest(tmp_path / "in"), "primary: lat_p999")
    assert evidence.study.workloads["main"].primary == "lat_p999"
    assert verdict.verdict == "refused"
    assert {"10", "p99.9"} <= set(re.findall(r"[\w.]*\w", verdict.notes[-1]))


def test_percentiles_without_bins_are_as_coarse_as_fio_made_them(tmp_path):
    source = honest(tmp_path / "in")
    for path in source.glob("*/*.json"):
        document = json.loads(path.read_text())
        lat = document["jobs"][0]["read"]["lat_ns"]
        del lat["bins"]
        lat["percentile"] = {"50.000000": 16384, "99.000000": 20000}
        put(path, document)
    _, verdict, _ = judged(tmp_path, source, "primary: lat_p50")
    assert verdict.low == pytest.approx(1 - 2 / 128, rel=1e-3)


@pytest.mark.parametrize("reason", ['""', '" "', '"..."'])
def test_accepting_needs_a_reason_wherever_it_is_written(reason):
    with pytest.raises(FairlaneError, check=kind("value", where="map.yaml:1")) as error:
        parse_map(f"accept: {{ramp: {reason}}}", "map.yaml")
    assert error.value.message.startswith("accept.ramp: ")
