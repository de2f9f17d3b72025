"""Disks that libvirt plugs into a running domain and out of it: steps on the hypervisor, in virsh. Pure.

All that a lane adds to a domain carries the run's id in its alias, or is numbered by the lane (IO threads); it is live
only, so that a domain that restarts has none of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from xml.sax.saxutils import quoteattr

from fairlane.lanes import _living as living
from fairlane.lanes.base import Step
from fairlane.study.guest_device import GuestDevice

FIRST_THREAD = 1000
"""Number of the first IO thread, beyond those that people give their domains."""
_MOST_THREADS = 64
"""Of a lane."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST_DISKS = len(_LETTERS) ** 2
"""That have a target of their own."""
_WAIT = 45
"""Seconds in which a guest must have given a disk up: less than a step may take to be undone."""
_ELEMENTS = {"virtio-blk": "virtio", "virtio-scsi": "scsi"}
"""libvirt's names of buses."""


def virsh(uri: str) -> str:
    """Beginning of every command for the libvirt at ``uri``."""
    return f"virsh -q -c {quote(uri)}"


@dataclass(frozen=True)
class Plug:
    """A volume's disk in a domain."""

    uri: str
    domain: str
    run: str
    index: int
    """Number of the volume in the run."""
    device: GuestDevice
    read_only: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    """libvirt's names of limits (``total_iops_sec``) -> per second; of a disk that is throttled."""

    @property
    def serial(self) -> str:
        """At most 20 characters (virtio-blk)."""
        return f"{self.run}-{self.index:04d}"

    @property
    def alias(self) -> str:
        """QEMU's id of the device."""
        return f"ua-fairlane-{self.serial}"

    def controller(self, number: int) -> str:
        """Alias of the controller ``number``."""
        return f"{self.alias}-c{number}"

    @property
    def threads(self) -> tuple[int, ...]:
        """Numbers of its IO threads."""
        dealt = self.device.controllers if self.device.bus == "virtio-scsi" else 1
        count = dealt if self.device.io_threads == "per-disk" else self.device.io_threads
        return tuple(FIRST_THREAD + self.index * _MOST_THREADS + n for n in range(count))

    @property
    def target(self) -> str:
        """libvirt's name of the disk, which no disk of the domain's own has: three letters."""
        prefix = "vd" if self.device.bus == "virtio-blk" else "sd"
        return f"{prefix}z{_LETTERS[self.index // 26 % 26]}{_LETTERS[self.index % 26]}"

    @property
    def virsh(self) -> str:
        """Beginning of every command."""
        return virsh(self.uri)

    def steps(self, find: str, guard: str) -> Iterator[Step]:
        """Plugs the file or block device in that ``find`` prints, after ``guard`` (shell, the path in ``$d``)."""
        for thread in self.threads:
            yield self._thread(thread)
        if self.device.bus == "virtio-scsi":
            for number in range(self.device.controllers):
                yield self._controller(number)
        yield self._disk(find, guard)

    def _thread(self, thread: int) -> Step:
        domain = quote(self.domain)
        known = f"{self.virsh} iothreadinfo {domain} --live | awk '$1 == {thread}' | grep -q ."
        return Step(
            f"IO thread {thread} of {self.domain}", "hypervisor",
            apply=f"{self.virsh} iothreadadd {domain} {thread} --live",
            remove=f"""
{self._running}if {known}; then {self.virsh} iothreaddel {domain} {thread} --live; fi
""",
        )  # fmt: skip

    def _controller(self, number: int) -> Step:
        own = self.threads
        thread = f" iothread='{own[number % len(own)]}'" if own else ""
        packed = " packed='on'" if self.device.packed else ""
        driver = f"<driver queues='{self.device.queues}'{thread}{packed}/>"
        xml = f"{driver}<alias name='{self.controller(number)}'/></controller>"
        attach = self._attach(f'printf %s%s "$head" {quote(xml)}')
        return Step(
            f"SCSI controller {number} for {self.domain}", "hypervisor",
            # libvirt fills gaps between controllers with more of them, so ours has the first free index
            apply=f"""
used=$({self._xml} | sed -n "s/^ *<controller type='scsi' index='\\([0-9]*\\)'.*/\\1/p")
i=0
while printf '%s\\n' "$used" | grep -qx "$i"; do i=$((i + 1)); done
head="<controller type='scsi' index='$i' model='virtio-scsi'>"
{attach}""",
            remove=self._detach(self.controller(number)),
        )  # fmt: skip

    def _disk(self, find: str, guard: str) -> Step:
        device = self.device
        own = self.threads
        blk = device.bus == "virtio-blk"
        driver = {
            "name": "qemu", "type": device.format, "cache": device.cache, "io": device.aio, "discard": device.discard,
            **({"detect_zeroes": device.detect_zeroes} if device.detect_zeroes != "off" else {}),
            **({"queues": str(device.queues)} if blk else {}),
            **({"queue_size": str(device.queue_size)} if blk and device.queue_size else {}),
            **({"packed": "on"} if blk and device.packed else {}),
            **({"iothread": str(own[0])} if blk and own and not device.vq_mapping else {}),
        }  # fmt: skip
        attributes = " ".join(f"{key}={quoteattr(value)}" for key, value in driver.items())
        spread = "".join(f"<iothread id='{thread}'/>" for thread in own) if device.vq_mapping else ""
        inside = f"<iothreads>{spread}</iothreads>" if spread else ""
        address = (
            ""
            if blk
            else f"""
i=$({self._xml} | awk -F"'" -v wanted="alias name='{self.controller(0)}'" '
  /<controller type=/ {{ number = $4 }}
  index($0, wanted) {{ print number }}')
address="<address type='drive' controller='$i' bus='0' target='0' unit='0'/>"
"""
        )
        head = f"<driver {attributes}>{inside}</driver>" if inside else f"<driver {attributes}/>"
        size, limits = device.block_size, "".join(f"<{key}>{value}</{key}>" for key, value in self.limits.items())
        more = "".join((
            "<readonly/>" if self.read_only else "",
            f"<iotune>{limits}</iotune>" if limits else "",
            f"<blockio logical_block_size='{size}' physical_block_size='{size}'/>" if size != 512 else "",
        ))  # fmt: skip
        tail = (f"<target dev='{self.target}' bus='{_ELEMENTS[device.bus]}'/><serial>{self.serial}</serial>"
                f"{more}<alias name='{self.alias}'/>")  # fmt: skip
        return Step(
            f"disk {self.serial} for {self.domain}", "hypervisor",
            apply=f"""
{living.FAIL}d=$({find.strip()})
[ -n "$d" ] && [ "$(printf '%s\\n' "$d" | wc -l)" -eq 1 ] || fail "expected one volume on the hypervisor, found: $d"
d=$(readlink -f "$d")
{guard}
escaped=$(printf %s "$d" | sed "s/&/\\&amp;/g; s/</\\&lt;/g; s/'/\\&apos;/g")
kind=file source=file
[ ! -b "$d" ] || {{ kind=block; source=dev; }}
address=
{address.strip()}
xml() {{
  printf "<disk type='%s' device='disk'>%s<source %s='%s'/>%s%s</disk>" \\
    $kind {quote(head)} $source "$escaped" {quote(tail)} "$address"
}}
{self._attach("xml")}""",
            remove=self._detach(self.alias),
        )  # fmt: skip

    @property
    def _xml(self) -> str:
        return f"{self.virsh} dumpxml {quote(self.domain)}"

    @property
    def _running(self) -> str:
        """Shell that ends the step where the domain does not run: what was plugged in is gone with it."""
        state = f"{self.virsh} domstate {quote(self.domain)}"
        return f"""
case $({state} 2>&1) in running | paused | idle) ;; *) exit 0 ;; esac
"""

    def _attach(self, xml: str) -> str:
        return f"""
set +e
answer=$({{ {xml}; }} | {self.virsh} attach-device {quote(self.domain)} /dev/stdin --live 2>&1)
s=$?
set -e
case $answer in
  *'PCI slots'*) answer="the domain has no free PCI slot; add a pcie-root-port to it, or compare fewer lanes" ;;
esac
[ $s -eq 0 ] || {{ echo "{self.domain} takes no disk: $answer" >&2; exit 1; }}
"""

    def _detach(self, alias: str) -> str:
        has = f"{self._xml} | grep -q \"<alias name='{alias}'/>\""
        return f"""
{self._running}i=0
while {has}; do
  # a guest that boots, or is busy, does not hear the first request
  [ $((i % 50)) -ne 0 ] || {self.virsh} detach-device-alias {quote(self.domain)} {alias} --live > /dev/null 2>&1 || :
  i=$((i + 1))
  [ $i -le {_WAIT * 5} ] || {{ echo "the guest {self.domain} does not give {alias} up" >&2; exit 1; }}
  sleep 0.2
done
"""


