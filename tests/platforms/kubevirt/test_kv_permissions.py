"""The list of permissions against a real API server's RBAC: enough, and nothing in it that is not asked for."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlane.platforms._examined import Line, able
from fairlane.platforms.kubevirt import cleanup, permissions, preflight
from fairlane.platforms.kubevirt.labels import labels
from fairlane.platforms.kubevirt.permissions import PERMISSIONS, Deployed, Permission
from fairlane.study.spec import Study
from testkit.control_plane import ControlPlane
from testkit.plain_client import RefusedError
from tests.platforms.kubevirt import furnished
from tests.platforms.kubevirt.conftest import Connected

FORMS = {"own": False, "shared": True}
STUDIES = {form: furnished.study(storm=True, use_existing=str(shared).lower()) for form, shared in FORMS.items()}


@pytest.fixture(scope="module")
def plane(plane: ControlPlane) -> ControlPlane:
    furnished.furnish(plane)
    return plane


@pytest.fixture
def granted(plane: ControlPlane, connected: Connected) -> Callable[..., list[Line]]:
    """What the doctor says to a service account that has these permissions and no others."""

    def grant(case: str, study: Study, held: Sequence[Permission]) -> list[Line]:
        spec: Any = study.platform
        deployed = Deployed(spec.namespace, spec.use_existing, permissions.source(study))
        name = f"case-{case}"
        kubeconfig = plane.service_account_kubeconfig("bench", name)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "bench"}
        roles = permissions.roles(held, deployed)
        for one in roles:  # under names of this case alone, for it alone
            one["metadata"] = {**one["metadata"], "name": f"{one['metadata']['name']}-{case}"}
            if "roleRef" in one:
                one["roleRef"] = {**one["roleRef"], "name": f"{one['roleRef']['name']}-{case}"}
                one["subjects"] = [subject]
        furnished.in_force(plane, roles)
        return connected(kubeconfig, lambda api: preflight.examine(api, study))

    return grant


def wanted(form: str) -> tuple[Permission, ...]:
    return permissions.wanted(permissions.needs(STUDIES[form]))


PROBED = (("create", "virtualmachines"), ("list", "nodes"), ("get", "storageclasses"))
"""Of which the lack is always tried; what each request needs is seen in the audit log."""


def each() -> list[Any]:
    """Every verb on every resource, but for what comes with another: a ClusterRole for the runs' own namespaces holds
    in the image's too."""
    return [
        pytest.param(
            form,
            one,
            verb,
            id=f"{form}-{verb}-{one.name}-{one.scope}",
            marks=() if (verb, one.resource) in PROBED else pytest.mark.slow,
        )
        for form in FORMS
        for one in wanted(form)
        for verb in one.verbs
        if (form, one.scope, one.resource) != ("own", "source", "datasources")
    ]


def lacking(line: Line) -> list[tuple[str, str]]:
    """Each verb on the resource that a line names."""
    text = line.found
    for permission in PERMISSIONS:
        text = text.replace(permission.why, "")
    words = re.findall(r"[\w./-]*\w", text)
    (name,) = [word for word in words if word in {p.name for p in PERMISSIONS}]
    return [(word, name) for word in words if word in {verb for p in PERMISSIONS for verb in p.verbs}]


def entry(one: Permission, verb: str, form: str) -> Permission:
    """The first line of the list that asks for the verb in this form."""
    need = permissions.needs(STUDIES[form])
    return next(
        p
        for p in PERMISSIONS
        if (p.group, p.resource, p.scope) == (one.group, one.resource, one.scope)
        and verb in p.verbs
        and p.needed in need
    )


