"""Importers of other tools, on fixtures: recorded from real runs here, or written after the tools' documentation.

The README.md of each folder of fixtures says which is which. Figures below were taken from the fixtures by other
means: awk over the logs, a pencil for the small ones.
"""

import json

import pytest

from fairlane.formats.record import Record
from fairlane.importers.base import Unreadable
from fairlane.metrics import METRICS
from tests.figures import figures
from tests.importers.importer_oracle import FIXTURES, claims, folder, importers, judged, source, sources
from tests.words import kind

MS = 1_000_000


def trials(tool: str, name: str) -> list[Record]:
    found = judged(importers()[tool], folder(tool, name))
    assert found is not None
    return found


def trial(tool: str, name: str) -> Record:
    (found,) = trials(tool, name)
    return found


def refused(tool: str, name: str, text: bytes) -> Unreadable:
    with pytest.raises(Unreadable) as told:
        list(importers()[tool].read([source(name, text)]))
    return told.value


# --- whose file is it


def every_fixture() -> list[str]:
    return [p.relative_to(FIXTURES).as_posix() for p in sorted(FIXTURES.rglob("*")) if p.is_file()]


@pytest.mark.parametrize("name", every_fixture())
def test_no_importer_claims_the_file_of_another(name):
    content = (FIXTURES / name).read_bytes()
    claiming = {tool for tool, plugin in importers().items() if not plugin.explicit and claims(plugin, name, content)}
    tool = name.split("/")[0]
    if name.endswith("README.md") or tool == "table":
        assert claiming == set()
    else:
        assert claiming == {tool}


@pytest.mark.parametrize(
    "head", [b"", b"\0" * 100, b"[]", b"{}", b"hello", b"<html></html>", b"a,b\n1,2\n", b"\xff\xfe"]
)
@pytest.mark.parametrize("name", ["x", "pgbench_log.1", "flatfile.html", "awr.txt.8", "results.csv", "a.json"])
def test_nobody_claims_what_is_no_result(name, head):
    assert [t for t, plugin in importers().items() if not plugin.explicit and plugin.claims(name, head)] == []


@pytest.mark.parametrize("number", ["1e-320", "0.00000000001", "1e400", "-1", "NaN"])
def test_denormal_and_other_figures_that_cannot_be(number):
    """Their reciprocal, the step of a figure, would be infinite."""
    text = folder("elbencho", "results.csv")["elbencho/results.csv"].replace(b",200000,", f",{number},".encode())
    error = refused("elbencho", "results.csv", text)
    assert (error.kind, error.where) == ("not-a-number", "results.csv:4")
    assert "IOPS [last]" in error.message


# --- kube-burner


def test_kube_burner_run():
    found = trial("kube_burner", "collected")
    assert found.name == "vm-density"
    assert found.started == 1772442000.5  # 2026-03-02T09:00:00.5Z
    assert found.params == {"fleet": 20}
    assert found.figures.metrics == {
        "job_time": 90e9, "vm_ready_mean": 32150e6, "vm_ready_p50": 31000e6,
    }  # fmt: skip
    assert found.figures.context["conditions"] == {
        "tool": "kube-burner", "tool_version": "v2.0.1@0123abc", "metric_definition": "kube-burner VMReady",
    }  # fmt: skip
    assert found.figures.context["kube_burner"]["quantiles"]["PodContainersReady"]["P99"] == 22000e6


def test_kube_burner_machines_alone_are_ranked():
    found = trial("kube_burner", "machines_only.json")  # 21 s, 22 s, ... 40 s
    assert found.figures.metrics == {"vm_ready_mean": 30500e6, "vm_ready_p50": 30000e6}


def kube_burner(machines: int, iterations: int | None = None, **quantiles: int) -> Record:
    """Quantiles of so many machines, or of a job of so many iterations."""
    own = {"min": 10_000, "P50": 20_000, "P95": 30_000, "P99": 40_000, "max": 50_000, "avg": 21_000} | quantiles
    job = {"uuid": "u", "jobName": "j"}
    documents = [{"metricName": "vmiLatencyQuantilesMeasurement", "quantileName": "VMReady", **job, **own}]
    documents += [{"metricName": "vmiLatencyMeasurement", "vmReadyLatency": 21_000, **job} for _ in range(machines)]
    if iterations is not None:
        config = {"name": "j", "jobIterations": iterations}
        documents += [{"metricName": "jobSummary", "uuid": "u", "elapsedTime": 60, "jobConfig": config}]
    (found,) = importers()["kube_burner"].read([source("a.json", json.dumps(documents).encode())])
    return found


@pytest.mark.parametrize(
    ("machines", "iterations", "ranked"),
    [
        (6, None, {}),
        (19, 19, {}),
        (20, None, {"vm_ready_p50": 20e9}),
        (200, None, {"vm_ready_p50": 20e9, "vm_ready_p95": 30e9}),
        (1000, None, {"vm_ready_p50": 20e9, "vm_ready_p95": 30e9, "vm_ready_p99": 40e9}),
        (0, 1000, {"vm_ready_p50": 20e9, "vm_ready_p95": 30e9, "vm_ready_p99": 40e9}),
        (0, None, {}),
    ],
)
def test_kube_burner_percentiles_need_ten_machines_beyond_them(machines, iterations, ranked):
    metrics = dict(kube_burner(machines, iterations).figures.metrics)
    assert metrics.pop("vm_ready_mean") == 21e9
    assert metrics.pop("job_time", 60e9) == 60e9
    assert metrics == ranked


def test_kube_burner_headline_of_six_machines_is_no_percentile():
    (found,) = [kube_burner(6, 6)]
    assert sorted(found.figures.metrics) == ["job_time", "vm_ready_mean"]
    assert found.figures.context["kube_burner"]["quantiles"]["VMReady"]["P99"] == 40e9


