"""Platform hosts on machines of strangers: hosts and an array with an init, users, sessions and clocks of their own."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest

from testkit.strangers import Stand
from tests.platforms.hosts.hosts_bench import Bench, study

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("strangers")]

DATA = "iqn.2010-06.org.site:data"
SPACE = "nqn.2010-06.org.site:data"
LANES = {
    "iscsi": {"transport": "iscsi", "external": {"addresses": ["10.20.0.1"], "iqn": DATA}},
    "nvme": {"transport": "nvme_tcp", "external": {"addresses": ["10.20.0.1"], "nqn": SPACE}},
}
READS = {"main": {"kind": "fio", "rw": ["randread"], "bs": ["4k"], "runtime": "2s", "ramp": "0s", "prefill": False}}
ALPHA = {"machines": {"alpha": "alpha"}, "connect_timeout": "5m"}
BOTH = {"machines": {"alpha": "alpha", "beta": "beta"}, "connect_timeout": "5m"}


@pytest.fixture
def bench(tmp_path: Path, strangers: Stand) -> Bench:
    return Bench(tmp_path, strangers.environment())


def measured(bench: Bench, lanes: Mapping[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """The description of the run of a study that succeeds."""
    file = bench.write(study(lanes, **{"workloads": READS, **more}))
    run = bench.folder / "run"
    done = bench.run("run", str(file), "--out", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    described: dict[str, Any] = json.loads((run / "description.json").read_text())
    assert set(described["platform"]["machines"]) >= set(more["platform"]["machines"])
    return described


@contextmanager
def nothing_left(strangers: Stand) -> Iterator[None]:
    """Fails where a machine is not as it was."""
    before = {name: strangers.inventory(name) for name in strangers.machines}
    yield
    for name, then in before.items():
        now = strangers.settled(name, then)
        changed = [line for line in ndiff(then.splitlines(), now.splitlines()) if line[0] in "+-"]
        assert now == then, "\n".join([name, *changed])


def test_a_host_compares_two_transports_to_its_array(bench: Bench, strangers: Stand) -> None:
    with nothing_left(strangers):
        described = measured(bench, LANES, platform=ALPHA)
    text = json.dumps(described["lanes"])
    for word in (DATA, SPACE, "10.20.0.1"):
        assert word in text


def test_two_hosts_and_an_array_that_is_set_up_for_them(bench: Bench, strangers: Stand) -> None:
    """storage1 is in use: its own targets and subsystems stay."""
    array = {"machine": "storage1", "addresses": ["10.20.0.1"], "first_port": 5000, "folder": "/srv"}
    lanes = {"iscsi": {"transport": "iscsi"}, "nvme": {"transport": "nvme_tcp"}}
    with nothing_left(strangers):
        measured(bench, lanes, platform={**BOTH, "array": array})
