"""The way in: setup.sh, the Makefile and .ci/run, run for real on a machine whose programs are stand-ins that log."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REAL = ("sh", "dirname", "cut", "tr", "env", "mkdir", "getent", "cat", "touch", "chmod", "rm", "ls")
TOOLS = ("qemu-system-x86_64", "mmdebstrap", "setpriv", "qemu-img", "ssh", "mke2fs", "python3", "newuidmap")
CEPH = ("ceph-mon", "ceph-osd", "ceph-mgr", "ceph-mds", "rbd", "ceph-fuse")
TEST_TOOLS = ("make", "fio", "shellcheck", *CEPH)


class Machine:
    """A checkout in a path with a space, and a PATH that holds nothing but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.bin, self.log = folder / "a check out", folder / "bin", folder / "log"
        self.os_release, self.cache = folder / "os-release", folder / "the cache"
        for place in (self.checkout / "scripts", self.checkout / ".ci", self.bin):
            place.mkdir(parents=True)
        for name in ("Makefile", "scripts/setup.sh", ".ci/run"):
            shutil.copy(ROOT / name, self.checkout / name)
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        self.program("id", 'case $1 in -u) echo "$USER_ID" ;; *) echo somebody ;; esac', quiet=True)
        self.program("sleep", quiet=True)
        self.program("uv")
        for name in (*TOOLS, *TEST_TOOLS):
            self.program(name)
        self.distribution("debian", "12")

    def program(self, name: str, script: str = "", *, quiet: bool = False) -> None:
        """A program that logs how it was called (unless quiet), then does ``script``."""
        path = self.bin / name if "/" not in name else self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        log = "" if quiet else f"echo \"{path.name} $*\" >> '{self.log}'\n"
        path.write_text(f"#!/bin/sh\n{log}{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def lacks(self, names: Iterable[str]) -> None:
        for name in names:
            (self.bin / name).unlink()

    def distribution(self, name: str, version: str) -> None:
        self.os_release.write_text(f'ID={name}\nVERSION_ID="{version}"\n', encoding="utf-8")

    def creates(self, *names: str) -> str:
        """A piece of script that makes those programs appear, as an installation would."""
        return "\n".join(f"cat '{self.bin}/uv' > '{self.bin}/{n}'; chmod +x '{self.bin}/{n}'" for n in names)

    def run(
        self, *command: str, user: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": str(self.bin),
            "USER_ID": str(user),
            "OS_RELEASE": str(self.os_release),
            "FAIRLANE_CACHE": str(self.cache),
        }
        return subprocess.run(
            command,
            cwd=self.checkout.parent,
            env=variables | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def setup(self, what: str = "test", user: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("sh", str(self.checkout / "scripts/setup.sh"), what, user=user)

    def calls(self, *programs: str) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line for line in lines if line.split()[0] in programs]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


INSTALLERS = ("apt-get", "dnf", "sudo")
SYNC = "uv sync --frozen --quiet"


@pytest.mark.parametrize("user", [0, 1000])
def test_nothing_is_done_or_said_when_all_is_there(machine: Machine, user: int) -> None:
    for name in INSTALLERS:
        machine.program(name)
    done = machine.setup(user=user)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.calls(*INSTALLERS) == []
    assert machine.calls("uv")[-1] == SYNC


def test_demo_needs_no_developers_tools_and_leaves_them_alone(machine: Machine) -> None:
    machine.lacks(TEST_TOOLS)
    assert machine.setup("demo").returncode == 0
    assert machine.calls("uv")[-1] == f"{SYNC} --no-dev --inexact"


def test_only_what_is_missing_is_installed(machine: Machine) -> None:
    machine.lacks(["mmdebstrap", "setpriv", "shellcheck"])
    machine.program(
        "apt-get", f"case $* in *install*) {machine.creates('mmdebstrap', 'setpriv', 'shellcheck')} ;; esac"
    )
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    update, install = machine.calls("apt-get")
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends mmdebstrap util-linux shellcheck")
    assert machine.calls("uv")[-1] == SYNC


def test_a_mirror_that_flakes_is_tried_again(machine: Machine) -> None:
    machine.lacks(["mmdebstrap"])
    tries = machine.bin.parent / "tries"
    machine.program(
        "apt-get",
        f"""case $* in
            *update) exit 100 ;;
            *install*) if [ -e '{tries}' ]; then {machine.creates("mmdebstrap")}; else touch '{tries}'; exit 100; fi ;;
        esac""",
    )
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert [call.split()[6] for call in machine.calls("apt-get")] == ["update", "install"] * 2
    assert "once more" in done.stderr


def test_an_installation_that_never_works_ends_with_the_names(machine: Machine) -> None:
    machine.lacks(["mmdebstrap", "fio"])
    machine.program("apt-get", "exit 100")
    done = machine.setup()
    assert done.returncode == 1
    assert "Error: could not install: mmdebstrap fio" in done.stderr
    assert machine.calls("uv")[-1] == "uv --version"


def test_a_package_that_does_not_bring_its_program_is_told(machine: Machine) -> None:
    machine.lacks(["mmdebstrap"])
    machine.program("apt-get")
    done = machine.setup()
    assert done.returncode == 1
    assert "Error: still missing after the installation: mmdebstrap" in done.stderr


def test_without_root_and_sudo_one_message_names_the_packages(machine: Machine) -> None:
    machine.lacks(["mmdebstrap", "newuidmap"])
    machine.program("apt-get")
    done = machine.setup(user=1000)
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error.startswith("Error: ")
    assert "no sudo: mmdebstrap uidmap" in error
    assert "apt-get install --no-install-recommends mmdebstrap uidmap" in hint
    assert machine.calls("apt-get") == []


def test_sudo_that_would_ask_is_not_called_without_a_terminal(machine: Machine) -> None:
    machine.lacks(["mmdebstrap"])
    machine.program("sudo", "exit 1")
    done = machine.setup(user=1000)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert machine.calls("sudo") == ["sudo -n true"]


def test_sudo_carries_only_the_installation(machine: Machine) -> None:
    machine.lacks(["mmdebstrap"])
    machine.program("sudo", '[ "$1" = -n ] || exec "$@"')
    machine.program("apt-get", f"case $* in *install*) {machine.creates('mmdebstrap')} ;; esac")
    done = machine.setup(user=1000)
    assert done.returncode == 0, done.stderr
    assert [("apt-get" in call) for call in machine.calls("sudo")] == [False, True, True]
    assert len(machine.calls("apt-get")) == 2


def test_fedora_has_other_names(machine: Machine) -> None:
    machine.distribution("fedora", "42")
    machine.lacks(["qemu-system-x86_64", "shellcheck"])
    machine.program("dnf", machine.creates("qemu-system-x86_64", "shellcheck"))
    machine.program("apt-get")  # Fedora has one too: mmdebstrap brings it
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    (call,) = machine.calls("dnf")
    assert call == "dnf install -y --setopt=install_weak_deps=False qemu-system-x86-core ShellCheck"
    assert machine.calls("apt-get") == []


def test_an_unknown_distribution_is_told_what_is_looked_for(machine: Machine) -> None:
    machine.distribution("slackware", "15")
    machine.lacks(["mmdebstrap"])
    done = machine.setup()
    assert done.returncode == 1
    assert "(slackware) lacks: mmdebstrap" in done.stderr


def test_a_machine_without_uv_gets_one_in_the_cache(machine: Machine) -> None:
    machine.lacks(["uv"])
    wheel = machine.bin.parent / "uv from a wheel"
    shutil.copy(machine.bin / "fio", wheel)  # logs under the name that it is given
    machine.program(
        "python3",
        f"""case $* in
            '-m venv '*) mkdir -p "$4/bin"; cat "$0" > "$4/bin/python"; chmod +x "$4/bin/python" ;;
            '-m pip install -q uv') cat '{wheel}' > "${{0%/*}}/uv"; chmod +x "${{0%/*}}/uv" ;;
        esac""",
    )
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert (machine.cache / "uv/bin/uv").exists()
    assert machine.calls("fio") == ["fio --version", SYNC.replace("uv", "fio")]


def test_an_empty_shim_is_not_a_uv_and_venv_is_a_package_on_debian(machine: Machine) -> None:
    machine.program("uv", "exit 127")
    machine.program("python3", "exit 1")
    machine.program("apt-get", "exit 100")
    done = machine.setup()
    assert "Error: could not install: python3-venv" in done.stderr


def test_an_old_python_is_named_with_the_way_out(machine: Machine) -> None:
    machine.program("uv", "case $1 in --version) ;; *) exit 2 ;; esac")
    machine.program("python3", "echo Python 3.10.12")
    done = machine.setup()
    assert done.returncode == 1
    assert "Error: Fairlane needs Python 3.11 or newer; the newest here is Python 3.10.12" in done.stderr
    assert "uv python install" in done.stderr


def test_home_need_not_be_set(machine: Machine) -> None:
    script = machine.checkout / "scripts/setup.sh"
    done = machine.run("sh", str(script), "test", user=os.getuid(), env={"FAIRLANE_CACHE": ""})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [(), ("everything",)])
def test_setup_says_what_it_can_be_asked_for(machine: Machine, arguments: tuple[str, ...]) -> None:
    done = machine.run("sh", str(machine.checkout / "scripts/setup.sh"), *arguments)
    assert done.returncode == 1
    assert "demo | test" in done.stderr


@pytest.fixture
def built(machine: Machine) -> Machine:
    """A machine with the real make, and the tools of the environment as stand-ins."""
    for name in ("make", "awk", "bash", "find"):
        (machine.bin / name).unlink(missing_ok=True)
        (machine.bin / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    for name in ("ruff", "mypy", "lint-imports", "fairlane"):
        machine.program(f".venv/bin/{name}")
    machine.program(".venv/bin/pytest", "echo '=== 3 passed in 0.1s ==='")
    return machine


def test_demo_passes_its_arguments_on(built: Machine) -> None:
    make = ("make", "--no-print-directory", "-C", str(built.checkout))
    done = built.run(*make, "demo", "OUT=my runs/first", "ARGS=--jobs 1 --seed 7")
    assert done.returncode == 0, done.stderr
    assert built.calls("fairlane") == ["fairlane run demo --out my runs/first --jobs 1 --seed 7"]


def test_ci_runs_everything_from_anywhere_and_ends_with_the_tests_own_line(built: Machine) -> None:
    done = built.run("bash", str(built.checkout / ".ci/run"), env={"CI": "true"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "=== 3 passed in 0.1s ==="
    tools = built.calls("ruff", "mypy", "lint-imports", "shellcheck", "pytest")
    linters = ["ruff", "ruff", "mypy", "lint-imports", "shellcheck", "shellcheck", "shellcheck"]
    assert [call.split()[0] for call in tools] == [*linters, "pytest"]


@pytest.mark.parametrize("broken", ["mypy", "pytest"])
def test_ci_fails_when_a_linter_or_a_test_does(built: Machine, broken: str) -> None:
    built.program(f".venv/bin/{broken}", "exit 1")
    done = built.run("bash", str(built.checkout / ".ci/run"))
    assert done.returncode != 0
    assert (built.calls("pytest") == []) == (broken == "mypy")


def test_help_lists_the_two_commands(built: Machine) -> None:
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout))
    assert done.returncode == 0
    assert {line.split()[1] for line in done.stdout.splitlines()} >= {"demo", "test", "lint", "clean", "help"}


def test_clean_keeps_the_runs(built: Machine) -> None:
    (built.checkout / "runs/demo").mkdir(parents=True)
    (built.checkout / "src/__pycache__").mkdir(parents=True)
    done = built.run("make", "-C", str(built.checkout), "clean")
    assert done.returncode == 0, done.stderr
    assert (built.checkout / "runs/demo").exists()
    assert not (built.checkout / ".venv").exists()
    assert not (built.checkout / "src/__pycache__").exists()
