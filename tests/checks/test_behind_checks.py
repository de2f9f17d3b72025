"""The checks of what lies behind the lanes' paths."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.checks.base import run_all
from fairlane.records import Evidence, Figures, Finding
from fairlane.workloads._fleet import merge
from tests.checks.conftest import Beside, RunCheck, made_beside
from tests.checks.test_hostile_context import TREES

GIB = 2**30
CELL = "main.4k-randread-qd1"


def disk(name: str, **fields: Any) -> dict[str, Any]:
    known = {"name": name, "identity": f"serial:{name}", "model": "SSD", "transport": "nvme", "bytes": 931 * GIB,
             "flash": True}  # fmt: skip
    return known | fields


def behind(*disks: dict[str, Any], machine: str = "box", **fields: Any) -> dict[str, Any]:
    flush = {"write": "volatile", "sync": "stable", "words": "Write back."}
    known = {"machine": machine, "kind": "directory", "fstype": "ext4", "options": ["rw", "relatime"],
             "medium": "disks", "server": "", "disks": list(disks), "stack": [], "thin": [], "volumes": [],
             "flush": flush}  # fmt: skip
    return known | fields


def probed(verdict: str = "disks", machine: str = "box", **shares: float) -> dict[str, Any]:
    way = {"load_bytes": 100, "disk_bytes": 100, "ratio": 1.0, "verdict": verdict, "disks": {}}
    return {"machine": machine, "verdict": verdict, "disks": shares, "read": way, "arc": None, "failed": ""}


def lanes(sound: Any, odd: Any, probe: Any = None, baseline: Any = None) -> dict[str, Any]:
    """A description; ``sound`` is the baseline; ``probe``: ``probed`` of ``odd``, ``baseline``: that of ``sound``."""
    return {"lanes": {"sound": {"behind": sound, "probed": baseline}, "odd": {"behind": odd, "probed": probe}}}


def kinds(found: list[Finding]) -> list[tuple[str, str]]:
    return [(each.kind, each.severity) for each in found]


FINE = Figures({"iops": 1.0})


# --- shared_disk


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (behind(disk("vda")), behind(disk("vda")), ["looked-up"]),
        (behind(disk("vda")), behind(disk("vdb")), []),
        (behind(disk("vda")), behind(disk("vda"), machine="other"), []),
        (behind(disk("sda", identity="wwn:1")), behind(disk("sdx", identity="wwn:1"), machine="other"), ["looked-up"]),
        (behind(disk("a"), disk("b")), behind(disk("b"), disk("c")), ["looked-up"]),
        (behind(server="10.0.0.9:/a"), behind(server="10.0.0.9:/b"), ["one-server"]),
        (behind(server="//nas/a"), behind(server="//other/a"), []),
    ],
)
def test_lanes_on_one_disk(beside: Beside, run_check: RunCheck, one: Any, two: Any, expected: list[str]) -> None:
    found = run_check("shared_disk", beside(FINE, FINE, description=lanes(one, two)))
    assert [each.kind for each in found] == expected
    assert all(set(each.lanes) == {"sound", "odd"} for each in found)


def test_what_was_measured_comes_before_what_was_looked_up(beside: Beside, run_check: RunCheck) -> None:
    both = lanes(behind(disk("a")), behind(disk("b")), probed(a=0.9, b=0.1), probed(a=1.0))
    (found,) = run_check("shared_disk", beside(FINE, FINE, description=both))
    assert (found.kind, found.evidence["disks"]) == ("measured", ["a"])
    apart = lanes(behind(disk("a"), disk("b")), behind(disk("a"), disk("b")), probed(b=1.0), probed(a=1.0))
    assert run_check("shared_disk", beside(FINE, FINE, description=apart)) == []


def test_a_lane_on_several_machines(beside: Beside, run_check: RunCheck) -> None:
    fleet = {name: behind(disk("sdb", identity=f"serial:{name}"), machine=name) for name in ("alpha", "beta")}
    alone = {name: behind(disk("sdc", identity=f"serial:{name}"), machine=name) for name in ("alpha", "beta")}
    assert run_check("shared_disk", beside(FINE, FINE, description=lanes(fleet, alone))) == []
    (found,) = run_check("shared_disk", beside(FINE, FINE, description=lanes(fleet, fleet)))
    assert found.evidence["disks"] == ["sdb", "sdb"]


# --- other_mount


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"fstype": "xfs"}, ["file-system"]),
        ({"kind": "device", "fstype": ""}, ["file-system"]),
        ({"options": ["rw", "relatime", "sync"]}, ["mount-options"]),
        ({"options": ["relatime", "rw", "stripe=64", "addr=10.0.0.1"]}, []),
    ],
)
def test_other_mounts(beside: Beside, run_check: RunCheck, fields: dict[str, Any], expected: list[str]) -> None:
    made = beside(FINE, FINE, description=lanes(behind(disk("a")), behind(disk("b"), **fields)))
    assert [each.kind for each in run_check("other_mount", made)] == expected


# --- layers_below

BTRFS = {"kind": "btrfs", "name": "/dev/b", "details": {"compression": "zstd:3"}}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([("btrfs", {"compression": "zstd:3"})], [("compression", "warning")]),
        ([("zfs", {"compression": "lz4", "dedup": "on"})], [("compression", "warning"), ("dedup", "warning")]),
        ([("btrfs", {}), ("crypt", {})], []),
        ([("overlay", {})], [("overlay", "warning")]),
        ([("nfs", {})], [("network", "warning")]),
    ],
)
def test_layers_that_are_more_than_a_disk(
    beside: Beside, run_check: RunCheck, layers: list[tuple[str, dict[str, str]]], expected: list[tuple[str, str]]
) -> None:
    stack = [{"kind": kind, "name": "x", "details": details} for kind, details in layers]
    described = lanes(behind(disk("a")), behind(disk("b"), stack=stack))
    found = run_check("layers_below", beside(FINE, FINE, "rw: [randwrite]", description=described))
    assert kinds(found) == expected
    assert all(each.lanes == ("odd",) for each in found)
    reading = run_check("layers_below", beside(FINE, FINE, description=described))
    assert kinds(reading) == [each for each in expected if each[0] not in ("compression", "dedup")]


def test_network_file_systems_of_all_lanes_are_no_difference(beside: Beside, run_check: RunCheck) -> None:
    share = behind(stack=[{"kind": "nfs", "name": "nas:/a", "details": {}}], medium="network")
    assert kinds(run_check("layers_below", beside(FINE, FINE, description=lanes(share, share)))) == [
        ("network", "info")
    ]


# --- full_volume


def test_thin_and_full(beside: Beside, run_check: RunCheck) -> None:
    full = {"kind": "file-system", "name": "/mnt", "total_bytes": 100, "free_bytes": 9, "used": 0.91}
    room = {**full, "free_bytes": 10, "used": 0.9}
    odd = behind(disk("b"), thin=["/x is sparse"], volumes=[full, room])
    found = run_check("full_volume", beside(FINE, FINE, description=lanes(behind(disk("a"), volumes=[room]), odd)))
    assert [(each.kind, each.severity, each.lanes) for each in found] == [
        ("thin", "warning", ("odd",)), ("nearly-full", "warning", ("odd",)),
    ]  # fmt: skip
    assert list(found[1].evidence.values()) == [0.91]


# --- unsafe_cache


@pytest.mark.parametrize(
    ("cache", "rw", "found"), [("unsafe", "randwrite", 1), ("unsafe", "randread", 0), ("writeback", "randwrite", 0)]
)
def test_flushes_that_are_dropped(run_check: RunCheck, cache: str, rw: str, found: int) -> None:
    made = made_beside(
        Figures({"iops": 1000.0}), Figures({"iops": 1000.0}), f"rw: [{rw}]", lane=f", device: {{cache: {cache}}}"
    )
    findings = run_check("unsafe_cache", made)
    assert [one.severity for one in findings] == ["warning"] * found


@pytest.mark.parametrize(
    ("aio", "provisioning", "rw", "found"),
    [
        ("native", "thin", "randwrite", 1),
        ("native", "thin", "randread", 0),
        ("native", "thick", "randwrite", 0),
        ("threads", "thin", "randwrite", 0),
    ],
)
def test_native_aio_on_thin_volumes(run_check: RunCheck, aio: str, provisioning: str, rw: str, found: int) -> None:
    lane = f", device: {{aio: {aio}}}, conditions: {{provisioning: {provisioning}}}"
    made = made_beside(Figures({"iops": 1000.0}), Figures({"iops": 1000.0}), f"rw: [{rw}]", lane=lane)
    findings = run_check("native_sparse", made)
    assert [(one.severity, set(one.lanes)) for one in findings] == [("warning", {"sound", "odd"})] * found


# --- flush_promise, write_cache

NOTHING = {"write": "volatile", "sync": "nothing", "words": "nobarrier."}


@pytest.mark.parametrize(
    ("workload", "flush", "expected"),
    [
        ("rw: [randread]", NOTHING, []),
        ("rw: [randwrite]", NOTHING, [("differs", "warning")]),
        ("rw: [randwrite]", {"write": "stable", "sync": "stable", "words": ""}, [("differs", "warning")]),
        ("rw: [randwrite]", {"write": "unknown", "sync": "unknown", "words": ""}, []),
        ("rw: [randwrite]", {"write": "volatile", "sync": "stable", "words": "other"}, []),
    ],
)
def test_promises(beside: Beside, run_check: RunCheck, workload: str, flush: Any, expected: Any) -> None:
    made = beside(FINE, FINE, workload, description=lanes(behind(disk("a")), behind(disk("b"), flush=flush)))
    found = run_check("flush_promise", made)
    assert kinds(found) == expected
    assert all(each.cells for each in found)


def test_of_two_checks_of_promises_one_speaks(beside: Beside, run_check: RunCheck) -> None:
    made = lanes(behind(disk("a")), behind(disk("b"), flush=NOTHING))
    made["lanes"]["sound"] |= {"device.write_cache": "write back"}
    made["lanes"]["odd"] |= {"device.write_cache": "write through"}
    found = run_check("write_cache", beside(FINE, FINE, "rw: [randwrite]", description=made))
    assert found == []
    del made["lanes"]["odd"]["behind"]
    assert kinds(run_check("write_cache", beside(FINE, FINE, "rw: [randwrite]", description=made))) == [
        ("flush", "warning")
    ]


# --- cache_served


def trial(read: int = 0, write: int = 0, **moved: dict[str, float]) -> Figures:
    load = {
        "ios": {"read": read // 4096, "write": write // 4096},
        "bytes": {"read": read, "write": write},
        "runtime_ms": 1000,
    }
    counted = {
        name: {"reads": 1, "read_bytes": 0, "writes": 1, "write_bytes": 0, **disk} for name, disk in moved.items()
    }
    return Figures({"iops": 1000.0}, {}, {"load": load, "host_disks": counted})


def test_the_disks_below_a_file_saw_less(beside: Beside, run_check: RunCheck) -> None:
    described = lanes(behind(disk("a")), behind(disk("b")))
    sound = trial(GIB, a={"read_bytes": GIB})
    odd = trial(GIB, b={"read_bytes": GIB // 10})
    found = run_check("cache_served", beside(odd, sound, "rw: [randread], ramp: 1s", description=described))
    assert [(each.kind, each.severity, each.lanes) for each in found] == [("fewer-reads", "critical", ("odd",))]
    squeezed = lanes(behind(disk("a")), behind(disk("b"), stack=[BTRFS]))
    assert run_check("cache_served", beside(odd, sound, description=squeezed)) == []


@pytest.mark.parametrize("verdict", ["cache", "memory", "disks", "network"])
def test_a_probe_that_a_cache_answered(beside: Beside, run_check: RunCheck, verdict: str) -> None:
    made = lanes(behind(disk("a")), behind(disk("b")), probed(verdict))
    found = run_check("cache_served", beside(FINE, FINE, description=made))
    assert [(each.kind, each.lanes) for each in found] == (
        [(f"probe-{verdict}", ("odd",))] if verdict in ("cache", "memory") else []
    )


# --- other_io


@pytest.mark.parametrize(
    ("workload", "figures", "share"),
    [
        ("rw: [randread]", trial(GIB, b={"read_bytes": GIB}), None),
        ("rw: [randread]", trial(GIB, b={"read_bytes": GIB * 1.04}), None),
        ("rw: [randread]", trial(GIB, b={"read_bytes": GIB * 1.25}), 0.2),
        ("rw: [randread]", trial(GIB, b={"read_bytes": GIB, "write_bytes": GIB}), 0.5),
        ("rw: [randread], ramp: 1s", trial(GIB, b={"read_bytes": GIB * 2}), None),
        ("rw: [randread]", trial(4096, b={"read_bytes": 40960}), None),
        ("rw: [randread]", trial(GIB, c={"read_bytes": GIB}), None),
    ],
)
def test_others_on_the_disk(
    beside: Beside, run_check: RunCheck, workload: str, figures: Figures, share: float | None
) -> None:
    described = lanes(behind(disk("a")), behind(disk("b")))
    found = run_check("other_io", beside(figures, trial(GIB, a={"read_bytes": GIB}), workload, description=described))
    shares = [each["share"] for finding in found for each in finding.evidence.values()]
    assert shares == ([] if share is None else [pytest.approx(share, abs=0.01)])


def test_other_jobs_of_the_load_are_not_others(beside: Beside, run_check: RunCheck) -> None:
    def found(**counts: int) -> list[Finding]:
        figures = trial(0, GIB, b={"read_bytes": 3 * GIB, "write_bytes": GIB})
        figures.context["load"]["all"] = {"bytes": counts, "ios": {way: n // 4096 for way, n in counts.items()}}
        described = lanes(behind(disk("a")), behind(disk("b")))
        sound = trial(0, GIB, a={"write_bytes": GIB})
        return run_check("other_io", beside(figures, sound, "rw: [randwrite]", description=described))

    assert found(read=3 * GIB, write=GIB) == []
    assert kinds(found(read=0, write=GIB)) == [("mostly-others", "critical")]


def test_a_disk_that_worked_mostly_for_others_takes_the_headline(beside: Beside, run_check: RunCheck) -> None:
    described = lanes(behind(disk("a")), behind(disk("b")))
    flooded, disturbed = trial(GIB, b={"read_bytes": 4 * GIB}), trial(GIB, b={"read_bytes": GIB * 1.25})

    def found(
        *figures: Figures, cached: bool = False, workload: str = "rw: [randread]"
    ) -> list[tuple[str, str, int, int]]:
        made = beside(flooded, trial(GIB, a={"read_bytes": GIB}), workload, blocks=6, description=described)
        each = iter(figures)
        seen = [replace(o, context=next(each).context) if o.lane == "odd" else o for o in made.observations]
        if cached:
            seen = [replace(o, context={**o.context, "load": {**o.context["load"], "cached": True}}) for o in seen]
        findings = run_check("other_io", replace(made, observations=tuple(seen)))
        assert {lane for f in findings for lane in f.lanes} <= {"odd"}
        return [(f.kind, f.severity, p["trials"], p["of"]) for f in findings for p in f.evidence.values()]

    assert found(*[flooded] * 6) == [("mostly-others", "critical", 6, 6)]
    assert found(*[flooded] * 3, *[disturbed] * 3) == [("mostly-others", "critical", 3, 6)]
    assert found(*[flooded] * 2, *[disturbed] * 4) == [("others", "warning", 6, 6)]
    assert found(*[disturbed] * 6) == [("others", "warning", 6, 6)]
    assert found(*[flooded] * 6, cached=True) == [("others", "warning", 6, 6)], "read-ahead may be the load's own"
    assert found(*[flooded] * 6, workload="rw: [randread], direct: false") == [("others", "warning", 6, 6)]


def test_writes_that_make_others_are_not_others(beside: Beside, run_check: RunCheck) -> None:
    figures = trial(0, GIB, b={"write_bytes": 3 * GIB})

    def found(**fields: Any) -> list[Finding]:
        made = lanes(behind(disk("a")), behind(disk("b"), **fields))
        return run_check("other_io", beside(figures, figures, "rw: [randwrite]", description=made))

    assert len(found()) == 1
    assert found(stack=[{"kind": "md", "name": "md0"}]) == []
    made = lanes(behind(disk("a")), behind(disk("b")), probed() | {"write": {"ratio": 3.0}})
    assert run_check("other_io", beside(figures, figures, "rw: [randwrite]", description=made)) == []


def test_of_a_fleet_the_disks_of_all_machines_count(beside: Beside, run_check: RunCheck) -> None:
    machine = trial(GIB, b={"read_bytes": 2 * GIB})
    fleet = merge({"vm0": machine, "vm1": machine})
    assert set(fleet.context["host_disks"]) == {"vm0", "vm1"}, "even if both are equal"
    described = lanes(behind(disk("a")), {name: behind(disk("b"), machine=name) for name in ("alpha", "beta")})
    made = beside(fleet, trial(GIB, a={"read_bytes": GIB}), description=described)
    (found,) = run_check("other_io", made)
    assert [proof["disk_bytes"] for proof in found.evidence.values()] == [4 * GIB]


# --- drive_state


def series(*values: float) -> Figures:
    figures = trial(0, GIB, b={"write_bytes": GIB})
    figures.context["load"]["series"] = {"interval_ms": 1000, "iops": list(values)}
    return figures


def test_a_drive_that_was_not_written_once_over(beside: Beside, run_check: RunCheck) -> None:
    figures = trial(0, GIB, b={"write_bytes": 3 * GIB})
    described = lanes(behind(disk("a", flash=False)), behind(disk("b")))

    def found(workload: str = "rw: [randwrite]", description: Any = described) -> list[Finding]:
        return run_check("drive_state", beside(figures, figures, workload, description=description, blocks=2))

    (only,) = found()
    assert (only.kind, only.lanes) == ("not-filled", ("odd",))
    assert only.evidence["written_bytes"] == 4 * 3 * GIB, "of all trials, whichever lane wrote"
    assert found("rw: [randread]") == []
    small = lanes(behind(disk("a", flash=False)), behind(disk("b", bytes=10 * GIB)))
    assert found(description=small) == []
    gated = {"lanes": {**described["lanes"], "odd": {**described["lanes"]["odd"], "steady": {"reached": True}}}}
    assert found(description=gated) == []


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ([1000, 990, 1010] * 4 + [300, 310, 290] * 4, 12),
        ([1000, 990, 1010] * 8, None),
        ([1000, 300] * 12, None),
        ([300] * 12 + [1000] * 12, None),
        ([1000] * 12 + [700] * 12, None),
        ([1000] * 4 + [300] * 4, None),
        ([1000] * 12 + [300] * 2 + [1000] * 12, None),
    ],
)
def test_a_cliff(beside: Beside, run_check: RunCheck, values: list[float], at: int | None) -> None:
    described = lanes(behind(disk("a", flash=False)), behind(disk("b", flash=False)))
    made = beside(series(*values), series(*[1000.0] * 24), "rw: [randwrite]", description=described)
    found = run_check("drive_state", made)
    assert [each.kind for each in found] == ([] if at is None else ["cliff"])
    assert [proof["at_sample"] for each in found for proof in each.evidence.values()] == ([] if at is None else [at])


# --- throttled


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, []),
        ({"temperatures": {"x": {"celsius": 84.0, "limit": 84.0, "disk": "nvme0n1"}}}, [("hot", "warning")]),
        ({"temperatures": {"x": {"celsius": 83.0, "limit": 84.0}, "y": {"celsius": 99.0, "limit": None}}}, []),
        ({"throttles": 3}, [("cpu-throttled", "warning")]),
        ({"throttles": 0, "governors": {"performance": 8}}, []),
        ({"governors": {"performance": 4, "powersave": 4}}, [("governor", "info")]),
        ({"vm0": {"throttles": 1}, "vm1": {"throttles": 2}}, [("cpu-throttled", "warning")]),
    ],
)
def test_throttling(beside: Beside, run_check: RunCheck, host: Any, expected: Any) -> None:
    made = beside(Figures({"iops": 1.0}, {}, {"host": host}), FINE)
    assert kinds(run_check("throttled", made)) == expected


# --- of all


def test_sound_lanes_have_no_finding(beside: Beside) -> None:
    described = lanes(behind(disk("a")), behind(disk("b")), probed(b=1.0), probed(a=1.0))
    one, other = trial(GIB, a={"read_bytes": GIB}), trial(GIB, b={"read_bytes": GIB})
    found = run_all(beside(other, one, description=described))
    ours = {
        "shared_disk",
        "other_mount",
        "layers_below",
        "full_volume",
        "flush_promise",
        "other_io",
        "drive_state",
        "throttled",
    }
    assert [each for each in found if each.check in ours or each.kind.startswith("probe")] == []


@pytest.mark.slow
@given(st.lists(TREES, min_size=6, max_size=6))
def test_no_description_makes_them_raise(trees: list[Any]) -> None:
    one, two, three, four, five, six = trees
    odd = behind(disk("a", bytes=one, flash=True, identity=two), options=three, flush=four, volumes=[five], thin=six)
    figures = Figures({"iops": 1.0}, {}, {"host_disks": one, "host": two, "load": three})
    probe = {"machine": "m", "disks": five, "read": six}
    described = lanes(odd | {"disks": [disk("a"), two], "stack": one}, odd, probe)
    made: Evidence = made_beside(figures, FINE, "rw: [randwrite]", description=described)
    for finding in run_all(made):
        assert finding.message
