"""Cluster nodes whose CPU was not measured: CPU per I/O then lacks their share."""

from collections.abc import Iterable, Mapping

from fairlane.checks._trials import at, text, trials
from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding

_MEANS = "CPU per I/O covers the guests only, without QEMU and the initiators in the nodes' kernels"


class UnwatchedNodes(Check):
    """The platform's reason for not probing its nodes (``platform.node_probes`` in the description), and nodes that
    single trials could not read."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        if all(load.kind == "clone" for load in evidence.study.workloads.values()):
            return  # probes do not run in storms: nothing is missing
        reason = text(evidence.description, "platform", "node_probes")
        if reason == "off":
            yield self.finding("switched-off", "info", f"the study switches off probes on the nodes: {_MEANS}")
        elif reason:
            yield self.finding(
                "not-run",
                "info",
                f"probes on the nodes were {reason.rstrip('.')}; {_MEANS}",
                evidence={"reason": reason},
            )
        missed: dict[tuple[str, str], dict[str, list[str]]] = {}
        for trial in trials(evidence):
            nodes = at(trial.observation.context, "nodes")
            for name, node in nodes.items() if isinstance(nodes, Mapping) else ():
                if why := text(node, "failed"):
                    cells = missed.setdefault((trial.observation.lane, str(name)), {})
                    cells.setdefault(trial.cell.key, []).append(why)
        for (lane, name), cells in missed.items():
            count, first = sum(map(len, cells.values())), next(iter(cells.values()))[0]
            trials_missed = f"{count} trial{'s' * (count > 1)}"
            yield self.finding(
                "gaps",
                "warning",
                f"node {name} could not be read in {trials_missed}, so CPU per I/O of the nodes is missing: {first}",
                cells=list(cells),
                lanes=[lane],
                evidence={
                    key: {"node": name, "trials": len(reasons), "reason": reasons[0]} for key, reasons in cells.items()
                },
            )


PLUGIN = UnwatchedNodes()
