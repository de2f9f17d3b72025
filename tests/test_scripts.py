"""The way in: scripts, Makefile and .ci/run, run for real on a machine whose programs are stand-ins that log."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REAL = (
    *("sh", "dirname", "cut", "tr", "env", "mkdir", "getent", "cat", "touch", "chmod", "rm", "ls"),
    *("mv", "sha256sum", "flock"),
)
TOOLS = ("qemu-system-x86_64", "mmdebstrap", "setpriv", "qemu-img", "ssh", "mke2fs", "python3", "newuidmap")
CEPH = ("ceph-mon", "ceph-osd", "ceph-mgr", "ceph-mds", "rbd", "ceph-fuse")
TEST_TOOLS = (
    "make", "fio", "shellcheck", "openssl", "mariadbd", "mariadb", "sysbench", "blktrace", "socat", "libvirtd", "virsh",
    "nbdkit", "nbdfuse", "mkfs.xfs", "mkfs.btrfs", "ip", "chromium", *CEPH,
)  # fmt: skip
SOURCES = "testkit/servers"


class Machine:
    """A checkout in a path with a space, and a PATH that holds nothing but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.bin, self.log = folder / "a check out", folder / "bin", folder / "log"
        self.os_release, self.cache = folder / "os-release", folder / "the cache"
        for place in (self.checkout / "scripts", self.checkout / ".ci", self.bin):
            place.mkdir(parents=True)
        for name in (
            *("Makefile", ".ci/run", "scripts/setup.sh", "scripts/cluster-servers.sh"),
            *("scripts/tests.py", "scripts/words.py"),
        ):
            shutil.copy(ROOT / name, self.checkout / name)
        shutil.copytree(ROOT / SOURCES, self.checkout / SOURCES)
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        self.program("id", 'case $1 in -u) echo "$USER_ID" ;; *) echo somebody ;; esac', quiet=True)
        self.program("sleep", quiet=True)
        self.program("uv")
        self.program("useradd", quiet=True)
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

    def variables(self, user: int = 0) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "USER_ID": str(user),
            "OS_RELEASE": str(self.os_release),
            "FAIRLANE_CACHE": str(self.cache),
        }

    def run(
        self, *command: str, user: int = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.checkout.parent,
            env=self.variables(user) | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def servers(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("sh", str(self.checkout / "scripts/cluster-servers.sh"), *arguments)

    def setup(self, what: str = "test", user: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("sh", str(self.checkout / "scripts/setup.sh"), what, user=user)

    def calls(self, *programs: str) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [line for line in lines if line.split()[0] in programs]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


GO = """case $* in
    'env GOVERSION') echo go1.26.8 ;;
    *' -o '*) while [ "$1" != -o ]; do shift; done; echo "$1" > "$2" ;;
esac"""
"""A go that builds: into the file after -o."""


@pytest.fixture
def go(machine: Machine) -> Machine:
    """A machine with a go of its own, and none of the real one's."""
    machine.program("go", GO)
    script = machine.checkout / "scripts/cluster-servers.sh"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("/usr/local/go", f"'{machine.bin}/no-such-go'"), encoding="utf-8")
    return machine


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


@pytest.mark.parametrize(("distribution", "wanted"), [("debian", ["chromium"]), ("ubuntu", [])])
def test_a_browser_comes_where_the_distribution_has_one(machine: Machine, distribution: str, wanted: list[str]) -> None:
    """Ubuntu has it as a snap only: the tests of pages skip there."""
    machine.distribution(distribution, "12")
    machine.lacks(["chromium"])
    machine.program("apt-get", f"case $* in *install*) {machine.creates('chromium')} ;; esac")
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert [call.split()[-1] for call in machine.calls("apt-get") if "install" in call.split()] == wanted


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


def test_servers_are_built_once_and_whole(go: Machine) -> None:
    done = go.servers()
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert folder.parent == go.cache / "servers"
    assert sorted(file.name for file in folder.iterdir()) == ["etcd", "kube-apiserver"]
    assert [line.partition(":")[0] for line in done.stderr.splitlines()[1:]] == ["etcd"] * 2 + ["kube-apiserver"] * 2
    assert not (go.cache / "servers/new").exists()
    called = go.calls("go")
    again = go.servers()
    assert (again.returncode, again.stdout, again.stderr, go.calls("go")) == (0, done.stdout, "", called)
    assert go.servers("where").stdout == done.stdout


@pytest.mark.parametrize("name", ["etcd/main.go", "etcd/go.sum", "apiserver/go.mod"])
def test_other_sources_are_other_servers(go: Machine, name: str) -> None:
    before = go.servers("where").stdout
    source = go.checkout / SOURCES / name
    source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert go.servers("where").stdout != before
    assert go.calls("go") == []


def test_modules_that_do_not_come_are_asked_for_again(go: Machine) -> None:
    tries = go.bin.parent / "tries"
    go.program("go", f"case $* in list*) [ -e '{tries}' ] || {{ touch '{tries}'; exit 1; }} ;; esac\n{GO}")
    done = go.servers()
    assert done.returncode == 0, done.stderr
    assert [call.split()[1] for call in go.calls("go")].count("list") == 3
    assert "once more" in done.stderr


@pytest.mark.parametrize(
    ("step", "says"), [("list", "could not fetch the modules of etcd"), ("build", "could not build etcd")]
)
def test_a_build_that_fails_leaves_no_servers(go: Machine, step: str, says: str) -> None:
    go.program("go", f"case $1 in {step}) exit 1 ;; esac\n{GO}")
    done = go.servers()
    assert done.returncode == 1
    assert f"Error: {says}" in done.stderr
    assert done.stdout == ""
    assert not Path(go.servers("where").stdout.strip()).exists()
    go.program("go", GO)
    assert go.servers().returncode == 0


def test_two_builds_at_once_are_one(go: Machine) -> None:
    folder = Path(go.servers("where").stdout.strip())
    folder.parent.mkdir(parents=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            ["sh", go.checkout / "scripts/cluster-servers.sh"],
            env=go.variables(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert second.stderr
        assert second.stderr.readline() == "Another build is running; waiting for it\n"
        folder.mkdir()
    assert second.communicate(timeout=240) == (f"{folder}\n", "")
    assert go.calls("go") == []


def test_an_old_go_fetches_a_new_one(go: Machine) -> None:
    modules = go.bin.parent / "modules"
    new = modules / "golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64"
    tool = new / "pkg/tool/linux_amd64/compile"
    fetch = f"mkdir -p '{new}/bin' '{tool.parent}'; cat '{go.bin}/new' > '{new}/bin/go'; touch '{tool}'"
    go.program("new", GO)
    go.program(
        "go",
        f"""case $* in
            'env GOVERSION') echo go1.19.8 ;;
            'env GOARCH') echo amd64 ;;
            'env GOMODCACHE') echo '{modules}' ;;
            'mod download golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64') {fetch} ;;
            *) exit 1 ;;
        esac""",
    )
    done = go.servers()
    assert done.returncode == 0, done.stderr
    assert [call.split()[1] for call in go.calls("new")] == ["env", "env", "list", "build", "list", "build"]
    assert os.access(tool, os.X_OK)


def test_a_machine_without_go_gets_the_distributions(go: Machine) -> None:
    program = (go.bin / "go").read_text(encoding="utf-8")
    spare = go.bin.parent / "go from a package"
    spare.write_text(program, encoding="utf-8")
    go.lacks(["go"])
    go.program("apt-get", f"case $* in *install*) cat '{spare}' > '{go.bin}/go'; chmod +x '{go.bin}/go' ;; esac")
    done = go.servers()
    assert done.returncode == 0, done.stderr
    assert go.calls("apt-get")[-1].endswith("install -y --no-install-recommends golang-go")


@pytest.mark.parametrize("arguments", [(), ("everything",)])
def test_setup_says_what_it_can_be_asked_for(machine: Machine, arguments: tuple[str, ...]) -> None:
    done = machine.run("sh", str(machine.checkout / "scripts/setup.sh"), *arguments)
    assert done.returncode == 1
    assert "demo | ceph | test | cluster" in done.stderr


@pytest.fixture
def built(go: Machine) -> Machine:
    """A machine with the real make, and the tools of the environment as stand-ins."""
    machine = go
    for name in ("make", "awk", "bash", "find", "mktemp"):
        (machine.bin / name).unlink(missing_ok=True)
        (machine.bin / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    for name in ("ruff", "mypy", "lint-imports", "towncrier", "codespell", "fairlane"):
        machine.program(f".venv/bin/{name}")
    machine.program(".venv/bin/pytest", REPORT)
    (machine.checkout / ".venv/bin/python").symlink_to(sys.executable)
    (machine.checkout / "docs/_make").mkdir(parents=True)
    (machine.checkout / "docs/_make/tables.py").touch()
    return machine


REPORT = """for each; do case $each in
    --junitxml=*) echo '<testsuites><testcase classname="a" name="b"/></testsuites>' > "${each#*=}" ;;
esac; done"""
"""A pytest in which one test passes."""
TIERS = ["cluster", "lab and not cluster", "not lab and not cluster and not speed", "speed"]


def marks(machine: Machine) -> list[str]:
    """Of each pytest that was started."""
    found = [re.search(r"-m ((?:not |and |lab|cluster|speed| )+)(?= -)", call) for call in machine.calls("pytest")]
    return sorted(each[1] for each in found if each)


def test_demo_passes_its_arguments_on(built: Machine) -> None:
    make = ("make", "--no-print-directory", "-C", str(built.checkout))
    done = built.run(*make, "demo", "OUT=my runs/first", "ARGS=--jobs 1 --seed 7")
    assert done.returncode == 0, done.stderr
    assert built.calls("fairlane") == ["fairlane run demo --out my runs/first --jobs 1 --seed 7"]


def test_ci_runs_everything_from_anywhere_and_ends_with_the_sum(built: Machine) -> None:
    done = built.run("bash", str(built.checkout / ".ci/run"), env={"CI": "true"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "4 passed, 0 unstable, 0 failed, 0 skipped"
    assert len(list(built.cache.glob("servers/*/kube-apiserver"))) == 1
    assert built.calls("fairlane") == ["fairlane lab build --wall"]
    linters = Counter({"shellcheck": 5, "ruff": 2, "mypy": 1, "lint-imports": 1, "codespell": 1, "towncrier": 1})
    assert Counter(call.split()[0] for call in built.calls(*linters)) == linters
    assert marks(built) == TIERS
    first = next(call for call in built.calls("uv", "pytest") if call.split()[1] not in ("--version", "sync"))
    assert first.endswith("fairlane --version; fairlane run fake --blocks 2 --out run"), "the wheel, before the tests"
    assert all("--slow 1/16" in call for call in built.calls("pytest"))


@pytest.mark.parametrize("roomy", [True, False])
def test_tiers_run_beside_each_other_where_memory_holds_them_and_speeds_alone(built: Machine, *, roomy: bool) -> None:
    """Where they run beside each other, each waits for the others to begin."""
    begun, ended = (f"$({shutil.which('grep')} -c '^{what} ' '{built.log}')" for what in ("pytest", "ended"))
    alone = f"[ {begun} -eq $(({ended} + 1)) ]"
    beside = f"until [ {begun} -ge 3 ]; do /bin/sleep 0.05; done"
    built.program(".venv/bin/pytest", f"""set -e
case $* in *'-m speed'*) {alone} ;; *) {beside if roomy else alone} ;; esac
{REPORT}
echo "ended $2" >> '{built.log}'""")  # fmt: skip
    meminfo = built.bin.parent / "meminfo"
    meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {16 if roomy else 8}000000 kB\n", encoding="utf-8")
    done = built.run(
        "make", "--no-print-directory", "-C", str(built.checkout), "test", env={"MEMINFO": str(meminfo)}
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert marks(built) == TIERS
    assert ("the tiers run one by one" in done.stdout) != roomy


def test_the_commit_picks_the_slow_tests(built: Machine) -> None:
    built.program("git", "echo 0000002")
    done = built.run("bash", str(built.checkout / ".ci/run"))
    assert done.returncode == 0, done.stderr
    assert "slow tests: part 3 of 16 (make test SLOW=3/16)" in done.stdout
    assert all("--slow 3/16" in call for call in built.calls("pytest"))


@pytest.mark.parametrize(("target", "slow"), [("test", "none"), ("test-all", "all")])
def test_slow_tests_are_left_to_test_all(built: Machine, target: str, slow: str) -> None:
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout), target)
    assert done.returncode == 0, done.stderr
    assert [f"--slow {slow} " in call for call in built.calls("pytest")] == [True] * len(TIERS)


def test_what_is_asked_of_the_tests_goes_to_one_pytest(built: Machine) -> None:
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout), "test", "ARGS=-k 'one or two' -x")
    assert done.returncode == 0, done.stderr
    assert built.calls("pytest") == ["pytest -k one or two -x"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_that_fails_is_seen_and_the_others_run(built: Machine, tier: str) -> None:
    built.program(".venv/bin/pytest", f'{REPORT}\n[ "$2" != "{tier}" ]')
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout), "test")
    assert done.returncode != 0
    assert "fails: pytest ended with exit code 1" in done.stdout
    assert marks(built) == TIERS


@pytest.mark.parametrize("broken", ["mypy", "pytest", "fairlane"])
def test_ci_fails_when_a_linter_or_a_test_does_or_what_tests_need_cannot_be_built(built: Machine, broken: str) -> None:
    built.program(f".venv/bin/{broken}", "echo it complains; exit 1")
    done = built.run("bash", str(built.checkout / ".ci/run"))
    assert done.returncode != 0
    assert (built.calls("pytest") == []) == (broken == "fairlane")
    assert ("lint fails: " in done.stderr) == (broken == "mypy")
    assert ("it complains" in done.stdout) == (broken != "fairlane")


@pytest.mark.parametrize(
    ("name", "valid"),
    [("+one-more.added.md", True), ("one-more.added.md", False), ("+one-more.md", False), ("+one-more.fixed", False)],
)
def test_fragments_of_the_changelog_have_valid_names(built: Machine, name: str, valid: bool) -> None:
    (built.checkout / "changes").mkdir()
    (built.checkout / "changes" / name).touch()
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout), "check")
    assert (done.returncode == 0) == valid
    assert (f"changes/{name}: name it changes/+NAME.KIND.md" in done.stderr) != valid


def test_the_cluster_tests_get_their_servers_and_their_image(built: Machine) -> None:
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout), "cluster-test", "ARGS=-x")
    assert done.returncode == 0, done.stderr
    assert len(list(built.cache.glob("servers/*/etcd"))) == 1
    assert built.calls("fairlane", "pytest") == ["fairlane lab build --wall", "pytest -m cluster -x"]


def test_help_lists_the_two_commands(built: Machine) -> None:
    done = built.run("make", "--no-print-directory", "-C", str(built.checkout))
    assert done.returncode == 0
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert listed >= {"demo", "test", "lint", "clean", "help", "cluster-servers", "cluster-test"}


def test_clean_keeps_the_runs(built: Machine) -> None:
    (built.checkout / "runs/demo").mkdir(parents=True)
    (built.checkout / "src/__pycache__").mkdir(parents=True)
    done = built.run("make", "-C", str(built.checkout), "clean")
    assert done.returncode == 0, done.stderr
    assert (built.checkout / "runs/demo").exists()
    assert not (built.checkout / ".venv").exists()
    assert not (built.checkout / "src/__pycache__").exists()
