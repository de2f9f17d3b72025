"""What a test asks of strangers' machines: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

PATHS = 2
"""Storage networks between hosts and array: 10.20.0.0/24 and 10.20.1.0/24."""
ARRAY = "storage1"


@dataclass(frozen=True)
class Host:
    """A machine. Every one has the user ``ops``, who may ``sudo -n``, and ``visitor``, who may not; disks ``spare``
    (512 MiB, blank) and ``data`` (256 MiB, mounted on /data with a file ``x.img`` of 64 MiB); its own
    /etc/multipath.conf, initiator name, NVMe host."""

    name: str
    iscsid: bool = True
    """Whether it runs from the boot on."""
    multipathd: bool = False
    """Whether it runs from the boot on."""
    clock: int = 0
    """Seconds by which its clock is wrong."""
    root_login: bool = False
    """Whether root may log in with the same key."""
    noisy: bool = False
    """Whether every login prints: a banner of sshd, and a line of .bashrc on stdout."""
    sessions: bool = False
    """Whether a LUN, a namespace and a share of a furnished array are mounted already."""


@dataclass(frozen=True)
class Array(Host):
    """The array's machine: further disks ``lun-data``, ``ns-data`` and ``nfs``, the last mounted on /srv."""

    name: str = ARRAY
    furnished: bool = True
    """Whether it exports its disks: LIO, nvmet, NFS. Otherwise they are blank, and nothing is set up."""
    chap: tuple[str, str] = ("", "")
    """User and secret of the target ``data``, which needs them then."""
    dhchap: str = ""
    """DH-HMAC-CHAP key of the subsystem ``data``, which lets in only the hosts, with this key."""


@dataclass(frozen=True)
class Disk:
    """A virtio disk of a machine."""

    serial: str
    size: int
    """Bytes."""
    mounted: str = ""
    """Where its ext4 is mounted at boot; empty: it is blank."""


def disks(host: Host) -> Sequence[Disk]:
    """The disks of a machine beside its root disk."""
    mib = 2**20
    own = (Disk(f"{host.name}-spare", 512 * mib), Disk(f"{host.name}-data", 256 * mib, "/data"))
    if isinstance(host, Array):
        return (*own, Disk("lun-data", 512 * mib), Disk("ns-data", 512 * mib), Disk("nfs", 1024 * mib, "/srv"))
    return own


def address(number: int, path: int) -> str:
    """Address on a storage network: the array's number is 0, the hosts' count from 1."""
    return f"10.20.{path}.{10 + number if number else 1}"


def mac(number: int, end: int) -> str:
    """MAC address of a NIC: 0 is management, then the storage networks' in order."""
    return f"52:54:00:57:{number:02x}:{end:02x}"


def host_nqn(host: Host) -> str:
    return f"nqn.2014-08.org.nvmexpress:uuid:{host_id(host)}"


def host_id(host: Host) -> str:
    return f"{host.name.encode().hex():0<8.8}-0000-4000-8000-000000000057"


def initiator(host: Host) -> str:
    return f"iqn.2010-06.org.site:{host.name}"
