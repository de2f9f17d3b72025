"""The permissions that Fairlane needs in a cluster, as one list: RBAC objects are made from it, ``fairlane doctor``
checks it, and tests compare it with a run's requests."""

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.cleanup import namespace_of

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.study.spec import Study

Scope = Literal["run", "cluster", "source"]
"""run: in the namespace of the machines. source: in that of the image's DataSource. cluster: objects without a
namespace."""
Need = Literal["always", "own", "shared", "storms", "snapshots", "source", "nodes"]

NEEDS: Mapping[Need, str] = {
    "always": "every run",
    "own": "runs that create their own namespace (use_existing: false)",
    "shared": "runs in an existing namespace (use_existing: true)",
    "storms": "clone storms",
    "snapshots": "clone storms from snapshots (clone: snapshot)",
    "source": "image: datasource:NAMESPACE/NAME",
    "nodes": "probes on the nodes",
}
"""Reason of a permission, in words."""


@dataclass(frozen=True)
class Permission:
    """Verbs on one resource, which may have a subresource: ``virtualmachineinstances/portforward``."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    scope: Scope
    why: str
    needed: Need = "always"
    optional: bool = False
    """Whether a run can do without; it then reports what is missing."""

    @property
    def name(self) -> str:
        """Name in the form of ``kubectl auth can-i``: ``datavolumes.cdi.kubevirt.io/source``."""
        resource, _, sub = self.resource.partition("/")
        return ".".join(filter(None, (resource, self.group))) + (f"/{sub}" if sub else "")


_VM, _CDI = "kubevirt.io", "cdi.kubevirt.io"
_SNAPSHOT, _STORAGE, _LEASE = "snapshot.storage.k8s.io", "storage.k8s.io", "coordination.k8s.io"
_SEE = ("list", "watch")
_CLEAN = ("list", "watch", "deletecollection")
_SWEEP = "clean up: find a run's leftovers by their labels"

PERMISSIONS: tuple[Permission, ...] = (
    # objects that a run creates in its namespace; machines bring their volumes
    Permission("", "secrets", ("create",), "run", "cloud-init and the key of the run; never read"),
    Permission(_VM, "virtualmachines", ("create", "get", *_SEE), "run", "the machines"),
    Permission(_VM, "virtualmachineinstances", (*_SEE, "delete"), "run", "where machines run; restart a machine"),
    Permission(_LEASE, "leases", ("create", "get", "list", "patch"), "run", "the run's heartbeat"),
    Permission(_VM, "virtualmachines", ("patch", "deletecollection"), "run", "end golden machine and clones", "storms"),
    Permission(_CDI, "datavolumes", ("create", *_SEE), "run", "the golden volume of a storm", "storms"),
    Permission(_CDI, "datasources", ("create", *_SEE), "run", "the golden image of a storm", "storms"),
    Permission(
        _SNAPSHOT,
        "volumesnapshots",
        ("create", *_SEE),
        "run",
        "the snapshots that machines are cloned from",
        "snapshots",
    ),
    Permission(
        "apps", "daemonsets", ("create", *_SEE, "delete"), "run", "a probe on each node", "nodes", optional=True
    ),
    # objects that it reads there
    Permission("subresources.kubevirt.io", "virtualmachineinstances/portforward", ("get",), "run", "SSH to machines"),
    Permission("", "persistentvolumeclaims", ("get", *_SEE), "run", "when volumes were bound, and to what"),
    Permission("", "pods", ("list",), "run", "room for spread: packed; find the probes"),
    Permission("", "events", _SEE, "run", "why a machine does not start"),
    Permission("", "pods/proxy", ("get",), "run", "read the probes on the nodes", "nodes", optional=True),
    # removal
    Permission(
        "", "namespaces", ("create", "delete", "watch"), "cluster", "a namespace per run, deleted after it", "own"
    ),
    Permission("", "secrets", ("deletecollection",), "run", _SWEEP, "shared"),
    Permission(_LEASE, "leases", ("deletecollection",), "run", _SWEEP, "shared"),
    Permission(_VM, "virtualmachines", _CLEAN, "run", _SWEEP, "shared"),
    Permission(_CDI, "datavolumes", _CLEAN, "run", _SWEEP, "shared"),
    Permission("", "persistentvolumeclaims", _CLEAN, "run", _SWEEP, "shared"),
    Permission(_CDI, "datasources", _CLEAN, "run", _SWEEP, "shared"),
    Permission(_SNAPSHOT, "volumesnapshots", _CLEAN, "run", _SWEEP, "shared"),
    Permission("apps", "daemonsets", _CLEAN, "run", _SWEEP, "shared"),
    # the image, if it is a DataSource
    Permission(_CDI, "datasources", ("get",), "source", "resolve the image's name", "source"),
    Permission(_CDI, "datavolumes/source", ("create",), "source", "clone the image from another namespace", "source"),
    # facts about the cluster
    Permission("", "namespaces", ("get", "list"), "cluster", "identify the cluster; find leftovers of killed runs"),
    Permission("", "nodes", ("list",), "cluster", "place machines; kernel and CPU of the nodes"),
    Permission("", "persistentvolumes", ("get",), "cluster", "read back the volume behind a claim"),
    Permission(
        "", "persistentvolumes", _SEE, "cluster", "time the deletion of a storm's volumes", "storms", optional=True
    ),
    Permission(_STORAGE, "storageclasses", ("get", "list"), "cluster", "parameters of the lanes' storage"),
    Permission(_STORAGE, "csidrivers", ("get", "list"), "cluster", "the driver that provisions the volumes"),
    Permission(_CDI, "storageprofiles", ("get", "list"), "cluster", "access modes, clone strategy of a class"),
    Permission(_SNAPSHOT, "volumesnapshotclasses", ("list",), "cluster", "whether the driver takes snapshots"),
    Permission(_STORAGE, "csistoragecapacities", ("list",), "cluster", "room that drivers report", optional=True),
    Permission(_VM, "kubevirts", ("list",), "cluster", "KubeVirt's version, settings and feature gates"),
    Permission(_CDI, "cdis", ("list",), "cluster", "CDI's version"),
    Permission("config.openshift.io", "clusterversions", ("get",), "cluster", "OpenShift's version", optional=True),
)
"""All permissions except to ask for one's own permissions and identity, which everybody has (ClusterRole
system:basic-user)."""


def needs(study: "Study | None", *, use_existing: bool = False) -> frozenset[Need]:
    """Permissions for a run of ``study``; without a study: for any run whose image is not in another namespace.
    ``use_existing`` counts without a study only."""
    if study is not None:
        use_existing = bool(getattr(study.platform, "use_existing", False))
    needed: set[Need] = {"always", "shared" if use_existing else "own"}
    if study is None:
        return frozenset(needed | {"storms", "snapshots", "nodes"})
    if getattr(study.platform, "node_probes", "off") != "off":
        needed.add("nodes")
    if any(workload.kind == "clone" for workload in study.workloads.values()):
        needed.add("storms")
        if any(getattr(lane, "clone", None) == "snapshot" for lane in study.lanes.values()):
            needed.add("snapshots")
    if source(study):
        needed.add("source")
    return frozenset(needed)


def source(study: "Study | None") -> str:
    """Namespace of the DataSource of the study's image; empty: none."""
    kind, _, place = str(getattr(study.platform, "image", "")).partition(":") if study else ("", "", "")
    return place.partition("/")[0] if kind == "datasource" else ""


