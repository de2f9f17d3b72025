"""Server-sent events from a real server: as a study runs, ends, is killed, is deleted; who leaves is let go."""

import json
import re
import shutil
import signal
import socket
import time
from contextlib import contextmanager

import httpx
import pytest

from fairlane.web.hub import Limits
from tests.web.conftest import cut

pytestmark = pytest.mark.timeout(900)
PATIENCE = 240.0
"""Seconds until a test gives up; none asserts that something is fast."""


@contextmanager
def events(url):
    """The events as they come: (kind, data); ``None`` for a heartbeat."""
    with httpx.stream("GET", url, timeout=PATIENCE) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")

        def each():
            kind, data = "", ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    data = line[6:]
                elif line.startswith(":"):
                    yield None
                elif not line and data:
                    yield kind, json.loads(data)
                    kind, data = "", ""

        yield each()


def get(url):
    """httpx gives up after five seconds otherwise."""
    return httpx.get(url, timeout=PATIENCE)


def trials(state):
    return int(re.findall(r'<progress max="\d+" value="(\d+)"', state["progress"])[0])


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def held(folder, process, event="trial"):
    """Stops the study's process once its journal has such an event: it waits for the test, however slow that is."""
    path = folder / "journal.jsonl"
    until(lambda: path.exists() and f'"type": "{event}"' in path.read_text())
    process.send_signal(signal.SIGSTOP)


def state_of(each):
    """The next event's; heartbeats come whenever a machine is slow."""
    return next(event for event in each if event is not None)[1]


@pytest.mark.slow
def test_a_study_is_told_as_it_runs_is_killed_and_resumed_to_its_end(studies, serving, program, tmp_path):
    run = tmp_path / "runs" / "live"
    run.parent.mkdir()
    served = serving(run.parent)
    process = program("run", studies.write(pace="200ms", looks="[10]"), "--out", run, "--jobs", "1")
    held(run, process)
    seen = []
    with events(f"{served.url}runs/live/events") as each:
        states = (event[1] for event in each if event is not None)

        def wait_for(phase, more_than=-1):
            for state in states:
                seen.append(state)
                if state.get("phase") == phase and trials(state) > more_than:
                    return trials(state)
            raise AssertionError(f"never {phase}, with more than {more_than} trials")

        before = wait_for("running")
        process.send_signal(signal.SIGCONT)
        wait_for("running", more_than=before)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for("interrupted")
        again = program("run", "--resume", run, "--jobs", "1")
        held(run, again, "resume")
        wait_for("running")
        again.send_signal(signal.SIGCONT)
        wait_for("complete")
        assert next(states) == {}  # the event that says that it is the end
        assert next(states, None) is None
    counts = [trials(state) for state in seen]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2
    assert counts[-1] == 40
    assert "better" in seen[-1]["intervals"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in seen[-1]["intervals"]


def test_a_deleted_run_ends_its_page(root, inside):
    cut(root / "done", 9)
    with events(f"{inside()[1]}runs/done/events") as each:
        assert trials(state_of(each)) == 8
        shutil.rmtree(root / "done")
        kind, state = next(e for e in each if e is not None)
        assert (kind, state["phase"]) == ("state", "damaged")
        assert 'data-kind="run-gone"' in state["progress"]
        assert next(e for e in each if e is not None)[0] == "end"


def test_damage_that_comes_while_it_is_watched_is_told(root, inside):
    journal = root / "done" / "journal.jsonl"
    cut(root / "done", 9)
    _, url = inside()
    with events(f"{url}runs/done/events") as each:
        state_of(each)
        with journal.open("a") as file:
            file.write('{"type": "trial"')  # torn: nothing is said of it
            file.flush()
            file.write("}\n")
        _, state = next(e for e in each if e is not None)
        assert "journal.jsonl:10" in state["progress"]
        assert next(e for e in each if e is not None)[0] == "end"


def test_every_connection_begins_with_the_whole_state(root, inside):
    cut(root / "done", 9)
    url = f"{inside()[1]}runs/done/events"
    states = []
    for last in ({}, {"last-event-id": "1"}, {"last-event-id": "rubbish"}):
        with httpx.stream("GET", url, headers=last, timeout=PATIENCE) as answer:
            data = next(line for line in answer.iter_lines() if line.startswith("data: "))
            states.append(json.loads(data[6:]))
    assert states[0] == states[1] == states[2]
    assert set(states[0]) == {"progress", "intervals", "failures", "findings", "phase", "title"}


def test_watchers_share_a_reader_and_who_leaves_is_forgotten(root, inside):
    cut(root / "done", 9)
    viewer, url = inside(Limits(every=0.05, heartbeat=0.2, linger=0.3))
    with events(f"{url}runs/done/events") as first, events(f"{url}runs/done/events") as second:
        told = [next(event for event in each if event) for each in (first, second)]
        assert told[0] == told[1]
        assert (viewer.hub.watchers, len(viewer.hub._feeds)) == (2, 1)
        assert next(first) is None  # a heartbeat
    until(lambda: viewer.hub.watchers == 0)
    until(lambda: not viewer.hub._feeds)


def test_there_is_a_bound_to_watchers_and_to_runs(root, inside, finished):
    cut(root / "done", 9)
    shutil.copytree(root / "done", root / "other")
    _, url = inside(Limits(watchers=2, runs=1, every=0.05))
    with events(f"{url}runs/done/events") as first:
        next(first)
        busy = get(f"{url}runs/other/events")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "10")
        assert get(f"{url}runs/other/").status_code == 503
        with events(f"{url}runs/done/events") as second:
            next(second)
            assert get(f"{url}runs/done/events").status_code == 503
            assert get(url).status_code == 200


def test_a_stream_does_not_keep_the_server_from_ending(root, serving):
    cut(root / "done", 9)
    served = serving(root)
    with events(f"{served.url}runs/done/events") as each:
        next(each)
        assert served.stop() == 0
        assert served.process.stderr is not None
        assert served.process.stderr.read().splitlines()[-1] == "stopped"


@pytest.mark.parametrize(
    "path", ["/runs/done/raw/../../../secret", "/../secret", "/runs/../secret", "/static/../../app.py"]
)
def test_dots_that_no_client_takes_out(root, inside, tmp_path, path):
    (tmp_path / "secret").write_text("the secret")
    ((host, port),) = re.findall(r"http://([\d.]+):(\d+)/", inside()[1])
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"the secret" not in answer
