"""What goes wrong in machine rooms, done to strangers' machines."""

import time
from shlex import quote

from testkit.strangers.client import Client
from testkit.strangers.machine import Machine
from testkit.strangers.wishes import Array, Host

_NVMET = "/sys/kernel/config/nvmet"
_LIO = "/sys/kernel/config/target/iscsi"
_ALUA = {"optimized": 0, "non-optimized": 1, "inaccessible": 3}
"""State of a path, as nvmet writes it -> as LIO does (SPC-4)."""


class Faults:
    """Operations of a stand; each returns when its effect is there."""

    hosts: tuple[Host, ...]
    machines: dict[str, Machine]
    client: Client

    def reset(self, host: str) -> None:
        """The reset button: what was in memory is lost, disks stay. Returns when it is up again, with its own clock."""
        self.machines[host].reset()
        self.set_clock(host, next(h.clock for h in self.hosts if h.name == host))

    def kill_sshd(self, host: str) -> None:
        """Kills sshd and all its connections."""
        self.machines[host].sh("pkill -KILL -x sshd; while pgrep -x sshd; do sleep 0.1; done")

    def start_sshd(self, host: str) -> None:
        self.machines[host].sh("[ -e /proc/$(cat /run/sshd.pid)/exe ] || /usr/sbin/sshd")

    def kill_connections(self, host: str) -> None:
        """Kills all SSH connections; new ones are let in. Commands of the old ones get SIGHUP only if they have a
        terminal."""
        self.machines[host].sh('pgrep -x sshd | grep -vxF "$(cat /run/sshd.pid)" | xargs -r kill -KILL')

    def cut(self, host: str, path: int, *, up: bool = False) -> None:
        """Unplugs a machine's cable to a storage network; ``up`` plugs it in again."""
        one = self.machines[host]
        others = range(1, len(self.hosts)) if host == self.hosts[0].name else ()
        for nic in [f"path{path}.{other}" for other in others] or [f"path{path}"]:
            one.qmp("set_link", name=nic, up=up)

    def portal_down(self, portal: int, *, up: bool = False) -> None:
        """Takes a portal away from all targets and subsystems; ``up`` brings it back."""
        port = f"{_NVMET}/ports/{portal + 1}/subsystems"
        link = f"ln -sfn {_NVMET}/subsystems/$s {port}/$s" if up else f"rm -f {port}/$s"
        self._array(f"""
for t in {_LIO}/iqn.*/tpgt_{portal + 1}; do echo {int(up)} > $t/enable; done
for s in $(ls {_NVMET}/subsystems); do {link}; done
""")

    def path_state(self, portal: int, state: str) -> None:
        """ALUA and ANA of a portal: ``optimized``, ``non-optimized``, ``inaccessible``."""
        self._array(f"""
for g in /sys/kernel/config/target/core/iblock_*/*/alua/portal{portal}; do
  echo {_ALUA[state]} > $g/alua_access_state
done
echo {state} > {_NVMET}/ports/{portal + 1}/ana_groups/1/ana_state
""")

    def _array(self, script: str) -> None:
        array = self.hosts[0]
        assert isinstance(array, Array)
        assert array.furnished, f"{array.name} exports nothing"
        self.machines[array.name].sh(script)

    def set_clock(self, host: str, seconds: float) -> None:
        """Sets a machine's clock wrong by so many seconds; 0: right."""
        self.machines[host].sh(f"date -u -s @{time.time() + seconds:.3f} > /dev/null")

    def remove_device(self, host: str, device: str) -> None:
        """Pulls a disk out: ``device`` is a path or the serial of a virtio disk. ``insert_devices`` undoes it for
        virtio disks, a new scan for SCSI disks."""
        self.machines[host].sh(f"""
d={quote(device)}
case $d in /*) ;; *) d=/dev/disk/by-id/virtio-$d ;; esac
d=$(readlink -f "$d") d=${{d#/dev/}}
[ -e /sys/block/$d ]
if [ -e /sys/block/$d/device/delete ]; then
  echo 1 > /sys/block/$d/device/delete
else
  v=$(readlink -f /sys/block/$d/device)
  echo "${{v##*/}}" > /sys/bus/virtio/drivers/virtio_blk/unbind
fi
[ ! -e /sys/block/$d ]
""")

    def insert_devices(self, host: str) -> None:
        """Puts virtio disks back in, whose names may be others."""
        self.machines[host].sh("""
for v in /sys/bus/virtio/devices/virtio*; do
  [ "$(cat $v/device)" != 0x0002 ] || [ -e $v/driver ] || echo "${v##*/}" > /sys/bus/virtio/drivers/virtio_blk/bind
done
udevadm settle --timeout=60
""")

    def fill_disk(self, host: str, path: str) -> str:
        """Leaves no byte free in the file system of the folder ``path``. Returns the file that does it; remove that."""
        filler = f"{path.rstrip('/')}/filler"
        self.machines[host].sh(f"""
fallocate -l "$(($(stat -f -c '%f * %S' {quote(path)})))" {filler} 2> /dev/null || :
dd if=/dev/zero of={filler} bs=1M conv=notrunc oflag=append 2> /dev/null || :
dd if=/dev/zero of={filler} bs=1k conv=notrunc oflag=append 2> /dev/null || :
[ "$(stat -f -c %a {quote(path)})" -le 1 ]
""")
        return filler

    def rotate_host_key(self, host: str, *, trusted: bool = False) -> None:
        """The machine has another host key. ``trusted``: known_hosts has it, too."""
        key, public = self.client.host_key(host, trusted=trusted)
        self.machines[host].sh(f"""
cat > /etc/ssh/ssh_host_ed25519_key <<'END'
{key.strip()}
END
kill -HUP "$(cat /run/sshd.pid)"
until ssh-keyscan -t ed25519 127.0.0.1 2> /dev/null | grep -qF '{public}'; do sleep 0.1; done
""")
