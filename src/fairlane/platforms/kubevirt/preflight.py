"""What a study needs of a cluster, looked at before anything is created: only read, but for the questions that a
cluster answers about oneself (SelfSubjectAccessReview). Each line has its fix.
"""

import asyncio
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import kinds, permissions, preflight_room, preflight_storage
from fairlane.platforms.kubevirt.api_errors import ApiError, plain
from fairlane.platforms.kubevirt.cached_reader import Reading
from fairlane.platforms.kubevirt.cleanup import namespace_of
from fairlane.platforms.kubevirt.permissions import Permission

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.study.spec import Study

EXTRA = "pip install 'fairlane[kubevirt]'; in a checkout: uv sync --extra kubevirt"
NAMESPACE = "fairlane"
"""Where nothing else is said, as in a study."""
_NOBODY = "0" * 10
"""A run that is none: its namespace is asked about, and is not there."""
_AT_ONCE = 16
_PATIENCE = 10.0
_TRY = "`kubectl version` must show the server's version"
_POOL = b'"supplementalPoolThreadCount"'


async def look(study: "Study | None", *, context: str = "", namespace: str = "") -> list[Line]:
    """Everything about the cluster of ``context`` (of a study its own): a client that is not installed, a kubeconfig
    that is none and a server that does not answer are lines too. Never raises FairlaneError."""
    try:
        import kubernetes.aio  # noqa: F401, PLC0415 - the optional extra
    except ImportError:
        return [Line("client", "missing", "the Python package kubernetes is not installed", EXTRA)]
    from fairlane.platforms.kubevirt.api import Api  # noqa: PLC0415 - needs the extra

    context = context or str(getattr(study.platform, "context", "")) if study else context
    try:
        async with await Api.connect(context, patience=_PATIENCE) as api:
            return await examine(api, study, namespace=namespace)
    except FairlaneError as error:
        return [Line("cluster", "missing", str(error), error.hint or _TRY)]


def problems(lines: Sequence[Line]) -> list[FairlaneError]:
    """What keeps a run from beginning, as errors."""
    return [FairlaneError(f"{line.name}: {line.found}", hint=line.fix) for line in lines if line.state == "missing"]


async def examine(api: "Api", study: "Study | None", *, namespace: str = "") -> list[Line]:
    """What ``study`` needs of the cluster behind ``api``; without one, what any needs. ``namespace`` takes the place of
    the study's. Raises ApiError if the cluster stops answering; what may not be read is a line."""
    see = Reading(api)
    user = await _user(api)
    lines = [await _server(api, user), *await _allowed(api, study, namespace, user)]
    kubevirt, configuration = await _kubevirt(see)
    lines += [*kubevirt, *await _cdi(see)]
    if kubevirt[0].state == "missing":
        return lines
    lines += await preflight_storage.examine(see, study)
    if study is None:
        return lines
    lines += await _lanes(api, study)
    lines += await preflight_room.examine(see, study, configuration, namespace)
    lines.append(await _image(see, study))
    return lines


async def _user(api: "Api") -> str:
    """Who one is to the cluster; empty: before Kubernetes 1.28 nobody could ask."""
    try:
        answer = await api.create(kinds.WHO_AM_I, _question(kinds.WHO_AM_I, None))
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


def _question(kind: kinds.Kind, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **({"spec": spec} if spec else {})}


# --- permissions


async def _allowed(api: "Api", study: "Study | None", namespace: str, user: str) -> list[Line]:
    """A line for each permission that is missing, or one that none is. Without a study: of the two forms of RBAC the
    one of which less is missing."""
    if study is not None:
        spec: Any = study.platform
        forms = [bool(getattr(spec, "use_existing", False))]
        base = namespace or spec.namespace
    else:
        base = namespace or NAMESPACE
        forms = [False, True] if namespace else [False]
    best: list[Line] | None = None
    for use_existing in forms:
        need = permissions.needs(study, use_existing=use_existing)
        if study is None:  # nothing is known of images and storms: not asked
            need &= {"always", "own", "shared"}
        inside = namespace_of(base, _NOBODY, use_existing=use_existing)
        asked = tuple(p for p in permissions.PERMISSIONS if p.needed in need)
        allowed = await _reviewed(api, asked, inside, permissions.source(study))
        lines = _told(asked, allowed, base, use_existing=use_existing, user=user)
        if best is None or len(lines) < len(best):
            best = lines
    return best or []


