"""Lanes proposed for layouts as people have them: what must be a lane, a cell, a repetition."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.importers._propose import Entry, Proposal, propose
from fairlane.importers._words import glued_counters, is_counter, says, words
from tests.words import kind

LOADS = ("4k-randread", "4k-randwrite", "64k-read")


def entry(name: str, load: Any = "4k randread", labels: Mapping[str, str] | None = None, **params: Any) -> Entry:
    return Entry(name, load, params, labels or {})


def of(*names: str) -> Proposal:
    """One load only."""
    return propose([entry(name) for name in names], "results")


def loaded(names: Iterable[str]) -> Proposal:
    """Each name ends with one of LOADS, which is its trial's load."""
    return propose([entry(name, next(load for load in LOADS if load in name)) for name in names], "results")


def lanes(proposal: Proposal) -> list[str]:
    return list(dict.fromkeys(proposal.lanes))


# --- folders


def test_folders_common_to_all_files_are_skipped():
    proposal = of(*(f"results-2024/fio/{lane}/{n}.json" for lane in ("iscsi", "nvme-tcp") for n in (1, 2, 3)))
    assert lanes(proposal) == ["iscsi", "nvme-tcp"]
    assert [axis.key for axis in proposal.by] == ["folder1"]
    assert [axis.key for axis in proposal.counted] == ["name"]
    assert set(proposal.parts) == {""}


def test_machines_below_systems_are_repetitions():
    proposal = of(*(f"{lane}/vm{n}/fio.json" for lane in ("ceph", "vsan") for n in (1, 2, 3)))
    assert lanes(proposal) == ["ceph", "vsan"]
    assert [axis.key for axis in proposal.counted] == ["folder2"]


@pytest.mark.parametrize("machine", ["vm-01", "vm-02", "worker-3"])
def test_systems_below_machines(machine):
    other = machine[:-1] + "9"
    proposal = of(*(f"{m}/{lane}.json" for m in (machine, other) for lane in ("ceph", "vsan")))
    assert lanes(proposal) == ["ceph", "vsan"]


@pytest.mark.parametrize(
    "days",
    [
        ("2024-05-01", "2024-05-02"),
        ("20240501-120000", "20240502_1300"),
        ("2024-05-01T12:00:00Z", "2024-05-02T12:00:00Z"),
        ("17thDec", "20thDec"),
        ("1714550000", "1714650000"),
        ("monday", "tuesday"),
        ("run1", "run2"),
        ("run_001", "run_002"),
        ("iteration-1", "iteration-7"),
        ("1", "2"),
    ],
)
def test_folders_of_dates_and_runs_are_repetitions_wherever_they_are(days):
    above = of(*(f"{day}/{lane}/x.json" for day in days for lane in ("iscsi", "nvme")))
    below = of(*(f"{lane}/{day}/x.json" for day in days for lane in ("iscsi", "nvme")))
    within = of(*(f"{lane}_{day}/x.json" for day in days for lane in ("iscsi", "nvme")))
    assert lanes(above) == lanes(below) == lanes(within) == ["iscsi", "nvme"]
    alone = of(*(f"{day}/x.json" for day in days))
    assert lanes(alone) == ["results"]
    assert alone.by == ()
    assert [axis.raw for axis in alone.counted] == [days]


def test_a_folder_per_run_with_a_file_per_load():
    proposal = loaded(f"{lane}-run{n}/{load}.json" for lane in ("iscsi", "nvme") for n in (1, 2) for load in LOADS)
    assert lanes(proposal) == ["iscsi", "nvme"]
    assert [axis.key for axis in proposal.loads] == ["name"]
    assert set(proposal.parts) == {""}


def test_a_folder_per_load_is_no_lane():
    proposal = loaded(f"{load}/{lane}/{n}.json" for load in LOADS for lane in ("iscsi", "nvme") for n in (1, 2))
    assert lanes(proposal) == ["iscsi", "nvme"]
    assert [axis.key for axis in proposal.by] == ["folder2"]
    assert [axis.key for axis in proposal.loads] == ["folder1"]


def test_folders_that_recur_below_the_outermost_split_cells():
    proposal = of(*(f"{lane}/{size}/1.json" for lane in ("rep3", "ec42") for size in ("small", "large")))
    assert lanes(proposal) == ["rep3", "ec42"]
    assert proposal.parts == ("small", "large") * 2
    assert [axis.key for axis in proposal.within] == ["folder2"]


