"""Shared by transports of nvmet, the kernel's NVMe target, and the kernel's initiator: subsystem, ports, connection,
and the namespace found by its NQN. Not a transport.

Kernel: drivers/nvme/target/configfs.c, drivers/nvme/host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from pydantic import Field

from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec

CONFIG = "/sys/kernel/config/nvmet"


class NvmetSpec(LaneSpec):
    """A lane over an NVMe fabric. Derived classes add ``transport``."""

    queues: int = Field(default=1, ge=1, le=128)
    """I/O queues (``nvme connect -i``), of every path. The kernel makes at most one per CPU."""
    queue_size: int = Field(default=128, ge=16, le=1024)
    """Entries per queue (``nvme connect -Q``)."""

    @property
    def sizes(self) -> str:
        """Queue sizes, for ``path_settings``."""
        return f"{self.queues} queue{'s' * (self.queues > 1)} of {self.queue_size}"


SpecT = TypeVar("SpecT", bound=NvmetSpec)


def nqn(name: str) -> str:
    """NQN of one of Fairlane's subsystems or hosts."""
    return f"nqn.2026-01.dev.fairlane:{name}"


@dataclass(frozen=True)
class Subsystem:
    """Subsystem to connect to, and the host's identity."""

    nqn: str
    addresses: tuple[str, ...]
    port: int
    host: tuple[str, str]
    """Host NQN and host ID: the kernel requires one ID per NQN."""
    namespace: int | None = 1
    """None: the subsystem's only namespace."""
    secret: str = ""


class Nvmet(Transport[SpecT]):
    """The medium as a subsystem's single namespace."""

    packages: ClassVar[tuple[str, ...]] = ("nvme-cli",)
    programs: ClassVar[tuple[str, ...]] = ("nvme",)
    fabric: ClassVar[str]
    """Argument of ``nvme connect -t``."""
    remark: ClassVar[str] = ""
    """Text after the kernel's version in the description of target and initiator."""

    def subsystem(self) -> Subsystem:
        """The lab's subsystem, with the host of the volume's machine."""
        host = (nqn(f"host{self.site.host or ''}"), f"00000000-0000-4000-8000-{self.site.host + 1:012x}")
        return Subsystem(nqn(self.name), self.site.portals, self.port, host)

    def port_id(self, path: int) -> int:
        """Port number in nvmet, unique over all addresses: each path needs another."""
        return self.port + 10000 * path

    def _export(self, rows: str, expect: Mapping[str, str] = {}) -> Step:
        """One nvmet port per path, each with its own ANA group (ID 1, the namespace's). ``rows``: shell run in the
        first port's folder that adds rows."""
        own = nqn(self.name)
        made = "".join(f"""\
mkdir -p $N/ports/{self.port_id(path)} && cd $N/ports/{self.port_id(path)}
echo {self.fabric} > addr_trtype
echo ipv4 > addr_adrfam
echo {address} > addr_traddr
echo {self.port} > addr_trsvcid
ln -s $N/subsystems/{own} subsystems/{own}
""" for path, address in enumerate(self.site.portals))  # fmt: skip
        ports = [f"$N/ports/{self.port_id(path)}" for path in range(len(self.site.portals))]
        gone = "\n".join(f"rm {port}/subsystems/{own}\nrmdir {port}" for port in ports)
        return Step(
            name=f"export {self.name} through nvmet",
            place="target",
            apply=f"""
N={CONFIG}
mkdir -p $N/subsystems/{own}/namespaces/1 && cd $N/subsystems/{own}
echo 1 > attr_allow_any_host
echo fairlane-{self.site.index:02d} > attr_serial
echo -n {self.site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
{made}""",
            describe=f"""
cd {CONFIG}/ports/{self.port}
row target.kind "nvmet $(uname -r){self.remark}"
row target.nqn {own}
row target.portal "$(cat addr_traddr):$(cat addr_trsvcid)"
row target.inline_data_size "$(cat param_inline_data_size)"
{rows}""",
            remove=f"""
N={CONFIG}
{gone}
echo 0 > $N/subsystems/{own}/namespaces/1/enable
rmdir $N/subsystems/{own}/namespaces/1 $N/subsystems/{own}
""",
            expect=expect,
        )

    def _connect(
        self, rows: str, expect: Mapping[str, str], *, before: str = "", options: str = "", joined: str = ""
    ) -> Step:
        """One controller per address of the subsystem. Shell: ``rows`` adds rows, with the first controller's folder in
        ``$c`` and the device's name in ``$d``; ``before`` runs before ``nvme connect`` with ``options``, ``joined``
        after it."""
        to = self.subsystem()
        connects = "".join(f"""\
nvme connect -t {self.fabric} -a {address} -s {to.port} -n {to.nqn} -i {self.spec.queues} -Q {self.spec.queue_size}\
{options} \\
  --hostnqn {to.host[0]} --hostid {to.host[1]}
""" for address in to.addresses)  # fmt: skip
        disks = "nvme*c*n1" if to.namespace == 1 else "nvme*c*n*"
        return Step(
            name=f"connect {self.name} with nvme-{self.fabric}",
            place="initiator",
            session=True,
            apply=f"""
{before}{connects}{joined}await 1 '{{ {self.find()}; }} | wc -l'
""",
            describe=f"""
c=$(controller {to.nqn})
row initiator.kind "nvme-{self.fabric} $(uname -r){self.remark}"
row queues $(($(cat $c/queue_count) - 1))
row queue_size $(($(cat $c/sqsize) + 1))
row io_policy "$(cat /sys/class/nvme-subsystem/*/iopolicy | head -n 1)"
row kato "$(cat $c/kato)"
d=$({self.find()})
d=${{d#/dev/}}
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
h=$(ls -d $c/{disks} | head -n 1)
row block.nr_hw_queues "$(ls $h/mq | wc -l)"
row block.nr_requests "$(cat $h/queue/nr_requests)"
{rows}""",
            remove=f"nvme disconnect -n {to.nqn} > /dev/null",
            expect={"queues": str(self.spec.queues), "queue_size": str(self.spec.queue_size), **expect},
        )

    def find(self) -> str:
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {nqn(self.name)} ] || continue; '
            "for n in $s/nvme*n1; do n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )
