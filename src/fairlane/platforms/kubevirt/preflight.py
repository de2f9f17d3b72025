"""Check a cluster for a study before anything is created, from objects and the caller's permissions. Each line has its
fix. Quotas, limits and small nodes are not predicted: the run ends with the cluster's reason."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError, RunFailed, nearest
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import kinds, permissions, placement
from fairlane.platforms.kubevirt.api_errors import ApiError, plain
from fairlane.platforms.kubevirt.kinds import Kind
from fairlane.platforms.kubevirt.manifests import Manifests
from fairlane.platforms.kubevirt.readback import quantity

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.study.spec import Study

Object = Mapping[str, Any]

EXTRA = "pip install 'fairlane[kubevirt]'; in a checkout: uv sync --extra kubevirt"
PATIENCE = 10.0
TRY = "`kubectl version` must show the server's version"
_POOL = b'"supplementalPoolThreadCount"'
_BY_HAND = "kubernetes.io/no-provisioner"
_LATE = "WaitForFirstConsumer"
_NOT_FOR_US = (403, 404, 405)


class Reader:
    """Reads objects that may be missing or unreadable, which is no error; reads each list once."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._lists: dict[tuple[Kind, str], list[dict[str, Any]] | None] = {}
        self._refused: set[tuple[Kind, str]] = set()
        self._groups: dict[str, frozenset[str] | None] = {}

    async def served(self, kind: Kind) -> bool:
        """Whether the cluster has this kind at all, which everybody may read."""
        group = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if group not in self._groups:
            try:
                resources = (await self._api.call("GET", group)).get("resources") or []
                self._groups[group] = frozenset(resource["name"] for resource in resources)
            except ApiError as error:
                if error.status not in _NOT_FOR_US:
                    raise
                self._groups[group] = None
        return kind.plural in (self._groups[group] or ())

    async def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]] | None:
        """All objects of a kind; None: not readable, or the cluster lacks the kind."""
        key = (kind, namespace)
        if key not in self._lists:
            try:
                self._lists[key] = await self._api.list(kind, namespace)
            except ApiError as error:
                if error.status not in _NOT_FOR_US:
                    raise
                self._lists[key] = None
        return self._lists[key]

    async def get(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any] | None:
        """An object; None: missing, or not readable (then ``refused``)."""
        try:
            return await self._api.get(kind, name, namespace)
        except ApiError as error:
            if error.status not in _NOT_FOR_US:
                raise
            self._refused.add((kind, namespace))
            return None

    async def missing(self, kind: Kind, name: str) -> bool:
        """Whether an object without a namespace certainly does not exist."""
        return await self.get(kind, name) is None and not self.refused(kind)

    def refused(self, kind: Kind, namespace: str = "") -> bool:
        """Whether a ``get`` was forbidden, rather than the object missing."""
        return (kind, namespace) in self._refused


async def look(study: "Study | None", *, context: str = "", namespace: str = "") -> list[Line]:
    """All lines about the cluster of ``context`` (the study's, if there is one): a missing client, an invalid
    kubeconfig and a silent server are lines too. Never raises FairlaneError."""
    try:
        import kubernetes.aio  # noqa: F401, PLC0415 - the optional extra
    except ImportError:
        return [Line("client", "missing", "the Python package kubernetes is not installed", EXTRA)]
    from fairlane.platforms.kubevirt.api import Api  # noqa: PLC0415 - needs the extra

    context = context or str(getattr(study.platform, "context", "")) if study else context
    try:
        async with await Api.connect(context, patience=PATIENCE) as api:
            return await examine(api, study, namespace=namespace)
    except FairlaneError as error:
        return [Line("cluster", "missing", str(error), error.hint or TRY)]


def problems(lines: Sequence[Line]) -> list[FairlaneError]:
    """Problems that prevent a run, as errors."""
    return [
        FairlaneError("cluster-unfit", f"{line.name}: {line.found}", hint=line.fix)
        for line in lines
        if line.state == "missing"
    ]


