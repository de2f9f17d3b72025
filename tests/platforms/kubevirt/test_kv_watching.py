"""Objects of a real API server as they change, while the way to it is cut in every manner."""

import asyncio
import json
import random
import re
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from fairlane.errors import RunFailed
from fairlane.platforms.kubevirt import api as api_module
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api import Api, ApiError
from fairlane.platforms.kubevirt.kinds import CONFIG_MAP
from fairlane.platforms.kubevirt.watching import Watcher, WatchEvent
from testkit.control_plane import ControlPlane
from testkit.faults import Cut, FaultProxy
from tests.platforms.kubevirt.conftest import Connected
from tests.words import kind

pytestmark = pytest.mark.cluster

LONG = 200
"""Seconds for what comes: a busy machine takes its time."""
AWAY = 280
"""Seconds for a server that is started again: longer than it is waited for (``ControlPlane.wait``)."""
Items = Mapping[str, dict[str, Any]]


def config_map(name: str, value: str = "", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


def has(name: str, value: str | None = None) -> Any:
    """Finds: there is such a ConfigMap, with that value."""

    def found(items: Items) -> bool | None:
        there = name in items and (value is None or items[name]["data"]["value"] == value)
        return there or None

    return found


def story(seen: list[WatchEvent]) -> list[tuple[str, str, bool]]:
    return [(s.type, s.object["metadata"]["name"], s.listed) for s in seen]


async def set_value(api: Api, name: str, value: str, namespace: str) -> None:
    await api.patch(CONFIG_MAP, name, {"data": {"value": value}}, namespace)


def test_what_is_there_and_what_happens(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        for name, run in (("a", "x"), ("b", "y"), ("c", "x")):
            await api.create(CONFIG_MAP, config_map(name, run=run), namespace)
        seen: list[WatchEvent] = []
        late: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace, "run=x")
        watcher.listen(seen.append)
        async with watcher:
            assert sorted(watcher.items) == ["a", "c"]
            await api.create(CONFIG_MAP, config_map("d", "1", run="x"), namespace)
            await api.create(CONFIG_MAP, config_map("e", "1", run="y"), namespace)
            assert await watcher.until(has("d"), LONG, "d is not there")
            watcher.listen(late.append)
            await set_value(api, "d", "2", namespace)
            await api.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"run": "y"}}}, namespace)
            await api.delete(CONFIG_MAP, "c", namespace)
            await watcher.until(lambda items: None if "c" in items else True, LONG, "c is still there")
        assert story(seen) == [
            ("ADDED", "a", True), ("ADDED", "c", True), ("ADDED", "d", False), ("MODIFIED", "d", False),
            ("DELETED", "a", False), ("DELETED", "c", False),
        ]  # fmt: skip
        assert story(late)[:3] == [("ADDED", "a", True), ("ADDED", "c", True), ("ADDED", "d", True)]
        assert story(late)[3:] == story(seen)[3:]
        assert sorted(watcher.items) == ["d"]
        assert [s.time for s in seen] == sorted(s.time for s in seen)
        assert watcher.at >= seen[-1].time  # there may have been a bookmark
        assert watcher.gaps == []
        assert not any("managedFields" in s.object["metadata"] for s in seen)
        assert api.counts["watch", "configmaps"] == 1

    connected(control_plane.kubeconfig(), work)


