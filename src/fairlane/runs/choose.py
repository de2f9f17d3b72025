"""Choose a run directory: the given one, or the newest; where there is none, the error names the runs that exist.

Commands import this module at their top; whatever reads a plan is imported where it is used, so that --help is quick.
"""

from difflib import get_close_matches
from pathlib import Path

from fairlane.errors import FairlaneError

RUNS = Path("runs")
"""Default folder of runs, in the current folder."""
_LISTED = 5
"""Runs that a hint names."""


def newest() -> Path:
    """The run in ``runs`` that was created last. Raises FairlaneError if there is none."""
    every = newest_first()
    if not every:
        raise FairlaneError(
            "run-none",
            f"no RUN given, and no run in {RUNS}/",
            hint="name a run directory, or start with: fairlane run demo",
        )
    return every[0]


def existing(run: Path) -> Path:
    """``run``. Raises FairlaneError, with the runs that exist, unless it is a run directory."""
    from fairlane.runs.plan import is_run  # noqa: PLC0415 - see above

    if is_run(run):
        return run
    message = "not a run directory (it has no run.json)" if run.exists() else "no such run"
    raise FairlaneError("not-a-run", message, where=str(run), hint=_others(run))


def newest_first() -> list[Path]:
    """The runs in ``runs``, by the time they were created. Damaged ones are left out."""
    from fairlane.runs.plan import created, is_run  # noqa: PLC0415 - see above

    dated = []
    for folder in RUNS.iterdir() if RUNS.is_dir() else ():
        try:
            if not folder.name.startswith(".") and is_run(folder):
                dated.append((created(folder), folder))
        except (FairlaneError, OSError):
            continue
    return [folder for _, folder in sorted(dated, reverse=True)]


def _others(run: Path) -> str:
    """The runs that exist in the given folder or else in ``runs``: those with a similar name first, then the newest."""
    from fairlane.runs.plan import is_run  # noqa: PLC0415 - see above

    inside = sorted(p for p in run.iterdir() if is_run(p)) if run.is_dir() else []
    every = inside or newest_first()
    if not every:
        return f"there is no run in {RUNS}/ yet; start with: fairlane run demo"
    names = {folder.name: folder for folder in reversed(every)}
    near = [names[name] for name in get_close_matches(run.name, names, n=2)]
    listed = list(dict.fromkeys([*near, *every]))
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"runs: {', '.join(map(str, listed[:_LISTED]))}{more}"
