"""``fairlane serve``: what it prints and refuses before it serves; the pages are tested in tests/web."""

import signal
import socket
from contextlib import ExitStack

import httpx
import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError
from fairlane.web.server import open_door
from testkit.process import Fairlane
from tests.words import kind, kinds


def get(url, **more):
    """httpx gives up after five seconds otherwise: less than a busy machine may take."""
    return httpx.get(url, timeout=90, **more)


@pytest.fixture
def start():
    """``fairlane serve`` as a process; (it, the first line that it printed)."""
    with ExitStack() as started:

        def begin(*args):
            process = started.enter_context(Fairlane("serve", *args))
            return process, process.stdout.readline().strip()

        yield begin


@pytest.mark.slow
def test_another_host_asks_for_the_token_that_it_prints(start, tmp_path):
    process, url = start(tmp_path, "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - what is tested
    address, _, token = url.partition("?token=")
    port = int(address.rstrip("/").rpartition(":")[2])
    assert len(token) >= 32
    here = f"http://127.0.0.1:{port}/"
    assert get(here).status_code == 401
    assert get(here, headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert 'id="no-runs"' in get(f"{here}?token={token}", follow_redirects=True).text
    process.send(signal.SIGTERM)
    code, _, told = process.end()
    assert code == 0
    assert f"fairlane run demo --out {tmp_path}/first" in told
    assert token not in told


def test_a_token_of_the_user_is_asked_for_and_not_printed():
    door = open_door("0.0.0.0", 0, "correct-horse-battery")  # noqa: S104 - what is tested
    with door.socket:
        assert (door.token, door.generated) == ("correct-horse-battery", False)
        assert "correct" not in door.url
        assert door.hosts == frozenset()


def test_this_machine_alone_needs_none():
    door = open_door("127.0.0.1", 0, "")
    with door.socket:
        assert door.token == ""
        assert "localhost" in door.hosts
        assert door.url == f"http://127.0.0.1:{door.socket.getsockname()[1]}/"


@pytest.mark.parametrize("token", ["short", "sixteen characters", "sechzehn-zeichen-ä", "sixteen\ncharacters"])
def test_a_token_that_is_none_is_refused(token):
    with pytest.raises(FairlaneError, check=kind("token-invalid")) as raised:
        open_door("127.0.0.1", 0, token)
    assert "FAIRLANE_TOKEN" in str(raised.value)
    assert token not in str(raised.value)


def test_a_port_that_is_taken(tmp_path, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert run(["serve", str(tmp_path), "--port", str(port)]) == Exit.USER_ERROR
    told = capsys.readouterr().err
    assert kinds(told) == ["cannot-listen"]
    assert "127.0.0.1" in told
    assert str(port) in told.partition("Hint: ")[0]
    assert "--port 0" in told.partition("Hint: ")[2]


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert run(["serve", str(tmp_path / "none")]) == Exit.USER_ERROR
    told = capsys.readouterr().err
    assert kinds(told) == ["folder-missing"]
    assert "fairlane serve DIR" in told
    (tmp_path / "file").write_text("")
    assert run(["serve", str(tmp_path / "file")]) == Exit.USER_ERROR
    assert kinds(capsys.readouterr().err) == ["not-a-folder"]


def test_a_host_that_is_not_ours(tmp_path, capsys):
    assert run(["serve", str(tmp_path), "--host", "no.such.host.invalid"]) == Exit.USER_ERROR
    told = capsys.readouterr().err
    assert kinds(told) == ["address-unknown"]
    assert "no.such.host.invalid" in told


def test_help_has_examples(capsys):
    assert run(["serve", "--help"]) == Exit.OK
    assert "fairlane serve /srv/runs --host 0.0.0.0" in capsys.readouterr().out