@pytest.mark.parametrize("damage", [{"P50": 31_000}, {"P99": 51_000}, {"avg": 9_000}, {"avg": 50_001}, {"min": 20_001}])
def test_kube_burner_quantiles_that_contradict_each_other(damage):
    with pytest.raises(Unreadable, check=kind("contradiction", "a.json[0]")):
        kube_burner(20, **damage)


def test_kube_burner_instances_without_virtual_machines():
    """Their VMReady is the year 1 minus the creation: kube-burner subtracts a time that never came."""
    found = trial("kube_burner", "instances")
    assert found.figures.context["conditions"]["metric_definition"] == "kube-burner VMIRunning"
    assert found.figures.metrics == {"vm_ready_mean": 22000e6}  # of 4 machines
    assert found.params == {"fleet": 4}


def test_kube_burner_failed_job_has_a_reason_and_no_figures():
    found = trial("kube_burner", "failed.json")
    assert found.failed == "timeout waiting for virtual machines"
    assert not found.figures.metrics


def test_kube_burner_pods_are_no_machines():
    files = folder("kube_burner", "pods_only.json")
    with pytest.raises(Unreadable, check=kind("not-this-tool")):
        list(importers()["kube_burner"].read(sources(files)))


def test_kube_burner_churned_machines_are_left_out():
    one = {"metricName": "vmiLatencyMeasurement", "vmReadyLatency": 1000, "jobName": "a", "uuid": "u"}
    document = json.dumps([one, {**one, "vmReadyLatency": 9000, "churnMetric": True}])
    (found,) = importers()["kube_burner"].read([source("a.json", document.encode())])
    assert found.figures.metrics["vm_ready_mean"] == 1000e6


def test_kube_burner_the_same_summary_twice_is_no_second_trial():
    text = folder("kube_burner", "collected")["kube_burner/collected/jobSummary.json"]
    with pytest.raises(Unreadable, check=kind("report-twice", "b.json[0]")):
        list(importers()["kube_burner"].read([source("a.json", text), source("b.json", text)]))


# --- HammerDB


def test_hammerdb_log():
    found = trial("hammerdb", "run.log")
    assert found.figures.metrics == {"nopm": 120000, "tpm": 280001}
    assert found.params == {"numjobs": 4, "scale": 500, "ramp": 120 * 10**9, "runtime": 300 * 10**9}
    assert found.figures.context["conditions"] == {"tool": "HammerDB", "tool_version": "4.12"}
    assert found.labels == {"database": "MariaDB"}


def test_hammerdb_autopilot_is_one_trial_per_test_and_a_lost_user_fails_its_own():
    one, two, three = trials("hammerdb", "autopilot.log")
    assert [t.params["numjobs"] for t in (one, two, three)] == [1, 2, 4]
    assert (one.figures.metrics, two.figures.metrics) == ({"nopm": 40000, "tpm": 93000}, {"nopm": 75000, "tpm": 175000})
    assert [t.params["runtime"] for t in (one, two)] == [300 * 10**9, 180 * 10**9]
    assert three.failed == "mysqlexec/db server: Lost connection to server during query"


def test_hammerdb_ci_log_tells_a_result_twice_and_is_one_trial():
    found = trial("hammerdb", "ci.log")
    assert found.figures.metrics["nopm"] == 120000
    # 5000 + 3000 + 1000 + 200 + 220 ms over 1000 + 1000 + 100 + 100 + 100 calls
    assert found.figures.metrics["lat_mean"] == pytest.approx(9420 / 2300 * MS)
    assert found.figures.context["hammerdb"]["procedures"]["NEWORD"] == {
        "calls": 1000, "lat_p99": 13309000, "lat_p95": 9818000, "lat_p50": 5354000,
    }  # fmt: skip
    assert "lat_p99" not in found.figures.metrics, "that of a procedure is not that of all transactions"


def test_hammerdb_time_profile_counts_the_summary_not_single_users():
    found = trial("hammerdb", "profiled.log")
    assert found.figures.metrics["lat_mean"] == pytest.approx(4 * MS)  # 800 ms of 200 calls


@pytest.mark.parametrize("name", ["result.json", "hdb_67FD3345479A03E263133333.json"])
def test_hammerdb_json(name):
    found = trial("hammerdb", name)
    assert found.figures.metrics["nopm"] == 120000
    assert found.figures.metrics["tpm"] == 280001
    assert found.params["numjobs"] == 4
    assert found.labels["job"] == "67FD3345479A03E263133333"
    assert found.figures.context["conditions"]["date"] == 20514  # 2026-03-02


def test_hammerdb_job_report_has_the_configuration():
    found = trial("hammerdb", "hdb_67FD3345479A03E263133333.json")
    assert found.params == {"numjobs": 4, "scale": 500, "ramp": 120 * 10**9, "runtime": 300 * 10**9}
    assert found.figures.metrics["lat_mean"] == pytest.approx(9420 / 2300 * MS)


def test_hammerdb_0_nopm_is_a_failure():
    text = (
        b"Vuser 1:2 Active Virtual Users configured\nVuser 1:TEST RESULT : System achieved 0 NOPM from 7 Oracle TPM\n"
    )
    (found,) = importers()["hammerdb"].read([source("a.log", text)])
    assert "0 NOPM" in found.failed


@pytest.mark.parametrize(
    ("line", "nopm", "tpm", "database"),
    [
        ("Vuser 1:TEST RESULT : System achieved 6517 Oracle TPM at 2180 NOPM", 2180, 6517, "Oracle"),
        # published: a log of Timestamp lines of January 2019, and a page about time profiles of Oracle
        ("Vuser 1:TEST RESULT : System achieved 60501 SQL Server TPM at 13207 NOPM", 13207, 60501, "SQL Server"),
        ("Vuser 1:TEST RESULT : System achieved 66511 Oracle TPM at 22273 NOPM", 22273, 66511, "Oracle"),
    ],
)
def test_hammerdb_3_says_tpm_first(line, nopm, tpm, database):
    log = f"Hammerdb Log @ Fri Jan 18 12:10:37 MST 2019\nVuser 1:10 Active Virtual Users configured\n{line}\n"
    (found,) = importers()["hammerdb"].read([source("a.log", log.encode())])
    assert found.figures.metrics == {"nopm": nopm, "tpm": tpm}
    assert (found.params, found.labels) == ({"numjobs": 10}, {"database": database})


