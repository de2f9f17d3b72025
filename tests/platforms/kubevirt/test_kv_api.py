"""Requests to a real API server: what becomes of objects, and what is refused and how that is told."""

import asyncio
import re
import time
from typing import Any

import pytest

from fairlane.platforms.kubevirt import api as api_module
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api import SENT, Api, ApiError
from fairlane.platforms.kubevirt.kinds import CONFIG_MAP, Kind
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from tests.platforms.kubevirt.conftest import Connected
from tests.words import kind

pytestmark = pytest.mark.cluster


def config_map(name: str, value: str = "", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in found)


def refused(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.status, error.value.reason


def test_objects_come_and_go(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        made = await api.create(CONFIG_MAP, config_map("a", "1", run="x"), namespace)
        assert made["data"] == {"value": "1"}
        assert made["metadata"]["managedFields"][0]["manager"] == "fairlane"
        assert await api.get(CONFIG_MAP, "a", namespace) == made
        assert await api.get(CONFIG_MAP, "b", namespace) is None
        patched = await api.patch(CONFIG_MAP, "a", {"data": {"more": "2"}}, namespace)
        assert patched["data"] == {"value": "1", "more": "2"}
        replaced = await api.replace(CONFIG_MAP, "a", lambda o: {**o, "data": {"only": "3"}}, namespace)
        assert replaced["data"] == {"only": "3"}
        for name, run in (("b", "x"), ("c", "y"), ("d", "x")):
            await api.create(CONFIG_MAP, config_map(name, run=run), namespace)
        assert names(await api.list(CONFIG_MAP, namespace, labels="run=x")) == ["a", "b", "d"]
        assert names(await api.list(CONFIG_MAP, namespace, fields="metadata.name=c")) == ["c"]
        assert {(o["apiVersion"], o["kind"]) for o in await api.list(CONFIG_MAP, namespace)} == {("v1", "ConfigMap")}
        assert await api.delete(CONFIG_MAP, "a", namespace)
        assert not await api.delete(CONFIG_MAP, "a", namespace)
        await api.delete_all(CONFIG_MAP, namespace, "run=x")
        assert names(await api.list(CONFIG_MAP, namespace)) == ["c"]
        assert api.counts["create", "configmaps"] == 4
        assert api.counts["list", "configmaps"] == 4
        assert not api.retried

    connected(control_plane.kubeconfig(), work)


def test_a_list_comes_by_pages(
    control_plane: ControlPlane, namespace: str, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "_PAGE", 2)

    async def work(api: Api) -> None:
        for i in range(5):
            await api.create(CONFIG_MAP, config_map(f"n{i}"), namespace)
        assert names(await api.list(CONFIG_MAP, namespace)) == ["n0", "n1", "n2", "n3", "n4"]
        assert api.counts["list", "configmaps"] == 3

    connected(control_plane.kubeconfig(), work)


def test_a_list_that_expires_between_two_pages_begins_again(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    namespace: str,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_module, "_PAGE", 2)
    proxy.answer("GET .*continue=", 410)

    async def work(api: Api) -> None:
        for i in range(5):
            await api.create(CONFIG_MAP, config_map(f"n{i}"), namespace)
        assert names(await api.list(CONFIG_MAP, namespace)) == ["n0", "n1", "n2", "n3", "n4"]

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_questions_are_answered_without_a_trace(control_plane: ControlPlane, connected: Connected) -> None:
    async def work(api: Api) -> None:
        asked = {
            "spec": {"resourceAttributes": {"verb": "create", "group": "kubevirt.io", "resource": "virtualmachines"}}
        }
        assert (await api.create(kinds.ACCESS_REVIEW, asked))["status"]["allowed"] is False
        assert (await api.create(kinds.WHO_AM_I, {}))["status"]["userInfo"]["username"] == "somebody"
        assert (await api.call("GET", "/version"))["minor"] == "35"

    connected(control_plane.kubeconfig("somebody"), work)


# What is refused, and how that is told


def test_a_field_that_the_server_does_not_know_is_refused(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    vm = {
        "metadata": {"name": "m"},
        "spec": {"runStrategy": "Always", "tempate": {}, "template": {"spec": {"domain": {}}}},
    }

    async def work(api: Api) -> None:
        with pytest.raises(ApiError, match="tempate", check=kind("field-unknown")) as error:
            await api.create(kinds.VM, vm, namespace)
        assert refused(error) == (400, "BadRequest")
        assert f"create VirtualMachine {namespace}/m" in error.value.message
        with pytest.raises(ApiError, match=r"ConfigMap\.data\b", check=kind("api")) as error:
            await api.create(CONFIG_MAP, {"metadata": {"name": "m"}, "data": {"value": 1}}, namespace)
        assert refused(error) == (400, "BadRequest")

    connected(control_plane.kubeconfig(), work)


def test_a_value_that_is_wrong_is_named(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        with pytest.raises(ApiError, match=r"metadata\.name") as error:
            await api.create(CONFIG_MAP, config_map("Not_A_Name"), namespace)
        assert refused(error) == (422, "Invalid")
        with pytest.raises(ApiError, match=r"spec\.template") as error:
            await api.create(kinds.VM, {"metadata": {"name": "m"}, "spec": {"runStrategy": "Always"}}, namespace)
        assert refused(error) == (422, "Invalid")

    connected(control_plane.kubeconfig(), work)


def test_who_may_not_is_told_where_to_look(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        with pytest.raises(ApiError, match=r"somebody.*virtualmachines", check=kind("forbidden")) as error:
            await api.list(kinds.VM, namespace)
        assert refused(error) == (403, "Forbidden")
        assert f"list VirtualMachine {namespace}" in error.value.message
        assert "fairlane doctor" in error.value.hint

    connected(control_plane.kubeconfig("somebody"), work)


def test_a_kind_that_is_not_installed_is_no_missing_object(control_plane: ControlPlane, connected: Connected) -> None:
    unknown = Kind("forklift.cdi.kubevirt.io", "v1", "things", "Thing")

    async def work(api: Api) -> None:
        with pytest.raises(ApiError, check=kind("not-installed")) as error:
            await api.get(unknown, "a", "default")
        assert error.value.unknown_kind
        assert "CDI" in error.value.hint
        with pytest.raises(ApiError, match="no-such-namespace", check=kind("api")) as error:
            await api.create(CONFIG_MAP, config_map("a"), "no-such-namespace")
        assert refused(error) == (404, "NotFound")
        assert not error.value.unknown_kind

    connected(control_plane.kubeconfig(), work)


def test_a_quota_that_is_used_up_says_which(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    hard = {"count/configmaps": "3"}

    async def fill(api: Api) -> None:
        for i in range(1000):  # the quota is seen by the server a moment after it is made
            await api.create(CONFIG_MAP, config_map(f"a{i}"), namespace)

    async def work(api: Api) -> None:
        await api.create(kinds.QUOTA, {"metadata": {"name": "small"}, "spec": {"hard": hard}}, namespace)
        await api.patch(kinds.QUOTA, "small", {"status": {"hard": hard}}, namespace, "status")
        filling = asyncio.create_task(fill(api))
        while not api.retried["403"]:  # its controller has not counted yet: that passes
            await asyncio.sleep(0.01)
        used = {"count/configmaps": "2"}
        await api.patch(kinds.QUOTA, "small", {"status": {"hard": hard, "used": used}}, namespace, "status")
        with pytest.raises(ApiError, match="small", check=kind("quota-full")) as error:
            await filling
        assert refused(error) == (403, "Forbidden")
        assert re.findall("small|count/configmaps=1", error.value.hint) == ["small", "count/configmaps=1"]

    connected(control_plane.kubeconfig(), work)


def test_a_policy_of_the_cluster_is_told_as_it_is(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    group = "admissionregistration.k8s.io"
    policy = Kind(group, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
    binding = Kind(
        group, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    )
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}

    async def until_it_is_refused(api: Api) -> None:
        for i in range(1000):  # a policy takes effect a moment later
            await api.create(CONFIG_MAP, config_map(f"a{i}"), namespace)
            await asyncio.sleep(0.05)

    async def work(api: Api) -> None:
        spec = {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "message": "ask-the-storage-team"}],
        }
        await api.create(policy, {"metadata": {"name": namespace}, "spec": spec})
        bound = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": here}
        await api.create(binding, {"metadata": {"name": namespace}, "spec": bound})
        try:
            with pytest.raises(ApiError, match="ask-the-storage-team", check=kind("policy")) as error:
                await until_it_is_refused(api)
            assert namespace in error.value.hint
        finally:
            await api.delete(binding, namespace)
            await api.delete(policy, namespace)

    connected(control_plane.kubeconfig(), work)


def test_requests_keep_to_their_rate(control_plane: ControlPlane, connected: Connected) -> None:
    async def work(api: Api) -> None:
        began = time.monotonic()
        all_had_begun = began

        async def last() -> None:
            nonlocal all_had_begun
            all_had_begun = time.monotonic()

        await asyncio.gather(*(api.call("GET", "/version") for _ in range(31)), last())
        assert time.monotonic() - began >= 1
        # 20 more than the burst, at 20 per second: they wait 1/20, 2/20, ... 1 second, less what passed before.
        waited = api.waited
        assert 10.5 - 20 * (all_had_begun - began) - 1e-6 <= waited <= 10.5 + 1e-6
        await api.rested()
        await asyncio.gather(*(api.call("GET", "/version") for _ in range(11)))
        assert api.waited == waited  # a whole burst was there

    connected(control_plane.kubeconfig(), work, qps=20, burst=11)


def test_what_is_created_carries_the_hash_of_what_was_sent(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        made = [await api.create(CONFIG_MAP, config_map(n, v), namespace) for n, v in (("a", "1"), ("b", "1"))]
        hashes = [thing["metadata"]["annotations"][SENT] for thing in made]
        assert len(set(hashes)) == 2
        assert all(re.fullmatch("[0-9a-f]{32}", found) for found in hashes)

    connected(control_plane.kubeconfig(), work)


def test_deleting_many_needs_labels(control_plane: ControlPlane, connected: Connected) -> None:
    async def work(api: Api) -> None:
        with pytest.raises(ValueError, match="label"):
            await api.delete_all(CONFIG_MAP, "default", "")
        with pytest.raises(ValueError, match="namespace"):
            await api.delete_all(CONFIG_MAP, "", "run=x")

    connected(control_plane.kubeconfig(), work)
