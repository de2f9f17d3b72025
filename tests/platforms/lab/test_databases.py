"""Databases under the virtual clock: what is refused by the study alone, and a real PostgreSQL whose figures repeat."""

import json
from pathlib import Path
from typing import Any

import pytest
from lab_process import carried_out, same
from lab_study import figures

from fairlane import registry
from fairlane.machines import script
from fairlane.platforms.lab import Lab, image, part
from fairlane.records import Block
from fairlane.study.load import load_study, parse_study
from fairlane.study.spec import Study

STUDY = """
name: db
platform: {{kind: lab, memory: 1g, hugepages: 0, {platform}}}
baseline: iscsi
lanes: {{iscsi: {{transport: iscsi}}, nvme-tcp: {{transport: nvme_tcp}}}}
workloads:
  db: {{kind: oltp, {load}}}
  {more}
design: {{looks: [2]}}
"""
KEEPS = "medium: {memory_backed: true, size: 256m}"
SETTINGS = "settings: {shared_buffers: 8MB, max_wal_size: 64MB, min_wal_size: 32MB}"
PGBENCH = f"load: pgbench, scale: 1, clients: [2], ramp: 0s, runtime: 1s, {SETTINGS}"


def study(platform: str = KEEPS, load: str = PGBENCH, more: str = "") -> Study:
    return parse_study(STUDY.format(platform=platform, load=load, more=more), "db.yaml")


def unfit(**parts: str) -> list[tuple[str, str, set[str]]]:
    """Kind, place and figures of each problem."""
    problems = registry.load("platforms", "lab").of(study(**parts)).unfit()
    return [(error.kind, error.where, figures(error.message)) for error in problems]


def test_the_virtual_clock_runs_what_fits() -> None:
    assert unfit() == []
    assert [kind for kind, _, _ in unfit(platform="clock: wall, medium: {file: true, size: 1g}")] == [
        "virtual-clock-only"
    ]
    assert unfit(platform="medium: {size: 1g}") == [("medium-forgets", "workloads.db", set())]
    ((kind, where, told),) = unfit(load=PGBENCH.replace("scale: 1", "scale: 4"))
    assert (kind, where, "256" in told or "256m" in told) == ("working-set", "workloads.db.scale", True)
    assert unfit(load=f"{PGBENCH}, version: 17") == [("workload-unsupported", "workloads.db", {"15", "17"})]
    assert [kind for kind, _, _ in unfit(load=f"{PGBENCH}, filesystem: xfs")] == ["workload-unsupported"]
    assert [kind for kind, _, _ in unfit(load="load: hammerdb")] == ["workload-unsupported"]
    mixed = unfit(more="io: {kind: fio, prefill: false}")
    assert [kind for kind, _, _ in mixed] == ["loads-mixed"]


def test_the_medium_itself_is_held_by_the_targets() -> None:
    text = STUDY.format(platform=KEEPS, load=PGBENCH, more="").replace("lanes: {", "lanes: {bare: {transport: local}, ")
    (problem,) = Lab.of(parse_study(text, "db.yaml")).unfit()
    assert (problem.kind, problem.where) == ("medium-held", "lanes.bare.transport")


def test_the_scripts_of_a_block_fit_into_a_guest() -> None:
    def many(count: int) -> str:
        more = ", ".join(f"lane-{number}: {{transport: nvme_tcp}}" for number in range(count))
        return STUDY.format(platform=KEEPS, load=PGBENCH, more="").replace("lanes: {", f"lanes: {{{more}, ")

    assert Lab.of(parse_study(many(2), "db.yaml")).unfit() == []
    (problem,) = Lab.of(parse_study(many(3), "db.yaml")).unfit()
    assert (problem.kind, problem.where) == ("script-size", "workloads.db")
    assert "4" in problem.hint


def test_the_image_of_all_other_studies_has_no_database() -> None:
    """Their figures depend on every byte of it."""
    assert part.wanted(load_study("demo")[0]) is None
    assert not {"postgres", "pgbench", "blkid"} & set(image.recipe().programs)
    assert not any("postgresql" in name for name in image.recipe().packages)
    wanted = part.wanted(study())
    assert wanted
    assert "postgresql-15" in wanted.packages


def test_probes_and_marks_stand_around_the_load_and_not_the_copy() -> None:
    load = study()
    text = script.block_script(Block(load.cells()[0], 0, ("iscsi",), 1), 0.1)
    body = text[text.index("copy_template\n") :]
    begins, bench, ends = (body.index(word) for word in ("\nload_begins\n", '"$bin/pgbench" -n', "\nload_ends\n"))
    assert begins < bench < ends
    assert text.count(f"mark {script.LOAD_BEGINS}") == text.count(f"mark {script.LOAD_ENDS}") == 1
    fio = load_study("demo")[0]
    assert "load_begins" not in script.block_script(Block(fio.cells()[0], 0, ("iscsi",), 1), 0.1)


@pytest.mark.slow
@pytest.mark.lab
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("here")
def test_a_real_database_gives_the_same_bytes_twice() -> None:
    Path("db.yaml").write_text(STUDY.format(platform=KEEPS, load=PGBENCH, more=""))
    for out in ("one", "two"):
        carried_out("run", "db.yaml", "--out", out, "--jobs", "1")
    same(Path("one"), Path("two"))
    trials: list[dict[str, Any]] = [
        json.loads(line) for line in Path("one/observations.jsonl").read_text().splitlines()
    ]
    assert [(t["failed"], t["metrics"]["tps"] > 0) for t in trials] == [("", True)] * 4
    one = next(t["context"] for t in trials if t["lane"] == "nvme-tcp")
    assert one["conditions"]["pg_shared_buffers"] == "8MB"
    assert one["conditions"]["filesystem"] == "ext4"
    assert (one["database"]["dead_tuples"], one["database"]["vacuums_running"]) == (0, 0)
    assert one["database"]["disk"]["name"].startswith("nvme")
