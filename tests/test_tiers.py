"""The runner of these tests, on scratch tests: what did not run is not green."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import tests as runner
from tests.conftest import in_part

ROOT = Path(__file__).parent.parent
REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"
PASSED = '<testcase classname="t" name="good"/>'
BROKEN = (
    '<testcase classname="t" name="bad"><error message="set-up&#10;failed">...\nt.py:3: OSError\n</error></testcase>'
)


def skipped(reason: str) -> str:
    return f'<testcase classname="t" name="left"><skipped type="pytest.skip" message="{reason}"/></testcase>'


@pytest.mark.parametrize(
    ("cases", "code", "strict", "complaints"),
    [
        ([PASSED], 0, True, []),
        ([PASSED, skipped("needs KVM"), skipped("needs KVM")], 0, True, []),
        ([PASSED, skipped("no fio")], 0, False, []),
        ([PASSED, skipped("no fio")], 0, True, ["this machine may skip only tests that need KVM, not: no fio"]),
        ([skipped("needs KVM"), skipped("no fio")], 0, False, ["no test ran: all 2 were skipped"]),
        ([], 5, False, ["no test ran: pytest found none"]),
        ([PASSED], 3, False, ["pytest ended with exit code 3: see its output above"]),
        ([PASSED], -9, False, ["pytest ended with exit code -9: see its output above"]),
        ([PASSED], 1, False, ["pytest ended with exit code 1: see its output above"]),
        ([PASSED, BROKEN], 1, False, []),
    ],
)
def test_a_tier_is_green_only_if_it_ran(
    tmp_path: Path, cases: list[str], code: int, strict: bool, complaints: list[str]
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format("".join(cases)))
    result = runner.judge("plain", report, code, 1.0, strict=strict)
    assert result.complaints == complaints
    assert result.passed == ["t::good"] * cases.count(PASSED)
    assert result.failed == ({"t::bad": "t.py:3: OSError: set-up failed"} if BROKEN in cases else {})
    assert result.skipped.total() == len(cases) - len(result.passed) - len(result.failed)


def test_a_pytest_that_left_no_report_fails(tmp_path: Path) -> None:
    result = runner.judge("plain", tmp_path / "none.xml", -11, 1.0, strict=False)
    assert result.complaints == ["pytest ended with exit code -11: see its output above"]


def test_the_last_line_is_the_sum_and_reasons_are_counted(tmp_path: Path) -> None:
    results = []
    for name, cases in (("plain", PASSED * 3 + skipped("no fio") * 2), ("lab", PASSED + BROKEN + skipped("needs KVM"))):
        (tmp_path / name).write_text(REPORT.format(cases))
        results.append(runner.judge(name, tmp_path / name, 1 if BROKEN in cases else 0, 61.4, strict=False))
    lines = list(runner.summary(results))
    assert lines[-1] == "4 passed, 0 unstable, 1 failed, 3 skipped"
    assert "FAILED t::bad: t.py:3: OSError: set-up failed" in lines
    assert "  skipped 2: no fio" in lines
    assert [line.split() for line in lines if line.startswith(("plain ", "lab "))] == [
        ["plain", "3", "0", "0", "2", "61"],
        ["lab", "1", "0", "1", "1", "61"],
    ]


@pytest.mark.parametrize(
    ("classname", "name", "expected"),
    [
        ("tests.test_tiers", "test_it[a.b::c]@browser", "tests/test_tiers.py::test_it[a.b::c]"),
        ("tests.test_tiers", "test_it[a@b]", "tests/test_tiers.py::test_it[a@b]"),
        ("tests.test_tiers.TestIt", "test_it@safety", "tests/test_tiers.py::TestIt::test_it"),
        ("", "tests.test_tiers", "tests/test_tiers.py"),
        ("", "elsewhere", "elsewhere::elsewhere"),
    ],
)
def test_a_test_of_a_report_can_be_run_again(classname: str, name: str, expected: str) -> None:
    assert runner.node_id(ElementTree.Element("testcase", {"classname": classname, "name": name})) == expected


@pytest.mark.parametrize(
    ("release", "root", "everything"),
    [
        ('ID=debian\nVERSION_ID="12"\n', True, True),
        ('ID=debian\nVERSION_ID="13"\n', True, False),
        ("ID=ubuntu\n", True, False),
        ('ID=debian\nVERSION_ID="12"\n', False, False),
        (None, True, False),
    ],
)
def test_where_everything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, root: bool, everything: bool
) -> None:
    if release is not None:
        (tmp_path / "os-release").write_text(release)
    monkeypatch.setattr(runner, "OS_RELEASE", tmp_path / "os-release")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    assert runner.all_is_installed() == everything


SLOW = "import pytest\n@pytest.mark.slow\n@pytest.mark.parametrize('n', range(12))\ndef test_slow(n): pass\n"
MARKED = "import pytest\npytestmark = pytest.mark.{}\ndef test_it(): {}\n"


def program(scratch: Path, name: str, line: str) -> None:
    path = scratch / ".venv/bin" / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A checkout with the runner, the marks and a test for each tier; all but the tests themselves is real."""
    for name in ("scripts/tests.py", "tests/conftest.py", "tests/scheduling.py", "testkit/shared.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "Makefile").write_text("check:\n\t@echo linted\n")
    (tmp_path / "scripts/cluster-servers.sh").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  lab\n  cluster\n  speed\n  browser\n")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, line in (("pytest", f'exec "{sys.executable}" -m pytest "$@"'), ("fairlane", ""), ("uv", "")):
        program(tmp_path, name, line)
    (tmp_path / "tests/test_plain.py").write_text("def test_it(): pass\n" + SLOW)
    for tier in runner.CLUSTER, runner.LAB, runner.SPEED:
        for folder in tier.folders:
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / tier.folders[0] / f"test_{tier.name}.py").write_text(MARKED.format(tier.name, "pass"))
    return tmp_path


