"""OpenMetrics: read back by prometheus_client, by its OpenMetrics parser and by that of the older text format."""

from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older

from fairlane.export.openmetrics import buckets
from fairlane.stats.histogram import Bins, binned, latency, merge


@pytest.fixture
def text(hostile):
    ((name, data),) = hostile.files("openmetrics").items()
    assert name == "fairlane.prom"
    return data.decode()


def families(text, parse=text_string_to_metric_families):
    return {family.name: family for family in parse(text)}


def test_verdicts_are_gauges(hostile, text):
    found = families(text)
    fields = {"ratio": "ratio", "ratio_low": "low", "ratio_high": "high", "margin": "margin", "value": "lane_value",
              "baseline_value": "baseline_value", "headline": "headline", "level": "level"}  # fmt: skip
    for gauge, field in fields.items():
        family = found[f"fairlane_{gauge}"]
        assert family.type == "gauge"
        seen = {(s.labels["cell"], s.labels["lane"], s.labels["metric"]): s.value for s in family.samples}
        assert seen == {
            (v.cell, v.lane, v.metric): float(getattr(v, field))
            for v in hostile.verdicts
            if getattr(v, field) is not None
        }
    words = {(s.labels["cell"], s.labels["lane"], s.labels["metric"]): s.labels["verdict"]
             for s in found["fairlane_verdict"].samples}  # fmt: skip
    assert words == {(v.cell, v.lane, v.metric): v.verdict for v in hostile.verdicts}


def test_latencies_are_histograms_with_exact_counts(hostile, text):
    family = families(text)["fairlane_latency_seconds"]
    assert (family.type, family.unit) == ("histogram", "seconds")
    by_place: dict[tuple[str, str], list[Any]] = {}
    for sample in family.samples:
        by_place.setdefault((sample.labels["cell"], sample.labels["lane"]), []).append(sample)
    names = {cell.key: cell.name for cell in hostile.evidence.cells()}
    wanted: dict[tuple[str, str], list[Any]] = {}
    for seen in hostile.evidence.observations:
        if not seen.failed:
            wanted.setdefault((names[seen.cell], seen.lane), []).append(latency(seen.histograms))
    assert set(by_place) == set(wanted)
    for place, samples in by_place.items():
        bins = merge(wanted[place])
        told = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
        assert len(told) > 10
        for le, count in told.items():
            limit = round(float(le) * 1e9) if le != "+Inf" else 10**18
            assert count == sum(n for ns, n in bins.items() if ns <= limit)
        (total,) = (s.value for s in samples if s.name.endswith("_count"))
        (time,) = (s.value for s in samples if s.name.endswith("_sum"))
        assert total == told["+Inf"] == bins.total
        assert time == pytest.approx(sum(ns * n for ns, n in bins.items()) / 1e9)


def test_every_sample_says_that_the_figures_are_invented(text):
    samples = [s for family in families(text).values() for s in family.samples]
    assert len(samples) > 1000
    assert {s.labels["figures"] for s in samples} == {"invented"}
    assert {s.labels["run"] for s in samples} == {"=done"}


def test_labels_survive(hostile, text):
    (info,) = families(text)["fairlane_run_info"].samples
    assert info.labels["question"] == hostile.content.provenance["question"]
    assert info.labels["study_sha256"] == hostile.content.provenance["study_sha256"]
    assert info.labels["complete"] == "true"
    labels = {s.labels["lane"]: s.labels["lane_label"] for s in families(text)["fairlane_lane_info"].samples}
    assert labels == {r["lane"]: r["lane_label"] for r in hostile.content.table("lanes").records()}


def test_findings_and_trials_are_counted(hostile, text):
    found = families(text)
    told = {s.labels["severity"]: s.value for s in found["fairlane_findings"].samples}
    assert told == {w: sum(f.severity == w for f in hostile.findings) for w in ("critical", "warning", "info")}
    trials = found["fairlane_trials"].samples
    failed = sum(s.value for s in trials if s.labels["outcome"] == "failed")
    assert failed == sum(bool(o.failed) for o in hostile.evidence.observations) > 0
    assert sum(s.value for s in trials) == len(hostile.evidence.observations)


def test_the_older_text_format_reads_the_same(text):
    new, old = families(text), families(text, older)
    assert text.endswith("# EOF\n")
    assert set(new) == set(old)
    for name, family in new.items():
        assert [(s.name, s.labels, s.value) for s in old[name].samples] == [
            (s.name, s.labels, s.value) for s in family.samples
        ]
        assert old[name].type == family.type


@pytest.mark.parametrize("least", [0, 1, 127, 128, 5000, 10_000_000])
def test_buckets_begin_below_and_end_above_all_ios_and_split_no_bin(least):
    ns = np.unique(np.geomspace(max(least, 1), max(least, 1) * 1000, 5000).astype(np.int64))
    ns[0] = least
    found = buckets(binned(ns))
    counts = [count for _, count in found]
    assert counts == [int((ns <= edge).sum()) for edge, _ in found]
    assert counts == sorted(counts)
    assert counts[-1] == len(ns)
    assert counts.count(0) == (least > 127)  # no edge lies below the first, which is 127 ns
    assert counts.count(len(ns)) == 1
    assert buckets(Bins()) == []
