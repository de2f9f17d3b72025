"""Two paths between one guest and one array: policies read back, both paths carry I/O, ports and states fail under
verified load and come back; then a second lab connects to the array as to one that somebody else set up."""

import asyncio
import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_hall import SharedLab

from fairlane import registry
from fairlane.errors import RunFailed
from fairlane.machines.base import Guest
from fairlane.platforms.lab.wall import hypervisor
from fairlane.platforms.lab.wall.lab import LabStage, WallLab
from fairlane.platforms.lab.wall.vm import Vm
from fairlane.probes.paths import PLUGIN as PATHS
from fairlane.records import Evidence, FaultKind, Figures
from fairlane.runs.observe import observe
from fairlane.study.load import parse_study
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
OURS = "nqn.2026-01.example.array:store", "iqn.2026-01.example.array:store"
USER, SECRET = "harry", "not in the run's folder"
_BYTES = bytes(range(32))
KEY = f"DHHC-1:00:{base64.b64encode(_BYTES + zlib.crc32(_BYTES).to_bytes(4, 'little')).decode()}:"
"""A DH-HMAC-CHAP key: 32 bytes and their CRC (NVMe base specification, 8.13.5.8)."""
WATCH = r"""
mkdir -p /usr/local/sbin
for p in iscsiadm nvme; do
  cat > /usr/local/sbin/$p << 'END'
#!/bin/sh
{ tr '\0' ' ' < /proc/$$/cmdline; echo; } >> /run/argv
exec /usr/sbin/${0##*/} "$@"
END
  chmod 755 /usr/local/sbin/$p
done
perl -e 'while (1) { for (glob "/proc/[0-9]*/cmdline") { open F, $_ or next; $_ = <F>; s/\0/ /g; $all{$_} = 1 }
  open O, ">/run/argv.all"; print O join "\n", keys %all; close O }' > /dev/null 2>&1 &
"""
"""Shell that notes the arguments of these programs, each time, and of every process, as often as it can look."""


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
def labs(the_hall: SharedLab) -> Iterator[Labs]:
    with the_hall.study(STUDY) as (lab, opened):
        yield Labs(lab, dict(opened.description["lanes"]), the_hall.runner)


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


_BY_HAND = f"""
N=/sys/kernel/config/nvmet; S=$N/subsystems/{OURS[0]}
C=/sys/kernel/config/target; P=$C/iscsi/{OURS[1]}/tpgt_1; A=$P/acls/iqn.2026-01.example:me
"""
_UNDONE = f"""set -e
{_BY_HAND}
echo 0 > $P/enable
for l in 0:one 4:two; do
  rm $A/lun_${{l%:*}}/lun_${{l%:*}} $P/lun/lun_${{l%:*}}/${{l#*:}}
  rmdir $A/lun_${{l%:*}} $P/lun/lun_${{l%:*}} $C/core/iblock_9/${{l#*:}}
done
rmdir $A $P/np/10.0.2.15:9001 $P ${{P%/*}} $C/core/iblock_9
rm $N/ports/9000/subsystems/* $S/allowed_hosts/*
echo 0 > $S/namespaces/1/enable; echo 0 > $S/namespaces/7/enable
rmdir $N/ports/9000 $S/namespaces/1 $S/namespaces/7 $S $N/hosts/nqn.2026-01.example:me
for i in 90 91; do D=/sys/kernel/config/nullb/nullb$i; echo 0 > $D/power; rmdir $D; done
echo gone"""


@pytest.fixture
def by_hand(labs: Labs) -> Iterator[dict[str, int]]:
    """Another array on the lab's machine, as an administrator makes it: two volumes each, ACLs, CHAP. Ports of this
    machine that lead to it."""
    said = labs.array(f"""set -e
{_BY_HAND}
for i in 90 91; do
  D=/sys/kernel/config/nullb/nullb$i; mkdir $D; echo 32 > $D/size; echo 1 > $D/memory_backed; echo 2 > $D/queue_mode
  echo 1 > $D/power
done
mkdir -p $S/namespaces/1 $S/namespaces/7 $N/hosts/nqn.2026-01.example:me $N/ports/9000
echo -n /dev/nullb90 > $S/namespaces/1/device_path; echo 1 > $S/namespaces/1/enable
echo -n /dev/nullb91 > $S/namespaces/7/device_path; echo 1 > $S/namespaces/7/enable
printf %s {KEY} > $N/hosts/nqn.2026-01.example:me/dhchap_key
ln -s $N/hosts/nqn.2026-01.example:me $S/allowed_hosts/
cd $N/ports/9000; echo tcp > addr_trtype; echo ipv4 > addr_adrfam
echo 10.0.2.15 > addr_traddr; echo 9000 > addr_trsvcid
ln -s $S subsystems/
for p in one:90 two:91; do
  B=$C/core/iblock_9/${{p%:*}}; mkdir -p $B; echo udev_path=/dev/nullb${{p#*:}} > $B/control
  echo hand-${{p%:*}} > $B/wwn/vpd_unit_serial; echo 1 > $B/enable
done
mkdir -p $P/lun/lun_0 $P/lun/lun_4 $P/np/10.0.2.15:9001
ln -s $C/core/iblock_9/one $P/lun/lun_0/; ln -s $C/core/iblock_9/two $P/lun/lun_4/
mkdir -p $A
for l in 0 4; do mkdir $A/lun_$l; ln -s $P/lun/lun_$l $A/lun_$l/; done
echo 1 > $P/attrib/authentication; printf %s {USER} > $A/auth/userid; printf %s {SECRET!r} > $A/auth/password
echo 1 > $P/enable
echo made""")
    assert said.endswith("made")

    vm = labs.lab.array_vm
    assert vm

    async def forward() -> dict[str, int]:
        found = {}
        for port in (9000, 9001):
            rule = f"hostfwd_add mgmt tcp:127.0.0.1:0-10.0.2.15:{port}"
            await vm.execute("human-monitor-command", **{"command-line": rule})
            ports = hypervisor.forwarded(await vm.execute("human-monitor-command", **{"command-line": "info usernet"}))
            found[{9000: "nvme", 9001: "iscsi"}[port]] = ports[port]
        return found

    ports = labs.runner.run(forward())
    yield ports
    for port in ports.values():
        rule = f"hostfwd_remove mgmt tcp:127.0.0.1:{port}"
        labs.runner.run(vm.execute("human-monitor-command", **{"command-line": rule}))
    assert labs.array(_UNDONE) == "gone"


