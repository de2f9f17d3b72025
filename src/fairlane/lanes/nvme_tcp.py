"""NVMe/TCP: nvmet on the target (through configfs), the kernel's nvme-tcp on the initiator."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import one_address
from fairlane.lanes._nvme_living import CONFIG
from fairlane.lanes._nvmet import PORT, NvmeExternal, Nvmet, NvmetSpec, Subsystem, nqn
from fairlane.lanes.base import Ground, Step, digests
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec


class NvmeTcpSpec(NvmetSpec):
    """NVMe/TCP (nvmet target, kernel initiator)."""

    transport: Literal["nvme_tcp"]
    """NVMe over TCP."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""
    multipath: paths.NvmeMultipath | None = None
    """One controller per path of the platform (``platform.paths``), joined by the kernel's native multipath."""
    external: NvmeExternal | None = None
    """An existing array. Its secret is a DH-HMAC-CHAP key (``DHHC-1:...``)."""

    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _paths(self) -> Self:
        if self.initiator == "hypervisor" and self.multipath:
            raise ValueError("multipath: the hypervisor has only one path to the array; remove multipath")
        one_address(self.external, self.multipath)
        return self

    def known(self) -> Mapping[str, Any]:
        settings = [self.sizes, *digests(self)]
        policy = f"native NVMe, {self.multipath.policy}" if self.multipath else NONE
        settings += [self.multipath.summary] if self.multipath else []
        outside = self.external.known() if self.external else {}
        return {**super().known(), **outside, "multipath": policy, "path_settings": ", ".join(settings)}


class NvmeTcp(Nvmet[NvmeTcpSpec]):
    Spec: ClassVar[type[LaneSpec]] = NvmeTcpSpec
    living = True
    virtual = True
    fabric = "tcp"
    first_port = PORT
    modules = ("nvmet", "nvmet_tcp", "nvme_fabrics", "nvme_tcp", "crc32c_intel")
    host_modules = ("nvme_tcp",)  # QEMU has no driver for NVMe/TCP

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        queues = self.spec.queues
        if self.spec.initiator == "guest" and 0 < ground.cpus < queues:
            yield self.problem(
                "queues",
                f"{queues} queues, but the guest has {ground.cpus} CPU{'s' * (ground.cpus > 1)}, and its kernel makes "
                "at most one I/O queue per CPU",
                hint=f"set platform.cpus: {queues}, or set fewer queues",
                key="queues",
            )

    def steps(self) -> tuple[Step, ...]:
        if self.spec.external:
            return (self._connect_paths(),)
        rows = f"""\
row target.max_queue_size "$(cat param_max_queue_size 2>/dev/null || echo unknown)"
row target.buffered_io "$(cat ../../subsystems/{nqn(self.title)}/namespaces/1/buffered_io)"
"""
        return (self._export(rows), self._connect_paths())

    def subsystem(self) -> Subsystem:
        own = super().subsystem()
        if self.site.reach:
            address, _, port = self.site.reach.rpartition(":")
            return replace(own, addresses=(address,), port=int(port))
        return own

    def _connect_paths(self) -> Step:
        spec = self.spec
        options = (" -g" if spec.header_digest else "") + (" -G" if spec.data_digest else "")
        rows = f"row header_digest {int(spec.header_digest)}\nrow data_digest {int(spec.data_digest)}\n"
        return self._connect_to_all(rows, options)

    def fault(self, kind: FaultKind, path: int) -> Step | None:
        if self.spec.external:
            return None
        self.portal(path)
        own, where = nqn(self.title), self.port_folder(path)
        if kind == "port":
            # without its last subsystem a port stops listening, and the connections through it end
            return Step(
                f"take away port {path} of {self.name}",
                "target",
                apply=f"rm {where}/subsystems/{own}",
                remove=f"ln -s {CONFIG}/subsystems/{own} {where}/subsystems/{own}",
            )
        if kind == "state":
            return Step(
                f"ANA of path {path} of {self.name}",
                "target",
                apply=f"echo inaccessible > {where}/ana_groups/1/ana_state",
                remove=f"echo optimized > {where}/ana_groups/1/ana_state",
            )
        return None

    def path(self) -> tuple[str, ...]:
        spec = self.spec
        joined = (f"NVMe multipath, {spec.multipath.policy}",) if spec.multipath else ()
        if spec.external:
            where = " + ".join(spec.external.addresses)
            return ("fio", *joined, "nvme", "nvme-tcp", f"TCP {where}", f"external {spec.external.nqn}")
        return ("fio", *joined, "nvme", "nvme-tcp", f"TCP {self.site.links}", "nvmet", self.site.medium)


PLUGIN = NvmeTcp
