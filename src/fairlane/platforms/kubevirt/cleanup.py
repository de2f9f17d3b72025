"""Delete a run's objects, and find those of killed runs: by labels, so that nothing else is touched.

A namespace created for the run is deleted as a whole. In an existing one, objects are deleted kind by kind, machines
first, because they use their volumes.
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
"""Seconds until all objects of a kind, or the namespace, must be gone; drivers delete volumes meanwhile."""

_ORDER = (
    kinds.DAEMON_SET, kinds.VM, kinds.VMI, kinds.DATA_VOLUME, kinds.DATA_SOURCE, kinds.SNAPSHOT, kinds.PVC,
    kinds.SECRET, kinds.LEASE,
)  # fmt: skip
"""Kinds of a run's objects in order of deletion."""
_FOLLOW = (kinds.VMI,)
"""Kinds that the cluster creates and deletes itself: only waited for."""


@dataclass(frozen=True)
class Left:
    """A run with objects in the cluster."""

    run_id: str
    namespace: str
    study: str
    holder: str
    """The run's process, HOST/PID; empty: not known."""
    own: bool
    """Whether the namespace was created for the run."""
    lease: Mapping[str, Any] | None = None


_RUN_ID = re.compile("[0-9a-f]{10}")


def namespace_of(prefix: str, run_id: str, *, use_existing: bool) -> str:
    """Name of a run's namespace."""
    return prefix if use_existing else f"{prefix[: 63 - len(run_id) - 1].rstrip('-')}-{run_id}"


async def runs(api: "Api", namespace: str = "") -> list[Left]:
    """Runs with objects in the cluster: in namespaces of their own, and in ``namespace``. Raises RunFailed."""
    left = []
    for item in await api.list(kinds.NAMESPACE, labels=selector()):
        meta = item["metadata"]
        if meta.get("deletionTimestamp") and not item.get("spec", {}).get("finalizers"):
            continue
        run_id = str(meta["labels"].get(RUN, ""))
        if _made_for(meta, run_id):
            lease = await api.get(kinds.LEASE, heartbeat.name(run_id), meta["name"])
            left.append(_left(run_id, meta["name"], lease, own=True))
    if namespace and namespace not in {run.namespace for run in left}:
        for lease in await api.list(kinds.LEASE, namespace, labels=selector()):
            run_id = heartbeat.run_of(lease)
            if _RUN_ID.fullmatch(run_id) and lease["metadata"]["name"] == heartbeat.name(run_id):
                left.append(_left(run_id, namespace, lease, own=False))
    return left


def _made_for(namespace: Mapping[str, Any], run_id: str) -> bool:
    """Whether the namespace with this metadata was created for run ``run_id``; labels alone may be copies."""
    sent = SENT in (namespace.get("annotations") or {})
    return bool(_RUN_ID.fullmatch(run_id)) and sent and str(namespace["name"]).endswith(f"-{run_id}")


def _left(run_id: str, namespace: str, lease: Mapping[str, Any] | None, *, own: bool) -> Left:
    holder = str(lease["spec"].get("holderIdentity", "")) if lease else ""
    return Left(run_id, namespace, heartbeat.study(lease) if lease else "", holder, own, lease)


async def remove(api: "Api", left: Left, notify: Notify, timeout: float = TIMEOUT) -> None:
    """Deletes all objects of a run and waits until they are gone. Raises RunFailed with the remaining objects and the
    reason."""
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
                await watcher.until(lambda items: None if items else True, timeout, f"{kind.plural} are not deleted")
            except RunFailed as error:
                raise RunFailed(
                    "not-removed",
                    f"still there in namespace {left.namespace}: {_held(kind, watcher.items)}",
                    hint=_FINALIZERS,
                ) from error


async def _remove_namespace(api: "Api", left: Left, notify: Notify, timeout: float) -> None:
    name = left.namespace
    there = await api.get(kinds.NAMESPACE, name)
    if there is None:
        return
    marks = there["metadata"].get("labels", {})
    labelled = (marks.get(MANAGED_BY), marks.get(RUN)) == (FAIRLANE, left.run_id)
    if not labelled or not _made_for(there["metadata"], left.run_id):
        raise RunFailed(
            "namespace-foreign",
            f"namespace {name} does not belong to run {left.run_id}, so it is not deleted",
            hint="delete it by hand",
        )
    async with Watcher(api, kinds.NAMESPACE, labels=selector(left.run_id)) as watcher:
        await api.delete(kinds.NAMESPACE, name, uid=there["metadata"]["uid"])
        notify(f"waiting until namespace {name} is gone")
        try:
            await watcher.until(
                lambda items: None if name in items else True, timeout, f"namespace {name} is not deleted"
            )
        except RunFailed as error:
            why = _conditions(watcher.items.get(name, {}))
            raise RunFailed("not-removed", f"namespace {name} is still there: {why}", hint=_FINALIZERS) from error


