"""Ceph RBD: an image in a replicated or erasure-coded pool, opened by QEMU's rbd driver (librbd) on the hypervisor.

The kernel's client (krbd), in guest or hypervisor, is not offered: see docs/ceph.md.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fairlane.lanes import _ceph as ceph
from fairlane.lanes._ceph import CephSpec, CephTransport
from fairlane.lanes.base import Site, Step
from fairlane.units import Size, format_size

Feature = Literal["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling"]
_ORDER: tuple[Feature, ...] = ("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling")
"""As ``rbd info`` tells them."""
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
        """Features as ``rbd info`` tells them."""
        return [f for f in _ORDER if f in self.features] + ["data-pool"] * bool(self.chunks)

    def known(self) -> Mapping[str, Any]:
        settings = (f"objects of {format_size(self.object_size)}", *self.settings, *self.in_order)
        return {
            **super().known(),
            "backend": f"Ceph RBD, {self.told}",
            "volume_mode": "Block",
            "path_settings": ", ".join(settings),
        }


class Rbd(CephTransport[RbdSpec]):
    Spec = RbdSpec
    cluster = "ceph"
    driver: ClassVar[Mapping[str, str]] = {"driver": "rbd", "pool": "no", "image": "no", "conf": "missing"}

    def steps(self, name: str, spec: RbdSpec, site: Site) -> tuple[Step, ...]:
        data, images = spec.pool("rbd"), _images(spec)
        make = ceph.make_pool(spec, data, f"ceph osd pool application enable {data} rbd")
        if spec.chunks:  # an image's header is key-value data, which no erasure-coded pool holds
            make += f"""if ! rados lspools | grep -qxF {images}; then
  ceph osd pool create {images} 16 16 replicated --size {ceph.METADATA_COPIES}
  ceph osd pool application enable {images} rbd
fi > /dev/null 2>&1
"""
        separate = f" --data-pool {data}" if spec.chunks else ""
        pool = Step(
            name=f"make the pool of {name}",
            place="hypervisor",
            apply=ceph.use(site) + make,
            describe=ceph.use(site) + ceph.describe_pool(spec, data),
            expect=ceph.expected_pool(spec),
        )
        return (pool, self._image(name, spec, site, separate))

    def _image(self, name: str, spec: RbdSpec, site: Site, separate: str) -> Step:
        image = f"{_images(spec)}/{name}"
        features = ",".join(spec.features) or "layering"
        expect = {
            "image.bytes": str(site.size),
            "image.object_size": str(spec.object_size),
            "image.features": ", ".join(spec.in_order),
            "image.data_pool": spec.pool("rbd"),
        }
        return Step(
            name=f"make the image of {name}",
            place="hypervisor",
            apply=ceph.use(site)
            + f"rbd create {image} --size {site.size}B --object-size {spec.object_size}B "
            + f"--image-feature {features}{separate}\n",
            describe=ceph.use(site)
            + f"""
info=$(rbd info {image})
du=$(rbd du {image} --format json 2> /dev/null)
about() {{ printf '%s\\n' "$info" | sed -n "s/^[[:space:]]*$1:* //p"; }}
number() {{ printf '%s' "$du" | sed -n "s/.*\\"$1\\":\\([0-9]*\\).*/\\1/p"; }}
order=$(about order)
row image.name {image}
row image.bytes "$(number provisioned_size)"
row image.object_size $((1 << ${{order%% *}}))
row image.features "$(about features)"
pool=$(about data_pool)
row image.data_pool "${{pool:-{_images(spec)}}}"
row medium.allocated_bytes "$(number used_size)"
""",
            remove=ceph.use(site) + f"rbd rm --no-progress {image}\n",
            expect=expect,
        )

    def backend(self, name: str, spec: RbdSpec, site: Site) -> Mapping[str, Any]:
        """QEMU's rbd driver. It gives librbd no cache where the device has ``cache: none``, and librbd's own where it
        has ``writeback`` (block/rbd.c: ``rbd_cache``)."""
        return {"driver": "rbd", "pool": _images(spec), "image": name, "conf": f"{site.cluster}/ceph.conf",
                "user": "admin"}  # fmt: skip

    def path(self, name: str, spec: RbdSpec, site: Site) -> tuple[str, ...]:  # noqa: ARG002
        return ("fio", "QEMU", "librbd", "TCP lo", "OSD", f"{spec.told} on OSDs")


def _images(spec: RbdSpec) -> str:
    """The pool in which the image is looked up."""
    return "rbd.headers" if spec.chunks else spec.pool("rbd")


PLUGIN = Rbd()