@pytest.mark.cluster
@pytest.mark.parametrize("form", FORMS)
def test_who_has_the_listed_permissions_may_begin(granted: Callable[..., list[Line]], form: str) -> None:
    lines = granted(f"{form}-all", STUDIES[form], wanted(form))
    assert able(lines), [line for line in lines if line.state == "missing"]
    (allowed,) = [line for line in lines if line.name in ("permission", "permissions")]
    count = sum(len(one.verbs) for one in wanted(form))
    assert (allowed.state, re.findall(r"\d+", allowed.found)) == ("ok", [str(count)])
    assert {line.state for line in lines} == {"ok"}, "everything can be read"


@pytest.mark.cluster
@pytest.mark.parametrize("form", FORMS)
def test_looking_asks_for_nothing_that_is_not_listed(
    granted: Callable[..., list[Line]], plane: ControlPlane, form: str
) -> None:
    """By the server's own audit log; what has no resource (/version, discovery, OpenAPI) is everybody's to read."""
    granted(f"{form}-asked", STUDIES[form], wanted(form))
    asked = {one for one in plane.requests(f"system:serviceaccount:bench:case-{form}-asked") if one[1][0] != "/"}
    listed = {(verb, one.resource) for one in wanted(form) for verb in one.verbs}
    assert asked - listed == {("create", "selfsubjectaccessreviews"), ("create", "selfsubjectreviews")}
    assert {verb for verb, _ in asked} == {"create", "get", "list"}


@pytest.mark.cluster
@pytest.mark.parametrize(("form", "one", "verb"), each())
def test_any_one_that_is_missing_is_named(
    granted: Callable[..., list[Line]], form: str, one: Permission, verb: str
) -> None:
    held = [replace(p, verbs=tuple(v for v in p.verbs if p != one or v != verb)) for p in wanted(form)]
    case = f"{form}-{verb}-{one.name.replace('/', '.')}-{one.scope}"
    lines = granted(case, STUDIES[form], [p for p in held if p.verbs])
    (named,) = [line for line in lines if line.name == "permission"]
    said = entry(one, verb, form)
    assert lacking(named) == [(verb, one.name)]
    assert said.why in named.found
    assert "fairlane cluster rbac --namespace bench" in named.fix
    assert ("--use-existing" in named.fix) == FORMS[form]
    assert named.state == ("warn" if said.optional else "missing")
    assert [line for line in lines if line.state == "missing"] == ([] if said.optional else [named])


@pytest.mark.cluster
@pytest.mark.parametrize("form", FORMS)
def test_all_that_is_missing_is_named(granted: Callable[..., list[Line]], form: str) -> None:
    """To somebody who may nothing: every verb on every resource of the list, once in each place."""
    lines = [line for line in granted(f"{form}-none", STUDIES[form], []) if line.name == "permission"]
    found = [lack for line in lines for lack in lacking(line)]
    assert sorted(found) == sorted((verb, one.name) for one in wanted(form) for verb in one.verbs)


@pytest.mark.cluster
def test_a_data_source_that_may_not_be_read_is_named(granted: Callable[..., list[Line]]) -> None:
    study = furnished.study()
    held = permissions.wanted(permissions.needs(study))
    lines = granted("image", study, [p for p in held if (p.scope, p.resource) != ("source", "datasources")])
    (named,) = [line for line in lines if line.name == "permission"]
    assert lacking(named) == [("get", "datasources.cdi.kubevirt.io")]
    (image,) = [line for line in lines if line.name == "image"]
    assert (image.state, "images/fedora" in image.found) == ("warn", True), "not missing: nobody knows"


