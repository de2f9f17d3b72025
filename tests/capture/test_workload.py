"""A workload of a capture, its file, and the comparison of two shapes."""

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlane.capture import compare
from fairlane.capture.draw import picture, spark
from fairlane.capture.events import FUA
from fairlane.capture.record import Capture, parse
from fairlane.capture.replay import resized, spec
from fairlane.capture.shape import shape
from fairlane.capture.workload import distance, split, text, workload
from fairlane.errors import FairlaneError
from fairlane.units import parse_size
from tests.capture.made import READ, WRITE, capture, database, flushes, random, stream
from tests.words import kind


def keys(found: Capture, *, closed: bool = False) -> dict[str, Any]:
    made = dict(workload(shape(found), closed=closed).keys)
    spec(made, "")
    return made


def test_a_database_becomes_three_jobs() -> None:
    jobs = keys(database())["jobs"]
    regions = {name: (parse_size(job.pop("size")) >> 20, job.pop("offset", None)) for name, job in jobs.items()}
    assert jobs == {
        "reads": {"rw": "randread", "bs": "8k", "iodepth": 1, "rate_iops": 400},
        "write-random": {"rw": "randwrite", "bssplit": "8k/69:16k/31", "iodepth": 1, "rate_iops": 200},
        "write-stream": {"rw": "write", "bs": "64k", "iodepth": 1, "fdatasync": 1, "rate_iops": 100},
    }
    assert [regions[name][0] for name in ("reads", "write-random")] == pytest.approx([256, 256], rel=0.15)
    assert regions["write-stream"][0] == 63  # 1000 x 64k
    assert parse_size(regions["write-stream"][1]) >> 20 == max(regions[name][0] for name in ("reads", "write-random"))


def test_reads_and_writes_alike_are_one_job() -> None:
    mix = (random(READ, 700, 64 << 20, {8192: 1.0}), random(WRITE, 300, 64 << 20, {8192: 1.0}, seed=3))
    made = keys(capture(*mix))
    assert (made["rw"], made["rwmixread"], made["bs"], made["rate_iops"]) == (["randrw"], [70], ["8k"], [1000])
    assert made["primary"] == "lat_p99"
    assert not keys(capture(*mix), closed=True).keys() & {"rate_iops", "primary"}


def test_different_sizes_or_flushes_part_reads_from_writes() -> None:
    reads = random(READ, 700, 64 << 20, {8192: 1.0})
    other = random(WRITE, 300, 64 << 20, {4096: 1.0})
    assert sorted(keys(capture(reads, other))["jobs"]) == ["reads", "writes"]
    same = random(WRITE, 300, 64 << 20, {8192: 1.0})
    assert keys(capture(reads, same, flushes(100)))["jobs"]["writes"]["fdatasync"] == 3


def test_partly_sequential_io_of_one_size_is_one_job() -> None:
    made = keys(capture(random(READ, 200, 256 << 20, {4096: 1.0}), stream(READ, 600, 512 << 20, 4096)))
    assert made["rw"] == ["randread"]
    assert made["percentage_random"] == pytest.approx(25, abs=1)


def test_writes_that_are_durable_by_themselves_are_synchronous() -> None:
    durable = stream(WRITE, 100, 0, 4096)
    durable["flags"] = FUA
    assert keys(capture(durable))["sync"] == "dsync"
    some = stream(WRITE, 100, 0, 4096)
    some["flags"][::10] = FUA
    assert any("FUA" in note for note in workload(shape(capture(some))).notes)


def test_counters_alone_make_a_workload_that_says_what_it_lacks() -> None:
    found = capture()
    assert keys(found)["jobs"] == {
        "reads": {"rw": "randread", "bs": "4k", "iodepth": 1, "rate_iops": 100},
        "writes": {"rw": "randwrite", "bs": "16k", "iodepth": 1, "fdatasync": 2, "rate_iops": 50},
    }
    assert "# Not captured: locality: tracing needs root." in text(found, workload(shape(found)))


def test_a_depth_in_front_of_the_disk_counts() -> None:
    found = database()
    moved = (4000, 0, 64000, 100, 3000, 0, 16000, 150, 0, 9000, 80_000, 0, 0, 0, 0, 1000, 50)
    waiting = replace(found, samples=((1.0, (0,) * 17), (11.0, moved)))
    assert keys(waiting)["jobs"]["reads"]["iodepth"] > 20
    flushes_alone = (*moved[:-1], 39_900)  # each waits twice: as a flush, and as the empty write that asked for it
    assert keys(replace(waiting, samples=((1.0, (0,) * 17), (11.0, flushes_alone))))["jobs"]["reads"]["iodepth"] == 1


