"""Server-sent events from a real server: as a study runs, ends, is killed, is deleted; who leaves is let go."""

import json
import re
import shutil
import signal
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from fairlane.web.hub import Limits
from tests.web.conftest import cut

PATIENCE = 90.0
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


def trials(state):
    return int(re.search(r"(\d+) of \d+ trials", state["progress"]).group(1))


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def begun(folder):
    until(lambda: (folder / "journal.jsonl").exists() and b'"trial"' in (folder / "journal.jsonl").read_bytes())


def test_a_running_study_is_told_to_its_end(studies, serving, program, tmp_path):
    runs = tmp_path / "runs"
    process = program("run", studies.write(pace="200ms", looks="[8]"), "--out", runs / "live", "--jobs", "1")
    begun(runs / "live")
    served = serving(runs)
    seen = []
    with events(f"{served.url}runs/live/events") as each:
        for event in each:
            if event is None:
                continue
            kind, state = event
            if kind == "end":
                break
            seen.append(state)
    assert [s["phase"] for s in seen[:1] + seen[-1:]] == ["running", "complete"]
    counts = [trials(s) for s in seen]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2
    assert counts[-1] == 32
    assert "better" in seen[-1]["intervals"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in seen[-1]["intervals"]
    assert process.wait(PATIENCE) == 0
    assert served.stop() == 0


def test_a_killed_run_is_told_to_be_interrupted_and_goes_on_when_resumed(studies, serving, program, tmp_path):
    run = tmp_path / "runs" / "live"
    process = program("run", studies.write(pace="100ms", looks="[8]"), "--out", run, "--jobs", "1")
    begun(run)
    with events(f"{serving(run.parent).url}runs/live/events") as each:
        assert next(each)[1]["phase"] == "running"
        process.send_signal(signal.SIGKILL)
        process.wait()
        phases = iter(event[1].get("phase") for event in each if event is not None)
        until(lambda: next(phases) == "interrupted")
        program("run", "--resume", run, "--jobs", "1")
        until(lambda: next(phases) == "running")
        until(lambda: next(phases) == "complete")


def test_a_deleted_run_ends_its_page(root, serving):
    cut(root / "done", 9)
    with events(f"{serving(root).url}runs/done/events") as each:
        assert trials(next(each)[1]) == 8
        shutil.rmtree(root / "done")
        kind, state = next(e for e in each if e is not None)
        assert (kind, state["phase"]) == ("state", "damaged")
        assert "not there any more" in state["progress"]
        assert next(each)[0] == "end"


def test_damage_that_comes_while_it_is_watched_is_told(root, serving):
    journal = root / "done" / "journal.jsonl"
    cut(root / "done", 9)
    url = serving(root).url
    with events(f"{url}runs/done/events") as each:
        next(each)
        with journal.open("a") as file:
            file.write('{"type": "trial"')  # torn: nothing is said of it
            file.flush()
            file.write("}\n")
        kind, state = next(e for e in each if e is not None)
        assert "journal.jsonl:10" in state["progress"]
        assert next(each)[0] == "end"


def test_every_connection_begins_with_the_whole_state(root, serving):
    cut(root / "done", 9)
    url = f"{serving(root).url}runs/done/events"
    states = []
    for last in ({}, {"last-event-id": "1"}, {"last-event-id": "rubbish"}):
        with httpx.stream("GET", url, headers=last, timeout=PATIENCE) as answer:
            data = next(line for line in answer.iter_lines() if line.startswith("data: "))
            states.append(json.loads(data[6:]))
    assert states[0] == states[1] == states[2]
    assert set(states[0]) == {"progress", "intervals", "failures", "findings", "phase", "title"}


@pytest.fixture
def inside(root):
    """A server in a thread of this process, so that its hub can be looked into."""
    import asyncio

    from fairlane.web.app import Viewer
    from fairlane.web.server import _Server, open_door, uvicorn

    started, servers, threads = [], [], []

    def serve(limits):
        door = open_door("127.0.0.1", 0, "")
        viewer = Viewer(root, limits)
        server = _Server(uvicorn.Config(viewer.app(), log_level="warning", lifespan="off", ws="none"), viewer)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[door.socket])))
        thread.start()
        started.append(viewer)
        servers.append(server)
        threads.append(thread)
        return viewer, door.url

    yield serve
    for server, thread in zip(servers, threads, strict=True):
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def test_watchers_share_a_reader_and_who_leaves_is_forgotten(root, inside):
    cut(root / "done", 9)
    viewer, url = inside(Limits(every=0.05, heartbeat=0.2, linger=0.3))
    with events(f"{url}runs/done/events") as first, events(f"{url}runs/done/events") as second:
        assert next(first) == next(second)
        assert (viewer.hub.watchers, viewer.hub.readers_at_work) == (2, 1)
        assert next(first) is None  # a heartbeat
    until(lambda: viewer.hub.watchers == 0)
    until(lambda: viewer.hub.readers_at_work == 0)


def test_there_is_a_bound_to_watchers_and_to_runs(root, inside, finished):
    cut(root / "done", 9)
    shutil.copytree(root / "done", root / "other")
    _, url = inside(Limits(watchers=2, runs=1, every=0.05))
    with events(f"{url}runs/done/events") as first:
        next(first)
        busy = httpx.get(f"{url}runs/other/events")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "10")
        assert httpx.get(f"{url}runs/other/").status_code == 503
        with events(f"{url}runs/done/events") as second:
            next(second)
            assert httpx.get(f"{url}runs/done/events").status_code == 503
            assert httpx.get(url).status_code == 200


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
def test_dots_that_no_client_takes_out(root, serving, tmp_path, path):
    (tmp_path / "secret").write_text("the secret")
    host, port = re.match(r"http://([\d.]+):(\d+)/", serving(root).url).groups()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"the secret" not in answer
