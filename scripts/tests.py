"""All tests, in tiers, as `make test` runs them; the last lines say what became of each tier.

    scripts/tests.py                the linters, and the tests that are not marked slow
    scripts/tests.py --slow 2/4     these, and the second of four parts of the slow tests
    scripts/tests.py --slow all     all tests
    scripts/tests.py --count        say how many tests each tier has, and run none

Before all tests the wheel runs once, with what [project.dependencies] names and nothing else.

The tiers run beside each other where memory holds their machines; tests of speed run after them, alone.

Tests that fail run once more after all tiers have ended: in a new process, with new fixtures and nothing beside them.
What passes then is unstable: its name and its failure are in the last lines and in test-results.xml (JUnit; the failure
as a flakyFailure). What fails again is failed, and so is everything if more than SECOND_LOOK tests failed.

A green tier has run: a tier without a passed test fails. As root on Debian 12 setup.sh installs all that tests need; a
test that is skipped there fails its tier, unless the reason is KVM, which no installation brings.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv/bin"
PREPARE = (("sh", "scripts/cluster-servers.sh"), (f"{BIN}/fairlane", "lab", "build", "--wall"))
"""What tests need and setup.sh does not install: built once, into the cache."""
CACHE = Path(
    os.environ.get("FAIRLANE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlane"
)
SMOKE = (
    *("run", "--project", str(ROOT), "--quiet", "--frozen", "--isolated", "--no-default-groups"),
    *("--no-editable", "--reinstall-package", "fairlane"),  # the wheel, and not one that was built before
    *("--python", sys.executable, "sh", "-ec", "fairlane --version; fairlane run fake --blocks 2 --out run"),
)
"""uv's arguments: the smallest study from its file to its report, in an environment that is thrown away."""
RESULTS = ROOT / "test-results.xml"
SECOND_LOOK = 100
"""Most failed tests that run once more: more have a cause that a second run does not remove."""
OS_RELEASE = Path(os.environ.get("OS_RELEASE", "/etc/os-release"))
MEMINFO = Path(os.environ.get("MEMINFO", "/proc/meminfo"))


@dataclass(frozen=True)
class Tier:
    """Tests that one pytest runs."""

    name: str
    marks: str
    options: tuple[str, ...] = ()

    folders: tuple[str, ...] = ("tests",)
    """Where its tests are: collecting all takes longer than some tiers' tests."""

    def command(self, *more: str) -> list[str]:
        return [PYTEST, "-m", self.marks, *NO_CACHE, *SLOWEST, *self.options, *more, *self.folders]


PYTEST, NO_CACHE = f"{BIN}/pytest", ("-p", "no:cacheprovider")
SLOWEST = ("--durations=15", "--durations-min=20")


PLAIN = Tier("plain", "not lab and not cluster and not speed", ("-n", "3", "--dist", "loadgroup"))
CLUSTER = Tier(
    "cluster", "cluster", ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
    ("tests/cluster", "tests/platforms/kubevirt"),
)  # fmt: skip
LAB = Tier(
    "lab", "lab and not cluster", ("-n", "2", "--dist", "loadgroup"),
    ("tests/platforms/lab", "tests/platforms/hosts", "tests/platforms/libvirt", "tests/plugins"),
)  # fmt: skip
SPEED = Tier("speed", "speed", ("-n", "1"), ("tests/capture", "tests/checks", "tests/stats"))
"""Runs alone, after all others: its tests assert how fast real programs are."""
TIERS = (PLAIN, LAB, CLUSTER, SPEED)
BESIDE = (PLAIN, LAB, CLUSTER)
"""They run beside each other, and the linters beside them: tests that boot machines or wait for servers leave cores
idle, which plain tests use. None asserts how fast anything is."""
MEMORY = 14 * 2**30
"""Bytes that must be free for that: the most that was seen in use is 11 GiB. With less they run one by one."""