def test_all_namespaces_have_their_names_apart(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        label = {"all": namespace}
        await api.create(CONFIG_MAP, config_map("a", **label), namespace)
        await api.create(CONFIG_MAP, config_map("a", **label), "default")
        async with Watcher(api, CONFIG_MAP, labels=f"all={namespace}") as watcher:
            assert sorted(watcher.items) == sorted(["default/a", f"{namespace}/a"])
        async with Watcher(api, kinds.NAMESPACE) as watcher:
            assert namespace in watcher.items

    connected(control_plane.kubeconfig(), work)


def test_no_state_is_passed_over(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a", "0"), namespace)
        async with Watcher(api, CONFIG_MAP, namespace) as watcher:
            waiting = [asyncio.create_task(watcher.until(has("a", str(i)), LONG, f"never {i}")) for i in range(1, 30)]
            for i in range(1, 30):
                await set_value(api, "a", str(i), namespace)
            assert all(await asyncio.gather(*waiting))

    connected(control_plane.kubeconfig(), work)


def test_waiting_ends(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    def wrong(items: Items) -> Any:
        return items["no such"]["data"]

    async def work(api: Api) -> None:
        async with Watcher(api, CONFIG_MAP, namespace) as watcher:
            with pytest.raises(RunFailed, match=r"^PVC-x\b.*\b0 s\b", check=kind("timeout")):
                await watcher.until(has("a"), 0.2, "PVC-x")
            with pytest.raises(KeyError):
                await watcher.until(wrong, LONG, "it is not asked for long")

    connected(control_plane.kubeconfig(), work)


def test_a_long_list_comes_whole(
    control_plane: ControlPlane, namespace: str, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "_PAGE", 3)

    async def work(api: Api) -> None:
        await asyncio.gather(*(api.create(CONFIG_MAP, config_map(f"n{i}"), namespace) for i in range(10)))
        seen: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(seen.append)
        async with watcher:
            await api.create(CONFIG_MAP, config_map("last"), namespace)
            await watcher.until(has("last"), LONG, "the last is not there")
        assert Counter(s.object["metadata"]["name"] for s in seen) == Counter([*(f"n{i}" for i in range(10)), "last"])

    connected(control_plane.kubeconfig(), work)


# The watch is cut


REASONS: dict[Cut, str] = {
    "end": "before its time",
    "reset": "connection was lost",
    "gone": "Expired: too old",
    "error": "InternalError: injected",
    "garbage": "an invalid event",
}


@pytest.mark.parametrize("how", REASONS)
def test_what_happens_while_the_watch_is_cut_is_learnt_and_marked_as_late(
    how: Cut, control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        for name in ("a", "b", "c"):
            await api.create(CONFIG_MAP, config_map(name, "0"), namespace)
        seen: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(seen.append)
        async with watcher:
            await set_value(api, "a", "1", namespace)
            await watcher.until(has("a", "1"), LONG, "a is not 1")
            del seen[:]
            proxy.answer(r"GET .*/configmaps\?", 500, times=1e9)  # neither watch nor list
            assert proxy.cut(how) == 1
            await set_value(api, "a", "2", namespace)
            await set_value(api, "a", "3", namespace)
            await api.delete(CONFIG_MAP, "b", namespace)
            first = watcher.items["c"]["metadata"]["uid"]
            await api.delete(CONFIG_MAP, "c", namespace)
            await api.create(CONFIG_MAP, config_map("c", "new"), namespace)
            while not api.retried["500"]:
                await asyncio.sleep(0.01)
            assert seen == []
            proxy.calm()
            await watcher.until(
                lambda items: has("c", "new")(items) and has("a", "3")(items), LONG, "news did not come"
            )
            assert watcher.items["c"]["metadata"]["uid"] != first
            assert {s.listed for s in seen} == {True}
            if how == "gone":  # a new list: only the last states are known
                assert sorted(story(seen)) == [
                    ("ADDED", "c", True), ("DELETED", "b", True), ("DELETED", "c", True), ("MODIFIED", "a", True)
                ]  # fmt: skip
            else:
                assert story(seen) == [
                    ("MODIFIED", "a", True), ("MODIFIED", "a", True), ("DELETED", "b", True), ("DELETED", "c", True),
                    ("ADDED", "c", True),
                ]  # fmt: skip
            for value in range(4, 30):
                await set_value(api, "a", str(value), namespace)
                await watcher.until(has("a", str(value)), LONG, f"a is not {value}")
                if not seen[-1].listed:  # after a list, the watch stands a moment later
                    break
            assert story(seen)[-1] == ("MODIFIED", "a", False)
        assert sorted(watcher.items) == ["a", "c"]
        assert len(watcher.gaps) == 1
        assert REASONS[how] in watcher.gaps[0].reason

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_a_watch_that_ends_when_it_should_goes_on_from_there(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    namespace: str,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlane.platforms.kubevirt.watching._SHORTEST_SECONDS", 1)
    monkeypatch.setattr("fairlane.platforms.kubevirt.watching._LONGEST_SECONDS", 1)

    def asked() -> list[int]:
        """The versions from which watches began."""
        paths = [path for _, path, _ in proxy.requests if "watch=1" in path]
        return [int(re.findall("resourceVersion=([0-9]+)", path)[0]) for path in paths]

    async def work(api: Api) -> None:
        seen: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(seen.append)
        async with watcher:
            i = 0
            while len(set(asked())) < 4:
                await api.create(CONFIG_MAP, config_map(f"n{i}"), namespace)
                await asyncio.sleep(0.02)
                i += 1
            await watcher.until(has(f"n{i - 1}"), LONG, "the last is not there")
        assert [s.object["metadata"]["name"] for s in seen] == [f"n{k}" for k in range(i)]
        assert watcher.gaps == []
        assert asked() == sorted(asked())  # each from where the one before it ended

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


def test_a_quiet_server_is_told_from_a_dead_connection(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    namespace: str,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlane.platforms.kubevirt.transport._SILENCE_SECONDS", 1)

    async def work(api: Api) -> None:
        seen: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(seen.append)
        async with watcher:
            while api.counts["watch", "configmaps"] < 3:
                await asyncio.sleep(0.01)
            assert watcher.gaps == []
            proxy.mute()  # those that come, too: creating may take longer than the silence
            await api.create(CONFIG_MAP, config_map("a"), namespace)
            assert seen == []
            proxy.calm()
            await watcher.until(has("a"), LONG, "a did not come")
        assert story(seen) == [("ADDED", "a", True)]
        assert [gap.silent for gap in watcher.gaps] == [True]
        assert watcher.gaps[0].time < seen[0].time

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work)


@pytest.mark.slow
def test_a_restarted_server_is_followed_again(
    control_plane: ControlPlane, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        await api.create(CONFIG_MAP, config_map("a", "0"), namespace)
        async with Watcher(api, CONFIG_MAP, namespace) as watcher:
            for how in (control_plane.kill_apiserver, None):
                if how:
                    how()
                    while not watcher.gaps:
                        await asyncio.sleep(0.01)
                    control_plane.start_apiserver()
                else:
                    control_plane.restart_apiserver()
                value = f"after {how}"
                await set_value(api, "a", value, namespace)
                await watcher.until(has("a", value), LONG, "the change did not come")
            assert len(watcher.gaps) >= 2

    connected(control_plane.kubeconfig(), work, patience=AWAY)


@pytest.mark.slow
def test_versions_that_the_server_has_forgotten(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    """The real 410: history compacted in etcd, and the API server's cache gone with a restart."""

    async def work(api: Api) -> None:
        for name in ("a", "b"):
            await api.create(CONFIG_MAP, config_map(name, "0"), namespace)
        seen: list[WatchEvent] = []
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(seen.append)
        async with watcher:
            del seen[:]
            proxy.down()
            await asyncio.to_thread(change_and_forget, control_plane, namespace)
            control_plane.restart_apiserver()
            proxy.up()
            await watcher.until(has("c"), LONG, "c did not come")
            assert sorted(story(seen)) == [("ADDED", "c", True), ("DELETED", "b", True), ("MODIFIED", "a", True)]
            assert any(re.search("too old resource version|Expired|Gone", gap.reason) for gap in watcher.gaps)

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, patience=AWAY)


def change_and_forget(plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.call("PATCH", f"{path}/a", {"data": {"value": "1"}}, kind="application/merge-patch+json")
    plane.call("DELETE", f"{path}/b")
    last = plane.call("POST", path, config_map("c"))["metadata"]["resourceVersion"]
    body = json.dumps({"revision": last, "physical": True}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{plane._client_port}/v3/kv/compaction", body, timeout=60) as answer:
        assert answer.status == 200


def test_chaos_loses_nothing(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    """Objects come, change and go while the watch is cut twenty times in all manners. Each ends as it is, and each
    story is in order."""
    dice = random.Random(6)  # noqa: S311
    known: dict[str, WatchEvent] = {}
    told: list[str] = []

    def listener(seen: WatchEvent) -> None:
        name, version = seen.object["metadata"]["name"], int(seen.object["metadata"]["resourceVersion"])
        before = known.get(name)
        if before and (version <= int(before.object["metadata"]["resourceVersion"]) and seen.type != "DELETED"):
            told.append(f"{name} went back")
        if (seen.type == "ADDED") != (before is None):
            told.append(f"{name}: {seen.type} after {before and before.type}")
        if seen.type == "DELETED":
            del known[name]
        else:
            known[name] = seen

    async def work(api: Api) -> None:
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(listener)

        async def change(name: str) -> None:
            await api.create(CONFIG_MAP, config_map(name), namespace)
            for value in range(dice.randrange(4)):
                await set_value(api, name, str(value), namespace)
                await asyncio.sleep(dice.random() / 10)
            if dice.random() < 0.4:
                await api.delete(CONFIG_MAP, name, namespace)

        async def cut() -> None:
            for _ in range(20):
                await asyncio.sleep(dice.random() / 10)
                proxy.cut(dice.choice(["end", "reset", "gone", "error", "garbage"]))

        async with watcher:
            cutting = asyncio.create_task(cut())
            for start in range(0, 200, 20):
                await asyncio.gather(*(change(f"n{i}") for i in range(start, start + 20)))
            await cutting
            await api.create(CONFIG_MAP, config_map("last"), namespace)
            await watcher.until(has("last"), LONG, "the last did not come")
        truth = {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in await api.list(CONFIG_MAP, namespace)}
        assert {n: o["metadata"]["resourceVersion"] for n, o in watcher.items.items()} == truth
        assert {n: s.object["metadata"]["resourceVersion"] for n, s in known.items()} == truth
        assert told == []
        assert watcher.gaps

    connected(proxy.kubeconfig(control_plane.kubeconfig()), work, qps=500, burst=500)


# What ends it for good


def test_a_listener_that_fails_is_heard(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    def fails(seen: WatchEvent) -> None:
        if seen.object["metadata"]["name"] == "bad":
            raise ZeroDivisionError

    async def work(api: Api) -> None:
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(fails)

        async def body(*, wait: bool) -> None:
            async with watcher:
                await api.create(CONFIG_MAP, config_map("bad"), namespace)
                if wait:
                    await watcher.until(has("never"), LONG, "it would be waited for in vain")
                while watcher._broken is None:
                    await asyncio.sleep(0.01)

        with pytest.raises(ZeroDivisionError):
            await body(wait=True)
        await api.delete(CONFIG_MAP, "bad", namespace)
        watcher = Watcher(api, CONFIG_MAP, namespace)
        watcher.listen(fails)
        with pytest.raises(ZeroDivisionError):
            await body(wait=False)

    connected(control_plane.kubeconfig(), work)


def test_a_server_that_stays_away_is_told(
    control_plane: ControlPlane, proxy: FaultProxy, namespace: str, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        async with Watcher(api, CONFIG_MAP, namespace) as watcher:
            proxy.down()
            await watcher.until(has("never"), LONG, "it would be waited for in vain")

    with pytest.raises(ApiError, match="ConfigMap", check=kind("api-unreachable")):
        connected(proxy.kubeconfig(control_plane.kubeconfig()), work, patience=1)


def test_who_may_not_watch_learns_it_at_once(control_plane: ControlPlane, namespace: str, connected: Connected) -> None:
    async def work(api: Api) -> None:
        async with Watcher(api, kinds.VMI, namespace):
            pass

    with pytest.raises(ApiError, match="VirtualMachineInstance", check=kind("forbidden")):
        connected(control_plane.kubeconfig("somebody"), work)
