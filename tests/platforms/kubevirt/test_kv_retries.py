"""Requests to a real API server that is slow, refuses, resets and forgets: what passes is asked again, once is once."""

import asyncio
import re
import time
from collections import Counter
from typing import Any

import pytest

from fairlane.platforms.kubevirt.api import Api, ApiError
from fairlane.platforms.kubevirt.kinds import CONFIG_MAP
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from tests.platforms.kubevirt.conftest import Connected
from tests.words import kind

pytestmark = pytest.mark.cluster

PATIENCE = 280
"""Seconds for a server that is started again: longer than it is waited for (``ControlPlane.wait``)."""


def config_map(name: str, value: str = "", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in found)


def refused(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.status, error.value.reason


def test_a_server_that_has_too_much_to_do_is_asked_again_when_it_said(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    namespace: str,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlane.platforms.kubevirt.transport._NEWS_SECONDS", 1e9)
    proxy.answer("POST .*configmaps", 429, times=2, after="1")
    told: list[str] = []

    async def work(api: Api) -> None:
        began = time.monotonic()
        await api.create(CONFIG_MAP, config_map("a"), namespace)
        assert time.monotonic() - began >= 2
        assert api.retried == Counter({"429": 2})
        assert api.counts["create", "configmaps"] == 3

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, notify=told.append)
    assert len(told) == 1
    assert "TooManyRequests" in told[0]


@pytest.mark.slow
def test_a_storm_of_500_is_sat_out(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    proxy.answer("configmaps", 500, times=40, every=2)
    proxy.answer("configmaps", 503, times=10, every=3, carried_out=True)

    async def work(api: Api) -> None:
        wanted = [f"n{i}" for i in range(20)]
        await asyncio.gather(*(api.create(CONFIG_MAP, config_map(n), namespace) for n in wanted))
        assert names(await api.list(CONFIG_MAP, namespace)) == sorted(wanted)
        assert all(await asyncio.gather(*(api.delete(CONFIG_MAP, n, namespace) for n in wanted)))
        assert await api.list(CONFIG_MAP, namespace) == []
        assert api.retried["500"] > 10

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, qps=500)


@pytest.mark.parametrize("answered", [0, 504])
def test_a_creation_whose_answer_was_lost_is_known_again(
    answered: int, control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    if answered:
        proxy.answer("POST .*configmaps", answered, carried_out=True)
    else:
        proxy.reset("POST .*configmaps", carried_out=True)

    async def work(api: Api) -> None:
        made = await api.create(CONFIG_MAP, config_map("a", "1"), namespace)
        assert made["data"] == {"value": "1"}
        assert made == await api.get(CONFIG_MAP, "a", namespace)
        assert [status for method, _, status in proxy.requests if method == "POST"] == [answered, 409]

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_somebody_elses_object_is_not_taken_for_ours(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a", "theirs"), namespace)
        with pytest.raises(ApiError, match="already exists"):  # the same thing again, and nothing was lost
            await api.create(CONFIG_MAP, config_map("a", "theirs"), namespace)
        proxy.reset("POST .*configmaps")
        with pytest.raises(ApiError, match="already exists") as error:
            await api.create(CONFIG_MAP, config_map("a", "ours"), namespace)
        assert refused(error) == (409, "AlreadyExists")
        ending = {"metadata": {"finalizers": ["fairlane.io/test"]}}
        await api.patch(CONFIG_MAP, "a", ending, namespace)
        await api.delete(CONFIG_MAP, "a", namespace)
        proxy.reset("POST .*configmaps")
        with pytest.raises(ApiError, match="already exists"):  # as it was sent, but on its way out
            await api.create(CONFIG_MAP, config_map("a", "theirs"), namespace)
        await api.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, namespace)

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_a_deletion_whose_answer_was_lost_is_done(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    proxy.reset("DELETE .*configmaps", carried_out=True)

    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a"), namespace)
        assert await api.delete(CONFIG_MAP, "a", namespace)
        assert [status for method, _, status in proxy.requests if method == "DELETE"] == [0, 404]

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_only_the_object_that_is_meant_is_deleted(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        first = await api.create(CONFIG_MAP, config_map("a", "1"), namespace)
        await api.delete(CONFIG_MAP, "a", namespace, uid=first["metadata"]["uid"])
        second = await api.create(CONFIG_MAP, config_map("a", "2"), namespace)
        assert not await api.delete(CONFIG_MAP, "a", namespace, uid=first["metadata"]["uid"])
        assert await api.get(CONFIG_MAP, "a", namespace) == second

    connected(control_plane.kubeconfig(), work)


def test_changes_at_the_same_time_are_all_made(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    others = [{"metadata": {"labels": {"somebody": "was-quicker"}}}]

    def one_more(thing: dict[str, Any]) -> dict[str, Any]:
        if others:  # so that there is a conflict at least once, however quick the server is
            control_plane.call("PATCH", path, others.pop(), kind="application/merge-patch+json")
        return {**thing, "data": {"value": str(int(thing["data"]["value"]) + 1)}}

    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a", "0"), namespace)
        await asyncio.gather(*(api.replace(CONFIG_MAP, "a", one_more, namespace) for _ in range(12)))
        found = await api.get(CONFIG_MAP, "a", namespace)
        assert found
        assert found["data"] == {"value": "12"}
        assert found["metadata"]["labels"] == {"somebody": "was-quicker"}
        assert api.retried["conflict"] > 0

    connected(control_plane.kubeconfig(), work)


def test_a_conflict_of_a_patch_passes_unless_it_is_tied_to_a_version(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    proxy.answer("PATCH", 409, times=2, message="the object has been modified")

    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a"), namespace)
        assert (await api.patch(CONFIG_MAP, "a", {"data": {"b": "1"}}, namespace))["data"]["b"] == "1"
        tied = {"metadata": {"resourceVersion": "1"}, "data": {"b": "2"}}
        with pytest.raises(ApiError, match="modified") as error:
            await api.patch(CONFIG_MAP, "a", tied, namespace)
        assert refused(error) == (409, "Conflict")

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


@pytest.mark.slow
def test_a_server_that_goes_and_comes_back_is_waited_for(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a"), namespace)
        control_plane.kill_apiserver()
        creating = [asyncio.create_task(api.create(CONFIG_MAP, config_map(f"b{i}"), namespace)) for i in range(5)]
        while api.retried["connection"] < 5:
            await asyncio.sleep(0.01)
        control_plane.start_apiserver()  # not in a thread: it would end with it
        await asyncio.gather(*creating)
        assert len(await api.list(CONFIG_MAP, namespace)) == 6

    connected(control_plane.kubeconfig(), work, patience=PATIENCE)


def test_patience_ends(control_plane: ControlPlane, proxy: FaultProxy, connected: Connected) -> None:
    proxy.answer("/version", 503, times=1e9)

    async def work(api: Api) -> None:
        with pytest.raises(ApiError, match=r"\btest\b.*\b\d+\b.*\b\d+ s\b", check=kind("api")) as error:
            await api.call("GET", "/version")
        assert refused(error) == (503, "ServiceUnavailable")
        proxy.down()
        with pytest.raises(ApiError, match=re.escape(proxy.url), check=kind("api-unreachable")) as error:
            await api.call("GET", "/version")
        assert refused(error) == (0, "Unreachable")
        assert error.value.hint

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, patience=1)


def test_a_call_that_may_have_been_carried_out_is_not_made_twice(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def work(api: Api) -> None:
        proxy.reset("POST", carried_out=True)
        with pytest.raises(ApiError):
            await api.call("POST", path, body=config_map("a"))
        proxy.answer("POST", 429)
        await api.call("POST", path, body=config_map("b"))
        assert [status for method, _, status in proxy.requests if method == "POST"] == [0, 429, 201]

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_whoever_is_cancelled_does_not_wait(
    control_plane: ControlPlane, proxy: FaultProxy, connected: Connected
) -> None:
    proxy.answer("/version", 429, times=1e9, after="100")
    proxy.ignore("/healthz", times=1e9)

    async def work(api: Api) -> None:
        asking = [asyncio.create_task(api.call("GET", path)) for path in ("/version", "/healthz")]
        while len(proxy.requests) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        for task in asking:
            task.cancel()
        # Not after a hundred seconds: the test's own limit is below the two waits together.
        done = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(answer, asyncio.CancelledError) for answer in done)

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, patience=1000)
