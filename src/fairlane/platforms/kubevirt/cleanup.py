"""Removing what a run made in a cluster, and finding what killed runs left: by labels, so that nothing else is touched.

A namespace that the run made goes as a whole; in one that was there before, kind by kind, machines first: their
volumes are in use until then.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlane.errors import Exit, FairlaneError, RunFailed
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import heartbeat, kinds
from fairlane.platforms.kubevirt.api import SENT
from fairlane.platforms.kubevirt.api_errors import ApiError
from fairlane.platforms.kubevirt.labels import FAIRLANE, MANAGED_BY, RUN, selector
from fairlane.platforms.kubevirt.watching import Watcher

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

TIMEOUT = 600.0
"""Seconds for one kind of object, or for the namespace, to be gone: volumes are deleted by their drivers meanwhile."""

_ORDER = (
    kinds.DAEMON_SET, kinds.VM, kinds.VMI, kinds.DATA_VOLUME, kinds.DATA_SOURCE, kinds.SNAPSHOT, kinds.PVC,
    kinds.SECRET, kinds.LEASE,
)  # fmt: skip
"""Kinds of what a run makes, in the order in which they go."""
_FOLLOW = (kinds.VMI,)
"""Made by the cluster for ours: waited for, not deleted by us."""


@dataclass(frozen=True)
class Left:
    """A run that has something in the cluster."""

    run_id: str
    namespace: str
    study: str
    holder: str
    """Who carries it out, or did: HOST/PID; empty: not known."""
    own: bool
    """The namespace was made for the run."""
    lease: Mapping[str, Any] | None = None


_RUN_ID = re.compile("[0-9a-f]{10}")


def namespace_of(prefix: str, run_id: str, *, use_existing: bool) -> str:
    """Name of the namespace in which a run has its objects."""
    return prefix if use_existing else f"{prefix[: 63 - len(run_id) - 1].rstrip('-')}-{run_id}"


async def runs(api: "Api", namespace: str = "") -> list[Left]:
    """Runs that have something in the cluster: namespaces made for one, and with ``namespace`` those that share it.
    Raises RunFailed."""
    found = []
    for one in await api.list(kinds.NAMESPACE, labels=selector()):
        meta = one["metadata"]
        if meta.get("deletionTimestamp") and not one.get("spec", {}).get("finalizers"):
            continue
        run_id = str(meta["labels"].get(RUN, ""))
        if _made_for(meta, run_id):
            lease = await api.get(kinds.LEASE, heartbeat.name(run_id), meta["name"])
            found.append(_left(run_id, meta["name"], lease, own=True))
    if namespace and namespace not in {one.namespace for one in found}:
        for lease in await api.list(kinds.LEASE, namespace, labels=selector()):
            run_id = heartbeat.run_of(lease)
            if _RUN_ID.fullmatch(run_id) and lease["metadata"]["name"] == heartbeat.name(run_id):
                found.append(_left(run_id, namespace, lease, own=False))
    return found


def _made_for(namespace: Mapping[str, Any], run_id: str) -> bool:
    """The namespace with this metadata was made by run ``run_id``: labels alone may have been copied from one."""
    sent = SENT in (namespace.get("annotations") or {})
    return bool(_RUN_ID.fullmatch(run_id)) and sent and str(namespace["name"]).endswith(f"-{run_id}")


def _left(run_id: str, namespace: str, lease: Mapping[str, Any] | None, *, own: bool) -> Left:
    holder = str(lease["spec"].get("holderIdentity", "")) if lease else ""
    return Left(run_id, namespace, heartbeat.study(lease) if lease else "", holder, own, lease)


async def remove(api: "Api", left: Left, notify: Notify, timeout: float = TIMEOUT) -> None:
    """Removes everything of a run and waits until it is gone. Raises RunFailed with what is still there, and why."""
    if left.own:
        await _remove_namespace(api, left, notify, timeout)
        return
    for kind in _ORDER:
        if kind not in _FOLLOW:
            try:
                await api.delete_all(kind, left.namespace, selector(left.run_id))
            except ApiError as error:
                if error.status == 404:
                    continue  # the cluster does not know the kind, so there are none
                raise
        if kind in (kinds.SECRET, kinds.LEASE):
            continue  # nothing holds them, so they are gone at once
        async with Watcher(api, kind, left.namespace, selector(left.run_id)) as watcher:
            if watcher.items:
                notify(f"waiting until {len(watcher.items)} {kind.plural} of run {left.run_id} are gone")
            try:
                await watcher.until(lambda items: None if items else True, timeout, f"{kind.plural} do not go")
            except RunFailed as error:
                raise RunFailed(
                    f"still there in namespace {left.namespace}: {_held(kind, watcher.items)}", hint=_FINALIZERS
                ) from error


async def _remove_namespace(api: "Api", left: Left, notify: Notify, timeout: float) -> None:
    name = left.namespace
    there = await api.get(kinds.NAMESPACE, name)
    if there is None:
        return
    marks = there["metadata"].get("labels", {})
    labelled = (marks.get(MANAGED_BY), marks.get(RUN)) == (FAIRLANE, left.run_id)
    if not labelled or not _made_for(there["metadata"], left.run_id):
        raise RunFailed(f"namespace {name} is not of run {left.run_id}: it is left alone", hint="remove it by hand")
    async with Watcher(api, kinds.NAMESPACE, labels=selector(left.run_id)) as watcher:
        await api.delete(kinds.NAMESPACE, name, uid=there["metadata"]["uid"])
        notify(f"waiting until namespace {name} is gone")
        try:
            await watcher.until(lambda items: None if name in items else True, timeout, f"namespace {name} does not go")
        except RunFailed as error:
            why = _conditions(watcher.items.get(name, {}))
            raise RunFailed(f"namespace {name} is still there: {why}", hint=_FINALIZERS) from error


_FINALIZERS = (
    "what holds it is a finalizer whose controller does not act, or a volume that its driver cannot delete; "
    "once that is mended: fairlane lab clean --platform kubevirt"
)


def _held(kind: kinds.Kind, items: Mapping[str, Mapping[str, Any]]) -> str:
    told = [
        f"{name} ({', '.join(one['metadata'].get('finalizers', [])) or 'no finalizer'})" for name, one in items.items()
    ]
    more = f" and {len(told) - 5} more" if len(told) > 5 else ""
    return f"{kind.plural} {', '.join(told[:5])}{more}"


def _conditions(namespace: Mapping[str, Any]) -> str:
    """What the API server says of a namespace that cannot go."""
    every: Sequence[Mapping[str, Any]] = namespace.get("status", {}).get("conditions", [])
    told = [str(c.get("message", "")) for c in every if c.get("status") == "True" and c.get("message")]
    return " ".join(told)[:600] or "the API server does not say why"


async def make_way(api: "Api", namespace: str, run_id: str, *, own: bool, notify: Notify) -> None:
    """Removes what an earlier process of the same run left, before it is resumed. Raises RunFailed, also where that
    process goes on."""
    if own:
        if await api.get(kinds.NAMESPACE, namespace) is None:
            return
    elif await api.get(kinds.NAMESPACE, namespace) is None:
        raise RunFailed(f"there is no namespace {namespace}", hint="make it, or leave use_existing away")
    lease = await api.get(kinds.LEASE, heartbeat.name(run_id), namespace)
    if lease is None and not own:
        return
    if lease and run_id in await heartbeat.living(api, {run_id: (namespace, lease)}):
        raise RunFailed(
            f"run {run_id} is being carried out by {lease['spec'].get('holderIdentity', 'somebody')}",
            hint="wait for it, or end it there",
        )
    notify(f"removing what an interrupted run left in namespace {namespace}")
    await remove(api, _left(run_id, namespace, lease, own=own), notify)


async def stands(api: "Api", namespace: str) -> None:
    """Raises FairlaneError, which ends the run, if somebody deleted the run's namespace: all of it is gone at once."""
    there = await api.get(kinds.NAMESPACE, namespace)
    if there is None or there["metadata"].get("deletionTimestamp"):
        raise FairlaneError(
            f"namespace {namespace} was deleted, and not by this run: all its machines go with it",
            hint="what was measured is kept; fairlane run --resume makes everything anew",
            code=Exit.RUN_FAILED,
        )


