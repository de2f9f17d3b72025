"""libvirt: domains that are there, on hypervisors that ssh reaches, with a disk for each lane plugged in live.

virsh on the hypervisors does it, found by the run's id afterwards; QEMU itself is asked (QMP) what came of it, not the
XML that was sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, ClassVar

from fairlane.errors import FairlaneError
from fairlane.fleet import guest_disk
from fairlane.lanes.base import Place, Step
from fairlane.living.machine import Machine
from fairlane.platforms._living import LivingPlatform
from fairlane.platforms._living.volumes import Volume
from fairlane.platforms.libvirt import disks, processes, read_back
from fairlane.platforms.libvirt.disks import MOST_DISKS, Plug
from fairlane.platforms.libvirt.spec import LibvirtSpec
from fairlane.study.guest_device import GuestDevice


@dataclass(frozen=True)
class Disk(Volume):
    """A volume of a lane in one domain: plugged in by libvirt, or reached by an initiator in the guest."""

    @property
    def hosted(self) -> bool:
        """Whether the hypervisor gives it to the guest."""
        return self.spec.initiator == "hypervisor"

    @property
    def hypervisor(self) -> str:
        return self._libvirt.hypervisor(self.machine)

    @property
    def _libvirt(self) -> LibvirtSpec:
        assert isinstance(self.platform, LibvirtSpec)  # noqa: S101 - the study's kind chose this class
        return self.platform

    @property
    def device(self) -> GuestDevice:
        return self.spec.device or GuestDevice()

    @property
    def plug(self) -> Plug:
        """Its disk."""
        spec = self._libvirt
        domain = spec.machines[self.machine].domain
        limits: dict[str, int] = {}
        if self.device.throttle and self.spec.cap_iops:
            limits["total_iops_sec"] = round(self.spec.cap_iops)
        if self.device.throttle and self.spec.cap_mibs:
            limits["total_bytes_sec"] = round(self.spec.cap_mibs * 2**20)
        return Plug(spec.uri, domain, self.site.run, self.site.index, self.device, read_only=self.kept, limits=limits)

    def problems(self) -> Iterable[FairlaneError]:
        if self.hosted and self.device.bus == "nvme":
            yield self._problem(
                "libvirt plugs no NVMe disk into a running domain", "use bus: virtio-blk or virtio-scsi"
            )
        if self.hosted and self.device.vq_mapping and self.device.bus != "virtio-blk":
            yield self._problem("vq_mapping is only for virtio-blk on platform libvirt", "remove vq_mapping")
        if self.hosted and self.device.queue_size and self.device.bus != "virtio-blk":
            yield self._problem("libvirt sets queue_size of virtio-blk only", "remove queue_size")
        for key in ("cluster_size", "preallocation"):
            if self.hosted and getattr(self.device, key) and not self._image:
                yield self._problem(f"only images in platform.folder have a {key}", f"remove {key}")
        if not self.hosted and self.transport.backing == "machine":
            yield self._problem("a local lane is a disk of the hypervisor", "add device: {bus: virtio-blk}")
        if self.site.index >= MOST_DISKS:
            yield self._problem(f"a study can plug at most {MOST_DISKS} disks", "use fewer lanes or machines")

    def _problem(self, text: str, hint: str) -> FairlaneError:
        return FairlaneError("device", text, where=f"lanes.{self.lane}.device", hint=hint)

    @property
    def buildable(self) -> bool:
        return super().buildable or (self.hosted and self._image)

    @property
    def owned(self) -> bool:
        # the hypervisor's guard has let it through before the guest got it
        return super().owned or (self.hosted and bool(self.spec.destroy))

    @property
    def _image(self) -> bool:
        """Whether it is an image in the platform's folder."""
        return self.transport.backing == "machine" and not self.transport.living

    @property
    def initiator(self) -> str:
        return self.hypervisor if self.hosted else self.machine

    @property
    def place(self) -> str:
        if not self.hosted:
            return super().place
        within = self._libvirt.folder if self._image else f"storage pool {getattr(self.spec, 'pool', '')}"
        return f"{within} on {self.hypervisor}"

    def where(self, place: Place) -> str:
        return self.hypervisor if place == "hypervisor" else super().where(place)

    def programs(self) -> Mapping[str, tuple[str, ...]]:
        own = dict(super().programs())
        if self.hosted:
            own[self.hypervisor] = (*own.get(self.hypervisor, ()), "virsh", "qemu-img")
        return own

    def examination(self) -> Mapping[str, str]:
        asked = super().examination()
        if not self.hosted:
            return asked
        folder = self._libvirt.folder if self._image else ""
        domain = disks.examination(self.plug, folder, getattr(self.spec, "pool", ""))
        return {self.hypervisor: asked.get(self.hypervisor, "") + domain}

    def roots(self) -> tuple[str, ...]:
        return (*super().roots(), *((self.hypervisor,) if self.hosted else ()))

    def path(self) -> tuple[str, ...]:
        if not self.hosted:
            return super().path()
        below = (f"an image in {self._libvirt.folder}",) if self._image else self.transport.path()[1:]
        return ("fio", self.device.bus, "QEMU", *(hop for hop in below if hop != "QEMU"))

    def find(self) -> str:
        return guest_disk.find(self.device, self.plug.serial) if self.hosted else super().find()

    def steps(self) -> tuple[Step, ...]:
        if not self.hosted:
            return super().steps()
        every = [replace(s, place="hypervisor") if s.place == "initiator" else s for s in super().steps()]
        find, guard = self.transport.find(), ""
        if self._image:
            folder, size = self._libvirt.folder, self.transport.medium_size()
            every.append(disks.image(folder, self.name, size, self.device, self.site.run))
            find = f"echo {quote(disks.image_path(folder, self.name, self.site.run))}"
        elif self.spec.existing or self.spec.destroy:
            destroy = quote(self.spec.destroy)
            guard = f'guard "$d" "$(identity "$d")" - {destroy} || exit 77\n' if self.spec.destroy else ""
        return (*every, *self.plug.steps(find, guard))

    def described(self, link: str) -> tuple[Step, ...]:
        inside = super().described(link)
        if not self.hosted:
            return inside
        plug = self.plug
        return (*inside, guest_disk.read_back(self.device, plug.serial, link, read_only=plug.read_only))

    def sessions(self) -> tuple[Step, ...]:
        # initiators of the hypervisor stay: QEMU holds their device
        return () if self.hosted else super().sessions()


