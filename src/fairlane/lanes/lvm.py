"""LVM in the guest on top of iSCSI or NVMe/TCP: study 000's layout, a logical volume per disk.

The inner transport provides the physical volumes and their identity; the device guard checks each right before it is
written. Several stripes need as many physical volumes: the target divides the medium (device-mapper, linear) and
exports equal parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.lanes._iscsi_spec import IscsiSpec
from fairlane.lanes.base import NO_MEDIUM_KEPT, Ground, Step, Transport
from fairlane.lanes.iscsi import Iscsi
from fairlane.lanes.nvme_tcp import NvmeTcp, NvmeTcpSpec
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

_MIB = 2**20
_INNER: Mapping[str, type[Transport[Any]]] = {"iscsi": Iscsi, "nvme_tcp": NvmeTcp}
_POOL = 16
"""MiB of a thin pool's metadata; LVM reserves the same again."""
_EXTENT = 1
"""MiB of an extent, so that a volume has the requested size; LVM's default is 4."""
_FAR = 4096
"""Added to a site's index per further physical volume, for unique ports and serials."""


class LvmSpec(LaneSpec):
    """A logical volume (LVM2) in the guest, on iSCSI or NVMe/TCP."""

    transport: Literal["lvm"]
    """LVM in the guest over another transport."""
    over: Annotated[IscsiSpec | NvmeTcpSpec, Field(discriminator="transport")]
    """The transport that carries the physical volumes, with its own keys: {transport: nvme_tcp, queues: 2}."""
    stripes: int = Field(default=1, ge=1, le=8)
    """1: linear. More: striped over as many physical volumes, which are equal parts of one medium."""
    stripe_size: Size = 65536
    """Bytes written to one physical volume before the next."""
    thin: bool = False
    """A thin volume in a thin pool: space is allocated at the first write."""

    @model_validator(mode="after")
    def _inner(self) -> Self:
        if twice := (self.over.model_fields_set & set(LaneSpec.model_fields)) - {"transport"}:
            key = sorted(twice)[0]
            raise ValueError(f"over.{key}: belongs to the lane; move {key} out of over")
        if getattr(self.over, "external", None):
            raise ValueError("over.external: lvm needs media that Fairlane creates")
        if not 4096 <= self.stripe_size <= 2**30 or self.stripe_size & (self.stripe_size - 1):
            raise ValueError("stripe_size: expected a power of two from 4k to 1g")
        if "stripe_size" in self.model_fields_set and self.stripes == 1:
            raise ValueError("stripe_size: has no effect on a linear volume; set stripes: 2 or more")
        return self

    @property
    def multipath(self) -> Any:
        """The inner transport's multipath, for which the platform provides paths."""
        return getattr(self.over, "multipath", None)

    @property
    def layout(self) -> str:
        """Layout in words: ``thin, 2 stripes of 64k``."""
        striped = f"{self.stripes} stripes of {format_size(self.stripe_size)}" if self.stripes > 1 else "linear"
        return f"thin, {striped}" if self.thin else striped

    def known(self) -> Mapping[str, Any]:
        inner = dict(self.over.known())
        inner["path_settings"] = f"LVM ({self.layout}) over {self.over.transport}: {inner['path_settings']}"
        return {**inner, **super().known(), "provisioning": "thin" if self.thin else "thick"}


