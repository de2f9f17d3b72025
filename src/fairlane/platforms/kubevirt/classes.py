"""The storage classes and images of a cluster, for comparisons of storage classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError, nearest
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.preflight import Reader
from fairlane.platforms.kubevirt.readback import copies

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_OF_MACHINES = "storageclass.kubevirt.io/is-default-virt-class"
"""CDI takes the class with this annotation for virtual machines, before the cluster's default."""

Mode = tuple[str, str]
"""Volume mode and access mode: ``("Block", "ReadWriteOnce")``."""


@dataclass(frozen=True)
class StorageClass:
    """A storage class with CDI's StorageProfile of it."""

    name: str
    provisioner: str = ""
    binding: str = "Immediate"
    default: bool = False
    default_of_machines: bool = False
    modes: tuple[Mode, ...] = ()
    """Modes of the profile, the preferred first; empty: CDI does not know them."""
    copies: str = ""
    """Copies of the data by the class's parameters; empty: they do not state any."""

    @classmethod
    def of(cls, item: Mapping[str, Any], profile: Mapping[str, Any] | None) -> "StorageClass":
        """From the API's objects."""
        notes = item["metadata"].get("annotations") or {}
        sets = ((profile or {}).get("status") or {}).get("claimPropertySets") or []
        modes = [(str(s.get("volumeMode", "Filesystem")), str(access)) for s in sets for access in s["accessModes"]]
        return cls(
            str(item["metadata"]["name"]), plain(str(item.get("provisioner", ""))),
            str(item.get("volumeBindingMode") or "Immediate"), notes.get(_DEFAULT) == "true",
            notes.get(_DEFAULT_OF_MACHINES) == "true", tuple(modes), copies(item),
        )  # fmt: skip


@dataclass(frozen=True)
class Storage:
    """What a cluster has."""

    classes: Mapping[str, StorageClass] | None
    """By name; None: they may not be read."""
    images: tuple[str, ...] = ()
    """DataSources that are ready, ``NAMESPACE/NAME``, of the namespaces that may be read."""

    @property
    def default(self) -> str:
        """Class of volumes that name no class; empty: none, or not known."""
        every = [*(self.classes or {}).values()]
        chosen = [c.name for c in every if c.default_of_machines] or [c.name for c in every if c.default]
        return chosen[0] if chosen else ""


async def read(api: "Api") -> Storage:
    """Reads classes, profiles and DataSources. Raises ApiError if the cluster stops answering."""
    reader = Reader(api)
    items = await reader.list(kinds.STORAGE_CLASS)
    profiles = {str(p["metadata"]["name"]): p for p in await reader.list(kinds.STORAGE_PROFILE) or ()}
    every = [StorageClass.of(item, profiles.get(str(item["metadata"]["name"]))) for item in items or ()]
    sources = [
        f"{source['metadata']['namespace']}/{source['metadata']['name']}"
        for source in await reader.list(kinds.DATA_SOURCE) or ()
        if any(c.get("type") == "Ready" and c.get("status") == "True" for c in _conditions(source))
    ]
    return Storage(None if items is None else {one.name: one for one in every}, tuple(sorted(sources)))


def _conditions(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = (item.get("status") or {}).get("conditions") or []
    return found


def check(names: Sequence[str], storage: Storage) -> None:
    """Raises FairlaneError for ``names`` that are no storage classes of the cluster; lists those that are."""
    if storage.classes is None:
        return
    missing = [name for name in dict.fromkeys(names) if name not in storage.classes]
    if not missing:
        return
    listed = ", ".join(
        plain(name) + (" (default)" if name == storage.default else "") for name in sorted(storage.classes)
    )
    near = [plain(close) for name in missing if (close := nearest(name, storage.classes))]
    hint = f"the cluster has: {listed}" if listed else "install a CSI driver and create a storage class"
    if near:
        hint = f"did you mean {' and '.join(dict.fromkeys(near))}? {hint[0].upper()}{hint[1:]}"
    what = f"storage class {plain(missing[0])}" if len(missing) == 1 else (
        f"storage classes {', '.join(plain(name) for name in missing)}"
    )  # fmt: skip
    raise FairlaneError("storage-class-unknown", f"the cluster has no {what}", hint=hint)
