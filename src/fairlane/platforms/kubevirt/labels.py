"""Labels that select a run's objects."""

MANAGED_BY = "app.kubernetes.io/managed-by"
FAIRLANE = "fairlane"
RUN = "fairlane.io/run"
LANE = "fairlane.io/lane"
MACHINE = "fairlane.io/machine"
STORM = "fairlane.io/storm"


def labels(run_id: str, **more: str) -> dict[str, str]:
    """Labels of an object of the run; ``more``: ``lane``, ``machine``, ``storm``."""
    return {MANAGED_BY: FAIRLANE, RUN: run_id, **{f"fairlane.io/{key}": value for key, value in more.items()}}


def selector(run_id: str = "") -> str:
    """Label selector of a run, or of all runs if empty. A run is selected by its own label alone: CDI overwrites
    managed-by on claims that it creates for volumes."""
    return f"{RUN}={run_id}" if run_id else f"{MANAGED_BY}={FAIRLANE}"