def test_folders_that_do_not_recur_make_finer_lanes():
    names = ("ceph/rep2/1.json", "ceph/rep3/1.json", "vsan/raid1/1.json", "vsan/raid5/1.json")
    assert of(*names).lanes == ("ceph/rep2", "ceph/rep3", "vsan/raid1", "vsan/raid5")


def test_a_stray_file_beside_the_folders_is_a_lane_of_its_own():
    assert of("iscsi/1.json", "nvme/1.json", "old.json").lanes == ("iscsi", "nvme", "results")


# --- names of files


@pytest.mark.parametrize("numbers", [("1", "2"), ("01", "02"), ("1", "2", "4", "5"), ("001", "002", "010")])
@pytest.mark.parametrize("between", ["-", "_", ".", "-run", "_run_", " ", " ("])
def test_flat_names_with_run_numbers(numbers, between):
    proposal = of(*(f"{lane}{between}{n}.json" for lane in ("iscsi", "nvme-tcp") for n in numbers))
    assert lanes(proposal) == ["iscsi", "nvme-tcp"]
    assert set(proposal.parts) == {""}


def test_one_lane_may_be_the_beginning_of_the_other():
    assert lanes(of("nvme-1.json", "nvme-2.json", "nvme-tcp-1.json", "nvme-tcp-2.json")) == ["nvme", "nvme-tcp"]
    assert lanes(of("results.json", "results-tuned.json")) == ["results", "tuned"]


def test_numbers_that_run_without_gaps_count_and_others_are_names():
    assert lanes(of(*(f"raid-{level}-{n}.json" for level in (0, 5) for n in (1, 2, 3)))) == ["raid-0", "raid-5"]
    assert lanes(of("raid0.json", "raid5.json")) == ["raid0", "raid5"]
    assert lanes(of("iscsi1.json", "iscsi2.json", "nvme1.json", "nvme2.json")) == ["iscsi", "nvme"]
    assert lanes(of("iscsi-1.json", "iscsi-2.json", "iscsi-3.json", "nvme-2.json", "nvme-3.json")) == ["iscsi", "nvme"]


def test_a_number_that_recurs_in_every_lane_splits_cells():
    proposal = of(*(f"{lane}_clients_{n}.json" for lane in ("bfq", "kyber") for n in (1, 2, 4, 8)))
    assert lanes(proposal) == ["bfq", "kyber"]
    assert proposal.parts == ("clients-1", "clients-2", "clients-4", "clients-8") * 2


def test_files_that_differ_in_their_load_are_cells():
    proposal = loaded(f"{load}.json" for load in LOADS)
    assert lanes(proposal) == ["results"]
    assert [axis.key for axis in proposal.loads] == ["name"]


def test_the_same_load_again_is_a_repetition():
    proposal = of("fio-1.json", "fio-2.json", "fio-3.json")
    assert lanes(proposal) == ["results"]
    assert [axis.key for axis in proposal.counted] == ["name"]


@pytest.mark.parametrize(
    "form", ["{lane}-{rw}-bs{bs}-qd{qd}-{n}", "{rw}_{bs}_{qd}_{lane}_run{n}", "{n}.{lane}.{bs}{rw}.{qd}"]
)
def test_words_of_the_load_in_names_are_dropped(form):
    entries = [
        entry(f"{form.format(lane=lane, rw=rw, bs=bs, qd=qd, n=n)}.json", (rw, bs, qd))
        for lane in ("iscsi", "nvme")
        for rw in ("randread", "randwrite")
        for bs in ("4k", "64k")
        for qd in (1, 16)
        for n in (1, 2)
    ]
    assert lanes(propose(entries)) == ["iscsi", "nvme"]
    assert set(propose(entries).parts) == {""}


def test_a_parameter_that_is_no_cell_is_no_lane_either():
    entries = [
        entry(f"{lane}-{text}.json", runtime=value)
        for lane in ("iscsi", "nvme")
        for text, value in (("60s", 60 * 10**9), ("5m", 300 * 10**9))
    ]
    assert lanes(propose(entries)) == ["iscsi", "nvme"]


