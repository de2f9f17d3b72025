"""fio's json and json+: recorded with fio 3.33, and made after the sources of other versions."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlane.formats.fio_figures import figures
from fairlane.formats.record import Record
from fairlane.importers.base import HEAD, Unreadable
from fairlane.importers.fio_json import PLUGIN, FioJson, FioJsonOptions
from fairlane.stats.histogram import latency, merge, percentile
from tests.figures import figures as numbers
from tests.importers.importer_oracle import fixtures, judged, source
from tests.words import kind

CLAT = PLUGIN.configured(FioJsonOptions(percentiles="clat"))


def content(name: str) -> bytes:
    return fixtures()[f"fio_json/{name}"]


def read(name: str, plugin: FioJson = PLUGIN) -> list[Record]:
    return list(plugin.read([source(name, content(name))]))


def one(name: str, plugin: FioJson = PLUGIN) -> Record:
    (found,) = read(name, plugin)
    return found


def tree(name: str) -> Any:
    text = content(name).decode()
    return json.loads(text[text.index("{") :])


def edited(name: str, change: Callable[[Any], None]) -> list[Record]:
    report = tree(name)
    change(report)
    return list(PLUGIN.read([source(name, json.dumps(report, indent=1).encode())]))


def test_json_plus_is_what_fio_measured() -> None:
    trial, jobs = one("plus.json"), tree("plus.json")["jobs"]
    assert trial.params == {
        "rw": "randrw", "bs": 4096, "iodepth": 8, "numjobs": 2, "rwmixread": 70, "rate_iops": 1000, "engine": "libaio",
        "direct": True, "mem": "malloc", "ramp": 10**8, "runtime": 5 * 10**8, "size": 2**24,
    }  # fmt: skip
    assert trial.figures.metrics == figures(content("plus.json")).metrics
    ios = {way: sum(job[way]["lat_ns"]["N"] for job in jobs) for way in ("read", "write")}
    assert trial.figures.context["load"]["ios"] == ios
    assert trial.figures.metrics["iops"] == sum(ios.values()) * 1000 / max(job["read"]["runtime"] for job in jobs)
    assert latency(trial.figures.histograms).total == sum(ios.values())
    assert trial.figures.context["conditions"] == {"tool": "fio", "tool_version": "3.33"}
    assert trial.figures.context["load"]["jobs"] == 2
    assert trial.started == pytest.approx(tree("plus.json")["timestamp_ms"] / 1000, abs=2.5)


def test_percentiles_of_merged_bins_are_fios_own_where_there_is_one_job() -> None:
    for trial, job in zip(read("stonewall.json"), tree("stonewall.json")["jobs"], strict=True):
        way = "read" if job["jobname"] == "reads" else "write"
        told = job[way]["lat_ns"]["percentile"]
        assert trial.figures.metrics["lat_p50"] == told["50.000000"]
        assert percentile(trial.figures.histograms[f"{way}.lat"], 0.99) == told["99.000000"]


def test_group_reporting_is_seen_by_its_run_time_and_its_cpu_shares_are_added() -> None:
    trial, (job,) = one("group.json"), tree("group.json")["jobs"]
    assert trial.params["numjobs"] == trial.figures.context["load"]["jobs"] == 4
    assert trial.figures.context["fio"]["usr_cpu"] == pytest.approx(4 * job["usr_cpu"])
    ms = job["usr_cpu"] / 100 * job["job_runtime"]
    assert trial.figures.context["generator"]["user"] == pytest.approx(ms * 1e6 / job["read"]["total_ios"])


def test_group_reporting_of_other_jobs_keeps_what_is_common() -> None:
    trial = one("group-mixed.json")
    assert trial.params["numjobs"] == 2
    assert trial.params["iodepth"] == 4
    assert not {"bs", "rw"} & trial.params.keys()  # those of the first job only
    assert trial.name == "small"
    warnings = trial.figures.context["fio"]["warnings"]
    assert warnings.startswith("small ")
    assert "group_reporting" in warnings
    assert numbers(warnings)[0] == "2"


def test_jobs_kept_apart_by_stonewall_are_records_of_their_own() -> None:
    reads, writes = read("stonewall.json")
    assert (reads.params["rw"], writes.params["rw"]) == ("randread", "randwrite")
    assert "beside" not in reads.params
    assert "parts" not in reads.figures.context["load"]
    # as one of our own trials the same file says what it holds
    parts = figures(content("stonewall.json")).context["load"]["parts"]
    assert [(part["name"], part["stonewall"]) for part in parts] == [("reads", False), ("writes", True)]


def test_equal_jobs_kept_apart_are_never_added() -> None:
    def twice(report: Any) -> None:
        first, second = report["jobs"]
        report["jobs"][1] = {**first, "groupid": 1, "jobname": second["jobname"]}

    assert len(edited("stonewall.json", twice)) == 2


def test_jobs_that_ran_side_by_side_tell_of_each_other() -> None:
    reader, writer = read("beside.json")
    assert reader.params["beside"] == "64k write qd2"
    assert writer.params["beside"] == "4k randread qd2"
    assert reader.figures.context["load"]["ios"]["write"] == 0


def test_clients_are_merged_and_their_sum_is_not_counted_again() -> None:
    trial, report = one("clients.json"), tree("clients.json")
    every = report["client_stats"]
    assert every[-1]["jobname"] == "All clients"
    assert trial.figures.context["load"]["ios"]["read"] == every[-1]["read"]["total_ios"]
    jobs = [{int(ns): n for ns, n in job["read"]["lat_ns"]["bins"].items()} for job in every[:-1]]
    assert latency(trial.figures.histograms) == merge(jobs)
    assert (trial.params["fleet"], trial.params["numjobs"]) == (2, 2)
    machines = trial.figures.context["vms"]
    assert sorted(machine["name"] for machine in machines) == ["127.0.0.1:18765", "127.0.0.1:18766"]
    assert sum(machine["iops"] for machine in machines) == pytest.approx(trial.figures.metrics["iops"], rel=0.01)
    assert trial.started == report["timestamp"]
    assert "cs: (g=0)" in trial.figures.context["fio"]["warnings"]


def test_global_options_of_several_clients_are_each_their_own() -> None:
    def listed(report: Any) -> None:
        options = report["global options"]
        report["global options"] = [
            {**options, "bs": bs, "hostname": "127.0.0.1", "port": port} for bs, port in (("8k", 18765), ("16k", 18766))
        ]

    assert sorted(trial.params["bs"] for trial in edited("clients.json", listed)) == [8192, 16384]


def test_a_cap_holds_for_each_direction() -> None:
    trial = one("capped.json")
    assert trial.params["rate_iops"] == 1000
    read, write = trial.figures.context["load"]["iops"].values()
    assert read == pytest.approx(write, rel=0.02)  # 70/30 asked


def test_reports_of_the_same_run_count_once() -> None:
    assert content("status.json").count(b'"fio version"') > 2
    trial = one("status.json")
    assert trial.figures.context["load"]["runtime_ms"] >= 3000


def test_reports_behind_each_other_are_trials() -> None:
    data = content("plain.json") + b"fio: something odd\n" + content("plain-lat.json")
    first, second = PLUGIN.read([source("both.json", data)])
    assert first.figures.metrics["iops"] == one("plain.json").figures.metrics["iops"]
    assert second.figures.context["fio"]["warnings"].endswith("something odd")


def test_text_around_the_report_is_kept_as_warning() -> None:
    assert "Starting 1 process" in one("warned.json").figures.context["fio"]["warnings"]


def test_an_error_of_fios_is_a_failed_trial() -> None:
    trial = one("failed.json")
    assert "error 28 (No space left on device)" in trial.failed
    assert not trial.figures.metrics


def test_terse_output_is_refused_with_a_hint() -> None:
    assert PLUGIN.claims("terse.txt", content("terse.txt")[:HEAD])
    with pytest.raises(Unreadable, check=kind("fio-format"), match="terse") as caught:
        read("terse.txt")
    assert "json+" in caught.value.hint


def test_a_cut_off_report_is_told_with_the_byte() -> None:
    data = content("plus.json")[:-4000]
    with pytest.raises(Unreadable, check=kind("cut-off"), match=rf"\b{len(data)}\b|Unterminated"):
        list(PLUGIN.read([source("x.json", data)]))


# --- which latency


def test_lat_percentiles_of_one_job_need_no_bins() -> None:
    told = tree("plain-lat.json")["jobs"][0]["read"]["lat_ns"]["percentile"]
    metrics = one("plain-lat.json").figures.metrics
    assert metrics["lat_p99"] == told["99.000000"]
    assert "lat_p999" not in metrics  # one I/O beyond


def test_clat_percentiles_are_not_those_of_lat() -> None:
    trial = one("plain.json")
    assert "lat_p99" not in trial.figures.metrics
    assert "percentiles: clat" in trial.figures.context["fio"]["warnings"]
    side = tree("plain.json")["jobs"][0]["read"]
    assert trial.figures.metrics["lat_mean"] == pytest.approx(side["lat_ns"]["mean"])
    asked = one("plain.json", CLAT)
    assert asked.figures.metrics["lat_p99"] == side["clat_ns"]["percentile"]["99.000000"]
    assert asked.figures.metrics["lat_mean"] == pytest.approx(side["clat_ns"]["mean"])
    assert "clat" in asked.figures.context["conditions"]["metric_definition"]


def test_clat_bins_take_the_place_of_lats_if_asked() -> None:
    plain, asked = one("plus.json").figures, one("plus.json", CLAT).figures
    assert asked.histograms["read.lat"] == plain.histograms["read.clat"] != plain.histograms["read.lat"]


def test_bins_of_some_jobs_are_not_those_of_all() -> None:
    def forget(report: Any) -> None:
        del report["jobs"][1]["write"]["lat_ns"]["bins"]

    (trial,) = edited("plus.json", forget)
    assert "read.lat" not in trial.figures.histograms
    assert "read.clat" in trial.figures.histograms
    assert "lat_p99" not in trial.figures.metrics


# --- other versions


def test_before_counts_the_rate_is_all_there_is() -> None:
    trial = one("fio-2.1.json")
    assert trial.figures.metrics["iops"] == 5000
    assert trial.figures.metrics["bw"] == 200_000 * 1024 / 10
    side = tree_of_nan("fio-2.1.json")["jobs"][0]["read"]
    assert trial.figures.metrics["lat_mean"] == pytest.approx(side["lat"]["mean"] * 1000)
    assert trial.figures.steps["iops"] == pytest.approx(1 / 50_000 + 0.5 / 10_000 + 5 / 50_000)
    assert trial.params == {}
    assert trial.name == "rand"
    assert "shared mutexes" in trial.figures.context["fio"]["warnings"]
    assert one("fio-2.1.json", CLAT).figures.metrics["lat_p99"] == side["clat"]["percentile"]["99.000000"] * 1000


def tree_of_nan(name: str) -> Any:
    text = content(name).decode().replace("-nan", "NaN")
    return json.loads(text[text.index("{") :])


def test_microseconds_of_fio_2_and_its_clones() -> None:
    trial, jobs = one("fio-2.21.json", CLAT), tree("fio-2.21.json")["jobs"]
    bins = merge({int(us) * 1000: n for us, n in job["write"]["clat"]["bins"].items()} for job in jobs)
    assert latency(trial.figures.histograms) == bins
    assert trial.figures.steps["lat_p99"] == pytest.approx(999 / trial.figures.metrics["lat_p99"])
    assert trial.params["numjobs"] == 2
    assert trial.params["disks"] == 1
    assert trial.params["ramp"] == 5 * 10**9
    # 16 I/Os of each job may have been in flight when the ramp ended
    assert trial.figures.steps["iops"] == pytest.approx(1 / 40_000 + 0.5 / 20_001 + 32 / 40_000)
    # the paths of the multipath device are not counted again
    assert trial.figures.context["disk"]["writes"] == 50_000


def test_lat_bins_without_a_count() -> None:
    trial = one("fio-3.16.json")
    assert trial.figures.metrics["lat_p99"] == 1_028_096
    assert trial.figures.steps["iops"] == pytest.approx(1 / 20_000 + 0.5 / 2000)


def test_starts_and_sectors_of_newer_versions() -> None:
    reads, writes = read("fio-3.36.json")
    assert (reads.started, writes.started) == (1_700_000_000.1, 1_700_000_030.2)
    assert "disk" not in reads.figures.context  # the counters are of both jobs
    parts = figures(content("fio-3.36.json")).context
    assert parts["load"]["parts"][1]["start_ms"] == 1_700_000_030_200
    assert parts["load"]["parts"][0]["end_ms"] == 1_700_000_030_100
    # LVM upon multipath upon two paths counts once, and so does the disk beside it
    assert parts["disk"]["reads"] == 20_007
    assert parts["disk"]["write_bytes"] == 20_003 * 128 * 512


def test_unified_reporting_has_one_direction() -> None:
    def unite(report: Any) -> None:
        report["jobs"].pop()
        (job,) = report["jobs"]
        job["mixed"] = job.pop("read")
        del job["write"], job["trim"]

    (trial,) = edited("stonewall.json", unite)
    assert trial.figures.context["load"]["ios"]["mixed"] == latency(trial.figures.histograms).total
    assert trial.figures.metrics["lat_p50"] == read("stonewall.json")[0].figures.metrics["lat_p50"]


@pytest.mark.parametrize(
    "head", [b"", b"{}", b'{"results": [{"fio version": "fio-3.33"}]}', b"time,iops\n1,2\n", b"\xff"]
)
def test_other_files_are_not_claimed(head: bytes) -> None:
    assert not PLUGIN.claims("fio.json", head)


# --- hostile structures


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


STRUCTURES = {
    name: list(places(tree(name))) for name in ("plus.json", "clients.json", "fio-2.21.json", "fio-3.36.json")
}
hostile = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=20),
    st.sampled_from([10**18, 2**63, 2**64, 10**4000, [], {}, [[]], {"": {}}, {"1": 10**18}, {"-1": 1}, "9" * 5000]),
    st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=9),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(STRUCTURES)), st.data())
def test_any_value_anywhere_is_read_or_unreadable(name: str, data: st.DataObject) -> None:
    report = tree(name)
    for _ in range(data.draw(st.integers(1, 3))):
        *steps, last = data.draw(st.sampled_from(STRUCTURES[name])) or ("jobs",)
        place = report
        try:
            for step in steps:
                place = place[step]
            if data.draw(st.booleans()):
                place[last] = data.draw(hostile)
            else:
                del place[last]
        except (KeyError, IndexError, TypeError):
            continue  # gone by an earlier change
    judged(PLUGIN, {name: json.dumps(report).encode()})
    judged(CLAT, {name: json.dumps(report).encode()})


@pytest.mark.parametrize(
    "text",
    [
        '{"fio version": ' * 10**5,
        "[" * 10**5,
        '{"fio version": "3", "jobs": [' + "9" * 10**5 + "]}",
        '{"fio version": "3", "jobs": [{"read": {"io_bytes": 1e999}}]}',
        '{"fio version": "3", "jobs": ' + "[" * 900 + "]" * 900 + "}",
        '{"fio version": "3", "jobs": [{"hostname": ' + "[" * 900 + "]" * 900 + "}]}",
        '{"fio version": "3", "client_stats": [{"jobname": "All clients"}]}',
        '{"fio version": "3"}\n' * 50_000,
        "{\n" * 50_000,
    ],
)
def test_monsters_are_unreadable_or_failed(text: str) -> None:
    for trial in judged(PLUGIN, {"x.json": text.encode()}) or []:
        assert trial.failed


def test_a_key_twice_is_read_as_json_does() -> None:
    data = content("plain.json").replace(b'"total_ios"', b'"total_ios" : 7, "total_ios"')
    (trial,) = PLUGIN.read([source("x.json", data)])
    assert trial.figures.metrics == one("plain.json").figures.metrics


def test_bins_that_do_not_add_up_are_unreadable() -> None:
    with pytest.raises(Unreadable, check=kind("contradiction"), match=r"1000600.* 600"):
        edited("group.json", lambda report: report["jobs"][0]["read"]["lat_ns"]["bins"].update({"1000000": 10**6}))
