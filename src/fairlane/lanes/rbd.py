"""Ceph RBD: an image in a pool, opened by QEMU's rbd driver (librbd) on the hypervisor, or by a machine's kernel.

The kernel's client (krbd) is for existing images (``external``), not for the lab: see docs/ceph.md.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes import _living as living
from fairlane.lanes._ceph import METADATA_COPIES, CephExternal, CephSpec, CephTransport
from fairlane.lanes._external import Folder, Name, Option
from fairlane.lanes.base import Step
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

Feature = Literal["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling"]
_ORDER: tuple[Feature, ...] = ("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten", "journaling")
"""Features in the order of ``rbd info``."""
_NEEDS: Mapping[Feature, Feature] = {
    "object-map": "exclusive-lock", "fast-diff": "object-map", "journaling": "exclusive-lock",
}  # fmt: skip


class RbdExternal(CephExternal):
    """An existing image, mapped by the machine's kernel (``rbd map``)."""

    pool: Name
    """Pool of the image."""
    namespace: Name | None = None
    """Namespace in the pool."""
    image: Name
    """The image. It is written only if ``destroy`` is ``rbd:POOL/IMAGE``."""
    keyring: Folder | None = None
    """Keyring of the user, on the machine; default: as configured."""
    options: Annotated[tuple[Option, ...], Field(max_length=20)] = ()
    """Options of ``rbd map``, such as queue_depth=256 or ms_mode=secure."""

    @property
    def title(self) -> str:
        """The image as rbd takes it."""
        return "/".join(part for part in (self.pool, self.namespace, self.image) if part)


class RbdImageSpec(CephSpec):
    """Keys of an image that Fairlane makes. Derived classes add ``transport``."""

    features: tuple[Feature, ...] = ("layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten")
    """Image features; the default is Ceph's own."""
    object_size: Size = Field(default=4 * 1024**2, ge=4096, le=32 * 1024**2)
    """Size of the objects that the image is divided into."""

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


SpecT = TypeVar("SpecT", bound=RbdImageSpec)


class RbdSpec(RbdImageSpec):
    """Ceph RBD (librbd in QEMU, or krbd)."""

    transport: Literal["rbd"]
    """An RBD image."""
    external: RbdExternal | None = None
    """An existing image."""

    def known(self) -> Mapping[str, Any]:
        if self.external:
            return {
                **LaneSpec.known(self),
                **self.external.known(),
                "backend": f"external Ceph RBD {self.external.title}",
                "multipath": NONE,
                "volume_mode": "Block",
                "path_settings": ", ".join(("krbd", *self.external.options)),
            }
        return super().known()


class RbdImage(CephTransport[SpecT]):
    """An image in a pool of the lab's cluster."""

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


class Rbd(RbdImage[RbdSpec]):
    Spec: ClassVar[type[LaneSpec]] = RbdSpec
    living = True

    def steps(self) -> tuple[Step, ...]:
        return (self._map(self.spec.external),) if self.spec.external else super().steps()

    def path(self) -> tuple[str, ...]:
        if self.spec.external:
            return ("fio", "krbd", "TCP", f"external {self.spec.external.title}")
        return super().path()

    def _map(self, outside: RbdExternal) -> Step:
        """The image as a device of the machine's kernel, beside those that are mapped already."""
        note, run = f"$L/rbd-{self.title}", self.site.run
        keyring = f" --keyring {outside.keyring}" if outside.keyring else ""
        cluster = f"-c {outside.conf} --id {outside.user}{keyring}"
        options = f" -o {','.join(outside.options)}" if outside.options else ""
        used = f"""\
! rbd {cluster} status {outside.title} | grep -q watcher= ||
  fail '{outside.title} is in use elsewhere: rbd status shows a watcher'
"""
        return Step(
            name=f"map {outside.title} with krbd",
            place="initiator",
            session=True,
            apply=f"""
{living.head(run)}{living.modules("rbd")}command -v rbd > /dev/null || fail 'rbd is not installed (package ceph-common)'
d=$({self._mapped(outside)})
[ -z "$d" ] || fail "{outside.title} is already mapped ($d) outside this lane: use its device (transport: device)"
{used if self.spec.destroy else ""}: > {note}
rbd {cluster} map {outside.title}{options} > /dev/null
await 1 '{{ {self._mapped(outside)}; }} | wc -l'
""",
            describe=rf"""
d=$({self._mapped(outside)})
d=/sys/block/${{d#/dev/}}
row initiator.kind "krbd $(uname -r)"
for k in cluster_fsid pool pool_ns name image_id features client_addr config_info; do
  row rbd.$k "$(cat $d/device/$k 2> /dev/null | sed 's/,\(key\|secret\)=[^,]*//g')"
done
row block.nr_hw_queues "$(ls $d/mq | wc -l)"
for k in nr_requests max_sectors_kb scheduler; do row block.$k "$(cat $d/queue/$k)"; done
""",
            remove=f"""
{living.head(run)}if [ -e {note} ]; then
  for d in $({self._mapped(outside)}); do rbd unmap $d; done
fi
rm -f {note}
{living.tail(run)}""",
            expect={"rbd.pool": outside.pool, "rbd.name": outside.image},
        )

    @staticmethod
    def _mapped(outside: RbdExternal) -> str:
        """Shell that prints the image's device."""
        parts = {"pool": outside.pool, "pool_ns": outside.namespace or "", "name": outside.image}
        tests = " && ".join(f'[ "$(cat $b/device/{key} 2> /dev/null)" = "{value}" ]' for key, value in parts.items())
        return f"for b in /sys/block/rbd*; do if {tests}; then echo /dev/${{b##*/}}; fi; done"

    def find(self) -> str:
        return self._mapped(self.spec.external) if self.spec.external else super().find()


PLUGIN = Rbd