def test_names_as_a_study_of_schedulers_has_them():
    """The layout of stonet-research/icpe24_io_scheduler_study_artifact: a scheduler per file name; the load tells the
    first word, the last number is that of a process, the one before it how many there are."""
    entries = [
        entry(f"results/fig/fio_output/{app}_dev_1_sche_{lane}_num_t_{t}{f'_index_{i}' if app == 't' else ''}.txt", app)
        for lane in ("bfq", "kyber", "mq-deadline", "none")
        for app, t, i in [("l", 0, 0), ("l", 8, 0), *(("t", 8, i) for i in range(1, 9)), *(("t", 2, i) for i in (1, 2))]
    ]
    proposal = propose(entries)
    assert lanes(proposal) == ["bfq", "kyber", "mq-deadline", "none"]
    assert set(proposal.parts) == {"t-0", "t-2", "t-8"}


def test_names_as_a_study_of_two_settings_has_them():
    """Same source, table 2: read and write targets; 0 and 1s are not 1s and 0."""
    names = [f"rep_{n}/mix_r_{r}_w_{w}.txt" for n in range(3) for r, w in (("0", "1s"), ("1s", "0"), ("1s", "1s"))]
    proposal = of(*names)
    assert len(lanes(proposal)) == 3
    assert [axis.key for axis in proposal.counted] == ["folder1"]


def test_a_folder_per_device_and_a_file_per_point():
    """The layout of louwrentius/fio-plot-data: DEVICE/randread-IODEPTH-NUMJOBS.json."""
    entries = [
        entry(f"HPDL380G8/RAID/{device}/{rw}-{qd}-{jobs}.json", (rw, qd, jobs))
        for device in ("P420i_4xSSD_RAID0_32KCUNK", "P420i_4xSSD_RAID0_64KCUNK")
        for rw in ("randread", "randwrite")
        for qd in (1, 2, 4, 8, 16)
        for jobs in (1, 2, 4, 8, 16)
    ]
    assert lanes(propose(entries)) == ["P420i_4xSSD_RAID0_32KCUNK", "P420i_4xSSD_RAID0_64KCUNK"]


def test_machine_types_above_repetitions_of_a_working_set():
    """The layout of converged-computing/metrics-operator-experiments: data/TYPE/metrics-filestore-RUN-SIZE-BS.json."""
    entries = [
        entry(f"run0/data/n1-standard-{cpus}/metrics-filestore-{run}-{size}G-{bs}.json", bs, size=size * 2**30)
        for cpus in (2, 8, 32)
        for run in range(4)
        for size in (1, 2)
        for bs in ("8k", "64k")
    ]
    assert lanes(propose(entries)) == ["n1-standard-2", "n1-standard-8", "n1-standard-32"]
    assert set(propose(entries).parts) == {""}


def test_pods_and_hashes_do_not_count_as_names():
    assert lanes(of("iscsi-3f2a9c1b.json", "iscsi-77aa01d2.json", "nvme-0b1c2d3e.json")) == ["iscsi", "nvme"]


# --- inside the files


def test_devices_tell_lanes_apart_where_names_do_not():
    entries = [
        entry(f"{n}.json", labels={"filename": device, "host": f"node-{n}"})
        for n, device in enumerate(("/dev/sdb", "/dev/nvme0n1") * 3)
    ]
    proposal = propose(entries)
    assert lanes(proposal) == ["sdb", "nvme0n1"]
    assert [axis.key for axis in proposal.by] == ["filename"]
    assert not proposal.doubt


def test_directories_and_test_files_on_them():
    entries = [entry(f"{n}.json", labels={"filename": f"/mnt/{d}/fio.{n}"}) for d in ("ssd", "nfs") for n in (1, 2)]
    assert lanes(propose(entries)) == ["ssd", "nfs"]


def test_an_engine_tells_lanes_apart_and_may_then_differ():
    entries = [entry(f"{n}.json", engine=engine) for n, engine in enumerate(("libaio", "io_uring") * 2)]
    proposal = propose(entries)
    assert lanes(proposal) == ["libaio", "io_uring"]
    assert proposal.vary == ("engine",)