class Libvirt(LivingPlatform):
    """Lanes on running domains."""

    Spec = LibvirtSpec
    volume_class: ClassVar[type[Volume]] = Disk

    async def read_back(self, volume: Volume) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        assert isinstance(volume, Disk)  # noqa: S101 - volume_class
        if not volume.hosted:
            return {}, {}
        return await read_back.state(self.named(volume.hypervisor), volume.plug)

    def versions(self, described: Mapping[str, Mapping[str, Any]]) -> Mapping[str, str]:
        keys = ("qemu.version", "libvirt.version", "domain.machine", "domain.cpu")
        found = {key: dict.fromkeys(rows[key] for rows in described.values() if key in rows) for key in keys}
        return {key: "; ".join(values) for key, values in found.items() if values}

    async def below(self, machines: Sequence[Machine]) -> tuple[Machine, str] | None:
        spec = self.spec
        assert isinstance(spec, LibvirtSpec)  # noqa: S101 - the study's kind chose this platform
        hosts = {spec.hypervisor(machine.name) for machine in machines}
        host = self.servers.get(hosts.pop()) if len(hosts) == 1 else None
        if not host:
            return None
        domains = [spec.machines[machine.name].domain for machine in machines]
        return host, await processes.variables(host, disks.virsh(spec.uri), domains)

    async def _beneath(self) -> Mapping[str, Mapping[str, Any]]:
        seen = await super()._beneath()
        dropped = {lane for lane, spec in self.study.lanes.items() if spec.device and spec.device.flags.no_flush}
        return {
            lane: {key: read_back.without_flushes(tree) if key == "behind" and lane in dropped else tree
                   for key, tree in rows.items()}
            for lane, rows in seen.items()
        }  # fmt: skip


PLUGIN = Libvirt
