"""Whether the storage classes of a study's lanes are there, and can give the volumes that it asks for."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlane.errors import nearest
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import capacity, kinds
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.cached_reader import Reading

if TYPE_CHECKING:
    from fairlane.study.spec import Study

Object = Mapping[str, Any]

_BY_HAND = "kubernetes.io/no-provisioner"
_LATE = "WaitForFirstConsumer"


async def examine(see: Reading, study: "Study | None") -> list[Line]:
    """A line for each class that ``study`` uses; without one, all classes in one line."""
    found = await see.list(kinds.STORAGE_CLASS)
    if found is None:
        return [Line("storage classes", "warn", "may not be read")]
    classes = {str(one["metadata"]["name"]): one for one in found}
    if study is None:
        listed = ", ".join(_brief(one) for one in classes.values())
        if not listed:
            return [
                Line("storage classes", "missing", "there is none", "install a CSI driver and make a storage class")
            ]
        return [Line("storage classes", "ok", plain(listed))]
    wanted = capacity.demand(study)
    used = {name: classes[name] for name in wanted.claims if name in classes}
    lines = [_class(name, classes, wanted) for name in wanted.claims]
    lines += await _profiles(see, study, used)
    lines += await _drivers(see, used)
    lines += await _room(see, wanted, used)
    if any(workload.kind == "clone" for workload in study.workloads.values()):
        lines += await _clones(see, study, used)
    return lines


def _brief(one: Object) -> str:
    return f"{one['metadata']['name']} ({one.get('provisioner', '?')})"


def _class(name: str, classes: Mapping[str, Object], wanted: capacity.Demand) -> Line:
    title, one = f"storage class {name}", classes.get(name)
    if one is None:
        near = nearest(name, classes)
        listed = plain(", ".join(sorted(classes)) or "none")
        fix = f"did you mean {plain(near)}?" if near else f"the cluster has: {listed}"
        return Line(title, "missing", "there is none of this name", fix)
    binding = str(one.get("volumeBindingMode") or "Immediate")
    count = wanted.claims[name]
    need = f"{count} claim{'s' * (count > 1)}, {capacity.sized(wanted.storage[name])}"
    told = plain(f"{one.get('provisioner', '?')}, {binding}; for {need}")
    if one.get("provisioner") == _BY_HAND:
        fix = "have that many volumes ready, or take a class whose driver provisions"
        return Line(title, "warn", f"{told}: nothing is provisioned, volumes have to be there", fix)
    return Line(title, "ok", told)


async def _profiles(see: Reading, study: "Study", used: Mapping[str, Object]) -> list[Line]:
    """What CDI knows of the classes: lanes name access and volume mode themselves, so that a profile only advises."""
    found = await see.list(kinds.STORAGE_PROFILE)
    if found is None:
        return []
    profiles = {str(one["metadata"]["name"]): one for one in found}
    lines = []
    for lane_name, lane in study.lanes.items():
        name = getattr(lane, "storage_class", "")
        if name not in used:
            continue
        title, mine = f"storage profile {name}", profiles.get(name)
        sets = ((mine or {}).get("status") or {}).get("claimPropertySets") or []
        mode, access = getattr(lane, "volume_mode", ""), getattr(lane, "access_mode", "")
        if not sets:
            told = "CDI does not know what this class can do" if mine else "CDI has none for this class"
            fix = f"kubectl edit storageprofile {name}: claimPropertySets, as the driver's manual says"
            lines.append(Line(title, "warn", told, fix))
        elif not any(
            one.get("volumeMode", "Filesystem") == mode and access in one.get("accessModes", ()) for one in sets
        ):
            offers = "; ".join(
                f"{one.get('volumeMode', 'Filesystem')} {'/'.join(one.get('accessModes', ()))}" for one in sets
            )
            told = f"lane {lane_name} wants {mode} {access}; the profile has {offers}"
            lines.append(Line(title, "warn", plain(told), "volume_mode or access_mode of the lane, or the profile"))
    return list(dict.fromkeys(lines))


async def _drivers(see: Reading, used: Mapping[str, Object]) -> list[Line]:
    found = await see.list(kinds.CSI_DRIVER)
    if found is None:
        return []
    there = {str(one["metadata"]["name"]) for one in found}
    wanted = {str(one.get("provisioner")): name for name, one in used.items() if one.get("provisioner") != _BY_HAND}
    return [
        Line(f"storage class {name}", "warn", f"no CSI driver {plain(driver)} is registered", "is it running?")
        for driver, name in wanted.items()
        if driver not in there and not driver.startswith("kubernetes.io/")
    ]


async def _room(see: Reading, wanted: capacity.Demand, used: Mapping[str, Object]) -> list[Line]:
    """Where drivers tell what is free (CSIStorageCapacity), and it may be read."""
    told = await see.list(kinds.CSI_CAPACITY)
    free: Counter[str] = Counter()
    for one in told or ():
        if one.get("capacity"):
            free[str(one.get("storageClassName"))] += int(capacity.quantity(one["capacity"]))
    return [
        Line(
            f"storage class {name}",
            "warn",
            f"the driver tells of {capacity.sized(free[name])} free, {capacity.sized(wanted.storage[name])} are needed",
            "thin volumes may still fit; else fewer machines or smaller disks",
        )
        for name in used
        if name in free and free[name] < wanted.storage[name]
    ]


# --- clone storms


async def _clones(see: Reading, study: "Study", used: Mapping[str, Object]) -> list[Line]:
    """How each lane's volumes would be cloned: what the study says, or what CDI would choose, which is told."""
    snapshots = await see.list(kinds.SNAPSHOT_CLASS)
    profiles = {str(one["metadata"]["name"]): one for one in await see.list(kinds.STORAGE_PROFILE) or ()}
    ways: dict[str, str] = {}
    lines = []
    for lane_name, lane in study.lanes.items():
        name = getattr(lane, "storage_class", "")
        if name not in used:
            continue
        driver = used[name].get("provisioner")
        by_profile = ((profiles.get(name) or {}).get("status") or {}).get("cloneStrategy")
        ways[lane_name] = str(getattr(lane, "clone", None) or by_profile or "not said")
        takes = snapshots is None or any(one.get("driver") == driver for one in snapshots)
        if ways[lane_name] == "snapshot" and not takes:
            told = plain(f"lane {lane_name} clones from snapshots, and no VolumeSnapshotClass is of {driver}")
            lines.append(Line("snapshots", "missing", told, "make a VolumeSnapshotClass of it, or clone: copy"))
    listed = plain(", ".join(f"{lane}: {way}" for lane, way in ways.items()))
    mixed = len(set(ways.values())) > 1
    if mixed and "provisioning" in study.design.vary:
        lines.append(Line("clones", "ok", f"lanes clone in different ways, which is the question: {listed}"))
    elif mixed:
        fix = "clone: in every lane, the same; or, if that is the question, design: { vary: [provisioning] }"
        lines.append(Line("clones", "warn", f"lanes clone in different ways: {listed}", fix))
    elif any(getattr(study.lanes[lane], "clone", None) is None for lane in ways):
        fix = "clone: csi-clone, snapshot or copy, in each lane"
        lines.append(Line("clones", "warn", f"left to CDI: {listed}", fix))
    elif ways:
        lines.append(Line("clones", "ok", listed))
    modes = {name: str(one.get("volumeBindingMode") or "Immediate") for name, one in used.items()}
    if len(set(modes.values())) > 1:
        told = plain(f"classes bind at different moments: {', '.join(f'{n}: {mode}' for n, mode in modes.items())}")
        lines.append(Line("binding", "warn", told, "one volumeBindingMode for all lanes of a storm"))
    elif _LATE in modes.values():
        lines.append(Line("binding", "ok", f"{_LATE}: a volume is made once its machine is scheduled"))
    return lines
