"""One lab for all tests of a session: an array and hosts that stay up. A test builds the lanes of its own study on them
and takes them apart again, which takes seconds where to boot machines takes most of a minute; what it leaves on them
fails it. Tests that kill or hang machines boot their own."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import ndiff

import pytest

from fairlane.fleet import build
from fairlane.fleet.watch import Watch
from fairlane.machines.base import Guest
from fairlane.machines.keys import Keys
from fairlane.platforms.base import Opened
from fairlane.platforms.lab import modelled
from fairlane.platforms.lab.wall import disks, layout
from fairlane.platforms.lab.wall.command import Machine, Nic
from fairlane.platforms.lab.wall.lab import WallLab
from fairlane.platforms.lab.wall.layout import Volume
from fairlane.platforms.lab.wall.vm import Vm
from fairlane.study.load import parse_study
from fairlane.study.spec import Study

STUDY = """
name: hall
platform:
  {kind: lab, clock: wall, accel: tcg, cpus: 2, memory: 640m, paths: 2, disks: 3, array: {memory: 768m},
   capabilities: false, hugepages: 0, medium: {size: 64m, file: true}}
baseline: blk
lanes:
  blk: {transport: local, device: {bus: virtio-blk, io_threads: per-disk, queues: 2, aio: io_uring}}
  blk-qcow2:
    transport: local
    device: {bus: virtio-blk, io_threads: 2, aio: native, cache: directsync, format: qcow2, cluster_size: 256k,
      queue_size: 64, packed: true, detect_zeroes: "on"}
  scsi: {transport: local, device: {bus: virtio-scsi, controllers: 2, io_threads: 1, queues: 2, cache: writeback}}
  nvme: {transport: local, cap_iops: 50000, device: {bus: nvme, queues: 2, throttle: true, cache: unsafe}}
  outside: {transport: iscsi, initiator: hypervisor, chap: true, header_digest: true}
workloads:
  main: {kind: fio, runtime: 1s, prefill: false}
"""
"""Lanes whose devices are on QEMU's command line, so that no other test can bring its own: they are there for all."""

_SECOND = "path0g1"
"""The array's end of the second host's link: a port of its bridge, when there is one."""

_SEVERAL_HOSTS = "ip addr flush dev path0\nip link set path0 name path0g0\n"
_ONE_HOST = f"""
ip link del path0
ip link set path0g0 name path0
ip addr add {layout.address(0)}/24 dev path0
ip link set path0 up
"""

_LOOK = """
find /sys/kernel/config/target /sys/kernel/config/nvmet -mindepth 2 2> /dev/null |
  grep -E 'iblock|/fc/|iscsi/iqn|subsystems/|ports/' | sort || :
ls /sys/kernel/config/nullb 2> /dev/null | grep -v features || :
grep -E '^/dev| nfs|/srv/|/mnt' /proc/mounts || :
tail -n +2 /proc/swaps; losetup -a; cat /proc/mdstat 2> /dev/null | grep '^md' || :
ls /sys/class/fc_host /sys/class/infiniband 2> /dev/null | grep -E '^(host|rxe)' || :
ls /dev/mapper | grep -v control || :
ls -d /sys/class/nvme/nvme* /sys/class/iscsi_session/* /sys/block/sd* 2> /dev/null || :
ls /dev/lane 2> /dev/null || :
for n in /sys/class/net/*; do echo "${n##*/} $(cat "$n/mtu")"; done
pidof rpc.mountd rpcbind fio || :
ls /proc/fs/nfsd 2> /dev/null || :
cat /proc/sys/vm/nr_hugepages
"""
"""What a test could leave on a machine. Daemons stay: iscsid, multipathd and lvm's are started once for all lanes."""


class Hall(WallLab):
    """The machines: a host with every kind of guest device, a second one once a fleet is asked for, an array."""

    def _array_machine(self, made: disks.Parts) -> Machine:
        machine = super()._array_machine(made)
        end = Nic(_SECOND, layout.mac(layout.ARRAY, 1, 0), self.scratch / "g1p0.sock", True, "-", self.spec.link.mtu)
        return replace(machine, nics=(*machine.nics, end))

    def _guest(self, number: int, emulated: Sequence[Volume]) -> Machine:
        machine = super()._guest(number, emulated)
        if number:
            return replace(machine, cpus=1, memory=384 * 2**20, nics=machine.nics[:1])
        return machine

    async def hosts(self, count: int) -> list[Vm]:
        """The first ``count`` hosts, running."""
        assert self.array
        for number in range(len(self.vms), count):
            vm = self._vm(self._guest(number, ()), Keys(self.scratch / "keys"))
            self.vms.append(vm)
            await vm.start()
            await vm.guest.ask(modelled.link_step(self.spec.link, layout.interface(0)).apply)
            await self.array.ask(modelled.link_step(self.spec.link, _SECOND).apply)
        return self.vms[:count]


