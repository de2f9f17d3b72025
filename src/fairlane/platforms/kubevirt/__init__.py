"""KubeVirt: virtual machines of a Kubernetes cluster (OpenShift Virtualization), their volumes by storage class.

The cluster creates everything; its API provides what was created, and when. The client library is an extra, so modules
that need it are imported only when a cluster is used.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fairlane import __version__, registry
from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms._examined import Line
from fairlane.platforms._fleet import FleetPlatform
from fairlane.platforms.base import Notify, Opened
from fairlane.platforms.kubevirt.spec import KubevirtSpec
from fairlane.records import Block
from fairlane.study.provisionings import rotated

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api
    from fairlane.platforms.kubevirt.cleanup import Left
    from fairlane.platforms.kubevirt.heartbeat import Heartbeat
    from fairlane.platforms.kubevirt.node_probes import NodeProbes
    from fairlane.platforms.kubevirt.storm import Storm
    from fairlane.platforms.kubevirt.virtual_machines import ClusterStage, Fleet
    from fairlane.study.spec import Study


_PLACEHOLDER = "EDIT-ME"
"""What a preset leaves to be filled in."""


class Kubevirt(FleetPlatform):
    """Lanes have the transport ``storage_class``. The machines of all lanes run for a whole provisioning and take
    turns; the next provisioning re-creates machines, volumes and namespace, from the next node and lane on."""

    Spec = KubevirtSpec
    remote = True

    def __init__(self, study: "Study") -> None:
        super().__init__(study)
        self.api: Api | None = None
        self.fleet: Fleet | None = None
        self.nodes: NodeProbes | None = None
        self.storms: dict[str, Storm] = {}
        """Lane -> its storm, if the study has storms."""
        self._heartbeat: Heartbeat | None = None
        self._left: Left | None = None
        """The run's objects in the cluster."""
        self._held = ExitStack()

    @property
    def spec(self) -> KubevirtSpec:
        """This platform's part of the study."""
        spec = self.study.platform
        assert isinstance(spec, KubevirtSpec)  # noqa: S101 - the study's kind chose this class
        return spec

    # --- before anything is created

    def problems(self) -> list[FairlaneError]:
        if wrong := self.unfit() + self.planned_only():
            return wrong
        from fairlane.platforms.kubevirt import preflight  # noqa: PLC0415

        return preflight.problems(asyncio.run(preflight.look(self.study)))

    def unfit(self) -> list[FairlaneError]:
        from fairlane.platforms.kubevirt.manifests import unspecified_clones  # noqa: PLC0415

        problems = list(unspecified_clones(self.study))
        for name, lane in self.study.lanes.items():
            if lane.transport != "storage_class":
                text = f"platform kubevirt does not support transport {lane.transport!r}"
                problems.append(
                    FairlaneError("transport-unsupported", text, where=f"lanes.{name}", hint="transport: storage_class")
                )
            elif _PLACEHOLDER in (named := str(getattr(lane, "storage_class", ""))) and not lane.copy_of:
                text = f"{named} is a placeholder for one of your storage classes (kubectl get storageclass)"
                hint = f"fairlane init {self.study.name} -o mine.yaml, then replace {_PLACEHOLDER} by their names"
                problems.append(FairlaneError("placeholder", text, where=f"lanes.{name}", hint=hint))
        for name, workload in self.study.workloads.items():
            if workload.kind == "failover":
                text = "Fairlane cannot fail a path here: the cluster owns the paths to its storage"
                hint = "platform: {kind: lab, clock: wall}"
                problems.append(FairlaneError("fault-unsupported", text, where=f"workloads.{name}", hint=hint))
        return problems

    def planned_only(self) -> list[FairlaneError]:
        cells = {cell.workload: cell for cell in self.study.cells()}
        reasons = {name: registry.load("workloads", cell.kind).unable(cell, "kubevirt") for name, cell in cells.items()}
        return [
            FairlaneError("workload-unsupported", why, where=f"workloads.{name}", hint="kind: fio, kind: clone")
            for name, why in reasons.items() if why
        ]  # fmt: skip

    @classmethod
    async def examine(cls, study: "Study | None", *, context: str, namespace: str) -> Sequence[Line]:
        from fairlane.platforms.kubevirt import preflight  # noqa: PLC0415

        unfit = cls.lines(cls(study).unfit() + cls(study).planned_only()) if study else []
        return [*unfit, *await preflight.look(study, context=context, namespace=namespace)]

    @classmethod
    async def clean(cls, *, context: str, namespace: str, run: str, notify: Notify) -> None:
        from fairlane.platforms.kubevirt import cleanup  # noqa: PLC0415
        from fairlane.platforms.kubevirt.api import Api  # noqa: PLC0415

        async with await Api.connect(context, notify=notify) as api:
            await cleanup.sweep(api, namespace, run, notify)

    # --- the run

    async def open(self, notify: Notify) -> Opened:
        from fairlane.machines.keys import Keys  # noqa: PLC0415
        from fairlane.machines.scratch import scratch  # noqa: PLC0415
        from fairlane.platforms.kubevirt import cleanup, kinds, placement  # noqa: PLC0415
        from fairlane.platforms.kubevirt.api import Api  # noqa: PLC0415
        from fairlane.platforms.kubevirt.description import Description  # noqa: PLC0415
        from fairlane.platforms.kubevirt.guests import allow_files  # noqa: PLC0415
        from fairlane.platforms.kubevirt.manifests import Manifests  # noqa: PLC0415
        from fairlane.platforms.kubevirt.node_probes import NodeProbes  # noqa: PLC0415
        from fairlane.platforms.kubevirt.storm import Storm  # noqa: PLC0415
        from fairlane.platforms.kubevirt.storm_golden import GuestAccess  # noqa: PLC0415
        from fairlane.platforms.kubevirt.virtual_machines import Fleet  # noqa: PLC0415

        self.notify, spec = notify, self.spec
        allow_files()
        api = self.api = await Api.connect(spec.context, qps=spec.qps, burst=spec.burst, notify=notify)
        namespace = cleanup.namespace_of(spec.namespace, self.run_id, use_existing=spec.use_existing)
        await cleanup.make_way(api, namespace, self.run_id, own=not spec.use_existing, notify=notify)
        await self._begin(api, namespace)
        folder = self._held.enter_context(scratch())
        (folder / "keys").mkdir()
        keys = Keys.make(folder / "keys")
        there = await api.list(kinds.NODE)
        nodes = placement.chosen(there, self.study, self.provisioning)
        names = [str(node["metadata"]["name"]) for node in nodes]
        manifests = Manifests(self.study, self.run_id, namespace, placement.hosts(nodes))
        room = await self._room(nodes) if spec.spread == "packed" else None
        places = placement.dealt(manifests.fleet, names, room)
        lanes = rotated([*self.study.lanes], self.provisioning)  # none is made first, and fills first, every time
        self.fleet = Fleet(
            api, self.study, manifests, lanes, places=places, keys=keys, scratch=folder, notify=notify
        )  # fmt: skip
        programs = [program for workload, cell in self.fleet.cells for program in workload.calls(cell)]
        await api.create(kinds.SECRET, manifests.secret(keys.files(), programs), namespace)
        await self.fleet.build()
        if any(cell.kind == "clone" for cell in self.study.cells()):
            access = GuestAccess(api, namespace, self.fleet.way, keys, folder)
            self.storms = {lane: Storm(access, manifests, lane, names, notify=notify, fits=room) for lane in lanes}
        for storm in self.storms.values():
            await storm.prepare()
        used, anew = list(dict.fromkeys(places)) or names, self.study.design.provisionings > 1
        if places:  # storms are timed by watches
            self.nodes = await NodeProbes.open(api, namespace, self.run_id, used, spec, notify=notify)
        cloned = [traits for storm in self.storms.values() for traits in storm.traits]
        described = await Description.read(api, self.fleet, nodes, cloned)
        self.emulated = described.emulated
        return Opened(
            description={
                "lanes": described.lanes,
                "platform": {
                    **described.platform,
                    **({"node_probes": self.nodes.describe()} if self.nodes else {}),
                },
            },
            # of several provisionings those that they move over: other nodes in each are no change of the cluster
            fingerprint={
                **described.fingerprint,
                "nodes": ", ".join(placement.usable(there, self.study) if anew else used),
                "fairlane": __version__,
            },
        )

    async def _begin(self, api: "Api", namespace: str) -> None:
        """Creates the run's namespace, unless it uses an existing one, and its Lease. Raises RunFailed."""
        from fairlane.platforms.kubevirt import cleanup, kinds  # noqa: PLC0415
        from fairlane.platforms.kubevirt.api_errors import ApiError  # noqa: PLC0415
        from fairlane.platforms.kubevirt.heartbeat import Heartbeat  # noqa: PLC0415
        from fairlane.platforms.kubevirt.manifests import Manifests  # noqa: PLC0415

        own = not self.spec.use_existing
        self._left = cleanup.Left(self.run_id, namespace, self.study.name, "", own=own)
        self._heartbeat = Heartbeat(api, namespace, self.run_id)
        try:
            if own:
                await api.create(kinds.NAMESPACE, Manifests(self.study, self.run_id, namespace).namespace_object())
            await self._heartbeat.start(self.study.name)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self._left = None  # another process was quicker: the objects are its own
            raise RunFailed(
                "run-busy",
                f"another process started run {self.run_id} at the same time",
                hint="wait until it ends, or stop it",
            ) from error

    async def _room(self, nodes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Machines of every lane that fit on each node beside its pods; the pods are ignored if they may not be
        read."""
        from fairlane.platforms.kubevirt import kinds, placement  # noqa: PLC0415
        from fairlane.platforms.kubevirt.api_errors import ApiError  # noqa: PLC0415

        assert self.api  # noqa: S101 - connected
        try:
            pods = await self.api.list(kinds.POD)
        except ApiError as error:
            if error.status != 403:
                raise
            pods = []
        return {str(node["metadata"]["name"]): placement.fits(self.study, node, pods) for node in nodes}

    async def begin(self, block: Block) -> None:
        assert self.fleet  # noqa: S101 - opened
        await self.fleet.synchronise(block.order)

    def stage(self, block: Block, lane: str) -> "ClusterStage":
        from fairlane.platforms.kubevirt.virtual_machines import ClusterStage  # noqa: PLC0415

        assert self.fleet  # noqa: S101 - opened
        crew = self.fleet.crew(lane, self.spec.settle / 1e9, partial(self.broken, lane))
        seconds = self.study.workloads[block.cell.workload].trial_seconds(block.cell)
        return ClusterStage(crew, block, lane, seconds, nodes=self.nodes, storm=self.storms.get(lane))

    async def lost(self, lane: str) -> str:
        assert self.fleet  # noqa: S101 - opened
        return await self.fleet.lost(lane)

    async def heal(self, lanes: Collection[str]) -> None:
        """Restarts the machines of ``lanes`` and all that are lost. Raises RunFailed."""
        from fairlane.platforms.kubevirt import cleanup  # noqa: PLC0415

        assert self.fleet  # noqa: S101 - opened
        assert self.api  # noqa: S101 - opened
        assert self._left  # noqa: S101 - opened
        await cleanup.stands(self.api, self._left.namespace)
        self.notify(f"restarting the machines of {', '.join(sorted(lanes))}")
        await self.fleet.heal(lanes)
        self.rebuilds = self.fleet.renewed

    async def close(self) -> None:
        from fairlane.platforms.kubevirt import cleanup  # noqa: PLC0415

        if self.fleet:
            await self.fleet.close()
        if self.nodes:
            await self.nodes.close()
        if self._heartbeat:
            await self._heartbeat.close()
        if self.api:
            if self._left:
                try:
                    await cleanup.remove(self.api, self._left, self.notify)
                except FairlaneError as error:
                    self.notify(f"{cleanup.stays(self._left)}: {error}")
            with suppress(Exception):  # no request follows
                await self.api.close()
        self._held.close()


PLUGIN = Kubevirt
