"""CPU time of other programs, by hand and from this machine."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.probes.programs import PLUGIN
from fairlane.records import Figures
from tests.platforms.hosts.hosts_bench import until


def process(pid: int, name: str, parent: int, user: int = 0, ended: int = 0, *, start: int = 10) -> str:
    """A line of /proc/PID/stat, with ``user`` and ``ended`` (of children) in ticks."""
    return f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {user} 0 {ended} 0 20 0 1 0 {start} 0 0"


BEFORE = "\n".join([
    "uptime 100.00 5.00", process(1, "init", 0, 10), process(2, "kthreadd", 0), process(5, "kworker/0:1", 2, 50),
    process(70, "fairlane", 1, 100), process(71, "bash", 70, 7), process(80, "my (db)", 1, 1000, 50),
    process(90, "make", 1, 5), process(91, "sh", 90, 2), process(92, "cc", 91, 300), process(95, "old", 1, 900),
])  # fmt: skip
AFTER = "\n".join([
    "uptime 110.00 9.00", process(1, "init", 0, 12), process(2, "kthreadd", 0), process(5, "kworker/0:1", 2, 850),
    process(70, "fairlane", 1, 600), process(71, "bash", 70, 9, 700), process(80, "my (db)", 1, 1400, 150),
    process(90, "make", 1, 6, 1004), process(95, "new", 1, 80, start=10_500), process(96, "broken", 1)[:-20],
    "/proc/71/environ",
])  # fmt: skip


def programs(before: str, after: str) -> object:
    return PLUGIN.observe(before, after, Figures()).context.get("programs")


def test_two_snapshots_by_hand() -> None:
    """The run's own, their parent and the kernel's threads are left out; of make's descendants, which have ended, the
    302 ticks before the first snapshot."""
    assert programs(BEFORE, AFTER) == pytest.approx(
        {"make": (1 + 1004 - 302) / 1000, "my (db)": 500 / 1000, "new": 80 / 1000}
    )


def test_the_parent_of_a_daemon_is_nobodys_own() -> None:
    daemon = AFTER.replace(process(71, "bash", 70, 9, 700), process(71, "bash", 1, 9, 700))
    seen = programs(BEFORE, daemon.replace(process(1, "init", 0, 12), process(1, "init", 0, 2010)))
    assert seen == pytest.approx({"init": 2.0, "make": 0.703, "my (db)": 0.5, "fairlane": 0.5})


@pytest.mark.parametrize(("before", "after"), [("", ""), (BEFORE, ""), ("", AFTER), (AFTER, BEFORE)])
def test_what_is_missing_is_left_out(before: str, after: str) -> None:
    assert programs(before, after) is None


def test_this_machine(tmp_path: Path) -> None:
    """A program of others, of which a thread works and a child that ended; one with the run's mark."""
    snapshot = ["env", "FAIRLANE_RUN=abc", "bash", "-c", f"WHEN=$0\n{PLUGIN.capture}"]

    @contextmanager
    def busy(name: str, mark: str) -> Iterator[subprocess.Popen[bytes]]:
        program = tmp_path / name
        program.symlink_to("/bin/bash")
        text = "bash -c 'for ((i = 0; i < 100000; i++)); do :; done'; while :; do :; done"
        environment = {**os.environ, "FAIRLANE_RUN": mark}
        with subprocess.Popen([program, "-c", text], env=environment) as process:
            yield process
            process.kill()

    def ticks(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))

    def taken(when: str) -> str:
        return subprocess.run([*snapshot, when], capture_output=True, text=True, check=True).stdout

    with busy("stranger", "abcd") as stranger, busy("own", "abc") as own:
        begun = ticks(stranger.pid)
        before = taken("before")
        until(lambda: ticks(stranger.pid) > begun + 30 and ticks(own.pid) > 30)
        after = taken("after")
    kept = ("uptime ", "/proc/", f"{stranger.pid} (", f"{own.pid} (")  # others may use more than these two
    one, two = ("\n".join(line for line in text.splitlines() if line.startswith(kept)) for text in (before, after))
    assert [*PLUGIN.observe(one, two, Figures()).context["programs"]] == ["stranger"]


line = st.builds(
    "{} ({}) {} {}".format, st.integers(-2, 9), st.sampled_from(["a", "(", "a) (b", ""]), st.sampled_from("SR"),
    st.lists(st.integers(-9, 10**21), max_size=25).map(lambda numbers: " ".join(map(str, numbers))),
)  # fmt: skip
extra = st.sampled_from(["uptime 1.00 2", "uptime 9.00 2", "uptime x", "/proc/3/environ", "/proc/x/environ"])
texts = st.lists(line | extra, max_size=12).map("\n".join) | st.text(max_size=40)


@given(texts, texts)
def test_no_snapshot_makes_it_raise(before: str, after: str) -> None:
    for one, other in ((before, after), (f"{BEFORE}\n{before}", f"{AFTER}\n{after}")):
        seen = PLUGIN.observe(one, other, Figures()).context.get("programs", {})
        assert all(value > 0 for value in seen.values())