def image(folder: str, name: str, size: int, device: GuestDevice, run: str) -> Step:
    """An image of ``size`` bytes in ``folder`` on the hypervisor, which has room for all of it."""
    file = quote(image_path(folder, name, run))
    allocated = device.preallocation or ("falloc" if device.format == "raw" else "metadata")
    options = f"preallocation={allocated}" + (f",cluster_size={device.cluster_size}" if device.cluster_size else "")
    return Step(
        f"an image in {folder} for {name}", "hypervisor",
        apply=f"""
{living.FAIL}[ -d {quote(folder)} ] || fail "there is no folder {folder} on the hypervisor"
case $(stat -f -c %T {quote(folder)}) in
  nfs | ceph | cifs | smb* | fuse*)
    fail "{folder} is on a network file system: use transport nfs with initiator: hypervisor" ;;
esac
free=$(($(stat -f -c '%a * %S' {quote(folder)})))
[ $free -gt $(({size} + {size} / 20)) ] || fail "{folder} has $free bytes free; the image needs {size} plus 5 %"
[ ! -e {file} ] || fail "{file} is there already"
qemu-img create -q -f {device.format} -o {options} {file} {size}
# a session's QEMU runs as its user, whose folder it is; a system's libvirt gives the image to QEMU's user itself
chown --reference={quote(folder)} {file}
""",
        describe=f"""
row image.file {file}
row image.allocated_bytes "$(($(stat -c '%b * %B' {file})))"
""",
        remove=f"rm -f {file}",
    )  # fmt: skip