async def _reviewed(
    api: "Api", asked: Sequence[Permission], namespace: str, source: str
) -> dict[tuple[str, str, str, str], bool]:
    """(group, resource, scope, verb) -> whether it is allowed, by one SelfSubjectAccessReview each."""
    slots = asyncio.Semaphore(_AT_ONCE)
    questions = list(dict.fromkeys((p.group, p.resource, p.scope, verb) for p in asked for verb in p.verbs))

    async def may(group: str, resource: str, scope: str, verb: str) -> bool:
        plural, _, sub = resource.partition("/")
        where = {"run": namespace, "source": source, "cluster": ""}[scope]
        attributes = {"group": group, "resource": plural, "subresource": sub, "verb": verb, "namespace": where}
        async with slots:
            answer = await api.create(
                kinds.ACCESS_REVIEW, _question(kinds.ACCESS_REVIEW, {"resourceAttributes": attributes})
            )
        return bool(answer.get("status", {}).get("allowed"))

    return dict(zip(questions, await asyncio.gather(*(may(*q) for q in questions)), strict=True))


def _told(
    asked: Sequence[Permission],
    allowed: Mapping[tuple[str, str, str, str], bool],
    namespace: str,
    *,
    use_existing: bool,
    user: str,
) -> list[Line]:
    option = f" --namespace {namespace}" + (" --use-existing" if use_existing else "")
    option += f" --user {shlex.quote(user)}" if user and not user.startswith("system:serviceaccount:") else ""
    fix = f"have it granted: fairlane cluster rbac{option} | kubectl apply -f -  (docs/cluster.md)"
    lines: list[Line] = []
    told: set[tuple[str, str, str, str]] = set()
    for one in asked:
        keys = {verb: (one.group, one.resource, one.scope, verb) for verb in one.verbs}
        lacking = [verb for verb, key in keys.items() if not allowed[key] and key not in told]
        told |= set(keys.values())
        if not lacking:
            continue
        where = {"run": f" in namespace {namespace}" if use_existing else "", "source": " of the image"}
        found = f"may not {', '.join(lacking)} {one.name}{where.get(one.scope, '')}: {one.why}"
        lines.append(Line("permission", "warn" if one.optional else "missing", found, fix))
    form = f"in namespace {namespace}" if use_existing else "for namespaces of the runs' own"
    return lines or [Line("permissions", "ok", f"all {len(allowed)} that are needed {form}")]


# --- KubeVirt, CDI


async def _kubevirt(see: Reading) -> tuple[list[Line], Mapping[str, Any]]:
    """Its line, and its configuration (``spec.configuration`` of the KubeVirt object)."""
    if not await see.served(kinds.VM):
        return [Line("KubeVirt", "missing", "this cluster has no kubevirt.io/v1", _INSTALL)], {}
    found = await see.list(kinds.KUBEVIRT)
    if not found:
        told = "is there; its version cannot be read" if found is None else "its API is there, no KubeVirt object is"
        return [Line("KubeVirt", "warn", told, "" if found is None else _INSTALL)], {}
    status, spec = found[0].get("status") or {}, found[0].get("spec") or {}
    configuration = spec.get("configuration") or {}
    version, phase = plain(str(status.get("observedKubeVirtVersion", "?"))), plain(str(status.get("phase", "?")))
    lines = [
        Line("KubeVirt", "ok", version)
        if phase == "Deployed"
        else Line("KubeVirt", "warn", f"{version}, in phase {phase}", "wait for phase Deployed, or see virt-operator")
    ]
    if (configuration.get("developerConfiguration") or {}).get("useEmulation"):
        told = "KubeVirt emulates where a node has no KVM: such figures are the emulator's"
        lines.append(Line("emulation", "warn", told, "useEmulation: false, in the KubeVirt object"))
    openshift = await see.get(_CLUSTER_VERSION, "version")
    if openshift:
        wanted = (openshift.get("status") or {}).get("desired") or {}
        lines.append(Line("OpenShift", "ok", plain(str(wanted.get("version", "?")))))
    return lines, configuration


_INSTALL = "install KubeVirt, or the operator OpenShift Virtualization, and wait until it is deployed"
_CLUSTER_VERSION = kinds.Kind("config.openshift.io", "v1", "clusterversions", "ClusterVersion", namespaced=False)


