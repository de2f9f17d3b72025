"""Strangers' machines as they are after their boot: booted once for each wish, cached with disks, memory and keys
beside the lab's images, and woken from there in seconds."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from fairlane.platforms.lab import cpio, qemu
from fairlane.platforms.lab.cache import hold
from fairlane.runs.files import cache_dir
from testkit.strangers import machine, overlay, wishes
from testkit.strangers.client import Client
from testkit.strangers.ingredients import Ingredients
from testkit.strangers.machine import Machine
from testkit.strangers.wishes import Array, Host

MEMORY = 512 * 2**20
_KEPT = 4
"""States in the cache at once; one has some 700 MB."""


def key(hosts: Sequence[Host], made: Ingredients) -> str:
    """Hash of everything that decides a state: machines, their files, QEMU, the processor where a guest sees it."""
    here = Path(__file__).parent
    code = [here / f"{name}.py" for name in ("saved", "machine", "overlay", "wishes")]
    files = [*code, *(file for file in sorted((here / "guest").iterdir()) if file.name != "inventory.sh")]
    parts = [repr(hosts), made.root.key, made.accel, qemu.version(), *(file.read_text("utf-8") for file in files)]
    if made.accel == "kvm":
        parts.append(next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line))
    return hashlib.sha256(json.dumps(parts).encode() + made.sudo).hexdigest()[:16]


async def state(hosts: Sequence[Host], made: Ingredients, held: ExitStack) -> Path:
    """The folder of the state, made if it is not cached (some 30 s on an idle machine), and kept until ``held`` is
    closed. Raises AssertionError with a console's last words."""
    entry = cache_dir() / "strangers" / key(hosts, made)

    async def make(scratch: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="strangers-") as name, ExitStack() as ended:
            place = Path(name)
            client = Client(place / "client")
            machines = []
            for host in hosts:
                furnish(place / host.name, host, hosts, client, made)
                words = _words(host, hosts, made, place / host.name / "initrd", place)
                machines.append(Machine(host.name, place / host.name, words))
                ended.callback(machines[-1].close)
            for one in machines:
                one.booted()
            together(machines, lambda one: one.leave("memory"), go_on=False)
            for one in machines:
                one.close()
                for file in ("memory", "initrd", *(disk.name for disk in one.folder.glob("*.qcow2"))):
                    shutil.move(one.folder / file, _file(scratch, one.name, file))
            for key_file in client.key_files():
                shutil.move(key_file, scratch)
        facts = {one.name: {"boot_id": one.boot_id, "boot_seconds": one.boot_seconds} for one in machines}
        (scratch / "facts.json").write_text(json.dumps(facts))

    held.enter_context(await hold(entry, "facts.json", make, keep=_KEPT))
    return entry


def wake(hosts: Sequence[Host], made: Ingredients, saved: Path, folder: Path) -> Iterable[Machine]:
    """The machines of a state, one after the other, each in a folder of its own in ``folder``; they stand still."""
    facts = json.loads((saved / "facts.json").read_text())
    for host in hosts:
        own = folder / host.name
        own.mkdir()
        for serial in serials(host):
            file = f"{serial}.qcow2"
            _image(own / file, "-F", "qcow2", "-b", str(_file(saved, host.name, file)))
        words = _words(host, hosts, made, _file(saved, host.name, "initrd"), folder)
        words += ["-S", "-incoming", f"exec:cat {_file(saved, host.name, 'memory')}"]
        one = Machine(host.name, own, words)
        one.boot_id, one.boot_seconds = facts[host.name].values()
        yield one


def together(machines: Iterable[Machine], work: Callable[[Machine], object], *, go_on: bool = True) -> None:
    """Does something to every machine while all of them stand still, so that their connections agree."""
    for one in machines:
        one.qmp("stop")
    for one in machines:
        work(one)
    for one in machines if go_on else ():
        one.qmp("cont")


def furnish(folder: Path, host: Host, hosts: Sequence[Host], client: Client, made: Ingredients) -> None:
    """Disks and initramfs of a machine that has never booted."""
    folder.mkdir()
    _image(folder / "root.qcow2", "-F", "raw", "-b", str(made.root.disk))
    for disk in wishes.disks(host):
        file = folder / f"{disk.serial}.qcow2"
        if not disk.mounted:
            _image(file, size=disk.size)
            continue
        with tempfile.NamedTemporaryFile() as raw:
            raw.truncate(disk.size)
            mkfs = ["mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1,nodiscard", raw.name]
            subprocess.run(mkfs, check=True)
            subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw.name, str(file)], check=True)
    keys = {"host": client.host_key(host.name)[0], "user": client.user}
    own = {
        "init": cpio.file(overlay.guest("early").encode(), executable=True),
        "accounts": cpio.file(overlay.ACCOUNTS.encode()),
        "site.tar": cpio.file(overlay.site(host, hosts.index(host), hosts, keys, made.sudo)),
    }
    (folder / "initrd").write_bytes(made.root.initrd.read_bytes() + cpio.archive(own))


def _file(state: Path, machine: str, name: str) -> Path:
    """A machine's file in a state: entries of the cache have no folders."""
    return state / f"{machine}+{name}"


def serials(host: Host) -> Sequence[str]:
    return ["root", *(disk.serial for disk in wishes.disks(host))]


def _words(host: Host, hosts: Sequence[Host], made: Ingredients, initrd: Path, sockets: Path) -> list[str]:
    """QEMU's command line."""
    number = hosts.index(host)
    links = [f"mgmt {wishes.mac(number, 0)} - -"]
    for other in range(1, len(hosts)) if isinstance(host, Array) else (number,):
        for path in range(wishes.PATHS):
            nic, listens = (1 + path, "off") if number else (overlay.end(path, other), "on")
            name = f"path{path}" if number else f"path{path}.{other}"
            links.append(f"{name} {wishes.mac(number, nic)} {listens} {sockets}/{other}-{path}")
    boot = ["-kernel", str(made.root.kernel), "-initrd", str(initrd)]
    return [*machine.arguments(made.accel, MEMORY, serials(host), links), *boot]


def _image(file: Path, *over: str, size: int = 0) -> None:
    """A qcow2 file, over another or blank."""
    command = ["qemu-img", "create", "-q", "-f", "qcow2", *over, str(file), *([str(size)] if size else [])]
    subprocess.run(command, check=True)
