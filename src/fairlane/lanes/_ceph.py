"""Shared by transports on Ceph: the requested redundancy, and pools that are created and read back.

Steps run on the hypervisor, with the cluster's configuration from ``Site.cluster``. A pool's name contains all its
settings, so that lanes with equal settings share it, as storage classes do.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes._external import Folder, Name
from fairlane.lanes.base import Backing, Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.study.strict import Strict

METADATA_COPIES = 3
"""Copies of the replicated pool beside an erasure-coded one; it holds omap data such as RBD's headers."""


def _redundancy(value: Any) -> int | str:
    text = str(value)
    if re.fullmatch(r"[2-9]", text):
        return int(text)
    if re.fullmatch(r"[2-9]\+[1-4]", text):
        return text
    raise ValueError("expected the number of copies (2, 3), or data+coding chunks in quotes ('2+1')")


Redundancy = Annotated[
    int | str,
    AfterValidator(_redundancy),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 2, "maximum": 9},
                              {"type": "string", "pattern": r"^[2-9](\+[1-4])?$"}]}),
]  # fmt: skip


class CephExternal(Strict):
    """An existing cluster, whose client is configured on the machine. Derived classes add the image or
    file system."""

    conf: Folder = "/etc/ceph/ceph.conf"
    """The cluster's configuration, on the machine."""
    user: Name = "admin"
    """Name of the client, without ``client.``; its key is on the machine."""

    def known(self) -> dict[str, Any]:
        """Parameters (see ``guard.parameters``): ``conditions`` may state those of the cluster and its links."""
        unknown = ("copies", "write_ack", "flush", "link_speed", "link_delay", "mtu", "provisioning", "disk_size")
        return dict.fromkeys(unknown)


class CephSpec(LaneSpec):
    """A lane on Ceph. The hypervisor is the client, and the guest sees a ``device``; or the machine's kernel is, of a
    cluster that existed before the run (``external``)."""

    redundancy: Redundancy = 3
    """Copies of a replicated pool: 2, 3; or data+coding chunks of an erasure-coded one: '2+1'."""
    pgs: int = Field(default=32, ge=1, le=1024)
    """Placement groups of the pool."""
    initiators = ("hypervisor",)

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if outside := getattr(self, "external", None):
            known = {"external", *LaneSpec.model_fields, *type(outside).model_fields}
            if others := sorted(self.model_fields_set - known):
                raise ValueError(f"{others[0]}: an external cluster sets it itself; remove {others[0]}")
            if self.device:
                raise ValueError("device: with an external cluster the machine's kernel is the client; remove device")
            object.__setattr__(self, "initiator", "guest")  # the model is frozen
        if self.pgs & (self.pgs - 1):
            raise ValueError("pgs: expected a power of two, such as 32")
        return self

    @property
    def chunks(self) -> tuple[int, int] | None:
        """Data and coding chunks; None: replicated."""
        if isinstance(self.redundancy, int):
            return None
        data, coding = self.redundancy.split("+")
        return int(data), int(coding)

    @property
    def width(self) -> int:
        """OSDs that hold a piece of an object: the pool's ``size``."""
        return self.redundancy if isinstance(self.redundancy, int) else sum(self.chunks or ())

    @property
    def overhead(self) -> float:
        """Bytes stored for each byte written."""
        return self.width / self.chunks[0] if self.chunks else float(self.width)

    @property
    def redundancy_text(self) -> str:
        """Redundancy in words."""
        return f"erasure-coded {self.redundancy}" if self.chunks else f"{self.redundancy} copies"

    def pool(self, kind: str) -> str:
        """Name of the lane's pool; ``kind``: its purpose."""
        return f"{kind}.{self.redundancy}.pg{self.pgs}"

    def known(self) -> Mapping[str, Any]:
        missing = ("multipath", "link_speed", "link_delay", "mtu")
        return {
            **super().known(),
            "copies": self.redundancy,
            "write_ack": "when every copy or chunk is committed",
            "flush": "honoured",
            "provisioning": "thin",
            **dict.fromkeys(missing, NONE),
        }

    @property
    def settings(self) -> tuple[str, ...]:
        """Pool settings besides the redundancy, for ``path_settings``."""
        return (f"{self.pgs} PGs",)


