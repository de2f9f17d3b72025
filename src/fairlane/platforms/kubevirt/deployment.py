"""Manifests to run Fairlane in the cluster it measures: a Job that runs a study, the claim that stores the run, a
viewer. Pure.

Everything keeps to the Pod Security Standard ``restricted``, and to OpenShift's constraint ``restricted-v2``, which
gives each namespace user and group ids of its own and refuses others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fairlane.platforms.kubevirt.permissions import NAME, Deployed, Permission, roles, rule

Object = dict[str, Any]

RUNS = "/runs"
"""Mount point of the claim."""
USER = 1001
"""User id of the image; on OpenShift the namespace's range replaces it."""
_STUDY = "/study/study.yaml"
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_ATTEMPTS = 5
"""Pods until the Job counts as failed; a pod ended by the cluster (a drained node) does not count."""
_NEVER_AGAIN = [1, 2, 4]
"""Exit codes that another pod would repeat: wrong study, wrong usage, nothing to compare."""


@dataclass(frozen=True)
class Plan:
    """Settings of a Job."""

    study: str
    """Name of the study: lower-case letters, digits and dashes."""
    text: str
    image: str
    """Image of Fairlane."""
    namespace: str
    claim_size: str = "10Gi"
    claim_class: str = ""
    """Storage class of the claim; empty: the cluster's default."""
    openshift: bool = False
    """Whether the cluster assigns user and group ids."""
    pull_secret: str = ""
    """Secret with the registry's password; empty: none is needed."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the nodes for Fairlane: preferably not those under test."""

    @property
    def name(self) -> str:
        """Name of the Job and its objects."""
        return f"{NAME}-{self.study}".rstrip("-")


def account(deployed: Deployed) -> list[Object]:
    """The namespace, unless it exists, and the service account; empty for a user of the cluster."""
    namespace: Object = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": deployed.namespace, "labels": {**_mark(), **_RESTRICTED}},
    }
    service: Object = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": deployed.namespace, "labels": _mark()},
        "automountServiceAccountToken": False,  # only the Job's pod gets the token
    }
    if deployed.user or deployed.group:
        return []
    return [service] if deployed.use_existing else [namespace, service]


def job(plan: Plan) -> list[Object]:
    """The study, the claim, the viewer and the Job. Applied again after the Job was deleted, they resume the run."""
    return [_study(plan), _claim(plan), _viewer(plan), _job(plan)]


def _study(plan: Plan) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(plan, plan.name),
        "data": {"study.yaml": plan.text},
    }


def _claim(plan: Plan) -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": plan.claim_size}}}
    if plan.claim_class:
        spec["storageClassName"] = plan.claim_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(plan, f"{NAME}-runs"),
        "spec": spec,
    }


def _viewer(plan: Plan) -> Object:
    """Serves the runs to users who may forward a port to its pod; listens on loopback only."""
    part = {**_mark(), "app.kubernetes.io/component": "viewer"}
    pod = _pod(plan, ["serve", RUNS], read_only=True, cpu="50m", memory="256Mi")
    pod["automountServiceAccountToken"] = False
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(plan, f"{NAME}-viewer"),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": part},
            "template": {"metadata": {"labels": part}, "spec": pod},
        },
    }


def _job(plan: Plan) -> Object:
    part = {**_mark(), "app.kubernetes.io/component": "run"}
    pod = _pod(plan, ["run", _STUDY, "--resume", "--out", f"{RUNS}/{plan.study}"], cpu="1", memory="1Gi")
    pod |= {
        "restartPolicy": "Never",
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": 600,  # the run's objects are removed, volumes by their driver
        # a claim for one node: the Job runs beside the viewer
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {**_mark(), "app.kubernetes.io/component": "viewer"}},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        },
    }
    pod["volumes"].append({"name": "study", "configMap": {"name": plan.name}})
    pod["containers"][0]["volumeMounts"].append({"name": "study", "mountPath": "/study", "readOnly": True})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(plan, plan.name),
        "spec": {
            "backoffLimit": _ATTEMPTS,
            "podReplacementPolicy": "Failed",  # never two at a time
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": NAME, "operator": "In", "values": _NEVER_AGAIN},
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {"metadata": {"labels": part}, "spec": pod},
        },
    }


def _pod(plan: Plan, arguments: Sequence[str], *, cpu: str, memory: str, read_only: bool = False) -> Object:
    """One container of the image, which writes to the claim and to /tmp only."""
    security: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not plan.openshift:
        security |= {"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"}
    container = {
        "name": NAME,
        "image": plan.image,
        "args": list(arguments),
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "FAIRLANE_CACHE", "value": "/tmp/cache"}],  # noqa: S108
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "runs", "mountPath": RUNS, **({"readOnly": True} if read_only else {})},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an empty folder of the pod
        ],
    }
    claim = {"name": "runs", "persistentVolumeClaim": {"claimName": f"{NAME}-runs"}}
    pod: Object = {
        "securityContext": security,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [claim, {"name": "tmp", "emptyDir": {}}],
    }
    if plan.pull_secret:
        pod["imagePullSecrets"] = [{"name": plan.pull_secret}]
    if plan.node_labels:
        pod["nodeSelector"] = dict(plan.node_labels)
    return pod


def _meta(plan: Plan, name: str) -> Object:
    return {"name": name, "namespace": plan.namespace, "labels": _mark()}


def _mark() -> dict[str, str]:
    """Labels of the Job's objects; not a run's, because cleaning a run must not delete its Job."""
    return {"app.kubernetes.io/name": NAME}


# --- as text


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line text as blocks, everything else as short as possible."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def _dump(value: Any, flow: bool | None = False) -> str:
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=110, default_flow_style=flow))


def text(objects: Iterable[Mapping[str, Any]], permissions: Sequence[Permission] = ()) -> str:
    """YAML for kubectl, each rule below its reason; non-ASCII characters are escaped."""
    why = {_key(rule(p)): p.why for p in permissions}
    documents = []
    for item in objects:
        document = _dump({key: value for key, value in item.items() if key != "rules"})
        for number, granted in enumerate(item.get("rules", ())):
            document += "" if number else "rules:\n"
            document += f"# {why.get(_key(granted), 'needed')}\n{_dump([granted], None)}"
        documents.append(document)
    return "---\n".join(documents)


def _key(granted: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(granted[part]) for part in ("apiGroups", "resources", "verbs"))


__all__ = ["Deployed", "Plan", "account", "job", "roles", "text"]
