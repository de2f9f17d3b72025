"""After a run: write observations, verdicts and reports into its directory."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane.errors import Incomplete, RunFailed
from fairlane.verdicts.judged import Judged


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    judged: Judged
    rows: Sequence[dict[str, Any]]
    """The verdicts as JSON."""
    html: Path
    markdown: Path

    def check(self, folder: Path) -> None:
        """Raises RunFailed if every trial of the run in ``folder`` failed."""
        reasons = Counter(observation.failed for observation in self.judged.evidence.observations)
        if reasons and "" not in reasons:
            raise RunFailed(
                "all-trials-failed",
                f"every trial failed, mostly: {reasons.most_common(1)[0][0]}",
                where=str(folder),
                hint="the tools' output is in raw/; fix the cause and start a new run",
            )


@dataclass
class Missing:
    """What a run lacks at its end."""

    error: Incomplete | None = None

    def check(self) -> None:
        """Raises Incomplete if blocks are missing."""
        if self.error:
            raise self.error


@contextmanager
def known(folder: Path) -> Iterator[Missing]:
    """Keeps the error of blocks that are missing, so that verdicts of all others come first. Raises it if the run in
    ``folder`` has no trial."""
    from fairlane.runs.journal import stream

    missing = Missing()
    try:
        yield missing
    except Incomplete as error:
        if not any(event["type"] == "trial" for event in stream(folder)):
            raise
        missing.error = error


def conclude(folder: Path) -> Outcome:
    """Writes what is derived from the trials of the run in ``folder``."""
    from fairlane.report.bundle import write_reports
    from fairlane.report.model import as_json
    from fairlane.runs.files import storing, write_atomic
    from fairlane.runs.judged import read_judged
    from fairlane.runs.read import write_observations

    judged = read_judged(folder)
    write_observations(folder, judged.evidence.observations)
    rows = [as_json(verdict) for verdict in judged.verdicts]
    with storing(folder / "verdicts.json"):
        write_atomic(folder / "verdicts.json", json.dumps(rows, indent=2, allow_nan=False).encode() + b"\n")
    with storing(folder / "report.html"):
        html, markdown = write_reports(*judged, folder)
    return Outcome(judged, rows, html, markdown)
