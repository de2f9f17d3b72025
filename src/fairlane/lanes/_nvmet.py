"""Shared by transports of nvmet, the kernel's NVMe target, and the kernel's initiator: subsystem, ports, connection,
and the namespace found by its NQN. Not a transport.

Kernel: drivers/nvme/target/configfs.c, drivers/nvme/host.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar
from uuid import NAMESPACE_URL, uuid5

from pydantic import Field

from fairlane.lanes import _multipath as paths
from fairlane.lanes import _nvme_living as living
from fairlane.lanes._external import External, Name
from fairlane.lanes._nvme_living import CONFIG
from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec

PORT = 4420
"""TCP port of an NVMe/TCP subsystem, and of one over RDMA."""


class NvmeExternal(External):
    """A namespace of an existing NVMe array: only connected, described, disconnected."""

    port: int = Field(default=PORT, ge=1, le=65535)
    """Port of its portals (TCP, or RDMA's service)."""
    discovery_port: int = Field(default=8009, ge=1, le=65535)
    """Port of its discovery controller, for ``discovery``."""
    nqn: Name
    """NQN of the subsystem."""
    namespace: int | None = Field(default=None, ge=1, le=2**32 - 2)
    """Namespace ID; not given: the subsystem must show one namespace only."""


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
    discovery: int = 0
    """Port of the discovery controller at the first address that tells the others; 0: none is asked."""


class Nvmet(Transport[SpecT]):
    """The medium as a subsystem's single namespace."""

    packages: ClassVar[tuple[str, ...]] = ("nvme-cli",)
    programs: ClassVar[tuple[str, ...]] = ("nvme",)
    fabric: ClassVar[str]
    """Argument of ``nvme connect -t``."""

    @property
    def remark(self) -> str:
        """Text after the kernel's version in the description of target and initiator."""
        return ""

    def subsystem(self) -> Subsystem:
        """The subsystem, with the host of the volume's machine."""
        site = self.site
        if outside := self.external:
            secret = outside.secret.read(self.name) if outside.secret else ""
            host = (outside.host, str(uuid5(NAMESPACE_URL, outside.host))) if outside.host else ("", "")
            discovery = outside.discovery_port if outside.discovery else 0
            return Subsystem(outside.nqn, outside.addresses, outside.port, host, outside.namespace, secret, discovery)
        return Subsystem(nqn(self.title), site.portals, self.port, self._own_host)

    @property
    def external(self) -> NvmeExternal | None:
        """The existing array, if the volume is on one."""
        found: NvmeExternal | None = getattr(self.spec, "external", None)
        return found

    @property
    def multipath(self) -> paths.NvmeMultipath | None:
        """The lane's multipath, if it has several paths."""
        found: paths.NvmeMultipath | None = getattr(self.spec, "multipath", None)
        return found

    @property
    def _own_host(self) -> tuple[str, str]:
        """Name and id of the volume's machine as a host of Fairlane's own subsystems."""
        number = self.site.host
        if self.site.living:
            name = nqn(f"{self.site.run}-host{number}")
            return name, str(uuid5(NAMESPACE_URL, name))
        return nqn(f"host{number or ''}"), f"00000000-0000-4000-8000-{number + 1:012x}"

    def port_folder(self, path: int) -> str:
        """Folder of the nvmet port of a path, as shell."""
        if self.site.living:
            return living.port(self.site.run, self.title, path)
        return f"{CONFIG}/ports/{self.port_id(path)}"

    def port_id(self, path: int) -> int:
        """Port number in nvmet, unique over all addresses: each path needs another."""
        return self.port + 10000 * path

    def _export(self, rows: str, expect: Mapping[str, str] = {}) -> Step:
        """One nvmet port per path, each with its own ANA group (ID 1, the namespace's). ``rows``: shell run in the
        first port's folder that adds rows."""
        own = nqn(self.title)
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
        own_host, site = self._own_host[0], self.site
        return Step(
            name=f"export {self.name} through nvmet",
            place="target",
            apply=living.export(site, self.title, own, own_host, (self.fabric, self.port))
            if site.living
            else f"""
N={CONFIG}
mkdir -p $N/subsystems/{own}/namespaces/1 && cd $N/subsystems/{own}
echo 1 > attr_allow_any_host
echo fairlane-{self.site.index:02d} > attr_serial
echo -n {self.site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
{made}""",
            describe=f"""
cd {self.port_folder(0)}
row target.kind "nvmet $(uname -r){self.remark}"
row target.nqn {own}
row target.portal "$(cat addr_traddr):$(cat addr_trsvcid)"
row target.inline_data_size "$(cat param_inline_data_size)"
{rows}""",
            remove=living.unexport(site, self.title, own, own_host)
            if site.living
            else f"""
N={CONFIG}
{gone}
echo 0 > $N/subsystems/{own}/namespaces/1/enable
rmdir $N/subsystems/{own}/namespaces/1 $N/subsystems/{own}
""",
            expect=expect,
        )

    def _connect(self, rows: str, expect: Mapping[str, str], *, options: str = "", joined: str = "") -> Step:
        """One controller per address of the subsystem. Shell: ``rows`` adds rows, with the first controller's folder in
        ``$c`` and the device's name in ``$d``; ``joined`` runs after ``nvme connect`` with ``options``."""
        to, site = self.subsystem(), self.site
        asked = f"-i {self.spec.queues} -Q {self.spec.queue_size}{options}"
        connects = "".join(f"""\
nvme connect -t {self.fabric} -a {address} -s {to.port} -n {to.nqn} {asked} \\
  --hostnqn {to.host[0]} --hostid {to.host[1]}
""" for address in to.addresses)  # fmt: skip
        before, disks = "", "nvme*c*n1"
        policy, remove = "/sys/class/nvme-subsystem/*/iopolicy", f"nvme disconnect -n {to.nqn} > /dev/null"
        if site.living:
            several = bool(self.multipath)
            before = living.begin(site.run, to, self.title, self.fabric, several=several)
            before += "" if several else living.one_portal(to)
            connects = living.connect(f"nvme connect -t {self.fabric} -n {to.nqn} {asked}", self.title, to.nqn)
            disks, policy = "nvme*n*", f"$({paths.nvme_policy(to.nqn)}) /dev/null"
            remove = living.part(site.run, self.title, to.nqn)
            rows += living.rows(site.run, self.title)
            expect = {**expect, **({"initiator.name": to.host[0]} if to.host[0] else {})}
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
row io_policy "$(cat {policy} | head -n 1)"
row kato "$(cat $c/kato)"
d=$({self.find()})
d=${{d#/dev/}}
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
h=$(ls -d $c/{disks} | head -n 1)
row block.nr_hw_queues "$(ls $h/mq | wc -l)"
row block.nr_requests "$(cat $h/queue/nr_requests)"
{rows}""",
            remove=remove,
            expect={"queues": str(self.spec.queues), "queue_size": str(self.spec.queue_size), **expect},
        )

    def _connect_to_all(self, rows: str, options: str = "", expect: Mapping[str, str] = {}) -> Step:
        """``_connect``, with the settings of ``multipath``, and what the volume is."""
        to, multipath = self.subsystem(), self.multipath
        options += multipath.options if multipath else ""
        rows += volume_rows(to) if self.site.living else ""
        joined = ""
        if multipath:
            count = '"$(echo "$found" | wc -l)"' if to.discovery else len(to.addresses)
            joined = f"""\
await {count} '{{ {paths.nvme_live(to.nqn)}; }} | wc -l'
{paths.nvme_set(to.nqn, multipath)}
"""
            rows += paths.nvme_rows(to.nqn)
            expect = {**expect, **multipath.expect(len(to.addresses), ours=not self.external)}
            if to.discovery:  # as many as are found
                expect = {k: v for k, v in expect.items() if k not in ("multipath.paths", "multipath.live")}
        return self._connect(rows, expect, options=options, joined=joined)

    def find(self) -> str:
        if not self.site.living:
            return (
                "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
                f'[ "$(cat $s/subsysnqn)" = {nqn(self.name)} ] || continue; '
                "for n in $s/nvme*n1; do n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
            )
        to = self.subsystem()
        chosen = f'[ "$(cat $n/nsid)" = {to.namespace} ] || continue; ' if to.namespace else ""
        where = "$s/nvme*n* $s/nvme*/nvme*n*"  # without native multipath the devices are below the controllers
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {to.nqn} ] || continue; '
            f"for n in {where}; do [ -e $n/nsid ] || continue; {chosen}"
            "n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )


def volume_rows(to: Subsystem) -> str:
    """Shell that prints the volume's identity, for ``destroy`` and the reader."""
    return f"""\
row volume.nqn {to.nqn}
row volume.nsid "$(cat /sys/block/$d/nsid)"
row volume.wwid "$(cat /sys/block/$d/wwid)"
row volume.serial "$(echo $(cat $c/serial))"
row volume.model "$(echo $(cat $c/model))"
"""