@pytest.mark.cluster
def test_a_shared_namespaces_role_ends_at_it(plane: ControlPlane) -> None:
    deployed = Deployed("bench", use_existing=True, source=furnished.IMAGES)
    furnished.in_force(plane, permissions.roles(wanted("shared"), deployed))
    token = plane.service_account_token("bench", permissions.NAME)
    secret = {"metadata": {"name": "mine"}, "stringData": {"a": "b"}}
    plane.call("POST", "/api/v1/namespaces/bench/secrets", secret, token=token)
    with pytest.raises(RefusedError, match="forbidden") as refused:
        plane.call("POST", "/api/v1/namespaces/kubevirt/secrets", secret, token=token)
    assert refused.value.status == 403
    for path in ("/api/v1/namespaces/bench/secrets/mine", "/api/v1/namespaces/bench/secrets", "/api/v1/secrets"):
        with pytest.raises(RefusedError, match="forbidden"):
            plane.call("GET", path, token=token)
    with pytest.raises(RefusedError, match="forbidden"):
        plane.call("DELETE", "/api/v1/namespaces/bench", token=token)
    with pytest.raises(RefusedError, match="forbidden"):
        plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "another"}}, token=token)


@pytest.mark.cluster
def test_the_listed_permissions_suffice_to_clean_a_shared_namespace(plane: ControlPlane, connected: Connected) -> None:
    """What carries the run's label goes, of every kind; what does not stays."""
    furnished.in_force(
        plane, permissions.roles(wanted("shared"), Deployed("bench", use_existing=True, source=furnished.IMAGES))
    )
    kubeconfig = plane.service_account_kubeconfig("bench", permissions.NAME)
    ours, theirs = labels("0123456789"), labels("9876543210")
    for name, mark in (("ours", ours), ("theirs", theirs)):
        plane.apply(left_behind(name, mark))
    left = cleanup.Left("0123456789", "bench", "example", "", own=False)
    user = "system:serviceaccount:bench:fairlane"
    before = plane.requests(user)
    connected(kubeconfig, lambda api: cleanup.remove(api, left, lambda _: None, timeout=120))
    assert [one for one in left_behind("ours", ours) if plane.answers(plane.path(one))] == []
    assert [one for one in left_behind("theirs", theirs) if not plane.answers(plane.path(one))] == []
    asked = {one for one in plane.requests(user) - before if one[1][0] != "/"}
    listed = {(verb, one.resource) for one in wanted("shared") for verb in one.verbs}
    assert asked <= listed
    assert ("deletecollection", "virtualmachines") in asked


