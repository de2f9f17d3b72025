"""Node counters from a node exporter on each node, read through the API server before and after a load.

The kubelet's figures of pods do not serve: its cache is up to 15 s old (google/cadvisor#2496), more than the margin of
a trial below five minutes, and reading them takes the permission ``nodes/proxy``, which allows to run commands in every
pod of the node. The exporter reads the kernel's counters on request, and ``pods/proxy`` in the run's own namespace
reaches it.
"""

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms.base import Notify
from fairlane.platforms.kubevirt import exporter
from fairlane.platforms.kubevirt.api_errors import plain
from fairlane.platforms.kubevirt.exporter import Network
from fairlane.platforms.kubevirt.kinds import DAEMON_SET, EVENT, POD
from fairlane.platforms.kubevirt.watching import Watcher

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.platforms.kubevirt.spec import KubevirtSpec

_PATIENCE = 120.0
"""Seconds until the pods must be ready, image download included."""
_ANSWER = 15.0
"""Seconds for an exporter's answer."""
_ANSWER_AGAIN = 2.0
"""Seconds for an exporter that did not answer last time: the load waits for it."""
_AT_ONCE = 32
_FILE = "probe.node_usage"
_OFF = "off"
_OVER = ("Failed", "Succeeded")
"""Phases of an evicted pod, or of a pod whose node went down."""

Object = Mapping[str, Any]


class _RefusedError(RunFailed):
    """An admission plugin refuses the pods."""


class _NoImageError(RunFailed):
    """The image cannot be pulled, for either form of the pods."""


