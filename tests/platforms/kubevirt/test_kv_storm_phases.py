"""When machines reached their phases, from objects as the watches bring them."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.storm_phases import FALLBACK, PHASES, Track, warnings, wrong_way
from fairlane.platforms.kubevirt.watching import WatchEvent

BEGAN = 100.0


def track(name: str = "a--x-0") -> Track:
    return Track(name, "worker-0", (f"{name}-root", f"{name}-disk0"), BEGAN)


def see(
    one: Track, kind: Kind, name: str, at: float, *, listed: bool = False, since: float = BEGAN, **parts: Any
) -> bool:
    body = {"metadata": {"name": name, **parts.pop("metadata", {})}, **parts}
    return one.update(kind, WatchEvent("MODIFIED", body, 1e9 + at, BEGAN + at, listed), since)


def bound(one: Track, at: float, root: Mapping[str, Any] | None = None) -> None:
    for volume in one.volumes:
        see(one, kinds.PVC, volume, at, status={"phase": "Bound"}, **(root or {}))


def test_a_machine_is_bound_when_the_last_of_its_claims_is() -> None:
    one = track()
    assert not see(one, kinds.PVC, "a--x-0-root", 1.0, status={"phase": "Bound"})
    assert not see(one, kinds.PVC, "a--x-0-disk0", 2.0, status={"phase": "Pending"})
    assert see(one, kinds.PVC, "a--x-0-disk0", 3.0, status={"phase": "Bound"})
    assert not see(one, kinds.PVC, "a--x-0-disk0", 4.0, status={"phase": "Bound"})  # nothing new
    assert one.at == {"bound": 3.0}


def test_a_volume_that_is_copied_into_is_there_when_its_data_are() -> None:
    """Of a copy from pod to pod the claim is bound first; the machine's volume counts as created with its data."""
    one = track()
    bound(one, 1.0)
    for at, phase in ((2.0, "CloneInProgress"), (9.0, "Succeeded")):
        assert see(one, kinds.DATA_VOLUME, "a--x-0-root", at, status={"phase": phase})
    one.at |= {"answers": 20.0, "first_io": 21.0}
    assert (one.record()["created"], one.record()["booted"], one.record()["answered"]) == (9.0, 20.0, 21.0)
    assert one.used() == "copy"


def test_a_volume_whose_watch_was_late_was_there_before_the_machine_ran() -> None:
    one = track()
    one.at |= {"requested": 0.1, "scheduled": 2.0, "running": 3.0, "answers": 5.0, "first_io": 6.0}
    assert (one.record()["created"], one.record()["booted"]) == (3.0, 5.0)
    one.at["bound"] = 1.0
    assert one.record()["created"] == 1.0
    one.at["cloned"] = 8.0
    assert one.record()["created"] == 3.0


def test_progress_counts_as_getting_on_and_a_phase_that_comes_again_does_not() -> None:
    one = track()
    name = "a--x-0-root"
    assert see(one, kinds.DATA_VOLUME, name, 1.0, status={"phase": "CloneInProgress", "progress": "1.0%"})
    assert see(one, kinds.DATA_VOLUME, name, 2.0, status={"phase": "CloneInProgress", "progress": "2.0%"})
    assert not see(one, kinds.DATA_VOLUME, name, 3.0, status={"phase": "CloneInProgress", "progress": "2.0%"})
    see(one, kinds.DATA_VOLUME, name, 4.0, status={"phase": "Pending", "progress": "2.0%"})
    assert not see(one, kinds.DATA_VOLUME, name, 5.0, status={"phase": "CloneInProgress", "progress": "2.0%"})
    assert not see(one, kinds.DATA_VOLUME, "a--x-0-disk0", 6.0, status={"phase": "ImportInProgress"})


def test_what_only_a_list_told_happened_since_the_news_before() -> None:
    one = track()
    see(one, kinds.VMI, one.name, 1.0, status={"phase": "Scheduled"})
    see(one, kinds.VMI, one.name, 8.0, listed=True, since=BEGAN + 3.0, status={"phase": "Running"})
    assert one.at == {"scheduled": 1.0, "running": 8.0}
    assert one.within == {"running": 5.0}


def test_a_phase_that_was_passed_over_lies_between_its_neighbours() -> None:
    one = track()
    bound(one, 2.0)
    see(one, kinds.VMI, one.name, 8.0, status={"phase": "Running"})
    assert one.at == {"bound": 2.0, "scheduled": 8.0, "running": 8.0}
    assert one.within == {"scheduled": 6.0}


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_an_instance_that_ends_is_a_failure(phase: str) -> None:
    one = track()
    see(one, kinds.VMI, one.name, 1.0, status={"phase": phase})
    told = one.record()
    assert one.failed == told["failed"] != ""
    assert told["failure"] == ("instance-failed" if phase == "Failed" else "instance-ended")
    assert "answered" not in told
    assert told["last"] not in PHASES


