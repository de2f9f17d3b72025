"""NVMe/TCP: nvmet on the target (through configfs), the kernel's nvme-tcp on the initiator."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self
from uuid import NAMESPACE_URL, uuid5

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import External, Name, one_address, without_argv
from fairlane.lanes.base import Ground, Site, Step, Transport, digests
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec

_PORT = 4420


class NvmeExternal(External):
    """A namespace of an NVMe/TCP array that is not the lab's: only connected, described, disconnected."""

    port: int = Field(default=_PORT, ge=1, le=65535)
    """TCP port of its portals."""
    nqn: Name
    """NQN of the subsystem."""
    namespace: int | None = Field(default=None, ge=1, le=2**32 - 2)
    """Namespace ID; not given: the subsystem must show one namespace only."""


class NvmeTcpSpec(LaneSpec):
    """NVMe/TCP (nvmet target, kernel initiator)."""

    transport: Literal["nvme_tcp"]
    """NVMe over TCP."""
    queues: int = Field(default=1, ge=1, le=128)
    """I/O queues (``nvme connect -i``), of every path. The kernel makes at most one per CPU."""
    queue_size: int = Field(default=128, ge=16, le=1024)
    """Entries per queue (``nvme connect -Q``)."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""
    multipath: paths.NvmeMultipath | None = None
    """One controller per path of the platform (``platform.paths``), joined by the kernel's native multipath."""
    external: NvmeExternal | None = None
    """An array that is not the lab's. Its secret is a DH-HMAC-CHAP key (``DHHC-1:...``)."""

    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _paths(self) -> Self:
        if self.initiator == "hypervisor" and self.multipath:
            raise ValueError("multipath: the hypervisor reaches the array over one path; leave multipath away")
        one_address(self.external, self.multipath)
        return self

    def known(self) -> Mapping[str, Any]:
        settings = [f"{self.queues} queue{'s' * (self.queues > 1)} of {self.queue_size}", *digests(self)]
        policy = f"native NVMe, {self.multipath.policy}" if self.multipath else NONE
        settings += [self.multipath.told] if self.multipath else []
        outside = self.external.known() if self.external else {}
        return {**super().known(), **outside, "multipath": policy, "path_settings": ", ".join(settings)}


def _nqn(name: str) -> str:
    return f"nqn.2026-01.dev.fairlane:{name}"


@dataclass(frozen=True)
class _Subsystem:
    """What the initiator connects to, as whom."""

    nqn: str
    addresses: tuple[str, ...]
    port: int
    namespace: int | None
    hostnqn: str
    hostid: str
    secret: str = ""


def _subsystem(name: str, spec: NvmeTcpSpec, site: Site) -> _Subsystem:
    host = (_nqn(f"host{site.host or ''}"), f"00000000-0000-4000-8000-{site.host + 1:012x}")
    outside = spec.external
    if not outside:
        if site.reach:
            address, _, port = site.reach.rpartition(":")
            return _Subsystem(_nqn(name), (address,), int(port), 1, *host)
        return _Subsystem(_nqn(name), site.portals, _PORT + site.index, 1, *host)
    if outside.host:
        host = (outside.host, str(uuid5(NAMESPACE_URL, outside.host)))  # the kernel wants one host ID for one host NQN
    secret = outside.secret.read(name) if outside.secret else ""
    return _Subsystem(outside.nqn, outside.addresses, outside.port, outside.namespace, *host, secret)