def stays(left: Left) -> str:
    """That something is left in the cluster, and how it goes."""
    what = f"namespace {left.namespace}" if left.own else f"what run {left.run_id} made in namespace {left.namespace}"
    where = "" if left.own else f" --namespace {left.namespace}"
    return (
        f"{what} is left in the cluster; `fairlane run --resume` removes it, and so does "
        f"`fairlane lab clean --platform kubevirt{where}`"
    )


async def sweep(api: "Api", namespace: str, run: str, notify: Notify) -> None:
    """Removes what runs left that do not go on: of ``run`` alone, or of all. Raises FairlaneError for what stays."""
    found = [left for left in await runs(api, namespace) if run in ("", left.run_id)]
    if not found:
        notify(f"nothing of {f'run {run}' if run else 'any run'} is in {api.server}")
        return
    if unsure := [left for left in found if not heartbeat.ended_here(left.lease)]:
        notify(f"watching for {heartbeat.PATIENCE:.0f} s whether any of {len(unsure)} runs goes on")
    alive = await heartbeat.living(api, {left.run_id: (left.namespace, left.lease) for left in found})
    failed = []
    for left in found:
        told = f"run {left.run_id} ({left.study or 'study unknown'}) in namespace {left.namespace}"
        if left.run_id in alive:
            notify(f"{told} goes on at {left.holder}: it stays")
            continue
        notify(f"removing {told}")
        try:
            await remove(api, left, notify)
        except RunFailed as error:
            failed.append(str(error))
    if failed:
        raise FairlaneError("; ".join(failed), hint=_FINALIZERS)
