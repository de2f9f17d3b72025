"""Importers of other tools, on fixtures: recorded from real runs here, or written after the tools' documentation.

The README.md of each folder of fixtures says which is which. Figures below were taken from the fixtures by other
means: awk over the logs, a pencil for the small ones.
"""

import json

import pytest

from fairlane.formats.record import Record
from fairlane.importers.base import HEAD, Unreadable
from fairlane.metrics import METRICS
from tests.figures import figures
from tests.importers.importer_oracle import FIXTURES, folder, importers, judged, source, sources
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
    head = (FIXTURES / name).read_bytes()[:HEAD]
    claiming = {tool for tool, plugin in importers().items() if not plugin.explicit and plugin.claims(name, head)}
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
        "job_time": 90e9, "vm_ready_mean": 32150e6, "vm_ready_p50": 31000e6, "vm_ready_p95": 44000e6,
        "vm_ready_p99": 45000e6,
    }  # fmt: skip
    assert found.figures.context["conditions"] == {
        "tool": "kube-burner", "tool_version": "v2.0.1@0123abc", "metric_definition": "kube-burner VMReady",
    }  # fmt: skip
    assert found.figures.context["kube_burner"]["quantiles"]["PodContainersReady"]["P99"] == 22000e6


def test_kube_burner_machines_alone_are_ranked():
    found = trial("kube_burner", "machines_only.json")  # 21 s, 22 s, ... 40 s
    assert found.figures.metrics == {
        "vm_ready_mean": 30500e6, "vm_ready_p50": 30000e6, "vm_ready_p95": 39000e6, "vm_ready_p99": 40000e6,
    }  # fmt: skip


def test_kube_burner_instances_without_virtual_machines():
    """Their VMReady is the year 1 minus the creation: kube-burner subtracts a time that never came."""
    found = trial("kube_burner", "instances")
    assert found.figures.context["conditions"]["metric_definition"] == "kube-burner VMIRunning"
    assert found.figures.metrics["vm_ready_p99"] == 23500e6
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