def test_a_description_and_an_option_that_the_guard_does_not_know():
    entries = [entry(f"{n}.json", labels={"description": text}) for n, text in enumerate(("plain", "tuned"))]
    assert lanes(propose(entries)) == ["plain", "tuned"]
    entries = [entry(f"{n}.json", ioscheduler=text) for n, text in enumerate(("bfq", "none"))]
    assert lanes(propose(entries)) == ["bfq", "none"]
    assert propose(entries).vary == ()


def test_hosts_are_asked_last_and_their_numbers_count():
    hosts = [entry(f"{n}.json", labels={"host": f"vm{n}", "job": "x"}) for n in range(4)]
    assert propose(hosts).by == ()
    hosts = [entry(f"{n}.json", labels={"host": f"{name}{n}"}) for n in (1, 2) for name in ("old", "new")]
    assert lanes(propose(hosts)) == ["old", "new"]


def test_two_things_that_differ_independently_are_in_doubt():
    entries = [
        entry(f"{n}{m}.json", labels={"filename": device}, engine=engine)
        for n, device in enumerate(("/dev/sdb", "/dev/sdc"))
        for m, engine in enumerate(("libaio", "io_uring"))
    ]
    proposal = propose(entries)
    assert len(lanes(proposal)) == 4
    assert proposal.doubt
    assert not propose(entries, by=["engine"]).doubt


def test_names_win_over_the_inside():
    entries = [
        entry(f"{lane}-{n}.json", labels={"filename": f"/dev/sd{letter}"})
        for lane in ("iscsi", "nvme")
        for n, letter in ((1, "b"), (2, "c"))
    ]
    assert lanes(propose(entries)) == ["iscsi", "nvme"]


def test_more_lanes_than_anybody_compares_are_in_doubt():
    assert not of(*(f"{chr(97 + n)}x.json" for n in range(3))).doubt
    assert of(*(f"{chr(97 + n // 26)}{chr(97 + n % 26)}x.json" for n in range(40))).doubt


# --- said by the user


def test_by_takes_what_the_rules_do_not():
    names = [f"run{n}/{lane}/{size}.json" for n in (1, 2) for lane in ("iscsi", "nvme") for size in ("small", "large")]
    entries = [entry(name) for name in names]
    assert lanes(propose(entries, by=["name"])) == ["small", "large"]
    assert set(propose(entries, by=["name"]).parts) == {"iscsi", "nvme"}
    assert lanes(propose(entries, by=["folder1"])) == ["run1", "run2"]
    assert lanes(propose(entries, by=["folder2", "name"])) == ["iscsi/small", "iscsi/large", "nvme/small", "nvme/large"]
    with pytest.raises(FairlaneError, check=kind("axis-unknown")) as raised:
        propose(entries, by=["folder3"])
    assert "folder2" in (raised.value.hint or "")


# --- words


def test_words_of_a_name():
    assert [word.text for word in words("2024-05-01_iscsi-4k_12-30-00_raid5-007")] == ["iscsi", "4k", "raid5", "007"]
    assert is_counter({"1", "2", "3"})
    assert is_counter({"0", "1"})
    assert is_counter({"007"})
    assert not is_counter({"0", "5"})
    assert not is_counter({"4", "5"})
    assert not is_counter({"1", "2", "4"})
    assert is_counter({"1", "2", "3", "5"})
    assert glued_counters(words("r1 r2 raid1 raid2")) == {"r", "raid"}
    assert glued_counters(words("raid1 raid2")) == frozenset()
    assert glued_counters(words("r1 r2")) == {"r"}
    assert glued_counters(words("rep1 rep2")) == {"rep"}
    assert glued_counters(words("rep2 rep3")) == frozenset()
    assert says("10g", {"size": 10 * 2**30})
    assert says("60s", {"runtime": 60 * 10**9})
    assert not says("60s", {"runtime": 30 * 10**9})
    assert not says("libaio", {"engine": "libaio"})  # which may be what somebody compares


@given(st.lists(st.tuples(st.text(max_size=30), st.integers(0, 2)), min_size=1, max_size=12))
def test_any_names_get_lanes(names):
    entries = [entry(name, load, {"host": name or "x"}, engine=name) for name, load in names]
    proposal = propose(entries, "top")
    assert len(proposal.lanes) == len(proposal.parts) == len(entries)
    assert bool(proposal.by) == (len(set(proposal.lanes)) > 1)
