"""LVM in the guest on top of iSCSI or NVMe/TCP: study 000's layout, a logical volume per disk.

The inner transport brings the physical volumes; they are found by its identity, and the guard looks at each of them
right before it is written. More than one stripe needs as many physical volumes: the medium is then divided on the
target (device-mapper, linear) and exported in equal parts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.errors import FairlaneError
from fairlane.lanes.base import Ground, Site, Step, Transport
from fairlane.lanes.iscsi import PLUGIN as ISCSI
from fairlane.lanes.iscsi import IscsiSpec
from fairlane.lanes.nvme_tcp import PLUGIN as NVME_TCP
from fairlane.lanes.nvme_tcp import NvmeTcpSpec
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec
from fairlane.units import Size, format_size

_MIB = 2**20
_INNER: Mapping[str, Transport[Any]] = {"iscsi": ISCSI, "nvme_tcp": NVME_TCP}
_POOL = 16
"""MiB of a thin pool's metadata; LVM keeps as much in reserve."""
_EXTENT = 1
"""MiB of an extent, so that a volume has the size asked for; LVM's default is 4."""
_FAR = 4096
"""Added to a site's index for each further physical volume, so that their ports and serials are their own."""


class LvmSpec(LaneSpec):
    """A logical volume (LVM2) in the guest, on iSCSI or NVMe/TCP."""

    transport: Literal["lvm"]
    """LVM in the guest over another transport."""
    over: Annotated[IscsiSpec | NvmeTcpSpec, Field(discriminator="transport")]
    """The transport that carries the physical volumes, with its own keys: {transport: nvme_tcp, queues: 2}."""
    stripes: int = Field(default=1, ge=1, le=8)
    """1: linear. More: striped over as many physical volumes, which are equal parts of one medium."""
    stripe_size: Size = 65536
    """Bytes in one physical volume before the next one's turn."""
    thin: bool = False
    """A thin volume in a thin pool: space comes with the first write."""

    @model_validator(mode="after")
    def _inner(self) -> Self:
        if twice := (self.over.model_fields_set & set(LaneSpec.model_fields)) - {"transport"}:
            key = sorted(twice)[0]
            raise ValueError(f"over.{key}: is the lane's own; put {key} beside over")
        if getattr(self.over, "external", None):
            raise ValueError("over.external: LVM is set up on media of our own only")
        if not 4096 <= self.stripe_size <= 2**30 or self.stripe_size & (self.stripe_size - 1):
            raise ValueError("stripe_size: expected a power of two from 4k to 1g")
        if "stripe_size" in self.model_fields_set and self.stripes == 1:
            raise ValueError("stripe_size: a linear volume has none; set stripes: 2 or more")
        return self

    @property
    def multipath(self) -> Any:
        """Of the inner transport: what the platform gives it paths for."""
        return getattr(self.over, "multipath", None)

    @property
    def layout(self) -> str:
        """For readers: ``thin, 2 stripes of 64k``."""
        striped = f"{self.stripes} stripes of {format_size(self.stripe_size)}" if self.stripes > 1 else "linear"
        return f"thin, {striped}" if self.thin else striped

    def known(self) -> Mapping[str, Any]:
        inner = dict(self.over.known())
        inner["path_settings"] = f"LVM ({self.layout}) over {self.over.transport}: {inner['path_settings']}"
        return {**inner, **super().known(), "provisioning": "thin" if self.thin else "thick"}