def go(scratch: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "MAKE", "MFLAGS"))}
    clean["PATH"] = f"{scratch / '.venv/bin'}:{clean['PATH']}"
    return subprocess.run(
        [sys.executable, "scripts/tests.py", *arguments],
        cwd=scratch, env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_part_of_the_slow_tests_runs_beside_all_others(scratch: Path) -> None:
    done = go(scratch, "--slow", "1/2")
    assert done.returncode == 0, done.stdout + done.stderr
    slow = sum(in_part(f"tests/test_plain.py::test_slow[{n}]", "1/2") for n in range(12))
    assert 0 < slow < 12
    assert done.stdout.splitlines()[-1] == f"{4 + slow} passed, 0 unstable, 0 failed, 0 skipped"
    assert "== lint\nlinted\n" in done.stdout


@pytest.mark.slow
def test_every_test_is_in_the_folders_of_its_tier() -> None:
    """A test that is marked elsewhere would run in no tier."""
    for tier in runner.CLUSTER, runner.LAB, runner.SPEED:
        elsewhere = [f"--ignore={folder}" for folder in tier.folders]
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", tier.marks, "-p", "no:cacheprovider"]
        done = subprocess.run([*command, *elsewhere], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_each_slow_test_is_in_one_part() -> None:
    names = [f"tests/test_it.py::test_it[{n}]" for n in range(400)]
    dealt = [[in_part(name, f"{part}/4") for part in range(1, 5)] for name in names]
    assert {sum(parts) for parts in dealt} == {1}
    assert all(70 < sum(part) < 130 for part in zip(*dealt, strict=True))
    assert all(in_part(name, "all") and not in_part(name, "none") for name in names)


@pytest.mark.slow
def test_a_tier_in_which_everything_skips_fails(scratch: Path) -> None:
    (scratch / "tests/cluster/test_cluster.py").write_text(MARKED.format("cluster", "pytest.skip('no servers')"))
    (scratch / "tests/platforms/lab/test_lab.py").write_text("")
    done = go(scratch)
    assert done.returncode == 1
    assert "cluster fails: no test ran: all 1 were skipped" in done.stdout
    assert "lab fails: no test ran: pytest found none" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 passed, 0 unstable, 0 failed, 1 skipped"


EVENTS = """
import os
from pathlib import Path

import pytest


def first(what):
    seen = Path("seen-" + what)
    return not seen.exists() and not seen.write_text("")


@pytest.mark.xdist_group("machine")
def test_fails_once():
    assert not first("once"), "its machine has ended"


def test_fails_twice():
    assert first("twice") is None, "a defect"


def test_ends_its_worker_once():
    if first("worker"):
        os._exit(9)


def test_ends_its_worker_twice():
    os._exit(9)


@pytest.mark.parametrize("number", range(9))
def test_passes(number):
    pass
"""


@pytest.mark.parametrize("tier", [runner.PLAIN, pytest.param(runner.CLUSTER, marks=pytest.mark.slow)])
def test_what_fails_runs_once_more_alone_and_is_unstable_if_it_passes_then(scratch: Path, tier: runner.Tier) -> None:
    """Whichever way the tier deals its tests: a worker that has ended is replaced."""
    file = f"{tier.folders[0]}/test_{tier.name}.py"
    marked = EVENTS + ("pytestmark = pytest.mark.cluster" if tier is runner.CLUSTER else "")
    (scratch / file).write_text(marked)
    done = go(scratch)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "12 passed, 2 unstable, 2 failed, 0 skipped"
    ends = [line.partition(": ") for line in lines if line.startswith(("UNSTABLE ", f"FAILED {file}::"))]
    found = {what: text for what, _, text in ends[-4:]}
    assert set(found) == {
        f"UNSTABLE {file}::test_fails_once",
        f"UNSTABLE {file}::test_ends_its_worker_once",
        f"FAILED {file}::test_fails_twice",
        f"FAILED {file}::test_ends_its_worker_twice",
    }
    assert "its machine has ended" in found[f"UNSTABLE {file}::test_fails_once"]
    cases = ElementTree.parse(scratch / "test-results.xml").iter("testcase")  # noqa: S314 # our own file
    assert {case.get("name"): case[0].tag for case in cases if len(case)} == {
        "test_fails_once": "flakyFailure",
        "test_ends_its_worker_once": "flakyError",
        "test_fails_twice": "failure",
        "test_ends_its_worker_twice": "error",
    }


SHARED = """
import pytest

MADE = []


class Machine:
    ended = ""

    def dead(self):
        return self.ended


@pytest.fixture(scope="session")
def machine():
    MADE.append("machine")
    assert len(MADE) != 2, "it does not boot"
    made = Machine()
    yield made
    assert not made.ended, "it cannot be taken apart"


@pytest.fixture(scope="module")
def disk(machine):
    return machine, "disk"


def test_ends_it(disk):
    disk[0].ended = "killed"
    assert 0


def test_no_set_up(disk):
    assert 0


def test_new_one(disk, machine):
    assert disk == (machine, "disk")
    assert not machine.ended


def test_the_same(machine):
    assert len(MADE) == 3
"""


def test_what_ends_a_shared_machine_fails_one_test_and_the_next_gets_a_new_one(scratch: Path) -> None:
    (scratch / "tests/test_plain.py").write_text(SHARED)
    command = [sys.executable, "-m", "pytest", "tests/test_plain.py"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed, 1 error in" in done.stdout
    assert "machine is made anew: killed" in done.stdout


def test_many_failures_do_not_run_once_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = runner.Result("plain", 1.0, failed={f"tests/test_tiers.py::test_{n}": "" for n in range(101)})
    runner.look_again([many], tmp_path)
    assert capsys.readouterr().out.strip() == "101 tests failed: too many to run once more"
    assert (len(many.failed), many.unstable) == (101, {})


def test_a_wheel_that_lacks_a_dependency_ends_it_before_any_test(scratch: Path) -> None:
    program(scratch, "uv", 'echo "$@"; echo "ModuleNotFoundError: No module named \'rich\'"; exit 1')
    done = go(scratch)
    assert done.returncode == 1
    assert done.stdout == ""
    arguments, missing, _, message = done.stderr.splitlines()
    assert {"run", "--isolated", "--no-default-groups", "--no-editable"} <= set(arguments.split())
    assert missing == "ModuleNotFoundError: No module named 'rich'"
    assert "[project.dependencies]" in message


@pytest.mark.parametrize("slow", ["some", "3/2"])
def test_a_part_that_is_none_is_refused(scratch: Path, slow: str) -> None:
    command = [sys.executable, "-m", "pytest", "--slow", slow]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--slow {slow}: write none, all, or a part such as 2/4" in done.stderr