def left_behind(name: str, mark: dict[str, str]) -> list[dict[str, Any]]:
    """One of each kind that a run may leave, but for claims, which only a controller lets go."""
    meta = {"metadata": {"name": name, "namespace": "bench", "labels": mark}}
    pod = {"metadata": {"labels": mark}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    vm = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}
    return [
        {"apiVersion": "v1", "kind": "Secret", **meta},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **meta},
        {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", **meta, "spec": vm},
        {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", **meta, "spec": {"source": {"blank": {}}}},
        {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource", **meta, "spec": {"source": {}}},
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            **meta,
            "spec": {"source": {"persistentVolumeClaimName": "x"}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            **meta,
            "spec": {"selector": {"matchLabels": mark}, "template": pod},
        },
    ]


@pytest.mark.cluster
def test_the_account_that_cdi_asks_about_may_clone_the_image_and_no_other(plane: ControlPlane) -> None:
    deployed = Deployed("bench", use_existing=True, source=furnished.IMAGES)
    furnished.in_force(plane, permissions.roles(wanted("shared"), deployed))

    def may(user: str, namespace: str) -> bool:
        attributes = {
            **{"namespace": namespace, "verb": "create", "group": "cdi.kubevirt.io"},
            **{"resource": "datavolumes", "subresource": "source", "name": "fedora"},
        }
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        asked |= {"spec": {"user": user, "resourceAttributes": attributes}}  # type: ignore[dict-item]
        answer = plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)
        return bool(answer["status"]["allowed"])

    assert may("system:serviceaccount:bench:default", furnished.IMAGES)
    assert may("system:serviceaccount:bench:fairlane", furnished.IMAGES)
    assert not may("system:serviceaccount:bench:default", "kubevirt")
    assert not may("system:serviceaccount:other:default", furnished.IMAGES)


@pytest.mark.cluster
def test_without_a_study_the_form_that_is_granted_counts(plane: ControlPlane, connected: Connected) -> None:
    study = furnished.study(use_existing="true")
    held = permissions.wanted(permissions.needs(study))
    deployed = Deployed("bench", use_existing=True)
    furnished.in_force(plane, permissions.roles(held, deployed))
    kubeconfig = plane.service_account_kubeconfig("bench", permissions.NAME)
    lines = connected(kubeconfig, lambda api: preflight.examine(api, None, namespace="bench"))
    assert able(lines)
    (allowed,) = [line for line in lines if line.name == "permissions"]
    assert "bench" in allowed.found
    lines = connected(kubeconfig, lambda api: preflight.examine(api, None))
    assert not able(lines)


# --- the list itself


def table() -> str:
    """The list as docs/cluster.md has it."""
    where = {"run": "namespace of the run", "cluster": "cluster", "source": "namespace of the image"}
    rows = ["| resource | verbs | where | needed by | to |", "|---|---|---|---|---|"]
    for one in PERMISSIONS:
        needed = permissions.NEEDS[one.needed] + (", if allowed" if one.optional else "")
        rows.append(f"| {one.name} | {' '.join(one.verbs)} | {where[one.scope]} | {needed} | {one.why} |")
    return "\n".join(rows)


def test_the_documentation_has_the_whole_list() -> None:
    page = (Path(__file__).parents[3] / "docs/cluster.md").read_text()
    assert f"\n\n{table()}\n\n" in page


def test_nothing_is_asked_for_that_gives_more_than_it_says() -> None:
    for one in PERMISSIONS:
        assert "*" not in (one.group, one.resource, *one.verbs)
        assert one.group != "rbac.authorization.k8s.io"
        assert one.resource not in ("pods/exec", "nodes/proxy", "serviceaccounts/token")
        if one.resource == "secrets":
            assert not {"get", "list", "watch"} & set(one.verbs)
        if one.scope == "cluster" and one.resource != "namespaces":
            assert set(one.verbs) <= {"get", "list", "watch"}, one


def test_only_runs_with_namespaces_of_their_own_write_beyond_one() -> None:
    held = wanted("shared")
    roles = permissions.roles(held, Deployed("bench", use_existing=True, source="images"))
    for role in roles:
        if role["kind"] == "ClusterRole":
            assert {verb for rule in role["rules"] for verb in rule["verbs"]} <= {"get", "list", "watch"}
    assert {role["metadata"].get("namespace") for role in roles} == {None, "bench", "images"}


def test_an_image_of_another_namespace_is_only_asked_for_where_it_is_known() -> None:
    every = permissions.wanted(permissions.needs(None))
    assert "source" not in {one.scope for one in every}
    roles = permissions.roles(wanted("own"), Deployed("bench"))
    assert not any("datavolumes/source" in rule["resources"] for role in roles for rule in role.get("rules", ()))


@pytest.mark.parametrize(
    ("changes", "storm", "platform", "expected"),
    [
        ("datasource:images/fedora -> docker://fedora:41", False, {}, {"always", "own", "nodes"}),
        ("", False, {"node_probes": "off"}, {"always", "own", "source"}),
        ("", True, {}, {"always", "own", "nodes", "source", "storms", "snapshots"}),
        ("clone: snapshot -> clone: copy", True, {}, {"always", "own", "nodes", "source", "storms"}),
        ("", False, {"use_existing": "true"}, {"always", "shared", "nodes", "source"}),
    ],
)
def test_what_a_study_needs(changes: str, storm: bool, platform: dict[str, str], expected: set[str]) -> None:
    assert permissions.needs(furnished.study(changes, storm=storm, **platform)) == expected


def test_a_resource_has_one_rule_per_scope() -> None:
    for form in FORMS:
        keys = [(one.group, one.resource, one.scope) for one in wanted(form)]
        assert len(keys) == len(set(keys))
        assert all(len(one.verbs) == len(set(one.verbs)) for one in wanted(form))