async def examine(api: "Api", study: "Study | None", *, namespace: str = "") -> list[Line]:
    """Lines about the cluster behind ``api`` for ``study``; without one, for any study. ``namespace`` overrides the
    study's. Raises ApiError if the cluster stops answering; unreadable objects are lines."""
    reader = Reader(api)
    user = await _user(api)
    lines = [await _server(api, user), *await permissions.examine(api, study, namespace, user)]
    kubevirt = await _kubevirt(reader)
    lines += [*kubevirt, *await _cdi(reader)]
    if kubevirt[0].state == "missing":
        return lines
    lines += await _storage(reader, study)
    if study is not None:
        lines += [*await _lanes(api, study), await _nodes(reader, study), await _image(reader, study)]
    return lines


async def _user(api: "Api") -> str:
    """The caller's name in the cluster; empty before Kubernetes 1.28, which cannot tell."""
    try:
        answer = await api.create(kinds.WHO_AM_I, {})
    except ApiError as error:
        if error.status not in (403, 404):
            raise
        return ""
    return plain(str(answer["status"]["userInfo"].get("username", "")))


async def _server(api: "Api", user: str) -> Line:
    begun = time.monotonic()
    version = (await api.call("GET", "/version")).get("gitVersion", "?")
    took = (time.monotonic() - begun) * 1000
    where = "from within the cluster" if api.in_cluster else api.server
    who = f", as {user}" if user else ""
    return Line("API server", "ok", plain(f"Kubernetes {version}, {where}{who}; answers in {took:.0f} ms"))


# --- KubeVirt, CDI


async def _kubevirt(reader: Reader) -> list[Line]:
    if not await reader.served(kinds.VM):
        return [Line("KubeVirt", "missing", "this cluster has no kubevirt.io/v1", _INSTALL)]
    objects = await reader.list(kinds.KUBEVIRT)
    if not objects:
        text = "installed; its version is not readable" if objects is None else "its API exists, but no KubeVirt object"
        return [Line("KubeVirt", "warn", text, "" if objects is None else _INSTALL)]
    status, spec = objects[0].get("status") or {}, objects[0].get("spec") or {}
    version, phase = plain(str(status.get("observedKubeVirtVersion", "?"))), plain(str(status.get("phase", "?")))
    lines = [
        Line("KubeVirt", "ok", version)
        if phase == "Deployed"
        else Line(
            "KubeVirt",
            "warn",
            f"{version}, in phase {phase}",
            "wait for phase Deployed, or read the log of virt-operator",
        )
    ]
    if ((spec.get("configuration") or {}).get("developerConfiguration") or {}).get("useEmulation"):
        text = "KubeVirt emulates machines on nodes without KVM: their figures are the emulator's"
        lines.append(Line("emulation", "warn", text, "set useEmulation: false in the KubeVirt object"))
    openshift = await reader.get(_CLUSTER_VERSION, "version")
    if openshift:
        desired = (openshift.get("status") or {}).get("desired") or {}
        lines.append(Line("OpenShift", "ok", plain(str(desired.get("version", "?")))))
    return lines


_INSTALL = "install KubeVirt, or the operator OpenShift Virtualization, and wait until it is deployed"
_CLUSTER_VERSION = Kind("config.openshift.io", "v1", "clusterversions", "ClusterVersion", namespaced=False)


async def _cdi(reader: Reader) -> list[Line]:
    if not await reader.served(kinds.DATA_VOLUME):
        fix = "install the Containerized Data Importer; OpenShift Virtualization includes it"
        return [Line("CDI", "missing", "this cluster has no cdi.kubevirt.io/v1beta1", fix)]
    objects = await reader.list(kinds.CDI)
    if not objects:
        text = "installed; its version is not readable" if objects is None else "its API exists, but no CDI object"
        return [Line("CDI", "warn", text)]
    status = objects[0].get("status") or {}
    version, phase = plain(str(status.get("observedVersion", "?"))), plain(str(status.get("phase", "?")))
    if phase == "Deployed":
        return [Line("CDI", "ok", version)]
    return [
        Line("CDI", "warn", f"{version}, in phase {phase}", "wait for phase Deployed, or read the log of cdi-operator")
    ]


# --- lanes


