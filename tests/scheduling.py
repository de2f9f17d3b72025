"""pytest-xdist 3.8 with two defects mended: after a worker has ended with its test, it hands out units of which all
tests are done, or one test alone, and its workers wait for a next one for ever (its issues 1323 and 1327)."""

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling, LoadGroupScheduling
from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class _Recovering(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    assigned_work: "dict[WorkerController, dict[str, dict[str, bool]]]"

    def remove_node(self, node: "WorkerController") -> str | None:
        """Hands a worker's tests to others, but for the one that ended it: that one has failed, and is returned."""
        workload = self.assigned_work.pop(node)
        pending = [(scope, test) for scope, unit in workload.items() for test, done in unit.items() if not done]
        if not pending:
            return None
        scope, crashed = pending[0]
        workload[scope][crashed] = True
        self.workqueue.update({scope: unit for scope, unit in workload.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: "WorkerController") -> None:
        """A worker begins its last test only when it knows the next one, or that there is none."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


class RecoveringFiles(_Recovering, LoadFileScheduling):  # type: ignore[misc]
    """``--dist loadfile``."""


class RecoveringGroups(_Recovering, LoadGroupScheduling):  # type: ignore[misc]
    """``--dist loadgroup``."""