def test_a_closed_load_of_8_stays_one_of_8_where_the_disk_takes_few_of_them_at_a_time() -> None:
    """Seldom all are at the disk: the 95th percentile there, times the queue before it, would count some twice."""
    found = shape(capture(random(READ, 500, 256 << 20, {4096: 1.0})))
    parts = {
        name: replace(part, depth=2.6, flight=2.4, depth_high=8.0, depth_most=8.0) for name, part in found.parts.items()
    }
    queued = replace(found, parts=parts, depth=8.0, busy=1.0)
    assert workload(queued, closed=True).keys["iodepth"] == [8]
    assert workload(queued).keys["iodepth"] == [27], "a limit, with the rate beside it"


def test_the_file_is_yaml_with_its_origin() -> None:
    found = database()
    written = text(found, workload(shape(found)), ("fairlane", "capture", "--from", "x.json"))
    assert yaml.safe_load(written) == keys(found)
    head = [line for line in written.splitlines() if line.startswith("#")]
    assert "db1" in head[0]
    assert "serial:S1" in head[0]


def test_a_name_cannot_end_the_comment() -> None:
    found = database()
    evil = replace(found, disk=replace(found.disk, identity="serial:x\nkind: oltp"))
    assert yaml.safe_load(text(evil, workload(shape(evil)))) == keys(found)


@given(st.dictionaries(st.integers(1, 4000).map(lambda n: n * 512), st.floats(0.001, 1), min_size=1, max_size=40))
def test_sizes_are_reduced_to_whole_percents(weights: dict[int, float]) -> None:
    total = sum(weights.values())
    sizes = {size: weight / total for size, weight in weights.items()}
    found = split(sizes)
    assert sum(found.values()) == 100
    assert len(found) <= 8
    assert found.keys() <= sizes.keys()
    spec({"kind": "fio", "bssplit": ":".join(f"{size}b/{share}" for size, share in found.items())}, "")


def test_distance_of_sizes() -> None:
    assert distance({4096: 1.0}, {4096: 1.0}) == 0
    assert distance({4096: 1.0}, {8192: 1.0}) == 1
    assert distance({4096: 0.5, 8192: 0.5}, {4096: 1.0}) == 0.5


def test_a_load_resembles_itself_and_no_other() -> None:
    before = shape(database())
    rows = compare.rows(before, before)
    assert {row.deviation for row in rows} == {0.0}
    assert compare.sentence(rows).startswith("The replay resembles the capture: all")
    other = compare.rows(before, shape(capture(random(READ, 400, 256 << 20, {4096: 1.0}))))
    assert {row.name for row in other if not row.alike} >= {"writes", "read: mean size", "read: sizes"}
    assert compare.sentence(other).startswith("The replay does not resemble the capture")


def test_a_capture_survives_its_file() -> None:
    found = database()
    again = parse(found.dump())
    assert again.dump() == found.dump()
    assert shape(again) == shape(found)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"fairlane_capture": 2}, "capture-version"),
        ({"seconds": 0}, "capture-file"),
        ({"disk": {}}, "capture-file"),
        ({"trace": {}}, "capture-file"),
        ({"samples": [["x"]]}, "capture-file"),
        ({"more": 1}, "capture-file"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], name: str) -> None:
    with pytest.raises(FairlaneError, check=kind(name)):
        parse(json.dumps(json.loads(database().dump()) | change))


@given(st.text(max_size=40))
def test_any_other_text_is_refused(other: str) -> None:
    with pytest.raises(FairlaneError, check=kind("capture-file")):
        parse(other)


def test_a_replay_shrinks_all_regions_alike() -> None:
    tree = {
        "kind": "fio",
        "jobs": {"a": {"rw": "randread", "size": "2g"}, "b": {"rw": "write", "size": "2g", "offset": "2g"}},
    }
    small, need, scale = resized(tree, 1 << 30)
    assert (need, scale) == (1 << 30, 0.25)
    assert small["jobs"]["b"] == {"rw": "write", "size": "512m", "offset": "512m"}
    assert resized(tree, 8 << 30)[2] == 1.0


@given(st.lists(st.floats(0, 1e9), max_size=200))
def test_a_sparkline_has_a_character_for_each_span(values: list[float]) -> None:
    assert len(spark(values)) == min(len(values), 60)


def test_the_picture_tells_of_each_property() -> None:
    lines = "\n".join(picture(database(), shape(database())))
    for token in ("8k", "64k", "flushes    100.0/s", "reads/s", "writes at", "sda"):
        assert token in lines
    assert "not known" in "\n".join(picture(capture(), shape(capture())))