def test_hammerdb_3_jobs():
    """Published lists of ``jobs`` of 3.2 (July 2019): the result alone, and the output of a job, whose TPM was 0."""
    result = b'[\n "5D1F4FF558CE03E223730313",\n "TEST RESULT : System achieved 0 Oracle TPM at 27975 NOPM"\n]\n'
    (found,) = importers()["hammerdb"].read([source("a.json", result)])
    assert (found.figures.metrics, found.labels["job"]) == ({"nopm": 27975}, "5D1F4FF558CE03E223730313")
    output = (
        b'["1", "5 Active Virtual Users configured", "1", "TEST RESULT : System achieved 0 Oracle TPM at 27975 NOPM"]'
    )
    (found,) = importers()["hammerdb"].read([source("a.json", output)])
    assert found.figures.metrics == {"nopm": 27975}
    assert (found.params, found.labels) == ({"numjobs": 5}, {"database": "Oracle"})


# --- hammerdb-scale


def test_hammerdb_scale_adds_up_the_databases_that_ran_together():
    found = trial("hammerdb_scale", "summary.json")
    assert found.figures.metrics == {"nopm": 125890 + 125110, "tpm": 287654 + 286000}
    assert found.params == {"fleet": 2, "numjobs": 8, "scale": 1000, "ramp": 120 * 10**9, "runtime": 300 * 10**9}
    assert found.labels == {"test": "run-20260302-0900", "deployment": "my-benchmark", "database": "oracle"}
    assert found.figures.context["hammerdb"]["targets"] == {"ora-01": {"nopm": 125890}, "ora-02": {"nopm": 125110}}


def test_hammerdb_scale_means_merge_and_percentiles_do_not():
    found = trial("hammerdb_scale", "timed.json")
    assert found.figures.metrics["lat_mean"] == pytest.approx((1000 * 7 + 1000 * 3 + 2000 * 7 + 1000 * 3) / 5000 * MS)
    assert "lat_p99" not in found.figures.metrics
    assert found.figures.context["hammerdb"]["procedures"]["ora-02"]["NEWORD"]["lat_p99"] == 11.5 * MS


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda run: run["targets"][1].update(status="failed", error="ORA-12541: TNS:no listener"), "ORA-12541"),
        (lambda run: run["targets"].pop(), "1 of 2 databases"),
        (lambda run: run["targets"][0].pop("tprocc"), "1 of 2 databases have no result (ora-01"),
        (lambda run: [target["tprocc"].update(nopm=0) for target in run["targets"]], "contradiction"),
        (lambda run: run.update(benchmark="tproch"), "report-unsupported"),
        (lambda run: run["aggregate"].update(total_nopm=125890), "contradiction"),
    ],
)
def test_hammerdb_scale_without_all_databases_is_no_result(change, expected):
    run = json.loads(folder("hammerdb_scale", "summary.json")["hammerdb_scale/summary.json"])
    change(run)
    text = json.dumps(run).encode()
    if expected in ("contradiction", "report-unsupported"):
        assert refused("hammerdb_scale", "summary.json", text).kind == expected
    else:
        (found,) = importers()["hammerdb_scale"].read([source("summary.json", text)])
        assert expected in found.failed


# --- KubeVirt's proposal


def test_kubevirt_benchmark_example():
    found = trial("kubevirt_benchmark", "clone.json")
    assert found.figures.metrics == {"vm_ready_mean": 12.45e9}
    assert found.figures.context["conditions"] == {
        "tool": "virtbench", "tool_version": "0.1.0", "volume_mode": "Block", "disk_size": 30 * 2**30,
        "metric_definition": "time_to_ping_seconds",
    }  # fmt: skip
    assert (found.params, found.name) == ({"fleet": 100}, "datasource-clone")
    assert found.labels == {"scenario": "datasource-clone", "storage_class": "my-sc", "access_mode": "ReadWriteOnce"}
    assert found.started == 1778754600


def test_kubevirt_benchmark_records_of_all_machines():
    found = trial("kubevirt_benchmark", "storm.json")
    # 1.00, 1.25, ... 10.75 s: the 20th of 40 is 5.75; two lie beyond p95
    assert found.figures.metrics == {"vm_ready_mean": 5.875e9, "vm_ready_p50": 5.75e9}
    assert found.figures.context["conditions"]["metric_definition"] == "time_to_vmi_ready_seconds"


def test_kubevirt_benchmark_io_of_the_guests_adds_up():
    found = trial("kubevirt_benchmark", "fio.json")
    assert found.figures.metrics == {"iops": pytest.approx(66371.12 + 65621.51), "bw": 540641000}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda run: run["aggregate"].update(failed_vms=2), "2 of 40 machines failed"),
        (lambda run: run["records"][0].update(status="Failed"), "1 of 40 machines failed"),
        (lambda run: run["aggregate"].update(avg_time_to_vmi_ready_seconds=4.0), "contradiction"),
        (lambda run: run["scenario"].update(name="migration"), "report-unsupported"),
        (lambda run: run.update(schema_version="2.0.0"), "version-unknown"),
        (lambda run: run["records"].pop(), ""),
    ],
)
def test_kubevirt_benchmark_failed_and_other_runs(change, expected):
    run = json.loads(folder("kubevirt_benchmark", "storm.json")["kubevirt_benchmark/storm.json"])
    change(run)
    text = json.dumps(run).encode()
    if "machines" in expected or not expected:
        (found,) = importers()["kubevirt_benchmark"].read([source("a.json", text)])
        assert found.failed == expected
    else:
        assert refused("kubevirt_benchmark", "a.json", text).kind == expected


