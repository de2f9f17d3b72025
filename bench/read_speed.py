"""What it takes to read a finished run: wall time of each command, with and without the run's index of figures.

    uv run python bench/read_speed.py                       1,000 trials, made by the fake platform
    uv run python bench/read_speed.py --blocks 10 100       1,000 and 10,000 trials (making the larger takes 4 minutes)
    uv run python bench/read_speed.py --against DIR         also with the code in DIR/src, in turns with this one

``index``: the first command on a run, which makes its index (``figures.index``). All others find it. ``serve``: until
the viewer listens and has answered with the list of runs; ``page``: the report's page from it, for the first time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from report_speed import made  # type: ignore[import-not-found] # beside it

HERE = Path(__file__).parent.parent
COMMANDS = ("verdicts", "check", "curves", "watch", "export", "report")


def command(source: Path, *args: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source / 'src')!r})\n{_ENTRY}", *args]


_ENTRY = "from fairlane.cli.main import entry\nentry()"


def timed(source: Path, name: str, run: Path, out: Path) -> float:
    """Seconds of one command."""
    more = ("--to", "csv", "--out", str(out)) if name == "export" else ("--out", str(out)) if name == "report" else ()
    begun = time.perf_counter()
    subprocess.run(command(source, name, str(run), *more), check=True, capture_output=True)
    return time.perf_counter() - begun


def viewed(source: Path, run: Path) -> tuple[float, float]:
    """Seconds until the viewer shows the list of runs, and those of the report's page."""
    begun = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    args = command(source, "serve", str(run.parent), "--port", "0")
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as server:
        try:
            assert server.stdout
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
            fetch(address)
            listed = time.perf_counter()
            fetch(f"{address}runs/{run.name}/report.html")
            return listed - begun, time.perf_counter() - listed
        finally:
            server.terminate()


def fetch(address: str) -> None:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - the viewer on this machine
        answer.read()


def measured(sources: Sequence[Path], run: Path, rounds: int) -> dict[tuple[str, Path], list[float]]:
    times: dict[tuple[str, Path], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for source in sources:  # an index of other code is not believed: each makes its own, and reads that
                (run / "figures.index").unlink(missing_ok=True)
                times.setdefault(("index", source), []).append(timed(source, "verdicts", run, Path(folder)))
                for name in COMMANDS:
                    times.setdefault((name, source), []).append(timed(source, name, run, Path(folder) / name))
                for name, seconds in zip(("serve", "page"), viewed(source, run), strict=True):
                    times.setdefault((name, source), []).append(seconds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, nargs="+", default=[10], help="blocks of 100 trials")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="a checkout of other code")
    parser.add_argument("--keep", type=Path, help="folder of the runs, for the next time")
    options = parser.parse_args()
    sources = [*([options.against] if options.against else []), HERE]
    with tempfile.TemporaryDirectory() as folder:
        for blocks in options.blocks:
            run = made(options.keep or Path(folder), blocks)
            times = measured(sources, run, options.rounds)
            print(f"{blocks * 100:,} trials, median of {options.rounds}, s: " + ", ".join(map(str, sources)))
            for name in ("index", *COMMANDS, "serve", "page"):
                middle = [statistics.median(times[name, source]) for source in sources]
                print(f"  {name:9}" + "".join(f"{seconds:9.2f}" for seconds in middle))


if __name__ == "__main__":
    main()
