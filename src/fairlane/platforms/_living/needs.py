"""Who needs what: root and programs, by machine, known from the study alone. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlane import registry
from fairlane.errors import FairlaneError
from fairlane.platforms._living.spec import LivingSpec
from fairlane.platforms._living.volumes import Volume, machines_of, volumes
from fairlane.study.spec import Study

_PACKAGES = {
    "fio": "fio", "nvme": "nvme-cli", "iscsiadm": "open-iscsi (iscsi-initiator-utils on RHEL)",
    "multipathd": "multipath-tools (device-mapper-multipath on RHEL)",
    "mount.nfs": "nfs-common (nfs-utils on RHEL)", "wipefs": "util-linux", "bash": "bash", "losetup": "util-linux",
    "gzip": "gzip", "fallocate": "util-linux", "awk": "gawk", "rbd": "ceph-common", "mount.ceph": "ceph-common",
    "exportfs": "nfs-kernel-server (nfs-utils on RHEL)",
    "virsh": "libvirt-clients (libvirt-client on RHEL)", "qemu-img": "qemu-utils (qemu-img on RHEL)",
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


def needs(study: Study) -> dict[str, Need]:
    """Machine -> what the study needs there."""
    spec = study.platform
    assert isinstance(spec, LivingSpec)  # noqa: S101 - the study's kind chose this platform
    used = {machine for own in machines_of(study).values() for machine in own}
    result = {name: Need(name) for name in spec.machines if name in used}
    loads = [(registry.load("workloads", cell.kind), cell) for cell in study.cells()]
    for need in result.values():
        need.programs |= dict.fromkeys(program for load, cell in loads for program in load.calls(cell))
        need.folders |= dict.fromkeys(folder for load, _ in loads for folder in load.folders)
    for volume in volumes(study, "0" * 10):
        for machine in _roots(volume):
            result.setdefault(machine, Need(machine)).root[volume.lane] = None
        for machine, programs in volume.programs().items():
            result.setdefault(machine, Need(machine)).programs |= dict.fromkeys(programs)
    order = [*spec.reached]
    return dict(sorted(result.items(), key=lambda item: order.index(item[0])))


def _roots(volume: Volume) -> Iterable[str]:
    try:
        return volume.roots()
    except FairlaneError:  # its steps need a secret that is not here, which ``problems`` asks for
        return volume.programs()


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