async def _lanes(api: "Api", study: "Study") -> list[Line]:
    """Lanes of other platforms, and IO threads that this version of KubeVirt would not create as requested."""
    lanes = {name: lane for name, lane in study.lanes.items() if lane.transport == "storage_class"}
    lines = [
        Line(
            "lanes",
            "missing",
            f"{name}: platform kubevirt does not support transport {lane.transport}",
            "transport: storage_class",
        )
        for name, lane in study.lanes.items()
        if name not in lanes
    ]
    pools = [name for name, lane in lanes.items() if getattr(lane, "io_threads", None)]
    if pools and await _unknown(api, _POOL):
        fix = "use a KubeVirt with kubevirt/kubevirt#13110, or io_threads_policy: auto"
        lines.append(Line("IO threads", "missing", f"this KubeVirt has no supplementalPool{_of(pools)}", fix))
    narrow = [name for name in pools if not getattr(lanes[name], "block_multi_queue", False)]
    if narrow:
        text = f"a supplementalPool serves several queues of a disk, but each disk has one only{_of(narrow)}"
        lines.append(Line("IO threads", "warn", text, "set block_multi_queue: true"))
    return lines


def _of(lanes: Sequence[str]) -> str:
    return f" (lanes: {', '.join(lanes)})"


async def _unknown(api: "Api", word: bytes) -> bool:
    """Whether KubeVirt's types, as published by the cluster, lack ``word``. Unknown types: False."""
    import json  # noqa: PLC0415

    try:
        published = await api.call("GET", "/openapi/v3/apis/kubevirt.io/v1")
    except FairlaneError:
        return False
    return word not in json.dumps(published).encode()


# --- storage classes


async def _storage(reader: Reader, study: "Study | None") -> list[Line]:
    """A line per storage class of ``study``; without a study, one line for all classes."""
    objects = await reader.list(kinds.STORAGE_CLASS)
    if objects is None:
        return [Line("storage classes", "warn", "no permission to read them")]
    classes = {str(item["metadata"]["name"]): item for item in objects}
    if study is None:
        listed = ", ".join(f"{name} ({item.get('provisioner', '?')})" for name, item in classes.items())
        if not listed:
            fix = "install a CSI driver and create a storage class"
            return [Line("storage classes", "missing", "the cluster has none", fix)]
        return [Line("storage classes", "ok", plain(listed))]
    needed = volumes(study)
    used = {name: classes[name] for name in needed if name in classes}
    lines = [_class(name, classes, sizes) for name, sizes in needed.items()]
    lines += await _profiles(reader, study, used)
    lines += await _drivers(reader, used)
    lines += await _free(reader, needed)
    if any(workload.kind == "clone" for workload in study.workloads.values()):
        lines += await _clones(reader, study, used)
    return lines


def volumes(study: "Study") -> dict[str, list[int]]:
    """Storage class -> bytes of each of its claims at the peak: fleets and golden volumes of all lanes exist during the
    whole run, clones of one lane at a time."""
    manifests = Manifests(study, "", "")
    spec = manifests.spec
    disks, root = [manifests.disk_size] * spec.disks, int(spec.root_size)
    storm = max((int(cell.params["count"]) for cell in study.cells() if cell.kind == "clone"), default=0)
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for name, lane in study.lanes.items():
        if isinstance(lane, StorageClassSpec):
            sizes[lane.storage_class] += disks * manifests.fleet
            if not spec.container_disk:
                sizes[spec.root_class or lane.storage_class] += [root] * manifests.fleet
            if storm:
                sizes[lane.storage_class] += [root] * len(manifests.goldens(name, spec.nodes))
    if storm:
        for storage_class in {
            lane.storage_class for lane in study.lanes.values() if isinstance(lane, StorageClassSpec)
        }:
            sizes[storage_class] += [root, *disks] * storm
    return sizes


def _amount(size: float) -> str:
    """Bytes in words: ``35 GiB``, ``32 MiB``."""
    return f"{size / 2**30:.4g} GiB" if size >= 2**30 else f"{size / 2**20:.4g} MiB"


def _class(name: str, classes: Mapping[str, Object], sizes: Sequence[int]) -> Line:
    title, item = f"storage class {name}", classes.get(name)
    if item is None:
        near = nearest(name, classes)
        listed = plain(", ".join(sorted(classes)) or "none")
        fix = f"did you mean {plain(near)}?" if near else f"the cluster has: {listed}"
        return Line(title, "missing", "the cluster has no class of this name", fix)
    binding = str(item.get("volumeBindingMode") or "Immediate")
    need = f"{len(sizes)} claim{'s' * (len(sizes) > 1)}, {_amount(sum(sizes))}"
    text = plain(f"{item.get('provisioner', '?')}, {binding}; for {need}")
    if item.get("provisioner") == _BY_HAND:
        fix = "create that many volumes, or use a class whose driver provisions volumes"
        return Line(title, "warn", f"{text}: no dynamic provisioning, the volumes must exist already", fix)
    return Line(title, "ok", text)


