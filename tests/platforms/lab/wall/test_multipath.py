"""Two paths between one guest and one array: policies read back, both paths carry I/O, ports and states fail under
verified load and come back."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_hall import SharedLab

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.machines.base import Guest
from fairlane.platforms.lab.wall.lab import LabStage, WallLab
from fairlane.probes.paths import PLUGIN as PATHS
from fairlane.records import Evidence, FaultKind, Figures
from fairlane.runs.observe import observe
from fairlane.study.schedule import schedule
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("hall"), pytest.mark.timeout(3600)]

MACHINES = (
    "kind: lab, clock: wall, accel: tcg, memory: 512m, array: {memory: 512m}, medium: {size: 32m, memory_backed: true}"
)
STUDY = f"""
name: multipath-test
platform: {{{MACHINES}, paths: 2, cpus: 2}}
baseline: plain
lanes:
  plain: {{transport: nvme_tcp, queues: 2}}
  sessions: {{transport: iscsi, sessions: 2}}
  iscsi:
    transport: iscsi
    chap: true
    header_digest: true
    multipath: {{policy: service-time, no_path_retry: 30, noop_interval: 1s, noop_timeout: 2s, replacement_timeout: 2s}}
  nvme:
    transport: nvme_tcp
    queues: 2
    multipath: {{policy: round-robin, keep_alive: 2s, ctrl_loss: 300s, fast_io_fail: 60s}}
workloads:
  main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [8], runtime: 2s, prefill: false}}