# --- sysbench (recorded, but for fileio_1.1.txt)


def test_sysbench_fileio_with_histogram_and_series():
    found = trial("sysbench", "fileio_rndrw.txt")
    assert found.params == {
        "rw": "randrw", "bs": 16384, "numjobs": 2, "rwmixread": 60, "size": 64 << 20, "direct": True,
        "engine": "synchronous",
    }  # fmt: skip
    metrics = found.figures.metrics
    assert metrics["iops"] == pytest.approx(19779.58 + 13186.80)
    assert metrics["bw"] == pytest.approx((309.06 + 206.04) * 2**20)
    assert metrics["lat_mean"] == pytest.approx(7921.57 / 137518 * MS)
    assert [metrics[f"lat_p{q}"] for q in ("50", "95", "99", "999")] == [55000, 79000, 118000, 348000]
    assert sum(found.figures.histograms["all.lat"].values()) == 137518
    load = found.figures.context["load"]
    assert load["series"]["interval_ms"] == 1000
    assert load["series"]["iops"] == pytest.approx([mib * 64 for mib in (511.31, 487.08, 530.51)], rel=1e-4)
    assert found.figures.context["conditions"] == {"tool": "sysbench", "tool_version": "1.0.20"}


def test_sysbench_latency_below_its_decimals_is_had_from_the_sum():
    found = trial("sysbench", "fileio_cached.txt")
    assert found.figures.metrics["lat_mean"] == pytest.approx(7116.51 / 1166892 * MS)  # printed as 0.01
    assert found.figures.metrics["lat_p99"] == 50000
    assert found.figures.steps["lat_p99"] == pytest.approx(0.1 + 0.009)  # 0.05 with two decimals


def test_sysbench_oltp():
    found = trial("sysbench", "oltp_rw.txt")
    assert found.figures.metrics["tps"] == 1260.23
    assert found.figures.metrics["lat_mean"] == pytest.approx(15995.54 / 5051 * MS)
    assert found.figures.metrics["lat_p99"] == 8581000  # by the bins; sysbench's own, one rank lower, is 8.43
    assert found.figures.context["load"]["errors"] == 9
    assert found.figures.context["load"]["series"]["tps"] == [1309.64, 1187.17, 1214.31, 1332.51]
    assert found.params == {"numjobs": 4}


def test_sysbench_0_5():
    """A published result; the file begins with ``prepare``, which prints the banner and is no run."""
    found = trial("sysbench", "oltp_0.5.txt")
    metrics = found.figures.metrics
    assert metrics == {"tps": 5059.27, "lat_mean": pytest.approx(407714.6 / 258030 * MS), "lat_p95": 1930000}
    assert found.params == {"numjobs": 8}
    assert found.figures.context["load"]["series"] == {"interval_ms": 2000, "tps": [4777.31, 5106.51, 4914.00]}
    assert found.figures.context["conditions"] == {"tool": "sysbench", "tool_version": "0.5"}


def test_sysbench_0_4_fileio():
    found = trial("sysbench", "fileio_0.4.txt")
    metrics = found.figures.metrics
    assert metrics["iops"] == pytest.approx(10000 / 3.2942)
    assert metrics["bw"] == pytest.approx(10000 * 32768 / 3.2942)  # printed as 94.865Mb/sec
    assert metrics["lat_mean"] == pytest.approx(112.9 / 10000 * MS)
    assert metrics["lat_p95"] == 10000
    assert found.params == {
        "rw": "randwrite", "bs": 32768, "numjobs": 1, "size": 2 << 30, "direct": False, "engine": "asynchronous",
    }  # fmt: skip
    assert found.figures.context["load"]["fsyncs"] == pytest.approx(51200 / 3.2942)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b"10000 Write", b"1000 Write", "contradiction"),
        (b"Running the test", b"Running a test", "cut-off"),
        (b"Threads fairness", b"", ""),
        (b"    execution time", b"", "cut-off"),
        (b"Done.", b"FATAL: Failed to read file! file: 3 pos: 0 errno = 0 (Q?)", "failed"),
    ],
)
def test_sysbench_0_4_damaged(old, new, kind):
    text = folder("sysbench", "fileio_0.4.txt")["sysbench/fileio_0.4.txt"]
    text = text.partition(old)[0] if kind == "cut-off" and not new else text.replace(old, new)
    if kind in ("", "failed"):
        (found,) = importers()["sysbench"].read([source("a.txt", text)])
        assert bool(found.failed) == (kind == "failed")
    else:
        assert refused("sysbench", "a.txt", text).kind == kind


def test_sysbench_checkpoints_add_up_but_their_percentiles_do_not():
    found = trial("sysbench", "oltp_checkpoints.txt")
    assert found.figures.metrics == {
        "tps": pytest.approx((3425 + 2945) / 4.0015), "lat_mean": pytest.approx((3990.78 + 4000.97) / 6370 * MS),
    }  # fmt: skip


def test_sysbench_1_1_words_it_anew():
    found = trial("sysbench", "fileio_1.1.txt")
    assert found.figures.metrics == {
        "iops": 10000, "bw": pytest.approx(156.25 * 2**20), "lat_mean": pytest.approx(0.8 * MS),
        "lat_p95": pytest.approx(1.93 * MS),
        "iops_read": 8000, "iops_write": 2000, "bw_read": 125 * 2**20, "bw_write": pytest.approx(31.25 * 2**20),
    }  # fmt: skip
    assert found.params["rwmixread"] == 80


