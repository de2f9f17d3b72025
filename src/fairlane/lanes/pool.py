"""A volume of a libvirt storage pool, made for the run and removed: in directories, LVM, ZFS."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fairlane.guard.values import NONE
from fairlane.lanes import _living as living
from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.study.guest_device import GuestDevice

_KIB = 1024


_NAME = re.compile(r"[A-Za-z0-9_.:+][A-Za-z0-9_.:+-]{0,99}")


def libvirt_name(value: str) -> str:
    """``value``; raises ValueError if libvirt's commands could take it for something else than a name."""
    if not _NAME.fullmatch(value):
        raise ValueError("expected a name of libvirt's with letters, digits, and _ . : + - only, not - first")
    return value


class PoolSpec(LaneSpec):
    """A volume of a libvirt storage pool."""

    transport: Literal["pool"]
    """A volume of a storage pool of libvirt."""
    pool: Annotated[str, AfterValidator(libvirt_name)]
    """Name of the pool on the hypervisor; it must be active."""
    sparse: bool = Field(default=False)
    """Allocate space at the first write, where the pool's kind can. Otherwise the volume is allocated in full."""

    network = False
    initiators = ("hypervisor",)
    platforms = ("libvirt",)

    def known(self) -> Mapping[str, Any]:
        missing = ("multipath", "path_settings", "link_speed", "link_delay", "mtu")
        return {**super().known(), **dict.fromkeys(missing, NONE), "transport": "libvirt pool",
                "provisioning": "thin" if self.sparse else "thick"}  # fmt: skip


class Pool(Transport[PoolSpec]):
    Spec = PoolSpec
    living = True
    backing = "machine"
    programs = ("virsh",)

    @property
    def _virsh(self) -> str:
        return f"virsh -q -c {self.site.uri!r}"

    @property
    def _volume(self) -> str:
        return f"fairlane-{self.site.run}-{self.name}"

    def steps(self) -> tuple[Step, ...]:
        pool, volume = self.spec.pool, self._volume
        device = self.spec.device or GuestDevice()
        size = -(-self.site.size // _KIB)
        allocation = 0 if self.spec.sparse else size
        form = f" --format {device.format}"
        return (
            Step(
                f"a volume of pool {pool} for {self.name}",
                "initiator",
                apply=f"""
{living.FAIL}kind=$({self._virsh} pool-dumpxml {pool} 2>&1 | sed -n "s/^<pool type='\\(.*\\)'.*/\\1/p")
[ -n "$kind" ] || fail "the hypervisor has no storage pool {pool}: virsh pool-list --all"
{self._virsh} pool-info {pool} | grep -q '^State: *running' ||
  fail "storage pool {pool} is not active: virsh pool-start {pool}"
form="{form}"
case $kind in
  dir | fs) ;;
  logical | zfs) form= ;;
  netfs) fail "pool {pool} is a network share: use transport nfs with initiator: hypervisor" ;;
  *) fail "pools of type $kind are not supported" ;;
esac
{self._virsh} vol-create-as {pool} {volume} {size}k --allocation {allocation}k $form > /dev/null
""",
                describe=f"""
row pool.type "$({self._virsh} pool-dumpxml {pool} | sed -n "s/^<pool type='\\(.*\\)'.*/\\1/p")"
{self._virsh} vol-info {volume} --pool {pool} --bytes |
  while read -r key value unit; do
    case $key in Capacity: | Allocation:) row "pool.$(echo "${{key%:}}" | tr CA ca)" "$value $unit" ;; esac
  done
""",
                remove=f"""
if {self._virsh} vol-info {volume} --pool {pool} > /dev/null 2>&1; then
  {self._virsh} vol-delete {volume} --pool {pool} > /dev/null
fi
""",
            ),
        )

    def find(self) -> str:
        return f"{self._virsh} vol-path {self._volume} --pool {self.spec.pool}"

    def path(self) -> tuple[str, ...]:
        return ("fio", "QEMU", f"pool {self.spec.pool}")


PLUGIN = Pool
