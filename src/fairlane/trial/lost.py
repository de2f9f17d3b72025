"""What lost machines left, kept in the run directory: ``lost/NNN-MACHINE.console`` and ``.stderr``."""

from collections.abc import Sequence
from pathlib import Path

from fairlane.errors import MachineLost
from fairlane.runs.files import storing, write_atomic
from fairlane.trial.progress import Watch

FOLDER = "lost"


def keep(run: Path, error: MachineLost) -> list[str]:
    """Writes the files of ``error``, under the next number; empty ones are left out. Returns their paths in the run
    directory. Raises RunFailed if they cannot be written."""
    files = {name: data for name, data in sorted(error.files.items()) if data}
    if not files:
        return []
    folder = run / FOLDER
    with storing(folder):
        folder.mkdir(exist_ok=True)
        used = [int(number) for path in folder.iterdir() if (number := path.name.partition("-")[0]).isdigit()]
        names = {f"{max(used, default=-1) + 1:03d}-{name}": data for name, data in files.items()}
        for name, data in names.items():
            write_atomic(folder / name, data)
    return [f"{FOLDER}/{name}" for name in names]


def note(watch: Watch, kept: Sequence[str]) -> None:
    """Names the files in ``kept`` to the user, if there are any."""
    if kept:
        watch.note(f"kept in the run directory: {', '.join(kept)}")