def test_sysbench_failed_run():
    assert "Cannot open file 'test_file.4'" in trial("sysbench", "fileio_failed.txt").failed


def test_sysbench_what_is_no_storage_test_is_told():
    with pytest.raises(Unreadable, check=kind("report-unsupported")):
        list(importers()["sysbench"].read(sources(folder("sysbench", "cpu.txt"))))


def test_sysbench_cut_off():
    text = folder("sysbench", "oltp_rw.txt")["sysbench/oltp_rw.txt"]
    assert refused("sysbench", "a.txt", text[: text.index(b"avg:")]).kind == "cut-off"
    assert refused("sysbench", "a.txt", text[: text.index(b"SQL statistics")]).kind == "cut-off"


# --- pgbench (recorded)


def test_pgbench_output_joined_with_its_logs():
    found = trial("pgbench", "logged")
    assert found.name == "pgbench TPC-B"
    assert found.params == {"numjobs": 2, "scale": 2, "runtime": 3 * 10**9}
    metrics = found.figures.metrics
    assert metrics["tps"] == 211.957968
    assert metrics["lat_mean"] == pytest.approx(1131144.8818897638)
    assert sum(found.figures.histograms["tx.lat"].values()) == 635
    assert found.started == pytest.approx(1795307919.08935)
    assert found.figures.context["load"]["series"] == {"interval_ms": 1000, "tps": [209.0, 220.0]}
    assert found.figures.context["conditions"]["tool_version"] == "15.20 (Debian 15.20-0+deb12u1)"


def test_pgbench_percentiles_are_those_of_the_log():
    found = trial("pgbench", "logged")
    took = sorted(
        int(line.split()[2]) * 1000
        for name, text in folder("pgbench", "logged").items()
        if "pgbench_log" in name
        for line in text.splitlines()
    )
    for name, rank in (("lat_p50", 318), ("lat_p95", 604)):  # 0.5 and 0.95 of 635, rounded up
        assert found.figures.metrics[name] == pytest.approx(took[rank - 1], rel=1 / 128)
    assert "lat_p99" not in found.figures.metrics, "six transactions lie beyond it"


def test_pgbench_logs_without_the_output():
    files = {n: t for n, t in folder("pgbench", "logged").items() if "pgbench_log" in n}
    (found,) = importers()["pgbench"].read(sources(files))
    assert found.figures.metrics["tps"] == pytest.approx(212.064004, rel=1e-6)
    assert found.params == {"numjobs": 2}
    assert "scale" not in found.params


def test_pgbench_sampled_log_has_percentiles_and_no_rate():
    files = {n: t for n, t in folder("pgbench", "sampled").items() if "pgbench_log" in n}
    (found,) = importers()["pgbench"].read(sources(files))
    assert sum(found.figures.histograms["tx.lat"].values()) == 651
    assert set(found.figures.metrics) == {"lat_mean", "lat_p50", "lat_p95"}
    assert trial("pgbench", "sampled").figures.metrics["tps"] == 2868.971216


def test_pgbench_sums_give_no_percentiles():
    files = {n: t for n, t in folder("pgbench", "aggregated").items() if "pgbench_log" in n}
    (found,) = importers()["pgbench"].read(sources(files))
    assert found.figures.metrics == {"tps": 11560 / 4, "lat_mean": pytest.approx(7500758 / 11560 * 1000)}
    assert not found.figures.histograms


def test_pgbench_counts_what_was_skipped_or_failed():
    assert trial("pgbench", "limited").figures.context["load"]["skipped"] == 9
    retried = trial("pgbench", "retried")
    assert retried.figures.context["load"]["serialization"] == 215
    assert retried.figures.metrics["lat_mean"] == pytest.approx(212839 / 185 * 1000)


def test_pgbench_mean_that_includes_failures_is_no_latency():
    found = trial("pgbench", "two_scripts.txt")
    assert found.figures.metrics == {"tps": 3242.723888}


def test_pgbench_output_alone():
    found = trial("pgbench", "select_only.txt")
    assert found.name == "pgbench select only"
    assert found.figures.metrics == {"tps": 7483.62956, "lat_mean": 0.534 * MS}
    assert found.figures.steps["lat_mean"] == pytest.approx(0.0005 / 0.534)
    assert trial("pgbench", "reconnecting.txt").figures.metrics["tps"] == 176.794799


def test_pgbench_aborted_run():
    assert "function nothing_there() does not exist" in trial("pgbench", "failed").failed


def test_pgbench_logs_of_another_run_are_not_joined():
    files = folder("pgbench", "logged") | {
        "pgbench/logged/pgbench.txt": folder("pgbench", "sampled")["pgbench/sampled/pgbench.txt"]
    }
    output, log = importers()["pgbench"].read(sources(files))
    assert output.figures.metrics["tps"] == 2868.971216
    assert "tx.lat" not in output.figures.histograms
    assert sum(log.figures.histograms["tx.lat"].values()) == 635


def test_pgbench_output_before_version_14_tells_two_rates():
    text = b"""transaction type: <builtin: TPC-B (sort of)>
scaling factor: 100
query mode: simple
number of clients: 16
number of threads: 4
duration: 300 s
number of transactions actually processed: 900000
latency average = 5.333 ms
latency stddev = 1.000 ms
tps = 2999.500000 (including connections establishing)
tps = 3000.100000 (excluding connections establishing)
"""
    (found,) = importers()["pgbench"].read([source("old.txt", text)])
    assert found.figures.metrics == {"tps": 3000.1, "lat_mean": pytest.approx(5.333 * MS)}
    assert found.params == {"numjobs": 16, "scale": 100, "runtime": 300 * 10**9}


def test_pgbench_bad_line_is_named():
    lines = b"0 1 500 0 1795307919 92214\n0 2 5x0 0 1795307919 92999\n"
    error = refused("pgbench", "pgbench_log.7", lines)
    assert (error.kind, error.where) == ("not-this-tool", "pgbench_log.7:2")