async def _cdi(see: Reading) -> list[Line]:
    if not await see.served(kinds.DATA_VOLUME):
        fix = "install the Containerized Data Importer; OpenShift Virtualization brings it"
        return [Line("CDI", "missing", "this cluster has no cdi.kubevirt.io/v1beta1", fix)]
    found = await see.list(kinds.CDI)
    if not found:
        told = "is there; its version cannot be read" if found is None else "its API is there, no CDI object is"
        return [Line("CDI", "warn", told)]
    status = found[0].get("status") or {}
    version, phase = plain(str(status.get("observedVersion", "?"))), plain(str(status.get("phase", "?")))
    if phase == "Deployed":
        return [Line("CDI", "ok", version)]
    return [Line("CDI", "warn", f"{version}, in phase {phase}", "wait for phase Deployed, or see cdi-operator")]


# --- what lanes ask of KubeVirt


async def _lanes(api: "Api", study: "Study") -> list[Line]:
    """Lanes that are not of this platform, and IO threads that KubeVirt would not give as the study means them."""
    lanes = {name: lane for name, lane in study.lanes.items() if lane.transport == "storage_class"}
    lines = [
        Line(
            "lanes",
            "missing",
            f"{name}: transport {lane.transport} is not carried out here",
            "transport: storage_class",
        )
        for name, lane in study.lanes.items()
        if name not in lanes
    ]
    pools = [name for name, lane in lanes.items() if getattr(lane, "io_threads", None)]
    if pools and await _unknown(api, _POOL):
        fix = "a KubeVirt with kubevirt/kubevirt#13110, or io_threads_policy: auto"
        lines.append(Line("IO threads", "missing", f"this KubeVirt knows no supplementalPool{_of(pools)}", fix))
    narrow = [name for name in pools if not getattr(lanes[name], "block_multi_queue", False)]
    if narrow:
        told = f"a supplementalPool serves the queues of a disk, and there is one only{_of(narrow)}"
        lines.append(Line("IO threads", "warn", told, "block_multi_queue: true"))
    return lines


def _of(lanes: Sequence[str]) -> str:
    return f" (lanes: {', '.join(lanes)})"


async def _unknown(api: "Api", word: bytes) -> bool:
    """Whether the types that the cluster publishes for KubeVirt do not have ``word``. Not known: False."""
    import json  # noqa: PLC0415

    try:
        published = await api.call("GET", "/openapi/v3/apis/kubevirt.io/v1")
    except FairlaneError:
        return False
    return word not in json.dumps(published).encode()


# --- image


async def _image(see: Reading, study: "Study") -> Line:
    """The image of root volumes: a DataSource is looked at; whether an image can be pulled, only pulling tells."""
    spec: Any = study.platform
    scheme, _, place = spec.image.partition(":")
    if scheme == "datasource":
        return await _data_source(see, place)
    name = place.removeprefix("//")
    nodes = await see.list(kinds.NODE) or []
    holding = [node for node in nodes if name in _images(node)]
    if scheme == "docker" and nodes and len(holding) == len(nodes):
        return Line("image", "ok", f"{name}: every node has it already")
    if scheme == "docker" and "@sha256:" not in name and ":" not in name.rpartition("/")[2]:
        return Line("image", "warn", f"{name}: no tag, so that two runs may get two images", "name a tag or a digest")
    told = f"{name}: nobody tried to pull it; the cluster does when the run begins"
    fix = "kubectl run pull --image NAME tells sooner; or take a DataSource, which the cluster has already"
    return Line("image", "warn", told, fix)


def _images(node: Mapping[str, Any]) -> set[str]:
    """Names of images that the kubelet says it has (it tells of the 50 largest)."""
    return {str(name) for image in (node.get("status") or {}).get("images") or [] for name in image.get("names") or []}


async def _data_source(see: Reading, place: str) -> Line:
    namespace, _, name = place.partition("/")
    found = await see.get(kinds.DATA_SOURCE, name, namespace)
    if found is None:
        if see.refused(kinds.DATA_SOURCE, namespace):
            return Line("image", "warn", f"DataSource {place} may not be read")
        return Line("image", "missing", f"no DataSource {place}", f"kubectl get datasources --namespace {namespace}")
    conditions = (found.get("status") or {}).get("conditions") or []
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "Ready"), {})
    if ready.get("status") == "False":
        why = plain(str(ready.get("message") or ready.get("reason") or "it does not say why"), 200)
        return Line(
            "image", "missing", f"DataSource {place} is not ready: {why}", "wait for its import, or take another"
        )
    return Line("image", "ok", f"DataSource {place}")
