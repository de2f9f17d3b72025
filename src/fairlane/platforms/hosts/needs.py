"""Who needs what: root and programs, by machine, known from the study alone. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms.hosts.spec import HostsSpec
from fairlane.platforms.hosts.volumes import Volume, machines_of, volumes
from fairlane.study.spec import Study

_PACKAGES = {
    "fio": "fio", "nvme": "nvme-cli", "iscsiadm": "open-iscsi (iscsi-initiator-utils on RHEL)",
    "multipathd": "multipath-tools (device-mapper-multipath on RHEL)",
    "mount.nfs": "nfs-common (nfs-utils on RHEL)", "wipefs": "util-linux", "bash": "bash", "losetup": "util-linux",
    "gzip": "gzip", "fallocate": "util-linux", "awk": "gawk", "rbd": "ceph-common", "mount.ceph": "ceph-common",
    "exportfs": "nfs-kernel-server (nfs-utils on RHEL)",
    **dict.fromkeys(("postgres", "initdb", "pg_ctl", "psql"), "postgresql (postgresql-server on RHEL)"),
    "pgbench": "postgresql (postgresql-contrib on RHEL)",
    **dict.fromkeys(("mariadbd", "mariadb-install-db", "mariadb"), "mariadb-server"), "sysbench": "sysbench",
}  # fmt: skip
"""Program -> package, Debian's and others'."""


@dataclass
class Need:
    """What a machine needs."""

    machine: str
    root: dict[str, None] = field(default_factory=dict)
    """Lanes, or keys of the platform, that need root."""
    programs: dict[str, None] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)
    """Where programs may be, beside PATH; with wildcards."""

    def __str__(self) -> str:
        """``alpha: root for iscsi, nvme; programs fio, nvme``."""
        root = f"root (or sudo -n) for {', '.join(self.root)}" if self.root else "no root"
        return f"{self.machine}: {root}; programs: {', '.join(self.programs)}"


ARRAY = "array"
"""Name of the platform's array among the machines."""


def needs(study: Study) -> dict[str, Need]:
    """Machine -> what the study needs there."""
    spec = study.platform
    assert isinstance(spec, HostsSpec)  # noqa: S101 - the study's kind chose this platform
    used = {machine for own in machines_of(study).values() for machine in own}
    result = {name: Need(name) for name in spec.machines if name in used}
    loads = [(registry.load("workloads", cell.kind), cell) for cell in study.cells()]
    for need in result.values():
        need.programs |= dict.fromkeys(program for load, cell in loads for program in load.calls(cell))
        need.folders |= dict.fromkeys(folder for load, _ in loads for folder in load.folders)
    for volume in volumes(study, "0" * 10):
        need = result[volume.machine]
        if _root(volume):
            need.root[volume.lane] = None
        need.programs |= dict.fromkeys(initiators(volume))
        if volume.needs_array:
            target = result.setdefault(ARRAY, Need(ARRAY))
            target.root[volume.lane] = None
            target.programs |= dict.fromkeys(("losetup", *targets(volume)))
    return result


def _root(volume: Volume) -> bool:
    try:
        return volume.root
    except FairlaneError:  # its steps need a secret that is not here, which ``problems`` asks for
        return True


def initiators(volume: Volume) -> Iterable[str]:
    """Programs that the volume's machine needs: those of the transport, without those of a target."""
    return (p for p in volume.transport.programs if p not in _TARGET)


def targets(volume: Volume) -> Iterable[str]:
    """Programs that the array needs for the volume."""
    return (p for p in volume.transport.programs if p in _TARGET)


_TARGET = frozenset({"rpcbind", "rpc.nfsd", "rpc.mountd", "exportfs", "mkfs.ext4", "mkfs.xfs"})


def install_hint(programs: Sequence[str], facts: Mapping[str, str]) -> str:
    """The command that installs ``programs`` on a machine with these facts."""
    names = dict.fromkeys(_PACKAGES.get(p, p) for p in programs)
    system = facts.get("system", "")
    plain = " ".join(name.partition(" ")[0] for name in names)
    if any(word in system for word in ("Debian", "Ubuntu", "Proxmox")):
        return f"apt-get install {plain}"
    if any(word in system for word in ("Red Hat", "Rocky", "Alma", "CentOS", "Fedora", "Oracle")):
        red = " ".join(n.partition("(")[2].partition(" on RHEL")[0] or n for n in names)
        return f"dnf install {red}"
    if "SUSE" in system:
        return f"zypper install {plain}"
    if "Alpine" in system:
        return f"apk add {plain}"
    return f"install {', '.join(names)}"