# --- Vdbench


def test_vdbench_flatfile_with_the_times_that_summary_tells():
    one, two = trials("vdbench", "output")
    assert one.params == {
        "rw": "randrw", "bs": 8192, "numjobs": 8, "rwmixread": 70, "runtime": 3 * 10**9, "ramp": 10**9,
    }  # fmt: skip
    assert one.figures.metrics == {
        "iops": 5050, "bw": pytest.approx(5050 * 8192, rel=1e-5), "lat_mean": pytest.approx(1.6 * MS),
        "iops_read": pytest.approx(3535), "iops_write": pytest.approx(1515), "lat_read_mean": 1.5 * MS,
        "lat_write_mean": pytest.approx(1.8333 * MS),
    }  # fmt: skip
    assert not [name for name in two.figures.metrics if METRICS[name].way], "reads alone"
    assert one.figures.context["load"]["iops"] == {"read": pytest.approx(3535), "write": pytest.approx(1515)}
    assert one.figures.context["load"]["series"] == {"interval_ms": 1000, "iops": [4000, 5000, 5100]}
    assert one.figures.context["conditions"] == {"tool": "vdbench", "tool_version": "50407"}
    assert (two.params["rw"], two.params["rate_iops"], two.labels) == ("read", 1000, {"run": "rd2"})


def test_vdbench_summary_alone():
    one, two = trials("vdbench", "summary_only")
    assert (one.name, one.figures.metrics["iops"], two.figures.metrics["iops"]) == ("rd1", 5050, 1000)
    assert one.figures.metrics["lat_write_mean"] == pytest.approx(1.833 * MS)
    assert one.figures.steps["iops_write"] > one.figures.steps["iops"]
    assert one.figures.metrics["bw"] == pytest.approx(39.45 * 2**20)
    assert one.params == {"runtime": 3 * 10**9, "ramp": 10**9}


def test_vdbench_file_system_workload_counts_reads_and_writes():
    found = trial("vdbench", "files")
    assert found.figures.metrics == {
        "iops": 1000, "bw": pytest.approx(3.90625 * 2**20), "lat_mean": pytest.approx(1.4 * MS),  # 600 x 1 + 400 x 2
        "iops_read": 600, "iops_write": 400, "lat_read_mean": MS, "lat_write_mean": 2 * MS,
    }  # fmt: skip


def test_vdbench_killed_before_its_average():
    text = folder("vdbench", "output")["vdbench/output/flatfile.html"]
    cut = text[: text.index(b"avg_2-2")]
    assert refused("vdbench", "flatfile.html", cut).kind == "columns"
    assert refused("vdbench", "flatfile.html", cut[: cut.rindex(b"\n") + 1]).kind == "cut-off"


def test_vdbench_share_of_reads_above_100_percent():
    """Found by the fuzzer: its writes would be negative."""
    header = b"tod timestamp Run Interval reqrate rate MB/sec bytes/io read% resp\n"
    row = b"10:00:00.000 03/02/2026-10:00:00-000 rd1 avg_2-5 max 100.0 0.39 4096 %s 1.5\n"
    assert refused("vdbench", "flatfile.html", header + row % b"809.20").kind == "not-a-number"


# --- elbencho


def test_elbencho_phases():
    write, read, mix = trials("elbencho", "results.csv")
    assert write.params == {"rw": "write", "bs": 2**20, "iodepth": 16, "numjobs": 4, "fleet": 2, "direct": True}
    assert write.figures.metrics == {"iops": 1000, "bw": 1000 * 2**20, "lat_mean": 127.999 * MS}
    assert (read.params["rw"], read.figures.metrics["iops"]) == ("randread", 200000)
    assert mix.params["rw"] == "randrw"
    assert mix.params["rwmixread"] == 70
    assert mix.figures.metrics == {
        "iops": 100000, "bw": 390 * 2**20, "lat_mean": pytest.approx(1.3 * MS), "iops_read": 70000,
        "iops_write": 30000, "bw_read": 273 * 2**20, "bw_write": 117 * 2**20, "lat_read_mean": MS,
        "lat_write_mean": 2 * MS,
    }  # fmt: skip
    assert mix.figures.context["load"]["iops"] == {"read": 70000, "write": 30000}
    assert mix.labels == {"label": "pool a", "operation": "RWMIX70"}
    assert mix.started == 1772442000.25
    assert write.figures.context["load"]["runtime_ms_min"] == 29990


def test_elbencho_last_line_cut_off():
    text = folder("elbencho", "results.csv")["elbencho/results.csv"]
    error = refused("elbencho", "results.csv", text[:-60])
    assert (error.kind, error.where) == ("columns", "results.csv:5")
    assert "55" in figures(error.message)


# --- DISKSPD


@pytest.mark.parametrize("name", ["mixed.xml", "powershell.xml"])
def test_diskspd(name):
    found = trial("diskspd", name)
    assert found.params == {
        "rw": "randrw", "bs": 8192, "iodepth": 16, "numjobs": 2, "disks": 1, "rwmixread": 70, "runtime": 10 * 10**9,
        "ramp": 5 * 10**9, "direct": True,
    }  # fmt: skip
    assert found.figures.metrics == {
        "iops": 1000, "bw": 8192000, "lat_mean": pytest.approx(1.3 * MS), "lat_p50": pytest.approx(1.1 * MS),
        "lat_p95": pytest.approx(2.5 * MS), "lat_p99": pytest.approx(3.75 * MS), "lat_p999": pytest.approx(7.125 * MS),
        "iops_read": 700, "bw_read": 700 * 8192, "lat_read_mean": MS, "lat_read_p50": 0.9 * MS,
        "lat_read_p95": 1.8 * MS, "lat_read_p99": 2.5 * MS, "lat_read_p999": 4 * MS,
        "iops_write": 300, "bw_write": 300 * 8192, "lat_write_mean": 2 * MS, "lat_write_p50": 1.9 * MS,
        "lat_write_p95": 3 * MS, "lat_write_p99": 4 * MS, "lat_write_p999": 8 * MS,
    }  # fmt: skip
    load = found.figures.context["load"]
    assert load["ios"] == {"read": 7000, "write": 3000}
    assert load["series"] == {"interval_ms": 1000, "iops": [1000.0 + n for n in range(1, 11)]}
    assert found.figures.context["machine"] == {"busy": 0.25, "cpus": 4}
    assert found.figures.context["conditions"] == {"tool": "diskspd", "tool_version": "2.2.0"}
    assert found.started == 1772445600.0


