"""The sample report of the documentation: of a run of the demo in the lab. `make docs` calls this.

The run is kept in the cache, and made anew when its study, Fairlane's version or the sources of what carries a run out
change: one to two minutes. The report is written each time. Names and addresses of the machine it ran on are replaced
(`fairlane report --redact`). `make docs SAMPLE=RUN` takes a run of the lab that exists.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from fairlane import __version__
from fairlane.runs.files import cache_dir
from fairlane.runs.read import load_run

SOURCES = Path(__file__).resolve().parents[2] / "src" / "fairlane"
ROOMS = ("lanes", "machines", "platforms", "probes", "runs", "stats", "study", "trial", "workloads")
"""What a run depends on; checks, verdicts and report only read it."""
FAIRLANE = (sys.executable, "-m", "fairlane")
KEPT = 3
"""Runs in the cache: checkouts that take turns do not remove each other's."""


def run_directory() -> Path:
    """The run for these sources, whether it is there or not; that of SAMPLE, if set."""
    if chosen := os.environ.get("SAMPLE"):
        return Path(chosen).resolve()
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(found for room in ROOMS for found in (SOURCES / room).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(str(path.relative_to(SOURCES)).encode() + path.read_bytes())
    return cache_dir() / "sample" / digest.hexdigest()[:16] / "run"


def page() -> Path:
    """The report; it is there after ``make``, and of a run that was carried out to its end."""
    run = run_directory()
    return run.with_name(f"{run.name}-redacted") / "report.html"


def must_be_of_the_lab(run: Path) -> None:
    """Ends with a message if it is not: documentation does not show invented figures as an answer."""
    if (kind := load_run(run).study.platform.kind) != "lab":
        sys.exit(f"{run}: a run of the platform {kind}; expected one of the lab")


def make() -> Path:
    """The report, of a new run if need be. Ends with a message if the run is not one of the lab."""
    run = run_directory()
    if not page().exists() and not os.environ.get("SAMPLE"):
        shutil.rmtree(run.parent, ignore_errors=True)
        subprocess.run([*FAIRLANE, "run", "demo", "--out", run], check=True)
        for old in sorted(run.parent.parent.iterdir(), key=lambda kept: kept.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    must_be_of_the_lab(run)
    subprocess.run([*FAIRLANE, "report", run, "--redact"], check=True)
    return page()


if __name__ == "__main__":
    print(make())
