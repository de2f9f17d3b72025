"""Clones of an RBD snapshot: copied on write by Ceph (rbd(8), "layering"), opened by QEMU's rbd driver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from fairlane.lanes._clones import Clone, CloneLane, Cloning
from fairlane.lanes.base import Step
from fairlane.lanes.rbd import RbdImage, RbdImageSpec


class CloneRbdSpec(CloneLane, RbdImageSpec):
    """Golden image as an RBD image with a protected snapshot, which is cloned."""

    transport: Literal["clone_rbd"]
    """A clone of an RBD snapshot."""

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "provisioning": "clone of a snapshot, copied on write by Ceph"}


class CloneRbd(Cloning[CloneRbdSpec], RbdImage[CloneRbdSpec]):
    Spec = CloneRbdSpec
    spec: CloneRbdSpec

    def steps(self) -> tuple[Step, ...]:
        golden, conf = self.image, f"{self.site.cluster}/ceph.conf"
        fill = self._step(
            f"the golden image of {self.name} in its pool",
            f"""
qemu-img convert -n -f raw -O raw {self.site.golden} rbd:{golden}:id=admin:conf={conf}
rbd snap create --no-progress {golden}@golden
rbd snap protect {golden}@golden
""",
            f"""
row golden.protected "$(rbd info {golden}@golden | sed -n 's/^[[:space:]]*protected: //p')"
""",
            f"rbd snap unprotect {golden}@golden\nrbd snap rm --no-progress {golden}@golden",
            expect={"golden.protected": "True"},
        )
        return (*super().steps(), fill)

    def clone(self, number: int) -> Clone:
        own = replace(self, name=f"{self.name}-{number}")
        step = self._step(
            f"clone {number} of {self.name}",
            f"rbd clone{self.separate} {self.image}@golden {own.image}",
            # a killed machine stays a watcher of its image for 30 s
            remove=f"""
i=0
while rbd info {own.image} > /dev/null 2>&1 && ! rbd rm --no-progress {own.image} 2> rm.err; do
  i=$((i + 1))
  [ $i -lt 60 ] || {{ cat rm.err >&2; exit 1; }}
  sleep 1
done
""",
        )
        return Clone(step, own.backend())

    def read_golden(self) -> Step:
        return self._step("read the golden image", f"rbd export --no-progress {self.image}@golden - > /dev/null")

    def path(self) -> tuple[str, ...]:
        return ("clone", "virtio-blk", *super().path()[1:])


PLUGIN = CloneRbd