def test_diskspd_time_spans_are_trials_and_what_targets_differ_in_is_left_out():
    both, interrupted = trials("diskspd", "spans.xml")
    assert "bs" not in both.params
    assert "rw" not in both.params
    assert both.params["disks"] == 2
    assert both.params["throughput"] == "none, 1000 IOPS"
    assert interrupted.failed.startswith("The test was interrupted")


def test_diskspd_entities_are_refused():
    text = b'<!DOCTYPE Results [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Results>&b;<TimeSpan></TimeSpan></Results>'
    for data in (text, text.decode().encode("utf-16")):
        assert refused("diskspd", "a.xml", data).kind == "document-type"


# --- DISKSPD's text (figures of mixed.txt: a published result)


def test_diskspd_text():
    found = trial("diskspd_text", "mixed.txt")
    assert found.params == {
        "rw": "randrw", "bs": 4096, "iodepth": 8, "numjobs": 8, "disks": 1, "rwmixread": 50, "runtime": 120 * 10**9,
        "ramp": 5 * 10**9, "direct": True,
    }  # fmt: skip
    metrics = found.figures.metrics
    assert metrics["iops"] == pytest.approx(5784302 / 120)  # printed as 48202.48: its time has more decimals
    assert metrics["bw"] == pytest.approx(23692500992 / 120)
    assert metrics["iops_read"] == pytest.approx(2890037 / 120)
    assert (metrics["lat_mean"], metrics["lat_read_mean"], metrics["lat_write_mean"]) == (1.327e6, 1.563e6, 1.091e6)
    assert [metrics[f"lat_p{q}"] for q in ("50", "95", "99", "999")] == [1.161e6, 2.539e6, 3.779e6, 7.472e6]
    assert metrics["lat_write_p99"] == 3.153e6
    assert found.figures.steps["lat_p50"] == pytest.approx(0.0005 / 1.161)
    assert (found.started, found.labels) == (1564091187, {"host": "e1e8c95b2207"})
    assert found.figures.context["machine"] == {"busy": pytest.approx(0.5021), "cpus": 2}
    assert not found.figures.histograms


def test_diskspd_text_of_two_time_spans():
    one, two = trials("diskspd_text", "spans.txt")
    assert one.figures.metrics == {
        "iops": pytest.approx(2188346 / 30.02), "bw": pytest.approx(2188346 * 8192 / 30.02), "lat_mean": 500_000,
        "lat_p50": 372_000, "lat_p99": 6_549_000, "lat_p999": 12_163_000,
    }  # fmt: skip
    assert one.params == {
        "rw": "read", "bs": 8192, "iodepth": 7, "numjobs": 1, "disks": 1, "runtime": 30 * 10**9, "ramp": 5 * 10**9,
        "direct": False,
    }  # fmt: skip
    assert one.started is None
    assert two.params["disks"] == 2
    assert "iodepth" not in two.params, "its targets differ"
    assert two.params["throughput"] == "none, 500 IOPS"


def test_diskspd_text_appended_to_a_file():
    text = folder("diskspd_text", "mixed.txt")["diskspd_text/mixed.txt"]
    assert len(list(importers()["diskspd_text"].read([source("a.txt", text * 3)]))) == 3


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b"actual test time:       120.00s", b"", "cut-off"),
        (b"Write IO", b"", "cut-off"),
        (b"|      2890037 |", b"|      2890038 |", "contradiction"),
        (b"5784302", b"57x4302", "not-a-number"),
        (b"path: ", b"paths: ", "cut-off"),
    ],
)
def test_diskspd_text_damaged(old, new, kind):
    text = folder("diskspd_text", "mixed.txt")["diskspd_text/mixed.txt"].replace(old, new)
    assert refused("diskspd_text", "a.txt", text).kind == kind


def test_diskspd_text_interrupted():
    text = folder("diskspd_text", "mixed.txt")["diskspd_text/mixed.txt"].partition(b"actual test time")[0]
    text += b"The test was interrupted before the measurements began. No results are displayed.\n"
    (found,) = importers()["diskspd_text"].read([source("a.txt", text)])
    assert found.failed.startswith("The test was interrupted")


# --- SLOB and pgio


def test_slob_table():
    one, two = trials("slob", "awr_info.txt")
    assert one.params == {"numjobs": 32}
    assert one.figures.metrics == {
        "iops": 57600, "iops_read": 48000, "iops_write": 9600, "lat_read_mean": 612000,
    }  # fmt: skip
    assert one.labels == {"file": "awr.txt.32"}
    assert two.figures.metrics == {
        "iops": 62400, "iops_read": 52000, "iops_write": 10400, "lat_read_mean": 1130000,
    }  # fmt: skip
    assert one.figures.context["slob"]["redo_mbs"] == 20.1