class NodeProbes:
    """The exporters of a run. ``refused``: why there are none, ``refusal``: the kind of that error; snapshots are empty
    then."""

    def __init__(self, api: "Api", namespace: str, run_id: str, nodes: Sequence[str], notify: Notify) -> None:
        self.refused, self.refusal = "", ""
        self._api, self._namespace, self._run_id, self._notify = api, namespace, run_id, notify
        self._nodes = tuple(dict.fromkeys(nodes))
        self._name = f"{exporter.NAME}-{run_id}"
        self._image, self._uid = "", ""
        self._network: Network = "host"
        self._no_interfaces = ""
        """Why the nodes' interfaces are not visible."""
        self._pods: dict[str, str] = {}
        self._pulled: set[str] = set()
        """Digests of the image in use."""
        self._first: dict[str, Object] = {}
        self._silent: set[str] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @classmethod
    async def open(
        cls,
        api: "Api",
        namespace: str,
        run_id: str,
        nodes: Sequence[str],
        spec: "KubevirtSpec",
        *,
        notify: Notify,
        patience: float = _PATIENCE,
    ) -> "NodeProbes":
        """Starts exporters on exactly ``nodes`` (names). If the cluster forbids them, or its API server does not reach
        them, reports it once and sets ``refused``."""
        probes = cls(api, namespace, run_id, nodes, notify)
        if spec.node_probes == _OFF:
            probes.refused = _OFF
            return probes
        probes._image = spec.node_probe_image or exporter.IMAGE
        reasons: list[FairlaneError] = []
        for network in exporter.NETWORKS:
            try:
                await probes._start(network, patience)
            except FairlaneError as reason:
                reasons.append(reason)
                await probes.close()
                if isinstance(reason, _NoImageError) or _forbids(reason):
                    break
            else:
                probes._no_interfaces = str(reasons[0]) if reasons else ""
                if reasons:
                    notify(f"the nodes' interfaces are not watched: {reasons[0]}")
                return probes
        no = isinstance(reasons[-1], _RefusedError) or _forbids(reasons[-1])
        probes.refused = f"not {'allowed' if no else 'possible'}: {reasons[-1]}"
        probes.refusal = reasons[-1].kind
        notify(f"the nodes are not watched, so CPU per I/O counts the guests only: {reasons[-1]}")
        return probes

    async def around(self, when: str) -> dict[str, bytes]:
        """A snapshot of all nodes, as the file of the probe ``node_usage``: JSON, node -> ``exporter.compact`` with the
        Unix times of request and answer (``asked``, ``answered``), or ``failed`` with the reason. ``when``: before or
        after. Raises nothing; without exporters there is no file."""
        if self.refused:
            return {}
        if self._silent:
            with suppress(FairlaneError):
                await self._find()
        snapshot = dict[str, Object]()
        for node, kept in zip(self._nodes, await self._all(), strict=True):
            snapshot[node] = {"failed": str(kept)} if isinstance(kept, FairlaneError) else kept
            if isinstance(kept, FairlaneError) and node not in self._silent:
                self._notify(f"node {node} is not watched: {kept}")
        self._silent = {node for node, kept in snapshot.items() if "failed" in kept}
        return {f"{_FILE}.{when}": json.dumps(snapshot, separators=(",", ":")).encode()}

    def describe(self) -> str | dict[str, Any]:
        """``node_probes`` in the platform's description: form of the exporters, or why there are none."""
        if self.refused:
            return self.refused
        return {
            "image": self._image,
            **({"pulled": sorted(self._pulled)} if self._pulled else {}),
            "network": self._network,
            **({"interfaces": f"not watched: {self._no_interfaces}"} if self._no_interfaces else {}),
            "nodes": {node: _read(kept) for node, kept in self._first.items()},
        }

    async def close(self) -> None:
        """Removes the exporters; never raises."""
        if self._uid:
            try:
                await self._api.delete(DAEMON_SET, self._name, self._namespace, uid=self._uid)
            except FairlaneError as reason:
                self._notify(f"cannot delete DaemonSet {self._name} in {self._namespace}: {reason}")
            self._uid = ""

    async def _start(self, network: Network, patience: float) -> None:
        """Starts the DaemonSet. Raises FairlaneError with the cluster's reason."""
        groups = await self._api.call("GET", "/apis")
        # OpenShift assigns each namespace a range of user ids, and refuses others
        user = all(group.get("name") != "security.openshift.io" for group in groups.get("groups", ()))
        await self._api.delete(DAEMON_SET, self._name, self._namespace)  # of the same run before it was resumed
        wanted = exporter.daemon_set(self._run_id, self._nodes, self._image, network=network, user=user)
        made = await self._api.create(DAEMON_SET, wanted, self._namespace)
        self._network, self._uid = network, made["metadata"]["uid"]
        await self._ready(patience)
        await self._find()
        for node, kept in zip(self._nodes, await self._all(), strict=True):
            if isinstance(kept, FairlaneError):
                raise kept
            self._first[node] = kept

    async def _ready(self, patience: float) -> None:
        """Waits for a pod on every node. Raises FairlaneError as soon as the cluster refuses the pods."""
        async with Watcher(self._api, DAEMON_SET, self._namespace, exporter.selector_of(self._run_id)) as sets:
            ready = asyncio.ensure_future(sets.until(self._is_ready, patience, "the probes on the nodes are not ready"))
            refused = asyncio.ensure_future(self._refused())
            try:
                await asyncio.wait({ready, refused}, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    raise _RefusedError(
                        "probe-refused", plain(f"the cluster does not admit the probes' pods: {await refused}")
                    )
                if ready.exception():
                    await self._explain(patience)
                await ready
            finally:
                ready.cancel()
                refused.cancel()
                await asyncio.gather(ready, refused, return_exceptions=True)

    def _is_ready(self, sets: Mapping[str, Object]) -> bool | None:
        daemon_set = sets.get(self._name, {})
        status = daemon_set.get("status", {})
        ours = daemon_set.get("metadata", {}).get("uid") == self._uid
        return (ours and status.get("numberReady", 0) >= len(self._nodes)) or None

    async def _refused(self) -> str:
        """Waits until the cluster refuses the pods, and returns the reason. A DaemonSet reports it by events only:
        without permission to read them, this waits for ever."""
        with suppress(FairlaneError):
            async with Watcher(self._api, EVENT, self._namespace) as events:
                return await events.until(self._forbidden, math.inf, "")
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def _forbidden(self, events: Mapping[str, Object]) -> str | None:
        """The message of an admission plugin; empty for errors that may pass (a webhook that does not answer, a new
        quota not yet counted)."""
        for event in events.values():
            message = str(event.get("message", ""))
            passes = "status unknown for quota" in message
            if event.get("involvedObject", {}).get("uid") == self._uid and "forbidden" in message and not passes:
                return message
        return None

    async def _explain(self, patience: float) -> None:
        """Raises the reason why pods are not ready."""
        pods = sorted(await self._own_pods(), key=lambda pod: str(pod["spec"].get("nodeName", "")))
        for pod in pods:
            status, node = pod.get("status", {}), pod.get("spec", {}).get("nodeName", "")
            for container in status.get("containerStatuses", ()):
                waiting = container.get("state", {}).get("waiting", {})
                reason = ": ".join(filter(None, (waiting.get("reason", ""), waiting.get("message", ""))))
                if "Image" in waiting.get("reason", ""):
                    raise _NoImageError("probe-image", plain(f"node {node} cannot pull the image: {reason}"))
                if reason:
                    raise RunFailed("probe-down", plain(f"the exporter does not run on node {node}: {reason}"))
            for condition in status.get("conditions", ()):
                if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                    raise RunFailed(
                        "probe-unscheduled", plain(f"a probe's pod is not scheduled: {condition.get('message', '')}")
                    )
        raise RunFailed(
            "probe-late",
            f"{len(pods)} of {len(self._nodes)} probe pods started, but not all were ready within {patience:g} s",
        )

    async def _own_pods(self) -> list[dict[str, Any]]:
        pods = await self._api.list(POD, self._namespace, labels=exporter.selector_of(self._run_id))
        return [
            pod
            for pod in pods
            if any(owner.get("uid") == self._uid for owner in pod["metadata"].get("ownerReferences", ()))
            and "deletionTimestamp" not in pod["metadata"]
        ]

    async def _find(self) -> None:
        pods = [pod for pod in await self._own_pods() if pod.get("status", {}).get("phase") not in _OVER]
        self._pods = {pod["spec"].get("nodeName", ""): pod["metadata"]["name"] for pod in pods}
        self._pulled.update(
            container["imageID"]
            for pod in pods
            for container in pod.get("status", {}).get("containerStatuses", ())
            if container.get("imageID")
        )

    async def _all(self) -> list[Object | FairlaneError]:
        """Node -> its figures, or why there are none."""

        async def one(node: str) -> Object | FairlaneError:
            try:
                return await self._one(node)
            except FairlaneError as reason:
                return reason

        return await asyncio.gather(*(one(node) for node in self._nodes))

    async def _one(self, node: str) -> Object:
        limit = _ANSWER_AGAIN if node in self._silent else _ANSWER
        async with self._slots:
            sent = time.time()
            try:
                async with asyncio.timeout(limit):
                    text = await self._fetch(node)
            except TimeoutError:
                raise RunFailed(
                    "probe-silent", f"the probe on node {node} did not answer through the API server within {limit:g} s"
                ) from None
            answered = time.time()
        kept = exporter.compact(text)
        if "cpu" not in kept:
            raise RunFailed("probe-silent", f"the probe on node {node} reports no CPU time")
        return {**kept, "asked": sent, "answered": answered}

    async def _fetch(self, node: str) -> str:
        try:
            return await self._get(node)
        except FairlaneError:
            was = self._pods.get(node)
            await self._find()  # an evicted or deleted pod has a successor of another name
            if self._pods.get(node) in (was, None):
                raise
            return await self._get(node)

    async def _get(self, node: str) -> str:
        if node not in self._pods:
            raise RunFailed("probe-gone", "its probe's pod is gone")
        target = f"{self._pods[node]}:{exporter.port_of(self._run_id)}"
        path = POD.path(self._namespace, target, "proxy/metrics")
        return str(await self._api.call("GET", path))


def _forbids(reason: FairlaneError) -> bool:
    """Whether a permission is missing that both forms of the pods need."""
    return getattr(reason, "status", 0) == 403


def _read(kept: Object) -> dict[str, Any]:
    """From a node's first answer: the exporter's version; its clock's lead over ours, and that figure's error, half the
    answer's duration."""
    sent, answered = float(kept["asked"]), float(kept["answered"])
    description: dict[str, Any] = {"exporter": kept["version"]} if "version" in kept else {}
    if "time" in kept:
        description["clock_ahead_ms"] = round(1e3 * (float(kept["time"]) - (sent + answered) / 2), 1)
        description["clock_within_ms"] = round(1e3 * (answered - sent) / 2, 1)
    return description
