"""The functions that steps may call are described in the contract of transports, and do what stands there."""

import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from fairlane.lanes import base

LIBRARY = resources.files("fairlane.machines").joinpath("guest/lib.sh").read_text("utf-8")


def shell(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs ``text`` with the library, on a machine whose NVMe controllers are the folder ``nvme``."""
    (tmp_path / "programs").write_text("")
    library = LIBRARY.replace("/fairlane/programs", str(tmp_path / "programs"))
    library = library.replace("/sys/class/nvme", str(tmp_path / "nvme")).replace("-lt 200", "-lt 3")
    script = f"{library}\n( set -eu\n{text}\n)\n"
    return subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_contract_has_every_function() -> None:
    functions = re.findall(r"^(\w+)\(\) ", LIBRARY, re.MULTILINE)
    assert {"row", "await", "controller", "mark", "send"} <= set(functions)
    for name in functions:
        assert re.search(rf"``{name} [A-Z ]+``", base.__doc__ or ""), name


def test_row_prints_a_line_of_a_description(tmp_path: Path) -> None:
    assert shell(tmp_path, "row queue.depth '12 of 16'").stdout == "queue.depth\t12 of 16\n"


def test_await_waits_for_a_number_and_says_what_it_waited_for(tmp_path: Path) -> None:
    grows = "await 2 'echo x >> lines; wc -l < lines'; wc -l < lines"
    assert shell(tmp_path, grows).stdout.split() == ["2"]
    never = shell(tmp_path, "await 1 'echo 0'; echo reached")
    assert (never.returncode, never.stdout) == (1, "")
    assert re.search(r"\b1\b.*\becho 0\b", never.stderr)


@pytest.mark.parametrize(("nqn", "found"), [("nqn.b", "nvme1"), ("nqn.c", "")])
def test_controller_finds_by_the_subsystems_name(tmp_path: Path, nqn: str, found: str) -> None:
    for number, name in enumerate(("nqn.a", "nqn.b")):
        (tmp_path / "nvme" / f"nvme{number}").mkdir(parents=True)
        (tmp_path / "nvme" / f"nvme{number}" / "subsysnqn").write_text(f"{name}\n")
    done = shell(tmp_path, f"controller {nqn}")
    assert done.stdout.strip() == (str(tmp_path / "nvme" / found) if found else "")
    assert done.returncode == (0 if found else 1)