@pytest.mark.parametrize(("name", "sessions", "release"), [
    ("awr.txt.32", 32, "19.0.0.0.0"), ("statspack.txt.8", 8, "11.2.0.4.0"),
])  # fmt: skip
def test_slob_reports(name, sessions, release):
    found = trial("slob", name)
    assert found.params == {"numjobs": sessions}
    assert found.figures.metrics == {
        "iops": 50010, "bw": 327761920 + 122880000, "lat_read_mean": pytest.approx(9000 / 12e6 * 1e9),
        "iops_read": 40010, "iops_write": 10000, "bw_read": 327761920, "bw_write": 122880000,
    }  # fmt: skip
    assert found.figures.context["load"]["runtime_ms"] == pytest.approx(300_000)
    assert found.figures.context["slob"]["database"] == release


def test_slob_report_of_another_name_is_not_slobs():
    head = folder("slob", "awr.txt.32")["slob/awr.txt.32"]
    assert not importers()["slob"].claims("awr_production.txt", head)


def test_pgio():
    one, two = trials("pgio", "runs.txt")
    assert one.figures.metrics == {"iops": 100000}
    assert one.params == {"bs": 8192, "numjobs": 32, "size": 8 << 30}
    assert one.figures.context["pgio"] == {"reads": 12_000_000, "cache_hits_per_s": 700, "shared_buffers": "1GB"}
    assert two.figures.context["load"]["runtime_ms"] == 121_000
    assert trial("pgio", "failed.txt").failed.startswith("Abort: The psql command")


# --- pgbench: several reports in a file. The lines are those of PostgreSQL 13 and 17 (printResults of pgbench.c)


def report(clients: int, processed: int, ms: str, tps: str, *, without: str = "", stddev: str = "") -> str:
    lines = [
        "transaction type: <builtin: TPC-B (sort of)>", "scaling factor: 3", "query mode: simple",
        f"number of clients: {clients}", "number of threads: 2", "duration: 60 s",
        f"number of transactions actually processed: {processed}", f"latency average = {ms} ms",
        *([f"latency stddev = {stddev} ms"] if stddev else []),
        f"tps = {tps} (without initial connection time)",
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines if not without or not line.startswith(tuple(without.split("|"))))


ONE, TWO = report(2, 54283, "2.211", "904.647945"), report(8, 557641, "0.861", "9293.95574")


def pgbench(text: str) -> list[Record]:
    return list(importers()["pgbench"].read([source("runs.txt", text.encode())]))


@pytest.mark.parametrize("head", ["", "transaction type", "transaction type|scaling factor"])
def test_pgbench_a_second_report_is_a_second_trial(head):
    """Whatever lines it begins with: its rate is not joined with the first one's latency."""
    second = report(8, 557641, "0.861", "9293.95574", without=head)
    for between in ("", "pgbench (17.5)\n", "stop test: now\n"):
        one, two = pgbench(ONE + between + second)
        assert [t.figures.metrics["tps"] for t in (one, two)] == [904.647945, 9293.95574]
        assert [t.figures.metrics["lat_mean"] for t in (one, two)] == [2.211 * MS, 0.861 * MS]
        assert [t.params["numjobs"] for t in (one, two)] == [2, 8]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (report(2, 54283, "2.211", "904.6", without="tps") + TWO, "runs.txt:1"),  # its latency, the next one's rate
        (ONE + report(8, 557641, "0.861", "9293.9", without="tps"), "runs.txt:10"),
        (report(2, 54283, "2.211", "904.6", without="number of clients|tps|latency") + TWO, "runs.txt:1"),
    ],
)
def test_pgbench_a_report_that_is_cut_off_takes_nothing_of_the_next(text, where):
    with pytest.raises(Unreadable, check=kind("cut-off", where)):
        pgbench(text)


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        (report(2, 54283, "2.211", "9293.9"), False),  # 20.5 where 2 were asked for
        (report(2, 54283, "0.861", "904.6"), False),
        (report(8, 557641, "2.211", "9293.9", stddev="0.5"), False),
        (report(8, 557641, "0.2", "9293.9", stddev="0.5"), True),  # clients may wait beside
        (report(10500, 111259, "5725.314", "1732.598854", stddev="987.882"), True),
        (report(2, 4981, "2.010", "995.100405"), True),
    ],
)
def test_pgbench_clients_rate_and_latency_obey_littles_law(text, sound):
    if sound:
        assert len(pgbench(text)) == 1
        return
    with pytest.raises(Unreadable, check=kind("contradiction", "runs.txt:1")):
        pgbench(text)


def test_pgbench_latency_under_a_rate_includes_the_wait_for_its_turn():
    text = report(2, 54283, "221.1", "904.647945", stddev="3.1").replace(
        "tps =", "rate limit schedule lag: avg 219.000 (max 800.000) ms\ntps ="
    )
    assert pgbench(text)[0].figures.metrics["lat_mean"] == pytest.approx(221.1 * MS)


def test_pgbench_progress_belongs_to_the_report_behind_it():
    def progress(tps: int) -> str:
        return "".join(f"progress: {n}.0 s, {tps}.0 tps, lat 2.2 ms stddev 0.1\n" for n in (1, 2, 3))

    one, two = pgbench(progress(904) + ONE + progress(9293) + TWO)
    assert [t.figures.context["load"]["series"]["tps"][0] for t in (one, two)] == [904, 9293]
    (behind,) = pgbench(ONE + progress(904))
    assert behind.figures.context["load"]["series"]["tps"] == [904] * 3
    with pytest.raises(Unreadable, check=kind("time-back", "runs.txt:4")):
        pgbench(progress(904) + progress(904) + ONE)


@pytest.mark.parametrize("tail", ["0 3 500 0 1795307917 1\n", "1 1 500 0 1795307900 0\n"])
def test_pgbench_log_in_which_time_goes_back(tail):
    log = b"0 1 500 0 1795307919 92214\n0 2 500 0 1795307919 93214\n"
    with pytest.raises(Unreadable, check=kind("time-back", "pgbench_log.7:3")):
        list(importers()["pgbench"].read([source("pgbench_log.7", log + tail.encode())]))
