"""Ceph RBD: an image in a replicated or erasure-coded pool, opened by QEMU's rbd driver (librbd) on the hypervisor.

The kernel's client (krbd), in guest or hypervisor, is not offered: see docs/ceph.md.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fairlane.lanes._ceph import METADATA_COPIES, CephSpec, CephTransport
from fairlane.lanes.base import Step
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

Feature = Literal["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling"]
_ORDER: tuple[Feature, ...] = ("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling")
"""Features in the order of ``rbd info``."""
_NEEDS: Mapping[Feature, Feature] = {
    "object-map": "exclusive-lock", "fast-diff": "object-map", "journaling": "exclusive-lock",
}  # fmt: skip


class RbdSpec(CephSpec):
    """Ceph RBD (librbd in QEMU)."""

    transport: Literal["rbd"]
    """An RBD image."""
    features: tuple[Feature, ...] = ("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten")
    """Image features; the default is Ceph's own."""
    object_size: Size = Field(default=4 * 1024**2, ge=4096, le=32 * 1024**2)
    """Size of the objects that the image is cut into."""

    @model_validator(mode="after")
    def _image(self) -> Self:
        if self.object_size & (self.object_size - 1):
            raise ValueError("object_size: expected a power of two, such as 4m")
        for feature in self.features:
            if (needed := _NEEDS.get(feature)) and needed not in self.features:
                raise ValueError(f"features: {feature} needs {needed}")
        return self

    @property
    def in_order(self) -> list[str]:
        """Features in the order of ``rbd info``."""
        return [f for f in _ORDER if f in self.features] + ["data-pool"] * bool(self.chunks)

    def known(self) -> Mapping[str, Any]:
        settings = (f"objects of {format_size(self.object_size)}", *self.settings, *self.in_order)
        return {
            **super().known(),
            "backend": f"Ceph RBD, {self.redundancy_text}",
            "volume_mode": "Block",
            "path_settings": ", ".join(settings),
        }


class Rbd(CephTransport[RbdSpec]):
    Spec: ClassVar[type[LaneSpec]] = RbdSpec
    kind = "rbd"
    driver: ClassVar[Mapping[str, str]] = {"driver": "rbd", "pool": "no", "image": "no", "conf": "missing"}

    @property
    def images(self) -> str:
        """Pool of the image's header."""
        return "rbd.headers" if self.spec.chunks else self.pool

    @property
    def image(self) -> str:
        """``pool/image``."""
        return f"{self.images}/{self.name}"

    @property
    def separate(self) -> str:
        """Option for a separate data pool, if that pool cannot hold the header."""
        return f" --data-pool {self.pool}" if self.spec.chunks else ""

    def steps(self) -> tuple[Step, ...]:
        headers = ""
        if self.spec.chunks:  # an image's header is key-value data, which erasure-coded pools cannot hold
            headers = f"""if ! rados lspools | grep -qxF {self.images}; then
  ceph osd pool create {self.images} 16 16 replicated --size {METADATA_COPIES}
  ceph osd pool application enable {self.images} rbd
fi > /dev/null 2>&1
"""
        return (self._make_pool(f"ceph osd pool application enable {self.pool} rbd", headers), self._make_image())

    def _make_image(self) -> Step:
        spec, size = self.spec, self.site.size
        features = ",".join(spec.features) or "layering"
        return self._step(
            f"make the image of {self.name}",
            f"rbd create {self.image} --size {size}B --object-size {spec.object_size}B "
            f"--image-feature {features}{self.separate}\n",
            f"""
info=$(rbd info {self.image})
du=$(rbd du {self.image} --format json 2> /dev/null)
about() {{ printf '%s\\n' "$info" | sed -n "s/^[[:space:]]*$1:* //p"; }}
number() {{ printf '%s' "$du" | sed -n "s/.*\\"$1\\":\\([0-9]*\\).*/\\1/p"; }}
order=$(about order)
row image.name {self.image}
row image.bytes "$(number provisioned_size)"
row image.object_size $((1 << ${{order%% *}}))
row image.features "$(about features)"
pool=$(about data_pool)
row image.data_pool "${{pool:-{self.images}}}"
row medium.allocated_bytes "$(number used_size)"
""",
            f"rbd rm --no-progress {self.image}\n",
            expect={
                "image.bytes": str(size),
                "image.object_size": str(spec.object_size),
                "image.features": ", ".join(spec.in_order),
                "image.data_pool": self.pool,
            },
        )

    def backend(self) -> Mapping[str, Any]:
        """QEMU's rbd driver. It gives librbd no cache where the device has ``cache: none``, and librbd's own where it
        has ``writeback`` (block/rbd.c: ``rbd_cache``)."""
        return {"driver": "rbd", "pool": self.images, "image": self.name, "conf": f"{self.site.cluster}/ceph.conf",
                "user": "admin"}  # fmt: skip

    def path(self) -> tuple[str, ...]:
        return ("fio", "QEMU", "librbd", "TCP lo", "OSD", f"{self.spec.redundancy_text} on OSDs")


PLUGIN = Rbd
