"""The files that make a copy of the root disk into one machine: pure."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from importlib import resources

from testkit.strangers import wishes
from testkit.strangers.wishes import Array, Host

OPS, VISITOR = 1000, 1001
"""User IDs: of the one with rights, and of the one without."""


def site(host: Host, number: int, hosts: Sequence[Host], keys: Mapping[str, str], sudo: bytes) -> bytes:
    """A tar that is unpacked over the root disk at the first boot. ``number``: the machine's, as in ``address``;
    ``keys``: ``host`` (private) and ``user`` (public); ``sudo``: a tar with sudo's own files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        with tarfile.open(fileobj=io.BytesIO(sudo)) as package:
            for member in package:
                tar.addfile(member, package.extractfile(member) if member.isfile() else None)
        for path, (text, mode, user) in {**_system(host, number, hosts), **_access(host, keys)}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uid, entry.gid = len(text.encode()), mode, user, user
            if path.endswith("/"):
                entry.type, entry.size = tarfile.DIRTYPE, 0
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


_Files = dict[str, tuple[str, int, int]]
"""Path -> text, mode, owner; a folder's path ends with a slash."""


def guest(name: str) -> str:
    """A file of the folder ``guest``."""
    return resources.files(__package__).joinpath("guest", name).read_text("utf-8")


def _system(host: Host, number: int, hosts: Sequence[Host]) -> _Files:
    boot = ["[ ! -e /data ] || [ -e /data/x.img ] || head -c 64M /dev/urandom > /data/x.img"]
    boot += ["modprobe -a iscsi_tcp nvme_tcp"]  # by systemd's units elsewhere
    boot += ["iscsiadm -m node || :"]  # which makes the folder of its lock: a machine that is in use has it
    boot += ["iscsid"] * host.iscsid
    boot += ["modprobe -a dm_multipath scsi_dh_alua dm_round_robin dm_service_time\nmultipathd"] * host.multipathd
    boot += [guest("array.sh")] if isinstance(host, Array) and host.furnished else []
    boot += [guest("sessions.sh")] if host.sessions else []
    fstab = [
        f"/dev/disk/by-id/virtio-{d.serial} {d.mounted} ext4 defaults 0 2" for d in wishes.disks(host) if d.mounted
    ]
    files = {
        "usr/sbin/init": (guest("init"), 0o755, 0),
        "usr/local/sbin/maintenance": (guest("maintenance"), 0o755, 0),
        "etc/hostname": (f"{host.name}\n", 0o644, 0),
        "etc/hosts": (_hosts(hosts), 0o644, 0),
        "etc/interfaces": (interfaces(host, number, hosts), 0o644, 0),
        "etc/fstab": ("".join(f"{line}\n" for line in fstab), 0o644, 0),
        "etc/rc.local": ("\n".join([*boot, ""]), 0o755, 0),
        "etc/iscsi/initiatorname.iscsi": (f"InitiatorName={wishes.initiator(host)}\n", 0o600, 0),
        "etc/nvme/hostnqn": (f"{wishes.host_nqn(host)}\n", 0o644, 0),
        "etc/nvme/hostid": (f"{wishes.host_id(host)}\n", 0o644, 0),
        "etc/multipath.conf": (guest("multipath.conf"), 0o644, 0),
        "etc/multipath/": ("", 0o700, 0),
        "etc/multipath/wwids": (guest("wwids"), 0o600, 0),
        **{f"{d.mounted.strip('/')}/": ("", 0o755, 0) for d in wishes.disks(host) if d.mounted},
    }
    if isinstance(host, Array):
        guests = " ".join(wishes.host_nqn(h) for h in hosts if h is not host)
        storage = {"CHAP_USER": host.chap[0], "CHAP_SECRET": host.chap[1], "DHCHAP_KEY": host.dhchap,
                   "DHCHAP_HOSTS": guests}  # fmt: skip
        files["etc/storage"] = ("".join(f"{k}='{v}'\n" for k, v in storage.items()), 0o600, 0)
        files["etc/exports"] = ("/srv/share 10.20.0.0/16(rw,no_root_squash,no_subtree_check)\n", 0o644, 0)
    return files


def _access(host: Host, keys: Mapping[str, str]) -> _Files:
    """Who may log in, and how."""
    banner = "Banner /etc/issue.net\n" if host.noisy else ""
    root = f"PermitRootLogin {'prohibit-password' if host.root_login else 'no'}\n"
    files = {
        "etc/ssh/sshd_config": (guest("sshd_config") + root + banner, 0o644, 0),
        "etc/ssh/ssh_host_ed25519_key": (keys["host"], 0o600, 0),
        "etc/issue.net": (f"{host.name}: for the site's staff only\n", 0o644, 0),
        "etc/sudoers.d/": ("", 0o755, 0),
        "etc/sudoers.d/ops": ("ops ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440, 0),
        "etc/sudoers": (
            'Defaults env_reset\nDefaults secure_path="/usr/sbin:/usr/bin:/sbin:/bin"\n'
            "root ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n",
            0o440, 0,
        ),
        "root/": ("", 0o700, 0),
        **_home("root", 0, keys["user"]),
        "home/": ("", 0o755, 0),
    }  # fmt: skip
    for user, number in (("ops", OPS), ("visitor", VISITOR)):
        files[f"home/{user}/"] = ("", 0o750, number)
        files |= _home(f"home/{user}", number, keys["user"])
        if host.noisy:
            files[f"home/{user}/.bashrc"] = (f"echo Welcome to {host.name}\n", 0o644, number)
    return files


def _home(home: str, user: int, key: str) -> _Files:
    return {f"{home}/.ssh/": ("", 0o700, user), f"{home}/.ssh/authorized_keys": (key, 0o600, user)}


ACCOUNTS = "".join(
    f"echo '{user}:x:{number}:{number}::/home/{user}:/bin/bash' >> etc/passwd\n"
    f"echo '{user}:x:{number}:' >> etc/group\necho '{user}:*:19000:0:99999:7:::' >> etc/shadow\n"
    for user, number in (("ops", OPS), ("visitor", VISITOR))
)
"""Shell that adds the users, once, in the root disk's folder: its other accounts are its packages'."""


def _hosts(hosts: Sequence[Host]) -> str:
    lines = [f"{wishes.address(number, 0)} {host.name}\n" for number, host in enumerate(hosts)]
    return "".join(["127.0.0.1 localhost\n", *lines])


def interfaces(host: Host, number: int, hosts: Sequence[Host]) -> str:
    """Lines MAC (or the word bridge), name, address (or the bridge to join). The array has an end of each host's links,
    and joins those of a network."""
    lines = [f"{wishes.mac(number, 0)} eth0 10.0.2.15/24"]
    if isinstance(host, Array):
        lines += [f"bridge br{p} {wishes.address(0, p)}/24" for p in range(wishes.PATHS)]
    if not isinstance(host, Array):
        lines += [f"{wishes.mac(number, 1 + p)} eth{1 + p} {wishes.address(number, p)}/24" for p in range(wishes.PATHS)]
    else:
        for p in range(wishes.PATHS):
            for other in range(1, len(hosts)):
                lines.append(f"{wishes.mac(number, end(p, other))} eth{end(p, other)} br{p}")
    return "".join(f"{line}\n" for line in lines)


def end(path: int, host: int) -> int:
    """Number of the array's NIC that a host is linked to on a network."""
    return 1 + wishes.PATHS * (host - 1) + path
