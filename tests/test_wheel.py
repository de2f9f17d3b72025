"""What a user gets: the wheel, alone with its runtime dependencies, in an environment that knows nothing of us."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlane import __version__
from fairlane.platforms.lab.cache import cache_dir

pytestmark = pytest.mark.timeout(1800)  # packages may have to be fetched
ROOT = Path(__file__).parent.parent


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """Its stdout; the test fails, with everything it said, if the command does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a fresh environment with the wheel, and the versions of the lock file below it."""
    folder = tmp_path_factory.mktemp("a wheel")
    uv = shutil.which("uv") or cache_dir() / "uv/bin/uv"  # where scripts/setup.sh puts one
    run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], folder)
    (wheel,) = folder.glob("*.whl")
    locked = folder / "locked.txt"
    run([uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "-o", locked], ROOT)
    venv = folder / "environment"
    run([uv, "venv", "--quiet", "--python", sys.executable, venv], folder)
    python = venv / "bin/python"
    run([uv, "pip", "install", "--quiet", "--python", python, "--constraint", locked, wheel], folder)
    return venv / "bin"


def test_the_program_says_its_version(installed: Path, tmp_path: Path) -> None:
    assert run([installed / "fairlane", "--version"], tmp_path).strip() == f"fairlane {__version__}"
    assert run([installed / "python", "-m", "fairlane", "--version"], tmp_path).strip() == f"fairlane {__version__}"


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
    assert told["summary"]["direction"]["disagree"] == 4


def test_the_schema_and_every_command_come_up_without_the_developers_tools(installed: Path, tmp_path: Path) -> None:
    schema = json.loads(run([installed / "fairlane", "schema"], tmp_path))
    assert {"lanes", "workloads", "platform"} <= set(schema["properties"])
    assert "doctor" in run([installed / "fairlane", "--help"], tmp_path)
    lines = json.loads(run([installed / "fairlane", "doctor", "--platform", "fake", "--format", "json"], tmp_path))
    assert "missing" not in {line["state"] for line in lines}


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