class Visit(WallLab):
    """A study of its own on the hall's machines: they are booted and switched off by nobody but the hall."""

    def __init__(self, hall: Hall, study: Study) -> None:
        super().__init__(study)
        assert self.spec.link == hall.spec.link, "the hall's links are shaped already"
        assert not any(v.emulated for v in self.wanted), "the hall's host has its guest devices already"
        self.hall = hall

    async def _switch_on_array(self, keys: Keys, made: disks.Parts) -> None:
        if any(v.needs_array for v in self.volumes):
            self.array_vm, self.array = self.hall.array_vm, self.hall.array

    async def _reach_array(self) -> None:
        if self.array and self.spec.fleet > 1:
            await self.array.ask(_SEVERAL_HOSTS + layout.bridges(self.spec))

    async def _start_guests(self, keys: Keys, emulated: Sequence[Volume]) -> None:
        self.vms = await self.hall.hosts(self.spec.fleet)

    def _shape(self, nics: tuple[object, ...]) -> str:
        return ""

    async def tear_down(self) -> None:
        """Every step's ``remove`` in reverse, as whoever sets lanes up on machines that stay has to."""
        await self.watch.close()
        self.watch = Watch()
        for volume in reversed(self.volumes) if self.guests else ():
            for place, steps in reversed(build.rounds(volume.steps())):
                await self.where(place, volume).ask(build.shell(steps, undo=True), build.TIMEOUT)
            if volume.needs_array or volume.transport.backing == "machine":
                medium = build.shell([self._medium(volume)], undo=True)
                await self.where("target" if volume.needs_array else "initiator", volume).ask(medium)
        names = " ".join(f"{v.name} {v.name}.name" for v in self.volumes)
        for guest in self.guests:
            await guest.ask(f"cd /dev/lane; rm -f {names}\n{modelled.hugepages_step(0).remove}")
        if self.array and self.spec.fleet > 1:
            await self.array.ask(_ONE_HOST)
        self.vms, self.guests, self.array_vm, self.array = [], [], None, None
        self._built.close()


def wait_for_room(lab: WallLab) -> None:
    """Returns once its machines have the memory that other tests' machines take. Skips for any other lack."""
    while found := lab.problems():
        if any(problem.kind != "memory" for problem in found):
            pytest.skip("; ".join(problem.message for problem in found))
        time.sleep(1)


@dataclass
class SharedLab:
    """The hall as tests use it."""

    hall: Hall
    opened: Opened
    runner: asyncio.Runner
    before: dict[str, str] = field(default_factory=dict)
    """By machine: what is there when no test is at work."""
    spoilt: str = ""
    """Which test has left something on its machines."""

    def dead(self) -> str:
        """Whether a test has spoilt the lab, or a machine of it has ended."""
        self.runner.run(asyncio.sleep(0))  # between two tests nobody hears of a process that ends
        gone = [str(vm.obituary()) for vm in self.hall.machines() if not vm.alive]
        return self.spoilt or "; ".join(gone)

    @contextmanager
    def study(self, text: str) -> Iterator[tuple[Visit, Opened]]:
        """The lanes of a study, built on the hall's machines, and nothing of them behind it."""
        visit = Visit(self.hall, parse_study(text, "study.yaml"))
        wait_for_room(visit)
        self.runner.run(self.hall.hosts(visit.spec.fleet))
        with self.left_as_it_was(visit.study.name):
            try:
                yield visit, self.runner.run(visit.open(print))
            finally:
                self.runner.run(visit.close())

    @contextmanager
    def left_as_it_was(self, who: str) -> Iterator[None]:
        """Fails where ``who`` leaves something on a machine; the next test gets a new lab."""
        for vm in self.hall.machines():
            if vm.name not in self.before:
                self.before[vm.name] = self.runner.run(_settled(vm.guest, None))
        try:
            yield
        finally:
            self.spoilt = f"{who} was not undone"
            for vm in self.hall.machines():
                before, now = self.before[vm.name], self.runner.run(_settled(vm.guest, self.before[vm.name]))
                changed = "\n".join(ndiff(before.splitlines(), now.splitlines()))
                assert now == before, f"{who} has not left {vm.name} as it was:\n{changed}"
            self.spoilt = ""


async def _settled(machine: Guest, wanted: str | None) -> str:
    """What is there after five minutes at most: the kernel and its daemons end some of it in their own time."""
    for _ in range(600):
        now = (await machine.ask(f"{{\n{_LOOK}}} > now", 300))["now"].decode()
        if wanted is None or now == wanted:
            break
        await asyncio.sleep(0.5)
    return now
