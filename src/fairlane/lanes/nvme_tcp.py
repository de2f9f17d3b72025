"""NVMe/TCP: nvmet on the target (through configfs), the kernel's nvme-tcp on the initiator."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self
from uuid import NAMESPACE_URL, uuid5

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import External, Name, one_address, without_argv
from fairlane.lanes._nvmet import CONFIG, Nvmet, NvmetSpec, Subsystem, nqn
from fairlane.lanes.base import Ground, Step, digests
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
    """An array that is not the lab's. Its secret is a DH-HMAC-CHAP key (``DHHC-1:...``)."""

    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _paths(self) -> Self:
        if self.initiator == "hypervisor" and self.multipath:
            raise ValueError("multipath: the hypervisor reaches the array over one path; leave multipath away")
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
    virtual = True
    fabric = "tcp"
    first_port = _PORT
    modules = ("nvmet", "nvmet_tcp", "nvme_fabrics", "nvme_tcp", "crc32c_intel")
    host_modules = ("nvme_tcp",)  # QEMU has no driver for NVMe/TCP

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        queues = self.spec.queues
        if self.spec.initiator == "guest" and 0 < ground.cpus < queues:
            yield self.problem(
                "queues",
                f"{queues} queues, but the guest has {ground.cpus} CPU{'s' * (ground.cpus > 1)}, and its kernel makes "
                "at most one I/O queue per CPU",
                hint=f"set platform.cpus: {queues}, or fewer queues",
                key="queues",
            )

    def steps(self) -> tuple[Step, ...]:
        if self.spec.external:
            return (self._connect_paths(),)
        rows = f"""\
row target.max_queue_size "$(cat param_max_queue_size 2>/dev/null || echo unknown)"
row target.buffered_io "$(cat ../../subsystems/{nqn(self.name)}/namespaces/1/buffered_io)"
"""
        return (self._export(rows), self._connect_paths())

    def subsystem(self) -> Subsystem:
        own, outside = super().subsystem(), self.spec.external
        if outside:
            host = (outside.host, str(uuid5(NAMESPACE_URL, outside.host))) if outside.host else own.host
            secret = outside.secret.read(self.name) if outside.secret else ""
            return Subsystem(outside.nqn, outside.addresses, outside.port, host, outside.namespace, secret)
        if self.site.reach:
            address, _, port = self.site.reach.rpartition(":")
            return replace(own, addresses=(address,), port=int(port))
        return own

    def _connect_paths(self) -> Step:
        to, spec, multipath = self.subsystem(), self.spec, self.spec.multipath
        options = (" -g" if spec.header_digest else "") + (" -G" if spec.data_digest else "")
        options += multipath.options if multipath else ""
        options += f" --config {_key_file(self.name)}" if to.secret else ""
        rows = f"row header_digest {int(spec.header_digest)}\nrow data_digest {int(spec.data_digest)}\n"
        rows += _external_rows(to) if spec.external else ""
        before = _key(self.name, to) if to.secret else ""
        joined, expect = "", dict[str, str]()
        if multipath:
            joined = f"""\
await {len(to.addresses)} '{{ {paths.nvme_live(to.nqn)}; }} | wc -l'
{paths.nvme_set(to.nqn, multipath)}
"""
            rows += paths.nvme_rows(to.nqn)
            expect = multipath.expect(len(to.addresses), ours=not spec.external)
        return self._connect(rows, expect, before=before, options=options, joined=joined)

    def find(self) -> str:
        outside = self.spec.external
        if not outside:
            return super().find()
        chosen = f'[ "$(cat $n/nsid)" = {outside.namespace} ] || continue; ' if outside.namespace else ""
        return (
            "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
            f'[ "$(cat $s/subsysnqn)" = {outside.nqn} ] || continue; '
            f"for n in $s/nvme*n*; do [ -e $n/nsid ] || continue; {chosen}"
            "n=${n##*/}; [ -b /dev/$n ] && echo /dev/$n; done; done; true"
        )

    def fault(self, kind: FaultKind, path: int) -> Step | None:
        if self.spec.external:
            return None
        self.portal(path)
        own, where = nqn(self.name), f"{CONFIG}/ports/{self.port_id(path)}"
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


def _key_file(name: str) -> str:
    return f"/run/fairlane-{name}.json"


def _key(name: str, to: Subsystem) -> str:
    """Shell that stores the DH-HMAC-CHAP key in nvme-cli's file during the step: arguments of a process are public."""
    known = json.dumps([{"hostnqn": to.host[0], "hostid": to.host[1], "dhchap_key": to.secret}])
    return f"""\
trap 'rm -f {_key_file(name)}' EXIT
umask 077
{without_argv(known, f"cat > {_key_file(name)}")}"""


def _external_rows(to: Subsystem) -> str:
    """Shell that prints the volume's identity, for ``destroy`` and the reader."""
    return f"""\
row volume.nqn {to.nqn}
row volume.nsid "$(cat /sys/block/$d/nsid)"
row volume.wwid "$(cat /sys/block/$d/wwid)"
row volume.serial "$(echo $(cat $c/serial))"
row volume.model "$(echo $(cat $c/model))"
"""


PLUGIN = NvmeTcp