@dataclass
class Result:
    """What became of a tier."""

    name: str
    seconds: float
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Name -> the failure in one line; in the order of the failures, those of a file together."""
    unstable: dict[str, str] = field(default_factory=dict)
    """The same of those that passed when they ran once more."""
    skipped: Counter[str] = field(default_factory=Counter)
    """By reason."""
    complaints: list[str] = field(default_factory=list)
    """Why the tier fails as a whole, whatever became of its tests."""


@dataclass(frozen=True)
class Job:
    """A command that runs in a thread of its own."""

    name: str
    command: Sequence[str]
    live: bool = False
    """Its output goes to the terminal; that of others is shown when they have ended."""

    def run(self, folder: Path, running: list[subprocess.Popen[bytes]]) -> tuple[int, float]:
        """Its exit code, and the seconds it took."""
        started = time.monotonic()
        with (folder / f"{self.name}.log").open("w") as log:
            process = subprocess.Popen(
                self.command, cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=None if self.live else log, stderr=None if self.live else log,
                process_group=0,  # Ctrl-C comes from us, once: a second one would keep pytest from cleaning up
            )  # fmt: skip
        running.append(process)
        return process.wait(), time.monotonic() - started


LINT = Job("lint", ("make", "--no-print-directory", "check"))


def carry_out(jobs: Sequence[Job], folder: Path, *, at_once: int) -> Iterator[tuple[Job, int, float]]:
    """Runs jobs, ``at_once`` of them beside each other; yields each with its exit code and seconds. Leaves none of them
    behind."""
    running: list[subprocess.Popen[bytes]] = []
    with ThreadPoolExecutor(at_once) as pool:
        ends = [(job, pool.submit(job.run, folder, running)) for job in jobs]
        try:
            for job, end in ends:
                code, seconds = end.result()
                if not job.live:
                    print(f"\n== {job.name}\n{(folder / f'{job.name}.log').read_text(errors='replace').rstrip()}")
                yield job, code, seconds
        finally:
            for process in running:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)  # pytest then stops what its fixtures have started


def free_memory() -> int:
    """Bytes that programs can still take."""
    fields = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def all_is_installed() -> bool:
    """Whether setup.sh has installed here all that tests need."""
    try:
        lines = OS_RELEASE.read_text().splitlines()
    except OSError:
        return False
    release = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
    return os.geteuid() == 0 and (release.get("ID"), release.get("VERSION_ID")) == ("debian", "12")


def judge(name: str, report: Path, code: int, seconds: float, *, strict: bool) -> Result:
    """Reads pytest's report. ``strict``: a skip for another reason than KVM fails the tier."""
    result = Result(name, seconds)
    failed: dict[str, dict[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():  # noqa: S314 # our own file
        test, skip = node_id(case), case.find("skipped")
        if (failure := _failure(case)) is not None:
            failed.setdefault(test.partition("::")[0], {})[test] = _line(failure)
        elif skip is not None:
            result.skipped[skip.get("message", "")] += 1
        else:
            result.passed.append(test)
    result.failed = {test: line for tests in failed.values() for test, line in tests.items()}
    result.complaints += _complaints(result, code, strict=strict)
    return result


def node_id(case: ElementTree.Element) -> str:
    """The name by which pytest runs the test of a report again."""
    name = _name(case)
    dotted = case.get("classname") or name  # a file that cannot be imported has no class name
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        file = Path(*parts[:end]).with_suffix(".py")
        if (ROOT / file).is_file():
            return "::".join([str(file), *parts[end:], *([name] if dotted != name else [])])
    return f"{dotted}::{name}"


def without_group(test: str) -> str:
    """The name of a test without the group that a worker of xdist puts behind it."""
    return re.sub(r"@[^]@]+$", "", test)


def _name(case: ElementTree.Element) -> str:
    return without_group(case.get("name", ""))


def _failure(case: ElementTree.Element) -> ElementTree.Element | None:
    return next((child for child in case if child.tag in ("failure", "error")), None)


def _line(failure: ElementTree.Element) -> str:
    """Where a test failed, and its message; of a long one the beginning and the end."""
    message = " ".join(failure.get("message", "").split())
    if len(message) > 300:
        message = f"{message[:150]} ... {message[-150:]}"
    return ": ".join([*(failure.text or "").strip().splitlines()[-1:], message])


def _complaints(result: Result, code: int, *, strict: bool) -> Iterator[str]:
    skipped = result.skipped.total()
    if code not in (0, 1, 5) or (code == 1 and not result.failed):
        yield f"pytest ended with exit code {code}: see its output above"
    elif not result.passed and not result.failed:
        yield f"no test ran: all {skipped} were skipped" if skipped else "no test ran: pytest found none"
    for reason in result.skipped if strict else ():
        if not re.search(r"\bKVM\b", reason):
            yield f"this machine may skip only tests that need KVM, not: {reason}"


def look_again(results: Sequence[Result], folder: Path) -> None:
    """Runs all failed tests once more; those that pass are unstable."""
    failed = [test for result in results for test in result.failed]
    if len(failed) > SECOND_LOOK:
        print(f"\n{len(failed)} tests failed: too many to run once more", flush=True)
    if not 0 < len(failed) <= SECOND_LOOK:
        return
    print(f"\n== once more, alone: tests that failed ({len(failed)})", flush=True)
    report = folder / "again.xml"
    # in a worker, which may end with its test
    job = Job("again", [PYTEST, *NO_CACHE, "-n", "1", f"--junitxml={report}", *failed], live=True)
    ((_, code, seconds),) = carry_out([job], folder, at_once=1)
    passed = set(judge(job.name, report, code, seconds, strict=False).passed)
    for result in results:
        result.unstable = {test: line for test, line in result.failed.items() if test in passed}
        result.failed = {test: line for test, line in result.failed.items() if test not in passed}


def write_results(results: Sequence[Result], folder: Path) -> None:
    """One JUnit report of all tiers."""
    root = ElementTree.Element("testsuites")
    for result in results:
        report = folder / f"{result.name}.xml"
        for suite in ElementTree.parse(report).iter("testsuite") if report.exists() else ():  # noqa: S314
            suite.set("name", result.name)
            for case in suite.iter("testcase"):
                case.set("name", _name(case))
                failure = _failure(case)
                if failure is None or node_id(case) not in result.unstable:
                    continue
                counted = f"{failure.tag}s"
                suite.set(counted, str(int(suite.get(counted, "1")) - 1))
                failure.tag = f"flaky{failure.tag.capitalize()}"
            root.append(suite)
    ElementTree.ElementTree(root).write(RESULTS, encoding="utf-8", xml_declaration=True)


def summary(results: Sequence[Result]) -> Iterator[str]:
    """The last lines: unstable and failed tests, a table of the tiers, why tests were skipped and tiers fail, sums."""
    for word in ("unstable", "failed"):
        for result in results:
            tests: dict[str, str] = getattr(result, word)
            yield from (f"{word.upper()} {test}: {line}" for test, line in tests.items())
    yield ""
    yield f"{'tier':<8} {'passed':>7} {'unstable':>9} {'failed':>7} {'skipped':>8} {'seconds':>8}"
    sums = Counter[str]()
    for r in results:
        counts = {"passed": len(r.passed), "unstable": len(r.unstable), "failed": len(r.failed),
                  "skipped": r.skipped.total()}  # fmt: skip
        passed, unstable, failed, skipped = counts.values()
        yield f"{r.name:<8} {passed:7} {unstable:9} {failed:7} {skipped:8} {r.seconds:8.0f}"
        yield from (f"  skipped {count}: {reason}" for reason, count in r.skipped.most_common())
        sums.update(counts)
    for r in results:
        yield from (f"{r.name} fails: {complaint}" for complaint in r.complaints)
    yield ", ".join(f"{count} {word}" for word, count in sums.items())


def smoke() -> bool:
    """Whether the wheel runs without the developers' packages; prints its output if it does not."""
    uv = shutil.which("uv") or CACHE / "uv/bin/uv"  # where setup.sh puts one
    with tempfile.TemporaryDirectory(prefix="fairlane-wheel-") as folder:
        done = subprocess.run(
            [uv, *SMOKE], cwd=folder, env={**os.environ, "UV_PYTHON_DOWNLOADS": "manual"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        print("The wheel does not run alone. A module that is missing above belongs into [project.dependencies] of "
              "pyproject.toml, then run: uv lock", file=sys.stderr)  # fmt: skip
    return not done.returncode


def run(slow: str) -> int:
    """All tiers; the exit code."""
    if not smoke():
        return 1
    for command in PREPARE:
        if code := subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode:
            return code
    started, results, strict, lint = time.monotonic(), [], all_is_installed(), 0
    with tempfile.TemporaryDirectory(prefix="fairlane-tests-") as name:
        folder = Path(name)
        jobs = {
            t.name: Job(
                t.name, t.command("--slow", slow, f"--junitxml={folder / t.name}.xml"), live=t in (PLAIN, SPEED)
            )
            for t in TIERS
        }
        first = [*(jobs[t.name] for t in BESIDE), LINT]
        roomy = free_memory() >= MEMORY
        if not roomy:
            print(f"less than {MEMORY >> 30} GiB of memory are free: the tiers run one by one", flush=True)
        for job, code, seconds in (
            *carry_out(first, folder, at_once=len(first) if roomy else 1),
            *carry_out([jobs[SPEED.name]], folder, at_once=1),
        ):
            if job is LINT:
                lint = code
            else:
                results.append(judge(job.name, folder / f"{job.name}.xml", code, seconds, strict=strict))
        look_again(results, folder)
        write_results(results, folder)
    print("\n".join(summary(results)))
    if lint:
        print("lint fails: see its output above", file=sys.stderr)
    print(f"{time.monotonic() - started:.0f} s in all", file=sys.stderr, flush=True)
    return int(bool(lint) or any(r.failed or r.complaints for r in results))


def count() -> int:
    """Prints how many tests each tier has, and how many of them are not slow."""
    for tier in TIERS:
        for slow in ("all", "none"):
            command = [f"{BIN}/pytest", "--collect-only", "-q", "-m", tier.marks, "--slow", slow]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            print(f"{tier.name}, slow {slow}: {done.stdout.rstrip().splitlines()[-1]}", flush=True)
            if done.returncode:
                return done.returncode
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Run all tests in tiers.")
    parser.add_argument("--slow", default="none", metavar="none|all|I/K", help="which slow tests to run, too")
    parser.add_argument("--count", action="store_true", help="print how many tests each tier has")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return count() if arguments.count else run(arguments.slow)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
