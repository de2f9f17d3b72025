"""Clones of an RBD snapshot: copied on write by Ceph (rbd(8), "layering"), opened by QEMU's rbd driver."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.lanes import _ceph as ceph
from fairlane.lanes._clones import Clone, CloneLane, Cloning
from fairlane.lanes.base import Site, Step
from fairlane.lanes.rbd import PLUGIN as RBD
from fairlane.lanes.rbd import RbdSpec


class CloneRbdSpec(CloneLane, RbdSpec):
    """Golden image as an RBD image with a protected snapshot, which is cloned."""

    transport: Literal["clone_rbd"]  # type: ignore[assignment] # another transport, with rbd's keys
    """A clone of an RBD snapshot."""

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "provisioning": "clone of a snapshot, copied on write by Ceph"}


class CloneRbd(Cloning[CloneRbdSpec]):
    Spec = CloneRbdSpec
    target = False
    cluster = RBD.cluster
    driver = RBD.driver

    def steps(self, name: str, spec: CloneRbdSpec, site: Site) -> tuple[Step, ...]:
        golden = _image(name, spec, site)
        fill = Step(
            name=f"the golden image of {name} in its pool",
            place="hypervisor",
            apply=f"""{ceph.use(site)}
qemu-img convert -n -f raw -O raw {site.golden} rbd:{golden}:id=admin:conf={site.cluster}/ceph.conf
rbd snap create --no-progress {golden}@golden
rbd snap protect {golden}@golden
""",
            describe=f"""{ceph.use(site)}
row golden.protected "$(rbd info {golden}@golden | sed -n 's/^[[:space:]]*protected: //p')"
""",
            remove=f"{ceph.use(site)}rbd snap unprotect {golden}@golden\nrbd snap rm --no-progress {golden}@golden",
            expect={"golden.protected": "True"},
        )
        return (*RBD.steps(name, spec, site), fill)

    def clone(self, name: str, spec: CloneRbdSpec, site: Site, number: int) -> Clone:
        golden, image = _image(name, spec, site), _image(f"{name}-{number}", spec, site)
        separate = f" --data-pool {spec.pool('rbd')}" if spec.chunks else ""
        step = Step(
            name=f"clone {number} of {name}",
            place="hypervisor",
            apply=f"{ceph.use(site)}rbd clone{separate} {golden}@golden {image}",
            # a machine that was killed is a watcher of its image for another 30 s
            remove=f"""{ceph.use(site)}
i=0
while rbd info {image} > /dev/null 2>&1 && ! rbd rm --no-progress {image} 2> rm.err; do
  i=$((i + 1))
  [ $i -lt 60 ] || {{ cat rm.err >&2; exit 1; }}
  sleep 1
done
""",
        )
        return Clone(step, RBD.backend(f"{name}-{number}", spec, site))

    def read_golden(self, name: str, spec: CloneRbdSpec, site: Site) -> Step:
        reading = f"{ceph.use(site)}rbd export --no-progress {_image(name, spec, site)}@golden - > /dev/null"
        return Step("read the golden image", "hypervisor", reading)

    def medium_size(self, spec: CloneRbdSpec, size: int) -> int:
        return RBD.medium_size(spec, size)

    def path(self, name: str, spec: CloneRbdSpec, site: Site) -> tuple[str, ...]:
        return ("clone", "virtio-blk", *RBD.path(name, spec, site)[1:])


def _image(image: str, spec: CloneRbdSpec, site: Site) -> str:
    """``pool/image``."""
    return f"{RBD.backend(image, spec, site)['pool']}/{image}"


PLUGIN = CloneRbd()