def wanted(need: Iterable[Need]) -> tuple[Permission, ...]:
    """Permissions for ``need``, one per resource and scope: verbs and reasons are merged."""
    need = frozenset(need)
    merged: dict[tuple[str, str, str], Permission] = {}
    for permission in PERMISSIONS:
        if permission.needed not in need:
            continue
        key = (permission.group, permission.resource, permission.scope)
        old = merged.get(key)
        if old is None:
            merged[key] = permission
        else:
            verbs = tuple(dict.fromkeys(old.verbs + permission.verbs))
            why = old.why if permission.why == _SWEEP else "; ".join(dict.fromkeys((old.why, permission.why)))
            merged[key] = replace(old, verbs=verbs, why=why, optional=old.optional and permission.optional)
    return tuple(merged.values())


# --- RBAC


@dataclass(frozen=True)
class Deployed:
    """Namespaces and subject of RBAC objects."""

    namespace: str = "fairlane"
    """Namespace of the ServiceAccount; with ``use_existing`` of the machines too."""
    use_existing: bool = False
    source: str = ""
    """Namespace of the image's DataSource; empty: no such image."""
    user: str = ""
    """A user of the cluster in place of the ServiceAccount."""
    group: str = ""

    @property
    def subject(self) -> dict[str, str]:
        """The subject of role bindings."""
        if self.user or self.group:
            kind = "User" if self.user else "Group"
            return {"kind": kind, "name": self.user or self.group, "apiGroup": "rbac.authorization.k8s.io"}
        return {"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}

    @property
    def cloners(self) -> list[dict[str, str]]:
        """Subjects whose permission CDI checks before it clones an image: the creator of the volume; for a machine's
        own volumes, the service account ``default`` in its namespace (KubeVirt's webhook: "User system:serviceaccount:
        NAMESPACE:default has insufficient permissions in clone source namespace")."""
        if self.use_existing:
            return [self.subject, {"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}]
        every = {"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"}
        return [self.subject, every]  # the runs' namespaces have no names yet


NAME = "fairlane"
"""Name of the ServiceAccount and of all roles and bindings."""
_RBAC = "rbac.authorization.k8s.io/v1"
_MARK = {"app.kubernetes.io/name": NAME}


def roles(permissions: Sequence[Permission], deployed: Deployed) -> list[dict[str, Any]]:
    """Roles and bindings that grant exactly ``permissions``.

    For an existing namespace: a Role in it and a read-only ClusterRole. For namespaces created by runs: one
    ClusterRole, because their names are not known before.
    """
    # ClusterRoles of several namespaces have different names
    wide = f"{NAME}-{deployed.namespace}" if deployed.use_existing else NAME
    inside = [p for p in permissions if p.scope == "run"] if deployed.use_existing else []
    out = _granted(wide, [p for p in permissions if p.scope != "source" and p not in inside], "", [deployed.subject])
    if inside:
        out += _granted(NAME, inside, deployed.namespace, [deployed.subject])
    if deployed.source:
        read = [p for p in permissions if p.scope == "source"]
        out += _granted(f"{NAME}-{deployed.namespace}", read, deployed.source, deployed.cloners)
    return out


def _granted(
    name: str, permissions: Sequence[Permission], namespace: str, subjects: Sequence[Mapping[str, str]]
) -> list[dict[str, Any]]:
    """A role and its binding; ``namespace`` empty: for the whole cluster."""
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": _MARK}
    role = {"apiVersion": _RBAC, "kind": kind, "metadata": meta, "rules": [rule(p) for p in permissions]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    binding = {"apiVersion": _RBAC, "kind": f"{kind}Binding", "metadata": meta}
    return [role, {**binding, "roleRef": reference, "subjects": list(subjects)}]


def rule(permission: Permission) -> dict[str, list[str]]:
    """The rule that grants one permission."""
    return {"apiGroups": [permission.group], "resources": [permission.resource], "verbs": list(permission.verbs)}


# --- review

_NO_RUN = "0" * 10
"""Id without a run: permissions are checked in its namespace, which does not exist."""
_AT_ONCE = 16

Verb = tuple[str, str, str, str]
"""(group, resource, scope, verb)"""


async def examine(api: "Api", study: "Study | None", namespace: str, user: str) -> list[Line]:
    """A line per missing permission, or one line if none is missing. Without a study: for the form of RBAC (namespaces
    of the runs' own, or an existing one) with fewer missing. ``namespace`` overrides the study's; ``user``: the
    caller's name in the cluster, for the hint."""
    if study is not None:
        spec: Any = study.platform
        forms = [bool(getattr(spec, "use_existing", False))]
        base = namespace or spec.namespace
    else:
        base = namespace or NAME
        forms = [False, True] if namespace else [False]
    results = []
    for use_existing in forms:
        need = needs(study, use_existing=use_existing)
        if study is None:  # images and storms are not known
            need &= {"always", "own", "shared"}
        required = tuple(p for p in PERMISSIONS if p.needed in need)
        inside = namespace_of(base, _NO_RUN, use_existing=use_existing)
        allowed = await _reviewed(api, required, inside, source(study))
        results.append(_lines(required, allowed, base, use_existing=use_existing, user=user))
    return min(results, key=len)


async def _reviewed(api: "Api", required: Sequence[Permission], namespace: str, image: str) -> dict[Verb, bool]:
    """Verb -> whether it is allowed, by one SelfSubjectAccessReview each. ``image``: namespace of the DataSource."""
    slots = asyncio.Semaphore(_AT_ONCE)
    verbs = list(dict.fromkeys((p.group, p.resource, p.scope, verb) for p in required for verb in p.verbs))

    async def may(group: str, resource: str, scope: str, verb: str) -> bool:
        plural, _, sub = resource.partition("/")
        where = {"run": namespace, "source": image, "cluster": ""}[scope]
        attributes = {"group": group, "resource": plural, "subresource": sub, "verb": verb, "namespace": where}
        async with slots:
            answer = await api.create(kinds.ACCESS_REVIEW, {"spec": {"resourceAttributes": attributes}})
        return bool(answer.get("status", {}).get("allowed"))

    return dict(zip(verbs, await asyncio.gather(*(may(*verb) for verb in verbs)), strict=True))


def _lines(
    required: Sequence[Permission], allowed: Mapping[Verb, bool], namespace: str, *, use_existing: bool, user: str
) -> list[Line]:
    option = f" --namespace {namespace}" + (" --use-existing" if use_existing else "")
    option += f" --user {shlex.quote(user)}" if user and not user.startswith("system:serviceaccount:") else ""
    fix = f"ask an administrator to run: fairlane cluster rbac{option} | kubectl apply -f -  (docs/cluster.md)"
    lines: list[Line] = []
    listed: set[Verb] = set()
    for permission in required:
        keys = {verb: (permission.group, permission.resource, permission.scope, verb) for verb in permission.verbs}
        missing = [verb for verb, key in keys.items() if not allowed[key] and key not in listed]
        listed |= set(keys.values())
        if not missing:
            continue
        where = {"run": f" in namespace {namespace}" if use_existing else "", "source": " of the image"}
        text = f"may not {', '.join(missing)} {permission.name}{where.get(permission.scope, '')}: {permission.why}"
        lines.append(Line("permission", "warn" if permission.optional else "missing", text, fix))
    form = f"in namespace {namespace}" if use_existing else "for runs that create their own namespace"
    return lines or [Line("permissions", "ok", f"all {len(allowed)} granted {form}")]
