"""NVMe/TCP: nvmet on the target (through configfs), the kernel's nvme-tcp on the initiator."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane.lanes.base import Site, Step, Transport, digests
from fairlane.study.base import LaneSpec
from fairlane.study.values import NONE

_PORT = 4420


class NvmeTcpSpec(LaneSpec):
    """NVMe/TCP (nvmet target, kernel initiator)."""

    transport: Literal["nvme_tcp"]
    """NVMe over TCP."""
    queues: int = Field(default=1, ge=1, le=128)
    """I/O queues (``nvme connect -i``)."""
    queue_size: int = Field(default=128, ge=16, le=1024)
    """Entries per queue (``nvme connect -Q``)."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""

    def known(self) -> Mapping[str, Any]:
        settings = [f"{self.queues} queue{'s' * (self.queues > 1)} of {self.queue_size}", *digests(self)]
        return {**super().known(), "multipath": NONE, "path_settings": ", ".join(settings)}


def _nqn(name: str) -> str:
    return f"nqn.2026-01.dev.fairlane:{name}"


class NvmeTcp(Transport[NvmeTcpSpec]):
    Spec = NvmeTcpSpec
    virtual = True
    packages = ("nvme-cli",)
    programs = ("nvme",)
    modules = ("nvmet", "nvmet_tcp", "nvme_fabrics", "nvme_tcp", "crc32c_intel")

    def steps(self, name: str, spec: NvmeTcpSpec, site: Site) -> tuple[Step, ...]:
        nqn, port = _nqn(name), _PORT + site.index
        export = Step(
            name=f"export {name} through nvmet",
            place="target",
            apply=f"""
N=/sys/kernel/config/nvmet
mkdir -p $N/subsystems/{nqn}/namespaces/1 && cd $N/subsystems/{nqn}
echo 1 > attr_allow_any_host
echo fairlane-{site.index:02d} > attr_serial
echo -n {site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
mkdir -p $N/ports/{port} && cd $N/ports/{port}
echo tcp > addr_trtype
echo ipv4 > addr_adrfam
echo {site.address} > addr_traddr
echo {port} > addr_trsvcid
ln -s $N/subsystems/{nqn} subsystems/{nqn}
""",
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
rm $N/ports/{port}/subsystems/{nqn}
rmdir $N/ports/{port}
echo 0 > $N/subsystems/{nqn}/namespaces/1/enable
rmdir $N/subsystems/{nqn}/namespaces/1 $N/subsystems/{nqn}
""",
        )
        options = (" -g" if spec.header_digest else "") + (" -G" if spec.data_digest else "")
        connect = Step(
            name=f"connect {name} with nvme-tcp",
            place="initiator",
            apply=f"""
nvme connect -t tcp -a {site.address} -s {port} -n {nqn} -i {spec.queues} -Q {spec.queue_size}{options} \\
  --hostnqn nqn.2026-01.dev.fairlane:host --hostid 00000000-0000-4000-8000-000000000001
await 1 '{{ {self.find(name, spec, site)}; }} | wc -l'
""",
            describe=f"""
c=$(controller {nqn})
row initiator.kind "nvme-tcp $(uname -r)"
row queues $(($(cat $c/queue_count) - 1))
row queue_size $(($(cat $c/sqsize) + 1))
row io_policy "$(cat /sys/class/nvme-subsystem/*/iopolicy | head -n 1)"
row kato "$(cat $c/kato)"
d=$({self.find(name, spec, site)})
d=${{d#/dev/}}
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
h=$(ls -d $c/nvme*c*n1 | head -n 1)
row block.nr_hw_queues "$(ls $h/mq | wc -l)"
row block.nr_requests "$(cat $h/queue/nr_requests)"
row header_digest {int(spec.header_digest)}
row data_digest {int(spec.data_digest)}
""",
            remove=f"nvme disconnect -n {nqn} > /dev/null",
            expect={"queues": str(spec.queues), "queue_size": str(spec.queue_size)},
        )
        return (export, connect)

    def find(self, name: str, spec: NvmeTcpSpec, site: Site) -> str:  # noqa: ARG002
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {_nqn(name)} ] || continue; '
            "for n in $s/nvme*n1; do n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )

    def path(self, name: str, spec: NvmeTcpSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", "nvme", "nvme-tcp", f"TCP {site.interface}", "nvmet", site.medium)


PLUGIN = NvmeTcp()
