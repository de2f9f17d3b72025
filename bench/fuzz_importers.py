"""Fuzzing of every importer: no exception but Unreadable, figures that can be, bounded memory and time.

    uv run --group fuzz python bench/fuzz_importers.py                       60 s for each importer
    uv run --group fuzz python bench/fuzz_importers.py --seconds 600 sysbench pgbench

Begins with the fixtures of tests/importers; the oracle is that of the tests. One input replaces one file of one group
of fixtures, which its first byte chooses; the group's other files stay as they are. Inputs that break an importer are
kept (--keep), the exit code is then 1; ``--replay FILE TOOL`` shows what one does.

libFuzzer (through atheris) guides by coverage. Where atheris is not installed, or with --by-chance, files are damaged
by chance instead, as the tests do it. Either runs at the lowest priority, one importer after the other.
"""

import argparse
import contextlib
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

LONGEST = 1 << 16
"""Bytes of an input."""
INPUT_MB = 200
"""Memory that one input may take."""
SLICE = 40
"""Seconds that a process lasts: atheris' instrumentation leaks, up to 0.2 MB per input. The corpus goes on."""
PROCESS_MB = 4096
SLOWEST = 10
"""Seconds for one input."""


@dataclass(frozen=True)
class Result:
    """What a run of one importer came to."""

    tool: str
    executions: int
    seconds: int
    coverage: str
    """Edges that libFuzzer saw."""
    broken: str
    """Empty, or what was found."""


def chosen(tool: str) -> list[tuple[dict[str, bytes], str]]:
    """The files that an input can replace: group, and name in it; by the input's first byte."""
    from tests.importers.importer_oracle import texts  # noqa: PLC0415 - after the instrumentation

    return list(texts(tool))[:256]


def one_input(tool: str, data: bytes) -> None:
    """Reads what ``data`` stands for. Raises whatever the importer does wrong."""
    from tests.importers.importer_oracle import claims, importers, judged  # noqa: PLC0415

    places = chosen(tool)
    files, name = places[(data[0] if data else 0) % len(places)]
    content = data[1:]
    plugin = importers()[tool]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    claims(plugin, name, content)
    judged(plugin, {**files, name: content})
    taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert taken < INPUT_MB, f"one input took {taken} MiB"


def fuzz(tool: str, seconds: int, keep: Path, corpus: Path) -> None:
    """In a process of its own: libFuzzer ends it."""
    import atheris  # noqa: PLC0415

    os.nice(19)
    with atheris.instrument_imports(include=["fairlane.importers", "fairlane.formats"]):
        from tests.importers.importer_oracle import importers  # noqa: PLC0415

        importers()
    if not any(corpus.iterdir()):
        for number, (files, name) in enumerate(chosen(tool)):
            (corpus / f"{number}").write_bytes(bytes([number]) + files[name][: LONGEST - 1])
    flags = [
        f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-rss_limit_mb={PROCESS_MB}", f"-timeout={SLOWEST}",
        "-print_final_stats=1", f"-artifact_prefix={keep}/{tool}-", str(corpus),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags], lambda data: one_input(tool, data))
    atheris.Fuzz()


def by_chance(tool: str, seconds: int, keep: Path, seed: int) -> Result:
    """Reads files that are damaged at random, in this process; ``seed`` and the number of an input give it again."""
    from tests.importers.mutations import damaged  # noqa: PLC0415

    places = chosen(tool)
    end, executions = time.monotonic() + seconds, 0
    while time.monotonic() < end or not executions:
        choose = random.Random(f"{seed}.{executions}")  # noqa: S311
        number = choose.randrange(len(places))
        files, name = places[number]
        content = files[name]
        for _ in range(choose.randint(1, 5)):
            content = damaged(content, choose)
        data = bytes([number]) + content
        begin = time.monotonic()
        try:
            one_input(tool, data)
            assert time.monotonic() - begin < SLOWEST, "too slow"
        except Exception as error:
            (keep / f"{tool}-{seed}.{executions}").write_bytes(data)
            return Result(tool, executions, seconds, "-", f"{type(error).__name__}: {str(error)[:300]}")
        executions += 1
    return Result(tool, executions, seconds, "-", "")


def run(tool: str, seconds: int, keep: Path) -> Result:
    """Starts the processes, one after the other, and reads what libFuzzer says at their ends."""
    executions, coverage = 0, "?"
    with tempfile.TemporaryDirectory() as corpus:
        for left in range(seconds, 0, -SLICE):
            command = [sys.executable, __file__, "--corpus", corpus, "--seconds", str(min(SLICE, left))]
            done = subprocess.run(
                [*command, "--keep", str(keep), tool], capture_output=True, text=True, errors="replace", check=False
            )
            units = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
            executions += int(units[1]) if units else 0
            coverage = (re.findall(r"cov: (\d+)", done.stderr) or [coverage])[-1]
            if done.returncode or not units:
                return Result(tool, executions, seconds, coverage, _told(done.stderr))
    return Result(tool, executions, seconds, coverage, "")


def _told(stderr: str) -> str:
    """What broke, in a line."""
    lines = re.findall(r"(?:Uncaught Python exception.*|ERROR: libFuzzer.*|^\w*Error.*)", stderr, re.MULTILINE)
    return " ".join(("; ".join(lines[:3]) or stderr[-300:]).split())


def main() -> int:
    """Fuzzes, and prints a line per importer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", nargs="*", metavar="TOOL")
    parser.add_argument("--seconds", type=int, default=60, help="for each importer")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for inputs that break one")
    parser.add_argument("--by-chance", action="store_true", help="without atheris")
    parser.add_argument("--seed", type=int, default=1, help="of --by-chance")
    parser.add_argument("--replay", type=Path, help="read this one input, with the importer TOOL")
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        one_input(options.tools[0], options.replay.read_bytes())
        return 0
    if options.corpus:
        fuzz(options.tools[0], options.seconds, options.keep, options.corpus)
    from fairlane import registry  # noqa: PLC0415

    options.keep.mkdir(exist_ok=True)
    results = []
    guided = find_spec("atheris") is not None and not options.by_chance
    if not guided:
        os.nice(19)
    for tool in options.tools or registry.names("importers"):
        if guided:
            result = run(tool, options.seconds, options.keep)
        else:
            result = by_chance(tool, options.seconds, options.keep, options.seed)
        results.append(result)
        rate = result.executions / max(1, result.seconds)
        print(
            f"{tool:18} {result.executions:9,} executions  {rate:7,.0f}/s  cov {result.coverage:5} {result.broken}",
            flush=True,
        )
    print(f"{'all':18} {sum(r.executions for r in results):9,} executions")
    with contextlib.suppress(OSError):
        options.keep.rmdir()  # if nothing was kept
    return 1 if any(result.broken for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