async def _profiles(reader: Reader, study: "Study", used: Mapping[str, Object]) -> list[Line]:
    """CDI's StorageProfiles of the classes. Lanes set access and volume mode themselves, so profiles only advise."""
    objects = await reader.list(kinds.STORAGE_PROFILE)
    if objects is None:
        return []
    profiles = {str(item["metadata"]["name"]): item for item in objects}
    lines = []
    for lane_name, lane in study.lanes.items():
        name = getattr(lane, "storage_class", "")
        if name not in used:
            continue
        title, profile = f"storage profile {name}", profiles.get(name)
        sets = ((profile or {}).get("status") or {}).get("claimPropertySets") or []
        mode, access = getattr(lane, "volume_mode", ""), getattr(lane, "access_mode", "")
        offers = [(item.get("volumeMode", "Filesystem"), item.get("accessModes", ())) for item in sets]
        if not sets:
            text = "CDI does not know the access modes of this class" if profile else "CDI has no profile of this class"
            fix = f"set claimPropertySets as in the driver's manual: kubectl edit storageprofile {name}"
            lines.append(Line(title, "warn", text, fix))
        elif not any(mode == offered and access in modes for offered, modes in offers):
            listed = "; ".join(f"{offered} {'/'.join(modes)}" for offered, modes in offers)
            text = f"lane {lane_name} wants {mode} {access}; the profile has {listed}"
            lines.append(
                Line(title, "warn", plain(text), "change the lane's volume_mode or access_mode, or the profile")
            )
    return list(dict.fromkeys(lines))


async def _drivers(reader: Reader, used: Mapping[str, Object]) -> list[Line]:
    objects = await reader.list(kinds.CSI_DRIVER)
    if objects is None:
        return []
    registered = {str(item["metadata"]["name"]) for item in objects}
    drivers = {str(item.get("provisioner")): name for name, item in used.items() if item.get("provisioner") != _BY_HAND}
    return [
        Line(
            f"storage class {name}",
            "warn",
            f"no CSI driver {plain(driver)} is registered",
            "check that the driver is running",
        )
        for driver, name in drivers.items()
        if driver not in registered and not driver.startswith("kubernetes.io/")
    ]


async def _free(reader: Reader, needed: Mapping[str, Sequence[int]]) -> list[Line]:
    """Classes whose driver reports less free space (CSIStorageCapacity) than the run could write. Without this check
    nothing warns: a thin pool accepts every claim, and a prefill that fills it stops all its volumes."""
    free: Counter[str] = Counter()
    for item in await reader.list(kinds.CSI_CAPACITY) or ():
        if item.get("capacity"):
            free[str(item.get("storageClassName"))] += int(quantity(item["capacity"]))
    return [
        Line(
            f"storage class {name}",
            "warn",
            f"the driver reports {_amount(free[name])} free, but the study needs {_amount(sum(sizes))}",
            "thin volumes may still fit; otherwise use fewer machines or smaller disks",
        )
        for name, sizes in needed.items()
        if name in free and free[name] < sum(sizes)
    ]