@pytest.mark.parametrize(
    ("phases", "claim", "used"),
    [
        (["CloneScheduled", "CSICloneInProgress", "RebindInProgress", "Succeeded"], {}, "csi-clone"),
        (["SnapshotForSmartCloneInProgress", "CloneFromSnapshotSourceInProgress"], {}, "snapshot"),
        (["CloneFromSnapshotSourceInProgress", "CloneInProgress"], {}, "copy"),  # of a snapshot that cannot be restored
        (["Pending", "Succeeded"], {"spec": {"dataSource": {"kind": "PersistentVolumeClaim"}}}, "csi-clone"),
        (["Succeeded"], {"metadata": {"annotations": {"cdi.kubevirt.io/cloneType": "copy"}}}, "copy"),
        (["Pending", "Succeeded"], {}, ""),
    ],
)
def test_how_a_clone_was_made_shows_in_what_its_volume_went_through(
    phases: list[str], claim: dict[str, Any], used: str
) -> None:
    one = track()
    bound(one, 5.0, claim)
    for at, phase in enumerate(phases):
        see(one, kinds.DATA_VOLUME, "a--x-0-root", at, status={"phase": phase})
    assert one.used() == used


def made(name: str, used: str, reason: str = "") -> Track:
    one = track(name)
    notes = {"cdi.kubevirt.io/cloneType": used, **({FALLBACK: reason} if reason else {})}
    bound(one, 1.0, {"metadata": {"annotations": notes}})
    return one


def test_clones_that_were_not_made_as_asked_are_an_error_with_the_reason_that_cdi_gives() -> None:
    both = [made("a", "csi-clone"), made("b", "copy", "modes\u202e differ\x1b[2J")]
    assert not wrong_way(both[:1], "csi-clone")
    told = wrong_way(both, "csi-clone")
    assert re.findall(r"csi-clone|copy|snapshot|\d of \d", told) == ["csi-clone", "1 of 2", "copy"]
    assert told.endswith(": modes differ [2J")
    prefers = wrong_way(both, None)  # as the profile prefers, but all in one way
    assert re.findall(r"csi-clone|copy|snapshot|\d of \d", prefers) == ["csi-clone", "1 of 2", "copy"]
    assert not wrong_way([made("a", "copy"), track("never")], None)
    silent = wrong_way([made("a", "")], "snapshot")
    assert re.findall(r"csi-clone|copy|snapshot|\d of \d", silent) == ["snapshot", "1 of 1"]


def test_warnings_go_to_the_machine_whose_pod_or_volume_they_are_about() -> None:
    def event(name: str, reason: str, kind: str = "Warning", at: int = 1) -> dict[str, Any]:
        return {"involvedObject": {"name": name}, "reason": reason, "message": "m\x1b[31m", "type": kind,
                "firstTimestamp": f"2026-11-22T00:00:0{at}Z"}  # fmt: skip

    tracks = [track("a--x-1"), track("a--x-10")]
    events = [
        event("virt-launcher-a--x-10-7kqzp", "FailedMount", at=2), event("a--x-1-root", "ProvisioningFailed"),
        event("a--x-10", "Later", at=3), event("a--x-10", "Fine", "Normal"), event("somebody-else", "FailedMount"),
    ]  # fmt: skip
    assert warnings(events, tracks) == {
        "a--x-1": ["ProvisioningFailed: m [31m"], "a--x-10": ["FailedMount: m [31m", "Later: m [31m"],
    }  # fmt: skip


def test_the_apis_stamps_are_kept_and_complaints_are_plain_text() -> None:
    one = track()
    stamps = [{"phase": "Running", "phaseTransitionTimestamp": "2026-11-22T15:00:07Z"}]
    see(one, kinds.VMI, one.name, 1.0, metadata={"creationTimestamp": "2026-11-22T15:00:01Z"},
        status={"phase": "Running", "phaseTransitionTimestamps": stamps,
                "conditions": [{"type": "Ready", "status": "False", "message": "no \x1b[31mguest"}]})  # fmt: skip
    see(one, kinds.VM, one.name, 1.0, status={"printableStatus": "ErrorUnschedulable"})
    assert one.stamps() == {"vmi": "2026-11-22T15:00:01Z", "phases": {"Running": "2026-11-22T15:00:07Z"}}
    one.failed = "x"
    ready, printed = one.record()["complaints"]
    assert re.findall(r"\w+", ready)[:2] == ["VirtualMachineInstance", "Ready"]
    assert ready.endswith(": no [31mguest")
    assert printed == "ErrorUnschedulable"