def image_path(folder: str, name: str, run: str) -> str:
    """Path of an image; it has the run's id."""
    return f"{folder.rstrip('/')}/fairlane-{run}-{name}.img"


def examination(plug: Plug, folder: str, pool: str) -> str:
    """Shell that prints ``missing<TAB>TEXT``, and perhaps ``hint<TAB>TEXT``, where a disk cannot be plugged in."""
    domain = quote(plug.domain)
    text = f"""
if ! answer=$({plug.virsh} uri 2>&1); then
  row missing "libvirt does not answer: $(printf %s "$answer" | tail -n 1)"
  row hint "start libvirtd (or virtqemud) on the hypervisor, or correct platform.uri"
  exit
fi
state=$({plug.virsh} domstate {domain} 2>&1) || {{
  row missing "there is no domain {plug.domain}"; row hint "virsh list --all shows the domains"; exit
}}
[ "$state" = running ] || {{
  row missing "domain {plug.domain} does not run: $state"; row hint "virsh start {plug.domain}"; exit
}}
"""
    if folder:
        text += f'[ -d {quote(folder)} ] || row missing "there is no folder {folder} on the hypervisor"\n'
    if pool:
        text += f"""
if ! answer=$({plug.virsh} pool-info {quote(pool)} 2>&1); then
  row missing "there is no storage pool {pool}"
  row hint "virsh pool-list --all shows the pools"
elif ! printf '%s\\n' "$answer" | grep -q '^State: *running'; then
  row missing "storage pool {pool} is not active"
  row hint "virsh pool-start {pool}"
fi
"""
    return text