design: {{looks: [2]}}
"""


@dataclass
class Labs:
    lab: WallLab
    described: dict[str, Any]
    runner: asyncio.Runner

    def sh(self, guest: Guest | None, text: str) -> str:
        """What a script prints on a machine; it may fail."""
        assert guest
        return self.runner.run(guest.ask(f"( {text}\n) > out 2>&1 || :", 300))["out"].decode(errors="replace").strip()

    def guest(self, text: str) -> str:
        return self.sh(self.lab.guests[0], text)

    def array(self, text: str) -> str:
        return self.sh(self.lab.array, text)

    def moved(self, lane: str) -> dict[str, int]:
        """I/Os of each path since the lane was built."""
        text = self.guest(f"read -r DEVICE < /dev/lane/{lane}.name\n{PATHS.capture}")
        return {p["name"]: p["ios"] for p in PATHS.observe("", text, Figures()).context.get("paths", [])}


@pytest.fixture(scope="module")
def labs(hall: SharedLab) -> Iterator[Labs]:
    with hall.study(STUDY) as (lab, opened):
        yield Labs(lab, dict(opened.description["lanes"]), hall.runner)


@pytest.mark.slow
def test_policies_are_what_the_machines_say(labs: Labs) -> None:
    """``describe`` compares all of it with the study; here is what the report can tell."""
    nvme, iscsi = labs.described["nvme"], labs.described["iscsi"]
    assert nvme["multipath.policy"] == "round-robin"
    assert (nvme["multipath.live"], nvme["multipath.ana_state"]) == ("2", "optimized")
    assert nvme["multipath.portals"] == "10.77.0.1 10.77.1.1"
    assert (nvme["multipath.keep_alive"], nvme["multipath.ctrl_loss"], nvme["multipath.fast_io_fail"]) == (
        "2", "300", "60",
    )  # fmt: skip
    assert nvme["queues"] == "2"
    assert iscsi["multipath.policy"] == "service-time"
    assert (iscsi["multipath.active"], iscsi["multipath.handler"]) == ("2", "alua")
    assert iscsi["multipath.alua_state"] == "active/optimized"
    assert iscsi["multipath.no_path_retry"] == "30 chk"
    assert (iscsi["sessions"], iscsi["chap"], iscsi["header_digest"]) == ("2", "1", "1")
    # lanes without multipath stay as they are, beside multipathd and beside another lane's CHAP
    sessions = labs.described["sessions"]
    assert (sessions["sessions"], sessions["chap"], sessions["header_digest"]) == ("2", "0", "0")
    assert "round-robin" in labs.guest("dmsetup table fairlane-sessions")
    assert "multipath.policy" not in labs.described["plain"]


@pytest.mark.slow
def test_both_paths_carry_and_the_check_is_content(labs: Labs) -> None:
    lab = labs.lab
    block = schedule(lab.study, 2)[0]

    async def trials() -> list[Any]:
        return [observe(block, trial.lane, trial.outputs) async for trial in lab.run_block(block)]

    seen = {o.lane: o for o in labs.runner.run(trials())}
    assert not any(o.failed for o in seen.values())
    for lane in ("nvme", "iscsi", "sessions"):
        ios = [path["ios"] for path in seen[lane].context["paths"]]
        assert len(ios) == 2
        assert sum(ios) >= seen[lane].context["load"]["ios"]["read"]
        if lane != "iscsi":  # round robin, whatever the speed of this machine
            assert min(ios) > 0.4 * sum(ios)
    assert len(seen["plain"].context["paths"]) == 1
    evidence = Evidence("r", lab.study, STUDY, 1, (block,), tuple(seen.values()), {"lanes": labs.described}, {})
    check = registry.load("checks", "path_use")
    assert list(check.check(evidence)) == []
    # the policy in force is no longer the lane's: the counters give it away
    labs.guest("for s in /sys/class/nvme-subsystem/*/iopolicy; do echo numa > $s; done")
    seen = {o.lane: o for o in labs.runner.run(trials())}
    evidence = Evidence("r", lab.study, STUDY, 1, (block,), tuple(seen.values()), {"lanes": labs.described}, {})
    (finding,) = check.check(evidence)
    assert (finding.severity, finding.lanes) == ("critical", ("nvme",))
    labs.guest("for s in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin > $s; done")


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["nvme", "iscsi"])
def test_ports_and_states_fail_under_verified_load_and_come_back(labs: Labs, lane: str) -> None:
    block = schedule(labs.lab.study, 2)[0]
    stage = LabStage(labs.lab, block, lane)

    def until_moved(*, which: tuple[str, ...]) -> None:
        """Until every path of ``which`` has carried 20 more I/Os."""
        begun = labs.moved(lane)
        for _ in range(300):
            now = labs.moved(lane)
            if all(now.get(name, 0) >= begun.get(name, 0) + 20 for name in which):
                return
            labs.runner.run(asyncio.sleep(0.5))
        raise AssertionError(f"{which} carry nothing: {begun}, {now}\n{labs.guest('dmesg | tail; dmsetup status')}")

    def until_rested(path: str, *, other: str) -> None:
        """Until ``other`` carries the load. ``path`` keeps a twentieth at most: its checker looks at it, and where a
        state is gone but the port answers, dm-multipath tries it again at every check."""
        shares = []
        for _ in range(20):  # the initiator hears of the fault in its own time
            before = labs.moved(lane)
            until_moved(which=(other,))
            now = labs.moved(lane)
            shares.append((now[path] - before[path], now[other] - before[other]))
            if shares[-1][0] <= 8 + shares[-1][1] // 20:
                return
        raise AssertionError(f"{path} still carries load: I/Os on it and on {other}, by window: {shares}")

    def fault(kind: FaultKind, path: int, *, on: bool) -> None:
        labs.runner.run(stage.fault(kind, path, on=on))

    both = "10.77.0.1", "10.77.1.1"
    labs.guest(f"""cd /run; fio --name=x --filename=/dev/lane/{lane} --direct=1 --ioengine=io_uring --rw=randwrite \\
--bs=4k --iodepth=8 --size=8m --time_based --runtime=3000 --verify=crc32c --verify_backlog=64 --output-format=json \\
--output={lane}.json > {lane}.err 2>&1 < /dev/null & echo $! > {lane}.pid""")
    until_moved(which=both)
    kinds: tuple[tuple[FaultKind, int], ...] = (("port", 0), ("state", 1))
    for what, path in kinds:
        fault(what, path, on=True)
        until_rested(both[path], other=both[1 - path])
        fault(what, path, on=False)
        until_moved(which=both)
    labs.guest(f"cd /run; kill -INT $(cat {lane}.pid); while [ -e /proc/$(cat {lane}.pid) ]; do sleep 0.2; done")
    (job,) = json.loads(labs.guest(f"grep -v '^fio: ' /run/{lane}.json"))["jobs"]
    assert job["error"] == 0
    assert job["write"]["total_ios"] > 0
    assert job["read"]["total_ios"] > 0  # read back and compared
    with pytest.raises(RunFailed, match="'state'", check=kind("fault-unsupported")):
        labs.runner.run(LabStage(labs.lab, block, "sessions").fault("state", 0, on=True))