class NvmeTcp(Transport[NvmeTcpSpec]):
    Spec = NvmeTcpSpec
    virtual = True
    packages = ("nvme-cli",)
    programs = ("nvme",)
    modules = ("nvmet", "nvmet_tcp", "nvme_fabrics", "nvme_tcp", "crc32c_intel")

    def steps(self, name: str, spec: NvmeTcpSpec, site: Site) -> tuple[Step, ...]:
        connect = self._connect(name, spec, site)
        return (connect,) if spec.external else (self._export(name, site), connect)

    def _export(self, name: str, site: Site) -> Step:
        """One nvmet port per path, each with an ANA group of its own (ID 1, the namespace's)."""
        nqn, port = _nqn(name), _PORT + site.index
        first, *others = [_target_port(path, address, nqn, port) for path, address in enumerate(site.portals)]
        ports = [f"$N/ports/{_port_id(path, port)}" for path in range(len(site.portals))]
        gone = "\n".join(f"rm {own}/subsystems/{nqn}\nrmdir {own}" for own in ports)
        return Step(
            name=f"export {name} through nvmet",
            place="target",
            apply=f"""
N=/sys/kernel/config/nvmet
mkdir -p $N/subsystems/{nqn}/namespaces/1 && cd $N/subsystems/{nqn}
echo 1 > attr_allow_any_host
echo fairlane-{site.index:02d} > attr_serial
echo -n {site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
{first}{"".join(others)}""",
            describe=f"""
cd /sys/kernel/config/nvmet/ports/{port}
row target.kind "nvmet $(uname -r)"
row target.nqn {nqn}
row target.portal "$(cat addr_traddr):$(cat addr_trsvcid)"
row target.inline_data_size "$(cat param_inline_data_size)"
row target.max_queue_size "$(cat param_max_queue_size 2>/dev/null || echo unknown)"
row target.buffered_io "$(cat ../../subsystems/{nqn}/namespaces/1/buffered_io)"
""",
            remove=f"""
N=/sys/kernel/config/nvmet
{gone}
echo 0 > $N/subsystems/{nqn}/namespaces/1/enable
rmdir $N/subsystems/{nqn}/namespaces/1 $N/subsystems/{nqn}
""",
        )

    def _connect(self, name: str, spec: NvmeTcpSpec, site: Site) -> Step:
        to, joined = _subsystem(name, spec, site), spec.multipath
        options = (" -g" if spec.header_digest else "") + (" -G" if spec.data_digest else "")
        options += joined.options if joined else ""
        options += f" --config {_key_file(name)}" if to.secret else ""
        connects = "".join(
            f"""\
nvme connect -t tcp -a {address} -s {to.port} -n {to.nqn} -i {spec.queues} -Q {spec.queue_size}{options} \\
  --hostnqn {to.hostnqn} --hostid {to.hostid}
"""
            for address in to.addresses
        )
        join = f"""\
await {len(to.addresses)} '{{ {paths.nvme_live(to.nqn)}; }} | wc -l'
{paths.nvme_set(to.nqn, joined)}
""" if joined else ""  # fmt: skip
        ns = "nvme*c*n1" if to.namespace == 1 else "nvme*c*n*"
        return Step(
            name=f"connect {name} with nvme-tcp",
            place="initiator",
            apply=f"""
{_key(name, to) if to.secret else ""}{connects}{join}await 1 '{{ {self.find(name, spec, site)}; }} | wc -l'
""",
            describe=f"""
c=$(controller {to.nqn})
row initiator.kind "nvme-tcp $(uname -r)"
row queues $(($(cat $c/queue_count) - 1))
row queue_size $(($(cat $c/sqsize) + 1))
row io_policy "$(cat /sys/class/nvme-subsystem/*/iopolicy | head -n 1)"
row kato "$(cat $c/kato)"
d=$({self.find(name, spec, site)})
d=${{d#/dev/}}
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
h=$(ls -d $c/{ns} | head -n 1)
row block.nr_hw_queues "$(ls $h/mq | wc -l)"
row block.nr_requests "$(cat $h/queue/nr_requests)"
row header_digest {int(spec.header_digest)}
row data_digest {int(spec.data_digest)}
{_external_rows(to) if spec.external else ""}{paths.nvme_rows(to.nqn) if joined else ""}""",
            remove=f"nvme disconnect -n {to.nqn} > /dev/null",
            expect={
                "queues": str(spec.queues),
                "queue_size": str(spec.queue_size),
                **(joined.expect(len(to.addresses), ours=not spec.external) if joined else {}),
            },
        )

    def find(self, name: str, spec: NvmeTcpSpec, site: Site) -> str:  # noqa: ARG002
        if not spec.external:
            return (
                "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
                f'[ "$(cat $s/subsysnqn)" = {_nqn(name)} ] || continue; '
                "for n in $s/nvme*n1; do n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
            )
        namespace = spec.external.namespace
        chosen = f'[ "$(cat $n/nsid)" = {namespace} ] || continue; ' if namespace else ""
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {spec.external.nqn} ] || continue; '
            f"for n in $s/nvme*n*; do [ -e $n/nsid ] || continue; {chosen}"
            "n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )

    def problems(self, name: str, spec: NvmeTcpSpec, ground: Ground) -> list[FairlaneError]:
        if spec.initiator == "hypervisor" or not ground.cpus or spec.queues <= ground.cpus:
            return []
        return [
            FairlaneError(
                f"{spec.queues} queues, but the guest has {ground.cpus} CPU{'s' * (ground.cpus > 1)}, and its kernel "
                "makes at most one I/O queue per CPU",
                where=f"lanes.{name}.queues",
                hint=f"set platform.cpus: {spec.queues}, or fewer queues",
            )
        ]

    def hosted(self, spec: NvmeTcpSpec) -> tuple[str, ...]:  # noqa: ARG002
        return ("nvme_tcp",)  # QEMU has no driver for NVMe/TCP

    def port(self, spec: NvmeTcpSpec, site: Site) -> int:  # noqa: ARG002
        return _PORT + site.index

    def fault(self, kind: FaultKind, path: int, name: str, spec: NvmeTcpSpec, site: Site) -> Step | None:
        if spec.external:
            return None
        if path >= len(site.portals):
            raise FairlaneError(f"lane {name} has {len(site.portals)} path(s), so that none is number {path}")
        nqn, port = _nqn(name), _port_id(path, _PORT + site.index)
        where = f"/sys/kernel/config/nvmet/ports/{port}"
        if kind == "port":
            # without its last subsystem a port stops listening, and the connections through it end
            return Step(
                f"take away port {path} of {name}",
                "target",
                apply=f"rm {where}/subsystems/{nqn}",
                remove=f"ln -s /sys/kernel/config/nvmet/subsystems/{nqn} {where}/subsystems/{nqn}",
            )
        if kind == "state":
            return Step(
                f"ANA of path {path} of {name}",
                "target",
                apply=f"echo inaccessible > {where}/ana_groups/1/ana_state",
                remove=f"echo optimized > {where}/ana_groups/1/ana_state",
            )
        return None

    def path(self, name: str, spec: NvmeTcpSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        joined = (f"NVMe multipath, {spec.multipath.policy}",) if spec.multipath else ()
        if spec.external:
            where = " + ".join(spec.external.addresses)
            return ("fio", *joined, "nvme", "nvme-tcp", f"TCP {where}", f"external {spec.external.nqn}")
        link = " + ".join(site.interfaces or (site.interface,))
        return ("fio", *joined, "nvme", "nvme-tcp", f"TCP {link}", "nvmet", site.medium)


def _port_id(path: int, port: int) -> int:
    """nvmet numbers its ports over all addresses, so that those of further paths need other numbers."""
    return port + 10000 * path


def _target_port(path: int, address: str, nqn: str, port: int) -> str:
    """Shell that makes the nvmet port of one path."""
    return f"""\
mkdir -p $N/ports/{_port_id(path, port)} && cd $N/ports/{_port_id(path, port)}
echo tcp > addr_trtype
echo ipv4 > addr_adrfam
echo {address} > addr_traddr
echo {port} > addr_trsvcid
ln -s $N/subsystems/{nqn} subsystems/{nqn}
"""


def _key_file(name: str) -> str:
    return f"/run/fairlane-{name}.json"


def _key(name: str, to: _Subsystem) -> str:
    """Shell that writes the DH-HMAC-CHAP key where nvme-cli reads it from, for as long as the step takes: among the
    arguments everybody could read it."""
    known = json.dumps([{"hostnqn": to.hostnqn, "hostid": to.hostid, "dhchap_key": to.secret}])
    return f"""\
trap 'rm -f {_key_file(name)}' EXIT
umask 077
{without_argv(known, f"cat > {_key_file(name)}")}"""


def _external_rows(to: _Subsystem) -> str:
    """Shell that tells which volume was found: the identity for ``destroy`` and for the reader."""
    return f"""\
row volume.nqn {to.nqn}
row volume.nsid "$(cat /sys/block/$d/nsid)"
row volume.wwid "$(cat /sys/block/$d/wwid)"
row volume.serial "$(echo $(cat $c/serial))"
row volume.model "$(echo $(cat $c/model))"
"""


PLUGIN = NvmeTcp()