_FINALIZERS = (
    "the cause is a finalizer whose controller does not act, or a volume that its driver cannot delete; "
    "fix that, then: fairlane lab clean --platform kubevirt"
)


def _held(kind: kinds.Kind, items: Mapping[str, Mapping[str, Any]]) -> str:
    finalizers = {name: ", ".join(item["metadata"].get("finalizers", [])) for name, item in items.items()}
    texts = [f"{name} ({listed or 'no finalizer'})" for name, listed in finalizers.items()]
    more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
    return f"{kind.plural} {', '.join(texts[:5])}{more}"


def _conditions(namespace: Mapping[str, Any]) -> str:
    """The API server's reasons why a namespace stays."""
    every: Sequence[Mapping[str, Any]] = namespace.get("status", {}).get("conditions", [])
    messages = [str(c.get("message", "")) for c in every if c.get("status") == "True" and c.get("message")]
    return " ".join(messages)[:600] or "the API server gives no reason"


async def make_way(api: "Api", namespace: str, run_id: str, *, own: bool, notify: Notify) -> None:
    """Deletes the objects of an earlier process of the run before it is resumed. Raises RunFailed, also if that process
    still runs."""
    if own:
        if await api.get(kinds.NAMESPACE, namespace) is None:
            return
    elif await api.get(kinds.NAMESPACE, namespace) is None:
        raise RunFailed(
            "namespace-missing", f"there is no namespace {namespace}", hint="create it, or remove use_existing"
        )
    lease = await api.get(kinds.LEASE, heartbeat.name(run_id), namespace)
    if lease is None and not own:
        return
    if lease and run_id in await heartbeat.living(api, {run_id: (namespace, lease)}):
        raise RunFailed(
            "run-busy",
            f"run {run_id} is still running, in process {lease['spec'].get('holderIdentity', '(unknown)')}",
            hint="wait until it ends, or stop it there",
        )
    notify(f"removing the objects of an interrupted run in namespace {namespace}")
    await remove(api, _left(run_id, namespace, lease, own=own), notify)


async def stands(api: "Api", namespace: str) -> None:
    """Raises FairlaneError, which ends the run, if its namespace is being deleted."""
    there = await api.get(kinds.NAMESPACE, namespace)
    if there is None or there["metadata"].get("deletionTimestamp"):
        raise FairlaneError(
            "namespace-deleted",
            f"another user deleted namespace {namespace}, and with it all machines of this run",
            hint="finished trials are kept; fairlane run --resume creates the machines again and continues",
            code=Exit.RUN_FAILED,
        )


def stays(left: Left) -> str:
    """Message to users: the objects left in the cluster, and how to remove them."""
    what = f"namespace {left.namespace}" if left.own else f"objects of run {left.run_id} in namespace {left.namespace}"
    where = "" if left.own else f" --namespace {left.namespace}"
    return (
        f"the cluster still has {what}; remove with `fairlane run --resume` or "
        f"`fairlane lab clean --platform kubevirt{where}`"
    )


async def sweep(api: "Api", namespace: str, run: str, notify: Notify) -> None:
    """Deletes the objects of ended runs: of ``run``, or of all. Raises FairlaneError for objects that remain."""
    every = [left for left in await runs(api, namespace) if run in ("", left.run_id)]
    if not every:
        notify(f"{api.server} has no objects of {f'run {run}' if run else 'any run'}")
        return
    if unsure := [left for left in every if not heartbeat.ended_here(left.lease)]:
        notify(f"waiting {heartbeat.PATIENCE:.0f} s for signs of life of {len(unsure)} runs")
    alive = await heartbeat.living(api, {left.run_id: (left.namespace, left.lease) for left in every})
    failed = []
    for left in every:
        text = f"run {left.run_id} ({left.study or 'study unknown'}) in namespace {left.namespace}"
        if left.run_id in alive:
            notify(f"{text} is still running, in process {left.holder}: kept")
            continue
        notify(f"removing {text}")
        try:
            await remove(api, left, notify)
        except RunFailed as error:
            failed.append(str(error))
    if failed:
        raise FairlaneError("not-removed", "; ".join(failed), hint=_FINALIZERS)
