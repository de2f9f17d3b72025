"""Remove all test objects from a cluster, so that one API server serves several files of tests."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from testkit.control_plane import ControlPlane
from testkit.plain_client import RefusedError

_KEPT = {"customresourcedefinitions", "apiservices", "flowschemas", "prioritylevelconfigurations", "componentstatuses"}
"""Kinds that belong to the API server, and the definitions of custom resources."""
_BOOTSTRAPPED = "kubernetes.io/bootstrapping"
_OWN = ("kube-", "system-", "system:")
"""Prefixes of names and namespaces that the API server creates itself."""


def clear(plane: ControlPlane) -> None:
    """Removes all objects that the API server has not created, finalizers or not."""
    for collection, namespaced in _collections(plane):
        for item in _items(plane, collection):
            if not _own(collection, item["metadata"]):
                _remove(plane, collection, namespaced, item["metadata"])


def _collections(plane: ControlPlane) -> Iterator[tuple[str, bool]]:
    """Path of each kind's collection, namespaces last, and whether the kind has namespaces."""
    groups = plane.call("GET", "/apis")["groups"]
    for api in (*(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups), "/api/v1"):
        with contextlib.suppress(RefusedError):  # an extension server that is away
            resources = plane.call("GET", api)["resources"]
            for one in sorted(resources, key=lambda one: bool(one["name"] == "namespaces")):
                if "/" not in one["name"] and {"list", "delete"} <= set(one["verbs"]) and one["name"] not in _KEPT:
                    yield f"{api}/{one['name']}", one["namespaced"]


def _items(plane: ControlPlane, collection: str) -> list[dict[str, Any]]:
    """All objects of a kind; retries 429 while the server reloads a changed definition."""
    plane.wait(lambda: plane.answers(f"{collection}?limit=1"), f"{collection} to be served")
    objects: list[dict[str, Any]] = plane.call("GET", collection)["items"]
    return objects


def _own(collection: str, meta: Mapping[str, Any]) -> bool:
    if _BOOTSTRAPPED in (meta.get("labels") or {}) or f"{meta.get('namespace', '')}{meta['name']}".startswith(_OWN):
        return True
    if collection == "/api/v1/namespaces":
        return bool(meta["name"] == "default")
    return meta.get("namespace") == "default" and meta["name"] == "kubernetes"


def _remove(plane: ControlPlane, collection: str, namespaced: bool, meta: Mapping[str, Any]) -> None:
    api, _, plural = collection.rpartition("/")
    path = f"{api}/namespaces/{meta['namespace']}/{plural}" if namespaced else collection
    path += f"/{meta['name']}"
    with contextlib.suppress(RefusedError):  # deleted together with another object
        if meta.get("finalizers"):
            free = {"metadata": {"finalizers": None}}
            plane.call("PATCH", path, free, kind="application/merge-patch+json")
        plane.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        if plural == "namespaces":
            plane.call("PUT", f"{path}/finalize", {**plane.call("GET", path), "spec": {"finalizers": []}})