EXTERNAL = """
name: external-test
platform: {{{machines}}}
baseline: nvme
lanes:
  nvme:
    transport: nvme_tcp
    destroy: "{nqn}#7"
    external:
      {{addresses: [10.0.2.2], port: {nvme}, nqn: {nqn}, namespace: 7, host: "nqn.2026-01.example:me",
       secret: {{env: FAIRLANE_TEST_KEY}}}}
  iscsi:
    transport: iscsi
    destroy: hand-two
    external:
      {{addresses: [10.0.2.2], port: {iscsi}, iqn: {iqn}, lun: 4, serial: hand-two, host: "iqn.2026-01.example:me",
       user: {user}, secret: {{env: FAIRLANE_TEST_SECRET}}}}
workloads:
  main: {{kind: fio, rw: [randwrite], bs: [4k], iodepth: [2], runtime: 1s, prefill: false}}
design: {{looks: [2]}}
"""


@pytest.mark.slow
def test_an_array_of_somebody_else(labs: Labs, by_hand: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    nqn, iqn = OURS
    text = EXTERNAL.format(machines=MACHINES, nqn=nqn, iqn=iqn, user=USER, **by_hand)
    lab = WallLab(parse_study(text, "external.yaml"))
    assert [(p.where, "FAIRLANE_TEST_" in p.message) for p in lab.problems()] == [
        ("lanes.nvme.external.secret", True),
        ("lanes.iscsi.external.secret", True),
    ]
    monkeypatch.setenv("FAIRLANE_TEST_SECRET", SECRET)
    monkeypatch.setenv("FAIRLANE_TEST_KEY", KEY)
    assert lab.problems() == []
    block = schedule(lab.study, 2)[0]
    left: list[str] = []
    arguments: list[str] = []
    kept: list[bytes] = []
    start, stop = Vm.start, Vm.stop

    async def started(vm: Vm) -> None:
        await start(vm)
        await vm.guest.ask(WATCH, 120)

    async def stopped(vm: Vm) -> None:
        """What is still connected when the machine is switched off."""
        if vm in lab.vms:
            script = "ls /sys/class/iscsi_session /sys/class/nvme > left; cat /run/argv /run/argv.all > argv"
            out = await vm.guest.ask(f"{script}; ls /run/fairlane-*.json > keys 2> /dev/null || :", 120)
            left.append(out["left"].decode())
            arguments.append(out["argv"].decode(errors="replace"))
            assert out["keys"] == b""
        await stop(vm)

    monkeypatch.setattr(Vm, "start", started)
    monkeypatch.setattr(Vm, "stop", stopped)

    async def carried_out() -> tuple[Any, list[Any]]:
        try:
            opened = await lab.open(print)
            trials = [trial async for trial in lab.run_block(block)]
            kept.extend(data for trial in trials for data in trial.outputs.values())
            return opened, [observe(block, trial.lane, trial.outputs) for trial in trials]
        finally:
            await lab.close()

    opened, seen = labs.runner.run(carried_out())
    assert lab.array is None
    assert [o.failed for o in seen] == ["", ""]
    told = opened.description["lanes"]
    assert (told["nvme"]["volume.nqn"], told["nvme"]["volume.nsid"]) == (nqn, "7")
    assert (told["iscsi"]["volume.iqn"], told["iscsi"]["volume.lun"], told["iscsi"]["volume.serial"]) == (
        iqn, "4", "hand-two",
    )  # fmt: skip
    assert told["iscsi"]["chap"] == "1"
    told_all = json.dumps([opened.description, opened.fingerprint, [o.context for o in seen]], default=str)
    (argv,) = arguments
    for words in ("iscsiadm -m node -T .* --login", "nvme connect -t tcp .*--config", "sshd"):
        assert re.search(words, argv), words  # the watchers saw
    for secret in (SECRET, KEY):
        assert secret not in told_all
        assert not any(secret.encode() in data for data in kept)
        assert secret not in argv
    # the volumes that were named were written, their neighbours were not
    assert labs.array("for i in 90 91; do set -- $(cat /sys/block/nullb$i/stat); echo $(($5 > 0)); done") == "0\n1"
    # both initiators were disconnected before the machine went
    assert [text.split() for text in left] == [["/sys/class/iscsi_session:", "/sys/class/nvme:"]]