class Lvm(Transport[LvmSpec]):
    Spec = LvmSpec
    packages = ("lvm2", "thin-provisioning-tools", *Iscsi.packages, *NvmeTcp.packages)
    programs = ("pvcreate", "vgcreate", "lvcreate", *Iscsi.programs, *NvmeTcp.programs)
    modules = ("dm_mod", "dm_thin_pool", *Iscsi.modules, *NvmeTcp.modules)

    def problems(self, ground: Ground) -> Iterable[FairlaneError]:
        yield from self._inner().problems(ground)
        if not ground.keeps:
            yield self.problem(
                "medium-kept",
                "LVM stores its metadata on the volume, but the modelled medium discards writes",
                hint=NO_MEDIUM_KEPT,
            )

    def medium_size(self) -> int:
        """Room for LVM's tables (1 MiB of each physical volume), whole extents, and a thin pool's metadata twice."""
        each = -(-self.site.size // self.spec.stripes // _MIB // _EXTENT) * _EXTENT + 8 * _EXTENT
        pool = 2 * _POOL + 2 * _EXTENT if self.spec.thin else 0
        return self.spec.stripes * (each + pool) * _MIB

    def steps(self) -> tuple[Step, ...]:
        inner = [volume.steps() for volume in self._physical()]
        # steps on one machine are merged: one step of each volume in turn
        woven = [step for same in zip(*inner, strict=True) for step in same]
        divided = (self._divide(),) if self.spec.stripes > 1 else ()
        return (*divided, *woven, self._group(), self._volume())

    def _inner(self) -> Transport[Any]:
        """The inner transport for the lane's whole volume."""
        return _INNER[self.spec.over.transport](self.name, self.spec.over, self.site)

    def _physical(self) -> tuple[Transport[Any], ...]:
        """The inner transport of each physical volume."""
        if self.spec.stripes == 1:
            return (self._inner(),)
        return tuple(self._part(number) for number in range(self.spec.stripes))

    def _part(self, number: int) -> Transport[Any]:
        part = f"{self.name}-pv{number}"
        site = replace(self.site, index=self.site.index + number * _FAR, medium=f"/dev/mapper/fairlane-{part}")
        return replace(self._inner(), name=part, site=site)

    def _divide(self) -> Step:
        sectors = self.medium_size() // self.spec.stripes // 512
        parts = range(self.spec.stripes)
        name, medium = self.name, self.site.medium
        make = "\n".join(
            f"dmsetup create --noudevsync fairlane-{name}-pv{n} "
            f'--table "0 {sectors} linear $(readlink -f {medium}) {n * sectors}"\ndmsetup mknodes fairlane-{name}-pv{n}'
            for n in parts
        )
        return Step(
            name=f"divide the medium of {name}",
            place="target",
            apply=f"modprobe dm_mod\nguard_own {medium}\n{make}",
            describe=f'row target.parts "$(ls -d /dev/mapper/fairlane-{name}-pv* | wc -l)"',
            remove="\n".join(f"dmsetup remove --noudevsync fairlane-{name}-pv{n}" for n in reversed(parts)),
            expect={"target.parts": str(self.spec.stripes)},
        )

    def _devices(self) -> str:
        """Shell that sets ``$pvs`` to the inner devices, found by identity."""
        find_all = "\n".join(
            f'one=$({volume.find()})\n[ "$(echo "$one" | wc -w)" -eq 1 ] || '
            f'{{ echo "expected one device of {volume.name}, found: $one" >&2; exit 1; }}\npvs="$pvs $one"'
            for volume in self._physical()
        )
        return (
            f'pvs=\n{find_all}\nonly= # LVM looks at no other device\nfor d in $pvs; do only="$only --devices $d"; done'
        )

    @property
    def _group_name(self) -> str:
        """Name of the volume group: the device is /dev/fairlane-NAME/lv."""
        return f"fairlane-{self.name}"

    def _group(self) -> Step:
        group = self._group_name
        return Step(
            name=f"volume group of {self.name}",
            place="initiator",
            apply=f"""
{self._devices()}
for d in $pvs; do guard_own "$d"; done
vgcreate -q $only -s {_EXTENT}m {group} $pvs
""",
            describe=f"""
{self._devices()}
found=$(pvs $only --noheadings -o pv_name -S vg_name={group} | xargs -n 1 readlink -f | sort)
row lvm.physical_volumes "$(echo $found)"
row lvm.on_inner "$([ "$found" = "$(echo $pvs | xargs -n 1 readlink -f | sort)" ] && echo 1 || echo 0)"
""",
            remove=f"""
{self._devices()}
vgremove -q $only -f {group}
pvremove -q $only $pvs
""",
            expect={"lvm.on_inner": "1"},
        )

    def _volume(self) -> Step:
        spec, group = self.spec, self._group_name
        striped = f"-i {spec.stripes} -I {spec.stripe_size // 1024}k" if spec.stripes > 1 else ""
        size = -(-self.site.size // _MIB // spec.stripes) * spec.stripes
        if spec.thin:
            make = f"""
lvcreate -q -y $only --monitor n --type thin-pool -L {size}m {striped} --poolmetadatasize {_POOL}m -n pool {group}
lvcreate -q -y $only --monitor n --type thin -V {size}m --thinpool pool -n lv {group}
"""
        else:
            make = f"lvcreate -q -y $only -L {size}m {striped} -n lv {group}"
        segment = "thin" if spec.thin else "striped" if spec.stripes > 1 else "linear"
        data = "pool_tdata" if spec.thin else "lv"
        return Step(
            name=f"logical volume of {self.name}",
            place="initiator",
            apply=f"""
{self._devices()}
{make}
[ -b /dev/{group}/lv ] || vgmknodes $only {group}
await 1 '{{ {self.find()}; }} | wc -l'
""",
            describe=f"""
{self._devices()}
lvs $only -a --noheadings --nosuffix --units b --separator ' ' -S vg_name={group} \\
  -o lv_name,segtype,stripes,stripesize,lv_size,chunksize | tr -d '[]' > lvs
while read -r lv segment stripes stripe_size bytes chunk; do
  [ $lv != lv ] || row lvm.segment $segment
  [ $lv != lv ] || row lvm.bytes $bytes
  [ $lv != {data} ] || row lvm.stripes $stripes
  [ $lv != {data} ] || row lvm.stripe_size $stripe_size
  [ $lv != pool ] || row lvm.chunk $chunk
done < lvs
rm lvs
d=$({self.find()})
d=$(basename "$(readlink -f "$d")")
row lvm.uuid "$(cat /sys/block/$d/dm/uuid)"
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
""",
            remove=f"""
{self._devices()}
lvremove -q $only -f {group}/lv
""",
            expect={
                "lvm.segment": segment,
                "lvm.stripes": str(spec.stripes),
                "lvm.bytes": str(size * _MIB),
                **({"lvm.stripe_size": str(spec.stripe_size)} if spec.stripes > 1 else {}),
            },
        )

    def find(self) -> str:
        """The logical volume by its name in device-mapper, where names are unique, if LVM made it."""
        device, mapped = f"/dev/{self._group_name}/lv", f"{self._group_name.replace('-', '--')}-lv"
        return (
            f'for d in /sys/block/dm-*; do [ -e $d/dm/name ] && [ "$(cat $d/dm/name)" = {mapped} ] || continue; '
            f"case $(cat $d/dm/uuid) in LVM-*) [ -b {device} ] && echo {device} ;; esac; done; true"
        )

    def fault(self, kind: FaultKind, path: int) -> Step | None:
        """The inner transport's, of all physical volumes at once."""
        steps = [volume.fault(kind, path) for volume in self._physical()]
        usable = [step for step in steps if step]
        if not usable or len(usable) < len(steps):
            return None
        return replace(
            usable[0],
            apply="\n".join(f"( set -eu\n{s.apply}\n)" for s in usable),
            remove="\n".join(f"( set -eu\n{s.remove}\n)" for s in usable),
        )

    def path(self) -> tuple[str, ...]:
        return ("fio", f"LVM ({self.spec.layout})", *self._inner().path()[1:])


PLUGIN = Lvm