async def _clones(reader: Reader, study: "Study", used: Mapping[str, Object]) -> list[Line]:
    """The way of cloning for each lane: the study's, or CDI's choice."""
    snapshots = await reader.list(kinds.SNAPSHOT_CLASS)
    profiles = {str(item["metadata"]["name"]): item for item in await reader.list(kinds.STORAGE_PROFILE) or ()}
    ways: dict[str, str] = {}
    lines = []
    for lane_name, lane in study.lanes.items():
        name = getattr(lane, "storage_class", "")
        if name not in used:
            continue
        driver = used[name].get("provisioner")
        by_profile = ((profiles.get(name) or {}).get("status") or {}).get("cloneStrategy")
        ways[lane_name] = str(getattr(lane, "clone", None) or by_profile or "not stated")
        takes = snapshots is None or any(item.get("driver") == driver for item in snapshots)
        if ways[lane_name] == "snapshot" and not takes:
            text = plain(f"lane {lane_name} clones from snapshots, but driver {driver} has no VolumeSnapshotClass")
            lines.append(Line("snapshots", "missing", text, "create a VolumeSnapshotClass for it, or set clone: copy"))
    listed = plain(", ".join(f"{lane}: {way}" for lane, way in ways.items()))
    mixed = len(set(ways.values())) > 1
    if mixed and "provisioning" in study.design.vary:
        lines.append(Line("clones", "ok", f"lanes clone in different ways, as design.vary allows: {listed}"))
    elif mixed:
        fix = "set the same clone in every lane; or, to compare the ways, design: { vary: [provisioning] }"
        lines.append(Line("clones", "warn", f"lanes clone in different ways: {listed}", fix))
    elif any(getattr(study.lanes[lane], "clone", None) is None for lane in ways):
        fix = "set clone: csi-clone, snapshot or copy in each lane"
        lines.append(Line("clones", "warn", f"CDI chooses: {listed}", fix))
    elif ways:
        lines.append(Line("clones", "ok", listed))
    modes = {name: str(item.get("volumeBindingMode") or "Immediate") for name, item in used.items()}
    if len(set(modes.values())) > 1:
        text = plain(
            f"classes bind volumes at different times: {', '.join(f'{n}: {mode}' for n, mode in modes.items())}"
        )
        lines.append(Line("binding", "warn", text, "use one volumeBindingMode for all lanes of a storm"))
    elif _LATE in modes.values():
        lines.append(Line("binding", "ok", f"{_LATE}: a volume is created once its machine is scheduled"))
    return lines


# --- nodes, image


async def _nodes(reader: Reader, study: "Study") -> Line:
    """The nodes that the study's machines run on."""
    nodes = await reader.list(kinds.NODE)
    if nodes is None:
        return Line("nodes", "warn", "no permission to read them")
    try:
        chosen = placement.chosen(nodes, study)
    except RunFailed as error:
        return Line("nodes", "missing", plain(error.message), error.hint)
    names = ", ".join(str(node["metadata"]["name"]) for node in chosen)
    return Line("nodes", "ok", plain(f"machines go to {names}"))


async def _image(reader: Reader, study: "Study") -> Line:
    """The image of root volumes. Checks a DataSource; whether an image can be pulled shows only then."""
    spec: Any = study.platform
    scheme, _, place = spec.image.partition(":")
    if scheme == "datasource":
        return await _data_source(reader, place)
    name = place.removeprefix("//")
    nodes = await reader.list(kinds.NODE) or []
    if scheme == "docker" and nodes and all(name in _images(node) for node in nodes):
        return Line("image", "ok", f"{name}: every node has it already")
    if scheme == "docker" and "@sha256:" not in name and ":" not in name.rpartition("/")[2]:
        return Line("image", "warn", f"{name}: no tag, so two runs may get different images", "add a tag or a digest")
    text = f"{name}: not tested; the nodes pull it when the run begins"
    fix = "kubectl run pull --image NAME tests it now; or use a DataSource, which is in the cluster already"
    return Line("image", "warn", text, fix)


def _images(node: Object) -> set[str]:
    """Image names that the kubelet lists (the 50 largest)."""
    return {str(name) for image in (node.get("status") or {}).get("images") or [] for name in image.get("names") or []}


async def _data_source(reader: Reader, place: str) -> Line:
    namespace, _, name = place.partition("/")
    source = await reader.get(kinds.DATA_SOURCE, name, namespace)
    if source is None:
        if reader.refused(kinds.DATA_SOURCE, namespace):
            return Line("image", "warn", f"no permission to read DataSource {place}")
        return Line("image", "missing", f"no DataSource {place}", f"kubectl get datasources --namespace {namespace}")
    conditions = (source.get("status") or {}).get("conditions") or []
    ready: Object = next((c for c in conditions if c.get("type") == "Ready"), {})
    if ready.get("status") == "False":
        why = plain(str(ready.get("message") or ready.get("reason") or "no reason given"), 200)
        text = f"DataSource {place} is not ready: {why}"
        return Line("image", "missing", text, "wait for its import, or use another one")
    return Line("image", "ok", f"DataSource {place}")
