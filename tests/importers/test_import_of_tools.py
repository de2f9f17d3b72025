"""Other tools' results through ``fairlane import``: recorded ones, hostile ones, and those of tools run right here."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlane.checks.base import run_all
from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.records import Evidence
from fairlane.runs.read import load_run
from tests.figures import figures
from tests.importers.importer_oracle import FIXTURES, OPTIONS, folder


def imported(tmp_path: Path, *arguments: str) -> Evidence:
    assert run(["import", *arguments, "--out", str(tmp_path / "out")]) == Exit.OK
    return load_run(tmp_path / "out")


def write(place: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = place / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return place


@pytest.mark.parametrize("tool", sorted(p.name for p in FIXTURES.iterdir() if p.name != "table"))
def test_each_tools_fixtures_make_a_run_that_is_read_back(tool, tmp_path, capsys):
    shutil.copytree(FIXTURES / tool, tmp_path / "in" / "lane")
    (tmp_path / "map.yaml").write_text(json.dumps({tool: OPTIONS[tool]} if tool in OPTIONS else {"workload": "main"}))
    evidence = imported(tmp_path, str(tmp_path / "in"), "--map", str(tmp_path / "map.yaml"), "--lane", "lane=lane")
    assert list(evidence.study.lanes) == ["lane"]
    assert [seen for seen in evidence.observations if seen.metrics and not seen.failed]
    assert all(seen.metrics or seen.failed for seen in evidence.observations)
    assert run(["verdicts", str(tmp_path / "out")]) in (Exit.OK, Exit.NOT_DECIDED)


def test_a_failed_trial_is_a_failed_trial_of_the_run(tmp_path):
    write(tmp_path / "in" / "a", folder("pgbench", "failed"))
    write(tmp_path / "in" / "b", folder("pgbench", "logged"))
    evidence = imported(tmp_path, str(tmp_path / "in"), "--lane", "a=a", "--lane", "b=b")
    failed, whole = sorted(evidence.observations, key=lambda seen: seen.lane)
    assert "nothing_there" in failed.failed
    assert not failed.metrics
    assert whole.metrics["tps"] == 211.957968


def test_pgbench_logs_and_output_of_two_lanes(tmp_path, capsys):
    for lane in ("iscsi", "nvme"):
        write(tmp_path / "in" / lane, folder("pgbench", "logged"))
    log = tmp_path / "in" / "nvme" / "pgbench_log.24756"
    log.write_text(log.read_text().replace("0 1 2864 ", "0 1 2865 "))  # or it would be the same trial twice
    evidence = imported(tmp_path, str(tmp_path / "in"))
    (cell,) = evidence.cells()
    assert (cell.name, cell.params) == ("pgbench TPC-B", {"numjobs": 2, "scale": 2})
    assert [len(seen.histograms["tx.lat"]) > 100 for seen in evidence.observations] == [True, True]
    capsys.readouterr()
    run(["verdicts", str(tmp_path / "out"), "--format", "json"])
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["metric"] for row in rows} >= {"tps", "lat_mean", "lat_p50", "lat_p95"}
    assert {row["verdict"] for row in rows} <= {"no-spread", "refused"}, "one trial each says nothing of spread"


def test_a_database_load_that_had_not_settled_is_found_by_its_rates(tmp_path):
    output = folder("pgbench", "logged")["pgbench/logged/pgbench.txt"].decode()
    first = output.index("progress: 1.0 s")
    lines = [f"progress: {n}.0 s, {400 - 8 * n}.0 tps, lat 1.000 ms stddev 0.100, 0 failed\n" for n in range(1, 31)]
    for lane, more in (("falling", lines), ("steady", [line.replace(line.split()[3], "400.0") for line in lines])):
        text = output[:first] + "".join(more) + output[output.index("transaction type") :]
        write(tmp_path / "in" / lane, {"run.txt": text.encode()})
    found = [finding for finding in run_all(imported(tmp_path, str(tmp_path / "in"))) if finding.check == "unsteady"]
    assert [finding.lanes for finding in found] == [("falling",)]
    assert found[0].kind == "slope"
    (proof,) = found[0].evidence.values()
    assert (proof["first"], proof["last"]) == (356, 196)  # the thirds of 392, 384, ... 160
    assert "transactions/s" in found[0].message
    assert "-45" in figures(found[0].message)


# --- names


HOSTILE = [
    "../../escape",
    "/etc/passwd",
    "..",
    "CON",
    "-rf",
    "a\x1b[31mb",
    "ü" * 300,
    "x\u202ey",
    "%s%n",
    "'; rm -rf /",
]


def _named(tool: str, hostile: str) -> dict[str, bytes]:
    """A fixture of the tool whose inner names are hostile."""
    files = {
        "kube_burner": ("machines_only.json", json.dumps("vm-density"), json.dumps(hostile)),
        "pgbench": ("retried", "../script.sql", hostile),
        "vdbench": ("summary_only", "RD=rd1;", f"RD={hostile};"),
        "elbencho": ("results.csv", "pool a", hostile),
        "slob": ("awr_info.txt", "awr.txt.32|", f"{hostile}|"),
        "hammerdb": ("result.json", "67FD3345479A03E263133333", hostile.replace("\x1b", "\\u001b")),
        "pgio": ("runs.txt", "DBNAME: bench.", f"DBNAME: {hostile}."),
        "diskspd": ("mixed.xml", "vm-1", hostile.replace("\x1b", "")),
        "table": ("figures.csv", "iscsi", hostile),
    }
    name, old, new = files[tool]
    return {key: text.replace(old.encode(), new.encode()) for key, text in folder(tool, name).items()}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize(
    "tool", ["kube_burner", "pgbench", "vdbench", "elbencho", "slob", "hammerdb", "pgio", "diskspd", "table"]
)
def test_no_name_in_a_file_leads_out_of_the_run(tool, hostile, tmp_path, capsys):
    write(tmp_path / "in" / "lane", _named(tool, hostile))
    options = ["--map", str(tmp_path / "map.yaml")] if tool == "table" else []
    (tmp_path / "map.yaml").write_text(
        "tool: table\ntable: {lane: lane, cell: cell, figures: [{column: iops, metric: iops}]}\n"
    )
    before = set(tmp_path.rglob("*"))
    code = run(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out"), *options])
    made = {path.relative_to(tmp_path).parts[0] for path in set(tmp_path.rglob("*")) - before}
    assert made <= {"out"}
    told = capsys.readouterr()
    assert "\x1b[31m" not in told.out + told.err
    if code == Exit.OK:
        assert load_run(tmp_path / "out").observations
        assert run(["report", str(tmp_path / "out")]) in (Exit.OK, Exit.NOT_DECIDED)
    else:
        assert code == Exit.USER_ERROR
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["-rf", "a\nb", "a\x1b[31m", "ü" * 80, "con.txt", "x" * 240, "~", "$(id)", "{a,b}"])
def test_no_name_of_a_file_or_folder_leads_out_of_the_run(name, tmp_path, capsys):
    lane = tmp_path / "in" / name
    lane.mkdir(parents=True)
    (lane / name).write_bytes(folder("sysbench", "oltp_rw.txt")["sysbench/oltp_rw.txt"])
    outside = tmp_path / "outside.txt"
    outside.write_bytes(folder("sysbench", "oltp_rate.txt")["sysbench/oltp_rate.txt"])
    (lane / "link").symlink_to("../../outside.txt")
    before = set(tmp_path.rglob("*"))
    evidence = imported(tmp_path, str(tmp_path / "in"))
    made = {path.relative_to(tmp_path).parts[0] for path in set(tmp_path.rglob("*")) - before}
    assert made == {"out"}
    assert all(p.resolve().is_relative_to((tmp_path / "out").resolve()) for p in (tmp_path / "out").rglob("*"))
    assert evidence.observations
    told = capsys.readouterr()
    assert "\x1b[31m" not in told.out + told.err


# --- tools that run here


@pytest.mark.skipif(not shutil.which("sysbench"), reason="sysbench is not installed")
def test_sysbench_run_here(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    options = ["--file-total-size=4M", "--file-num=2", "--time=1", "--threads=2"]

    def fileio(*more: str) -> str:
        command = ["sysbench", "fileio", *options, *more]
        return subprocess.run(command, cwd=work, check=True, capture_output=True, text=True).stdout

    fileio("prepare")
    for lane in ("a", "b"):
        (tmp_path / "in" / lane).mkdir(parents=True)
        output = fileio("--file-test-mode=rndrd", "--file-block-size=4096", "--histogram=on", "run")
        (tmp_path / "in" / lane / "fileio.txt").write_text(output)
    evidence = imported(tmp_path, str(tmp_path / "in"))
    (cell,) = evidence.cells()
    assert cell.name == "4k randread x2"
    for seen in evidence.observations:
        assert not seen.failed
        assert seen.metrics["bw"] == pytest.approx(seen.metrics["iops"] * 4096, rel=0.01)
        assert sum(seen.histograms["all.lat"].values()) == seen.context["load"]["events"]
        assert seen.metrics["lat_mean"] * seen.metrics["iops"] <= 1.05 * 2 * 1e9, "two threads, no more"


POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """The environment for clients of a PostgreSQL of its own, on a socket in a folder of its own."""
    if not (POSTGRES and shutil.which("pgbench")):
        pytest.skip("PostgreSQL's server and pgbench are not installed")
    programs = POSTGRES[-1].parent
    user = "nobody" if os.getuid() == 0 else None  # the server refuses to run as root
    with tempfile.TemporaryDirectory(prefix="fairlane-pg-") as place:
        data = Path(place) / "data"
        if user:
            shutil.chown(place, user)
        make = [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "me", "--no-sync"]
        subprocess.run(make, user=user, cwd=place, check=True, capture_output=True)
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", place, "-h", "", "-F"],
            user=user, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            environment = {**os.environ, "PGHOST": place, "PGUSER": "me", "PGDATABASE": "postgres"}
            while subprocess.run([programs / "pg_isready", "-q"], env=environment, check=False).returncode:
                assert server.poll() is None, "the server did not start"
                time.sleep(0.05)
            fill = ["pgbench", "-i", "-s", "1", "-q"]
            subprocess.run(fill, env=environment, check=True, capture_output=True)
            yield environment
        finally:
            server.terminate()
            server.wait()


@pytest.mark.slow
def test_pgbench_run_here(tmp_path, database):
    for lane in ("a", "b"):
        place = tmp_path / "in" / lane
        place.mkdir(parents=True)
        output = subprocess.run(
            ["pgbench", "-n", "-c", "2", "-j", "2", "-t", "300", "-l", "-r"],
            cwd=place, env=database, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        (place / "pgbench.txt").write_text(output)
    evidence = imported(tmp_path, str(tmp_path / "in"))
    assert len(evidence.cells()) == 1
    for seen in evidence.observations:
        assert not seen.failed
        assert sum(seen.histograms["tx.lat"].values()) == 600
        assert seen.metrics["lat_mean"] * seen.metrics["tps"] <= 1.1 * 2 * 1e9, "two clients, no more"
        assert seen.metrics["lat_p50"] <= seen.metrics["lat_p95"]
        assert seen.context["conditions"]["tool"] == "pgbench"
        assert seen.context["conditions"]["scale"] == 1