class Lvm(Transport[LvmSpec]):
    Spec = LvmSpec
    packages = ("lvm2", "thin-provisioning-tools", *ISCSI.packages, *NVME_TCP.packages)
    programs = ("pvcreate", "vgcreate", "lvcreate", *ISCSI.programs, *NVME_TCP.programs)
    modules = ("dm_mod", "dm_thin_pool", *ISCSI.modules, *NVME_TCP.modules)

    def problems(self, name: str, spec: LvmSpec, ground: Ground) -> list[FairlaneError]:
        found = list(_INNER[spec.over.transport].problems(name, spec.over, ground))
        if not ground.keeps:
            found.append(
                FairlaneError(
                    "LVM keeps its tables on the volume, and the modelled medium keeps nothing",
                    where=f"lanes.{name}.transport",
                    hint="set platform.medium.memory_backed: true with a size that fits, or platform.medium.file: true",
                )
            )
        return found

    def medium_size(self, spec: LvmSpec, size: int) -> int:
        """Room for LVM's tables (1 MiB of each physical volume), whole extents, and a thin pool's metadata twice."""
        each = -(-size // spec.stripes // _MIB // _EXTENT) * _EXTENT + 8 * _EXTENT
        pool = 2 * _POOL + 2 * _EXTENT if spec.thin else 0
        return spec.stripes * (each + pool) * _MIB

    def steps(self, name: str, spec: LvmSpec, site: Site) -> tuple[Step, ...]:
        parts = self._parts(name, spec, site)
        inner = [_INNER[spec.over.transport].steps(part, spec.over, at) for part, at in parts.items()]
        # what is on one machine goes together: a step of each part in turn
        woven = [step for same in zip(*inner, strict=True) for step in same]
        divided = (self._divide(name, spec, site),) if spec.stripes > 1 else ()
        return (*divided, *woven, self._group(name, spec, site), self._volume(name, spec, site))

    def _parts(self, name: str, spec: LvmSpec, site: Site) -> dict[str, Site]:
        """Name and place of each physical volume."""
        if spec.stripes == 1:
            return {name: site}
        return {
            f"{name}-pv{n}": replace(site, index=site.index + n * _FAR, medium=f"/dev/mapper/fairlane-{name}-pv{n}")
            for n in range(spec.stripes)
        }

    def _divide(self, name: str, spec: LvmSpec, site: Site) -> Step:
        sectors = self.medium_size(spec, site.size) // spec.stripes // 512
        parts = range(spec.stripes)
        medium = site.medium
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
            expect={"target.parts": str(spec.stripes)},
        )

    def _devices(self, name: str, spec: LvmSpec, site: Site) -> str:
        """Shell that sets ``$pvs`` to the inner devices, each found by its identity."""
        inner = _INNER[spec.over.transport]
        finds = "\n".join(
            f'one=$({inner.find(part, spec.over, at)})\n[ "$(echo "$one" | wc -w)" -eq 1 ] || '
            f'{{ echo "expected one device of {part}, found: $one" >&2; exit 1; }}\npvs="$pvs $one"'
            for part, at in self._parts(name, spec, site).items()
        )
        return f'pvs=\n{finds}\nonly= # LVM looks at no other device\nfor d in $pvs; do only="$only --devices $d"; done'

    def _group(self, name: str, spec: LvmSpec, site: Site) -> Step:
        group = _vg(name)
        return Step(
            name=f"volume group of {name}",
            place="initiator",
            apply=f"""
{self._devices(name, spec, site)}
for d in $pvs; do guard_own "$d"; done
vgcreate -q $only -s {_EXTENT}m {group} $pvs
""",
            describe=f"""
{self._devices(name, spec, site)}
found=$(pvs $only --noheadings -o pv_name -S vg_name={group} | xargs -n 1 readlink -f | sort)
row lvm.physical_volumes "$(echo $found)"
row lvm.on_inner "$([ "$found" = "$(echo $pvs | xargs -n 1 readlink -f | sort)" ] && echo 1 || echo 0)"
""",
            remove=f"""
{self._devices(name, spec, site)}
vgremove -q $only -f {group}
pvremove -q $only $pvs
""",
            expect={"lvm.on_inner": "1"},
        )

    def _volume(self, name: str, spec: LvmSpec, site: Site) -> Step:
        group = _vg(name)
        striped = f"-i {spec.stripes} -I {spec.stripe_size // 1024}k" if spec.stripes > 1 else ""
        size = -(-site.size // _MIB // spec.stripes) * spec.stripes
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
            name=f"logical volume of {name}",
            place="initiator",
            apply=f"""
{self._devices(name, spec, site)}
{make}
[ -b /dev/{group}/lv ] || vgmknodes $only {group}
await 1 '{{ {self.find(name, spec, site)}; }} | wc -l'
""",
            describe=f"""
{self._devices(name, spec, site)}
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
d=$({self.find(name, spec, site)})
d=$(basename "$(readlink -f "$d")")
row lvm.uuid "$(cat /sys/block/$d/dm/uuid)"
row block.scheduler "$(cat /sys/block/$d/queue/scheduler)"
row block.max_sectors_kb "$(cat /sys/block/$d/queue/max_sectors_kb)"
""",
            remove=f"""
{self._devices(name, spec, site)}
lvremove -q $only -f {group}/lv
""",
            expect={
                "lvm.segment": segment,
                "lvm.stripes": str(spec.stripes),
                "lvm.bytes": str(size * _MIB),
                **({"lvm.stripe_size": str(spec.stripe_size)} if spec.stripes > 1 else {}),
            },
        )

    def find(self, name: str, spec: LvmSpec, site: Site) -> str:  # noqa: ARG002
        """The logical volume by its name in device-mapper, where names are unique, if LVM made it."""
        mapped = f"{_vg(name).replace('-', '--')}-lv"
        return (
            f'for d in /sys/block/dm-*; do [ -e $d/dm/name ] && [ "$(cat $d/dm/name)" = {mapped} ] || continue; '
            f"case $(cat $d/dm/uuid) in LVM-*) [ -b /dev/{_vg(name)}/lv ] && echo /dev/{_vg(name)}/lv ;; esac; "
            "done; true"
        )

    def fault(self, kind: FaultKind, path: int, name: str, spec: LvmSpec, site: Site) -> Step | None:
        """The inner transport's, of all physical volumes at once."""
        inner = _INNER[spec.over.transport]
        steps = [inner.fault(kind, path, part, spec.over, at) for part, at in self._parts(name, spec, site).items()]
        found = [step for step in steps if step]
        if not found or len(found) < len(steps):
            return None
        return replace(
            found[0],
            apply="\n".join(f"( set -eu\n{s.apply}\n)" for s in found),
            remove="\n".join(f"( set -eu\n{s.remove}\n)" for s in found),
        )

    def path(self, name: str, spec: LvmSpec, site: Site) -> tuple[str, ...]:
        inner = _INNER[spec.over.transport].path(name, spec.over, site)
        return ("fio", f"LVM ({spec.layout})", *inner[1:])


def _vg(name: str) -> str:
    """Name of the volume group: the device is /dev/fairlane-NAME/lv."""
    return f"fairlane-{name}"


PLUGIN = Lvm()
