"""``state.json`` from a real server: as a study runs, ends, is killed, is deleted; what is shared, and bounded."""

import re
import shutil
import signal
import socket
import time

import httpx
import pytest

from fairlane.web.follow import Follower
from fairlane.web.live import Limits
from testkit.held import HeldRun
from tests.web.conftest import PATIENT, cut

pytestmark = pytest.mark.timeout(900)
EAGER = Limits(every=0.0, patience=PATIENT.patience)


def get(url, **headers):
    """httpx gives up after five seconds otherwise; pytest does after as many as here."""
    return httpx.get(url, timeout=900, headers=headers)


def trials(state):
    return int(re.findall(r'<progress max="\d+" value="(\d+)"', state["html"]["progress"])[0])


def until(condition):
    while not condition():
        time.sleep(0.05)


@pytest.mark.slow
def test_a_study_as_it_runs_is_killed_and_resumed_to_its_end(studies, serving, tmp_path):
    run = tmp_path / "runs" / "live"
    run.parent.mkdir()
    url = f"{serving(run.parent).url}runs/live/state.json"
    seen = []

    def wait_for(phase, least=0):
        def there():
            state = get(url).json()
            if not state["phase"]:  # not read yet: the machine is busy
                return False
            seen.append(state)
            return state["phase"] == phase and trials(state) >= least

        until(there)
        return trials(seen[-1])

    with HeldRun("run", studies.write(looks="[10]"), "--out", run, "--jobs", "1") as process:
        process.let(1)
        assert wait_for("running") == 1
        process.let(2)
        assert wait_for("running", least=3) == 3
        process.kill()
    wait_for("interrupted")
    with HeldRun("run", "--resume", run, "--jobs", "1") as again:
        wait_for("running")
        again.release()
        assert wait_for("complete") == 40
    counts = [trials(state) for state in seen]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2
    assert [state["final"] for state in seen] == [False] * (len(seen) - 1) + [True]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in seen[-2]["html"]["intervals"]
    assert not seen[-1]["html"]["intervals"].strip()  # the report has the verdicts
    assert "report.html" in seen[-1]["html"]["progress"]


def test_the_state_as_data(root, inside):
    cut(root / "done", 9)
    state = get(f"{inside()[1]}runs/done/state.json").json()
    assert set(state) == {
        "final", "every", "phase", "title", "study", "done", "due", "failed", "look", "seconds", "last", "intervals",
        "html",
    }  # fmt: skip
    assert set(state["html"]) == {"progress", "intervals", "failures", "findings"}
    assert (state["phase"], state["final"], state["done"], state["due"]) == ("interrupted", False, 8, 24)
    assert [(i["cell"], i["lane"], i["baseline"]) for i in state["intervals"]] == [
        ("4k randread qd1", "fast", "slow"),
        ("4k randread qd16", "fast", "slow"),
    ]


def test_who_has_the_state_already_gets_no_body(root, inside):
    cut(root / "done", 9)
    url = f"{inside(EAGER)[1]}runs/done/state.json"
    first = get(url)
    again = get(url, **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    with (root / "done" / "journal.jsonl").open("a") as file:
        file.write('{"type": "block-failed", "cell": "c", "block": 1, "reason": "the guest died", "at": "x"}\n')
    changed = get(url, **{"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200
    assert "the guest died" in changed.json()["html"]["failures"]


def test_a_deleted_run_ends_its_page(root, inside):
    cut(root / "done", 9)
    url = f"{inside(EAGER)[1]}runs/done/state.json"
    assert trials(get(url).json()) == 8
    shutil.rmtree(root / "done")
    answer = get(url)  # the list of runs may still have it
    if answer.status_code == 200:
        assert answer.json()["final"]
        assert 'data-kind="run-gone"' in answer.json()["html"]["progress"]
    until(lambda: get(url).status_code == 404)


def test_damage_that_comes_while_it_is_followed_is_shown(root, inside):
    journal = root / "done" / "journal.jsonl"
    cut(root / "done", 9)
    url = f"{inside(EAGER)[1]}runs/done/state.json"
    with journal.open("a") as file:
        file.write('{"type": "trial"')  # torn: nothing is said of it
        file.flush()
        assert not get(url).json()["final"]
        file.write("}\n")
    state = get(url).json()
    assert (state["final"], state["phase"]) == (True, "damaged")
    assert "journal.jsonl:10" in state["html"]["progress"]
    cut(root / "done", 9)  # mended: the list shows it after two seconds
    until(lambda: get(url).json()["phase"] == "interrupted")


def test_pages_share_a_reader_and_who_stays_away_is_forgotten(root, inside, monkeypatch):
    made = []

    class Counted(Follower):
        def __init__(self, folder):
            made.append(folder)
            super().__init__(folder)

    monkeypatch.setattr("fairlane.web.live.Follower", Counted)
    cut(root / "done", 9)
    viewer, url = inside(Limits(every=0.05, linger=2.0, patience=PATIENT.patience))
    first, second = (get(f"{url}runs/done/state.json") for _ in range(2))
    assert first.content == second.content
    assert (len(made), viewer.live.runs) == (1, 1)
    until(lambda: viewer.live.runs == 0)


def test_there_is_a_bound_to_runs(root, inside):
    cut(root / "done", 9)
    shutil.copytree(root / "done", root / "other")
    _, url = inside(Limits(runs=1, patience=PATIENT.patience))
    assert get(f"{url}runs/done/state.json").status_code == 200
    busy = get(f"{url}runs/other/state.json")
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "10")
    assert get(f"{url}runs/other/").status_code == 503
    assert get(url).status_code == 200


def test_an_open_connection_does_not_keep_the_server_from_ending(root, serving):
    cut(root / "done", 9)
    served = serving(root)
    with httpx.Client(timeout=900) as browser:
        assert browser.get(f"{served.url}runs/done/state.json").status_code == 200
        served.process.send(signal.SIGINT)
        code, _, told = served.process.end()
    assert (code, told.splitlines()[-1]) == (0, "stopped")


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
