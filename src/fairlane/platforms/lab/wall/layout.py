"""The volumes of a study, their sites, and the network between guests and array: pure."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fairlane import registry
from fairlane.fleet.devices import FileKind
from fairlane.fleet.volumes import Bound
from fairlane.lanes.base import Site, Step
from fairlane.platforms.lab.spec import LabSpec, Link
from fairlane.platforms.lab.wall.command import Nic
from fairlane.study.base import LaneSpec
from fairlane.study.provisionings import rotated
from fairlane.study.spec import Study
from fairlane.units import format_bitrate, format_duration

ARRAY = "array"
ARRAY_MANAGED = "10.0.2.15"
"""Address of the array on QEMU's user network, behind which the hypervisor's own initiators reach it."""


@dataclass(frozen=True)
class Volume(Bound):
    """One volume of a lane: one disk of one guest."""

    lane: str
    guest: int
    disk: int
    host_device: str = ""
    """Block device of this machine, where its own kernel is the initiator (``hosted``); empty until it is found."""

    @property
    def serial(self) -> str:
        """Serial of the guest's device if the hypervisor provides it: at most 20 characters (virtio-blk, NVMe)."""
        return f"fairlane-{self.site.index:04d}"

    @property
    def medium_serial(self) -> str:
        """Serial of the array's disk if the medium is a file of this machine."""
        return f"medium-{self.site.index:04d}"

    @property
    def emulated(self) -> bool:
        """Whether the hypervisor provides the guest's device."""
        return self.spec.initiator == "hypervisor"

    @property
    def needs_array(self) -> bool:
        """Whether the target is the lab's array."""
        return self.transport.backing == "array"

    @property
    def needs_ceph(self) -> bool:
        """Whether the volume is on the lab's Ceph cluster."""
        return self.transport.backing in ("ceph", "cephfs")

    @property
    def owned(self) -> bool:
        """Whether the lab makes the volume, so that nobody else has data on it."""
        return self.transport.backing != "external" and not self.spec.existing

    @property
    def medium_size(self) -> int:
        """Bytes of its medium, in whole MiB."""
        return -(-self.transport.medium_size() // 2**20) * 2**20

    @property
    def file_kind(self) -> FileKind:
        return "share"

    @property
    def kept(self) -> bool:
        return False

    def file(self, media: Path) -> Path:
        """Path in ``media`` of the file of this machine that is its medium, if it is one; it need not exist."""
        return media / f"medium{self.site.index}"

    @property
    def hosted(self) -> bool:
        """Whether the initiator is this machine's kernel."""
        return self.emulated and bool(self.transport.host_modules)

    def steps(self) -> tuple[Step, ...]:
        """The transport's, without those of an initiator in the guest where the hypervisor's is used; with this
        machine's kernel as initiator they run here."""
        every = self.transport.steps()
        if self.hosted:
            return tuple(replace(s, place="hypervisor") if s.place == "initiator" else s for s in every)
        return tuple(s for s in every if not (self.emulated and s.place == "initiator"))

    def sessions(self) -> tuple[Step, ...]:
        """The steps by which the guest logs in, if it can do so anew between two blocks. Initiators of the hypervisor
        stay: their disks are plugged in before the guest boots."""
        return () if self.emulated else self.transport.sessions()


def volumes(study: Study, spec: LabSpec, provisioning: int = 0) -> tuple[Volume, ...]:
    """Every volume of the study, lane by lane, guest by guest. Sites lack values that only running machines have.

    A volume's number gives it its medium, its port on the array and its slot in the guest: each provisioning begins to
    count at another lane. All lanes are in every guest, so that they have no machines to cross over."""
    result: list[Volume] = []
    single = spec.fleet == 1 and spec.disks == 1
    for lane in rotated([*study.lanes], provisioning):
        lane_spec = study.lanes[lane]
        bind = registry.load("lanes", lane_spec.transport)
        for guest in range(spec.fleet):
            for disk in range(spec.disks):
                name = lane if single else f"{lane}-{guest}-{disk}"
                site = _site(spec, len(result), guest, lane_spec)
                volume = Volume(bind(name, lane_spec, site), lane, guest, disk)
                if volume.emulated and volume.needs_array:
                    volume = volume.at(address=ARRAY_MANAGED, addresses=(ARRAY_MANAGED,), interface="mgmt",
                                       interfaces=("mgmt",))  # fmt: skip
                result.append(volume)
    return tuple(result)


def _site(spec: LabSpec, index: int, guest: int, lane: LaneSpec) -> Site:
    paths = spec.paths if getattr(lane, "multipath", None) else 1
    return Site(
        medium=f"/dev/nullb{index}",
        address=address(0),
        interface=interface(0),
        index=index,
        secret=secrets.token_hex(8),
        addresses=tuple(address(path) for path in range(paths)),
        interfaces=tuple(interface(path) for path in range(paths)),
        size=spec.medium.size,
        latency=spec.medium.latency,
        host=guest,
        hardware=(mac(ARRAY, guest, 0), mac("guest", guest, 0)),
    )


def placed(volumes: Iterable[Volume], spec: LabSpec, scratch: Path) -> tuple[Volume, ...]:
    """The volumes with their media: null_blk on the array or in the guest, QEMU's null-co, or sparse files, which this
    creates in ``scratch``. Raises OSError."""
    out = []
    for volume in volumes:
        if volume.needs_ceph:
            out.append(volume.at(medium="", cluster=str(cluster(scratch))))
            continue
        own = volume.emulated and volume.transport.backing == "machine"
        if spec.medium.file and (own or volume.needs_array):
            file = volume.file(scratch)
            with file.open("wb") as handle:
                handle.truncate(volume.medium_size)
            out.append(volume.at(medium=str(file) if own else f"/dev/disk/by-id/virtio-{volume.medium_serial}"))
        else:
            out.append(volume.at(medium="") if own else volume)
    return tuple(out)


def cluster(scratch: Path) -> Path:
    """Folder of the Ceph cluster on this machine."""
    return scratch / "ceph"


def interface(path: int) -> str:
    """Name of the interface of a path, in guests and on the array."""
    return f"path{path}"


def link_text(link: Link) -> str:
    """A link for a reader: rate, delay, MTU."""
    return f"{format_bitrate(link.rate)}, {format_duration(link.delay)}, MTU {link.mtu}"


def address(path: int, guest: int | None = None) -> str:
    """The array's address on a path, or a guest's."""
    return f"10.77.{path}.{1 if guest is None else 10 + guest}"


def mac(side: str, guest: int, path: int) -> str:
    """MAC address of one end of a link."""
    return f"52:54:00:{'a0' if side == ARRAY else 'b0'}:{guest:02x}:{path:02x}"


def guest_nics(spec: LabSpec, guest: int, scratch: Path) -> tuple[Nic, ...]:
    """A guest's ends of its links to the array."""
    return tuple(
        Nic(interface(p), mac("guest", guest, p), _socket(scratch, guest, p), False, f"{address(p, guest)}/24",
            spec.link.mtu)
        for p in range(spec.paths)
    )  # fmt: skip


def array_nics(spec: LabSpec, scratch: Path) -> tuple[Nic, ...]:
    """The array's ends: one per guest and path; of several guests ports of a bridge per path."""
    if spec.fleet == 1:
        return tuple(
            Nic(interface(p), mac(ARRAY, 0, p), _socket(scratch, 0, p), True, f"{address(p)}/24", spec.link.mtu)
            for p in range(spec.paths)
        )
    return tuple(
        Nic(f"{interface(p)}g{g}", mac(ARRAY, g, p), _socket(scratch, g, p), True, "-", spec.link.mtu)
        for g in range(spec.fleet)
        for p in range(spec.paths)
    )


def on_path(nic: Nic, path: int) -> bool:
    """Whether a NIC of the array is one of ``path``."""
    return nic.name.split("g", maxsplit=1)[0] == interface(path)


def bridges(spec: LabSpec) -> str:
    """Shell that joins the array's ports into one network per path."""
    if spec.fleet == 1:
        return ":"
    lines = []
    for p in range(spec.paths):
        name = interface(p)
        lines.append(f"ip link add {name} type bridge\nip link set {name} up mtu {spec.link.mtu}")
        lines += [f"ip link set {name}g{g} master {name}" for g in range(spec.fleet)]
        lines.append(f"ip addr add {address(p)}/24 dev {name}")
    return "\n".join(lines)


def _socket(scratch: Path, guest: int, path: int) -> Path:
    return scratch / f"g{guest}p{path}.sock"