SpecT = TypeVar("SpecT", bound=CephSpec)


class CephTransport(Transport[SpecT]):
    """Base of transports on Ceph: the target is a cluster, and the guest sees the hypervisor's device."""

    backing: ClassVar[Backing] = "ceph"
    kind: ClassVar[str]
    """Purpose of its pools, part of their names."""

    @property
    def pool(self) -> str:
        """Name of the pool that holds the lane's data."""
        return self.spec.pool(self.kind)

    def find(self) -> str:
        """Empty: the guest has no initiator and finds its device by serial."""
        return ":"

    def medium_size(self) -> int:
        """Bytes with all copies or chunks."""
        return math.ceil(self.site.size * self.spec.overhead)

    def _step(
        self, name: str, apply: str, describe: str = "", remove: str = "", expect: Mapping[str, str] = {}
    ) -> Step:
        """A step whose ``ceph``, ``rados`` and ``rbd`` use this cluster, never the user's."""
        use = f"unset CEPH_ARGS CEPH_KEYRING; export CEPH_CONF={self.site.cluster}/ceph.conf\n"
        apply, describe, remove = (use + text if text else "" for text in (apply, describe, remove))
        return Step(name, "hypervisor", apply, describe, remove, expect)

    def _make_pool(self, application: str, more: str = "") -> Step:
        """Shell that creates a missing pool, then runs ``more``. The failure domain is the OSD."""
        spec, pool = self.spec, self.pool
        if spec.chunks:
            data, coding = spec.chunks
            profile = f"fairlane-{data}-{coding}"
            text = f"""
  ceph osd erasure-code-profile set {profile} k={data} m={coding} crush-failure-domain=osd
  ceph osd pool create {pool} {spec.pgs} {spec.pgs} erasure {profile}
  ceph osd pool set {pool} allow_ec_overwrites true"""
        else:
            text = f"""
  ceph osd pool create {pool} {spec.pgs} {spec.pgs} replicated --size {spec.width}"""
        return self._step(
            f"make the pool of {self.name}",
            f"""if ! rados lspools | grep -qxF {pool}; then{text}
  {application}
fi > /dev/null 2> pool.err || {{ cat pool.err >&2; exit 1; }}
{more}""",
            self._describe_pool(),
            expect=self._expected_pool(),
        )

    def _describe_pool(self) -> str:
        """Shell that describes the pool; waits up to 60 s until every placement group is complete."""
        coding = """
row pool.erasure_code "$(ceph osd erasure-code-profile get "$(told erasure_code_profile)" |
  grep -E '^(k|m|plugin|technique|crush-failure-domain)=' | tr '\\n' ' ')"
row pool.ec_overwrites "$(told allow_ec_overwrites)"
"""
        return f"""
told() {{ printf '%s\\n' "$pool" | sed -n "s/^$1: //p"; }}
pool=$(ceph osd pool get {self.pool} all)
row pool.name {self.pool}
row pool.size "$(told size)"
row pool.min_size "$(told min_size)"
row pool.crush_rule "$(told crush_rule)"
row pool.pg_num "$(told pg_num)"
i=0; states=
until [ "$states" = "active+clean " ] || [ $i -ge 30 ]; do
  [ $i -eq 0 ] || sleep 2
  i=$((i + 1))
  states=$(ceph pg ls-by-pool {self.pool} | grep -oE '(active|peer|creating|unknown|stale|down|incomplete)[a-z+_]*' |
    sort -u | tr '\\n' ' ')
done
row pool.pg_states "${{states% }}"
{coding if self.spec.chunks else ""}"""

    def _expected_pool(self) -> dict[str, str]:
        spec = self.spec
        rows = {
            "pool.size": str(spec.width),
            "pool.pg_num": str(spec.pgs),
            "pool.pg_states": "active+clean",
        }
        if spec.chunks:
            data, coding = spec.chunks
            code = f"crush-failure-domain=osd k={data} m={coding} plugin=jerasure technique=reed_sol_van "
            rows |= {"pool.erasure_code": code, "pool.ec_overwrites": "true"}
        return rows
