"""What a user gets: the wheel, alone with its runtime dependencies, in an environment that knows nothing of us."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlane import __version__
from fairlane.runs.files import cache_dir

pytestmark = pytest.mark.timeout(1800)  # packages may have to be fetched
ROOT = Path(__file__).parent.parent


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """Its stdout; the test fails, with everything it said, if the command does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def uv() -> str | Path:
    return shutil.which("uv") or cache_dir() / "uv/bin/uv"  # where scripts/setup.sh puts one


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a fresh environment with the wheel, and the versions of the lock file below it."""
    folder = tmp_path_factory.mktemp("a wheel")
    run([uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], folder)
    (wheel,) = folder.glob("*.whl")
    locked = folder / "locked.txt"
    run([uv(), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "-o", locked], ROOT)
    venv = folder / "environment"
    run([uv(), "venv", "--quiet", "--python", sys.executable, venv], folder)
    python = venv / "bin/python"
    run([uv(), "pip", "install", "--quiet", "--python", python, "--constraint", locked, wheel], folder)
    return venv / "bin"


def test_the_program_says_its_version(installed: Path, tmp_path: Path) -> None:
    assert run([installed / "fairlane", "--version"], tmp_path).strip() == f"fairlane {__version__}"
    assert run([installed / "python", "-m", "fairlane", "--version"], tmp_path).strip() == f"fairlane {__version__}"


@pytest.mark.slow
def test_two_builds_are_equal_byte_by_byte(tmp_path: Path) -> None:
    """Wheel and source, of another folder, with other times, and no rights for others."""
    uv = shutil.which("uv") or cache_dir() / "uv/bin/uv"
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "site", "dist"))
    shutil.copy(ROOT / ".gitignore", copy)  # it says what is left out
    run([uv, "build", "--quiet", "--out-dir", tmp_path / "first", copy], tmp_path)
    for path in copy.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1e9, 1e9))
    run([uv, "build", "--quiet", "--out-dir", tmp_path / "again", copy.rename(tmp_path / "moved")], tmp_path)
    first, again = (
        {file.name: file.read_bytes() for file in (tmp_path / built).glob("fairlane-*")} for built in ("first", "again")
    )
    assert len(first) == 2
    assert first == again


@pytest.mark.parametrize("place", ["src/fairlane", "replication/fairlane_replication"])
def test_every_file_of_a_package_is_in_the_wheel(installed: Path, place: str) -> None:
    (package,) = installed.parent.glob(f"lib/python*/site-packages/{Path(place).name}")

    def files(folder: Path) -> set[Path]:
        return {f.relative_to(folder) for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts}

    assert files(package) == files(ROOT / place)


def test_published_claims_are_asked_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    """Those of study 003 are asked of its own tables, and need no machine."""
    asked = ["replicate", "--quick", "--study", "003", "--format", "json"]
    told = json.loads(run([installed / "fairlane", *asked], tmp_path))
    assert {claim["study"] for claim in told["claims"]} == {"003"}
    assert told["summary"]["direction"]["disagree"] == 2


@pytest.mark.slow
def test_the_schema_and_every_command_come_up_without_the_developers_tools(installed: Path, tmp_path: Path) -> None:
    schema = json.loads(run([installed / "fairlane", "schema"], tmp_path))
    assert {"lanes", "workloads", "platform"} <= set(schema["properties"])
    assert "doctor" in run([installed / "fairlane", "--help"], tmp_path)
    lines = json.loads(run([installed / "fairlane", "doctor", "--platform", "fake", "--format", "json"], tmp_path))
    assert "missing" not in {line["state"] for line in lines}


def test_what_is_missing_is_named_as_the_distribution_names_it(installed: Path, tmp_path: Path) -> None:
    """The wheel has no Makefile: its hints must not send anybody to one."""
    (tmp_path / "apt-get").touch(mode=0o755)
    done = subprocess.run(
        [installed / "fairlane", "run", "demo", "--out", "demo"],
        cwd=tmp_path, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "apt-get install qemu-system-x86" in done.stderr
    assert "make setup" not in done.stderr


@pytest.mark.slow
def test_a_study_goes_all_the_way_to_a_report(installed: Path, tmp_path: Path) -> None:
    fairlane = installed / "fairlane"
    run([fairlane, "run", "fake", "--blocks", "6", "--out", "first"], tmp_path)
    verdicts = json.loads(run([fairlane, "verdicts", "first", "--format", "json"], tmp_path))
    assert verdicts
    assert {"lane", "baseline", "cell", "metric", "ratio", "low", "high", "verdict", "blocks"} <= set(verdicts[0])
    run([fairlane, "report", "first"], tmp_path)
    assert (tmp_path / "first/report.html").exists()
    assert (tmp_path / "first/report.md").exists()


@pytest.mark.slow
def test_a_notebook_opens_a_run_with_the_runtime_dependencies_alone(installed: Path, tmp_path: Path) -> None:
    run([installed / "fairlane", "run", "fake", "--blocks", "2", "--out", "made"], tmp_path)
    lines = "import fairlane", "made = fairlane.open('made')", "made.figure('forest').save('forest.png')"
    told = run([installed / "python", "-c", "; ".join((*lines, "print(made.verdicts()[0].lane)"))], tmp_path)
    assert told.strip() in {"iscsi-again", "nvme-tcp"}
    assert (tmp_path / "forest.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_two_directories_are_compared_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    words = ["versus", "./a", "./b", "--shared", "--size", "8m", "--runtime", "300ms", "--blocks", "2", "--out", "run"]
    told = run([installed / "fairlane", *words], tmp_path).splitlines()
    assert "4k randread qd1" in told[-3]
    assert (tmp_path / "run/report.html").exists()
    assert [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_the_readmes_line_compares_two_directories_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    (line,) = re.findall(r"^uvx (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    (wheel,) = installed.parents[1].glob("*.whl")
    for name in ("dist", "a", "b"):
        (tmp_path / name).mkdir()
    shutil.copy(wheel, tmp_path / "dist")
    told = run([uv(), "tool", "run", *line.split(), "--shared"], tmp_path)  # beside other tests' runs
    assert "4k randread qd1" in told
    assert "lead to one disk" in " ".join(told.split())
    assert len([*(tmp_path / "runs").glob("*/report.html")]) == 1
    assert [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()] == []
