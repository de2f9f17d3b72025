"""Real sockets: half a request, too many connections and a reader that takes nothing keep nobody else out."""

import re
import socket
import time
from contextlib import ExitStack

import pytest

from fairlane.web.connections import Connections

WHOLE = b"GET /static/viewer.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture
def door(inside):
    """Serves with these limits; opens connections from an address of this machine, and closes them at the end."""
    with ExitStack() as stack:

        def opened(**limits):
            ((host, port),) = re.findall(r"http://([\d.]+):(\d+)/", inside(connections=Connections(**limits))[1])

            def connect(sent=b"", client="127.0.0.1"):
                made = socket.create_connection((host, int(port)), timeout=90, source_address=(client, 0))
                stack.enter_context(made)
                made.sendall(sent)
                return made

            return connect

        yield opened


def status(connection):
    """The status of the answer; 0 if the connection ended without one."""
    try:
        first = connection.recv(65536).split(b"\r\n")[0]
    except ConnectionError:
        return 0
    return int(first.split()[1]) if first else 0


def test_half_a_request_ends_with_its_time(door):
    connect = door(header_seconds=0.3)
    assert [status(connect(sent)) for sent in (b"", b"G", HALF)] == [408, 408, 408]


def test_a_slow_sender_gets_no_more_time_for_each_byte(door):
    half = door(header_seconds=0.5)(HALF)
    ended = False
    for _ in range(600):
        try:
            half.sendall(b"x")
        except ConnectionError:
            ended = True
            break
        time.sleep(0.1)
    assert ended


def test_a_second_request_has_its_own_time(door):
    connection = door(header_seconds=0.3)(WHOLE)
    assert status(connection) == 200
    connection.sendall(HALF)
    answer = b""
    while chunk := connection.recv(65536):
        answer += chunk
    assert b"HTTP/1.1 408 " in answer


def test_300_half_open_connections_of_one_client_keep_no_other_out(door):
    """Up to here 256 of them made the viewer answer 503 to everybody."""
    connect = door(header_seconds=240)
    crowd = [connect(HALF) for _ in range(300)]
    assert status(connect(WHOLE, client="127.0.0.2")) == 200
    assert status(crowd[-1]) in (503, 0)  # beyond the 64 of one client
    assert status(connect(WHOLE)) in (503, 0)
    for half in crowd[:5]:
        half.close()
    ends = time.monotonic() + 90
    while status(connect(WHOLE)) != 200:  # places of its own are free again
        assert time.monotonic() < ends


def test_many_clients_that_only_wait_make_room(door):
    """All 256 places taken, by five clients: the oldest that waits goes, and the newest is answered."""
    connect = door(header_seconds=240)
    crowd = [connect(HALF, client=f"127.0.1.{n % 5 + 1}") for n in range(256)]
    assert status(connect(WHOLE, client="127.0.0.9")) == 200
    assert status(crowd[0]) == 0
    crowd[-1].sendall(b"\r\n")
    assert status(crowd[-1]) == 200


def test_who_takes_nothing_of_an_answer_is_let_go(door, root):
    (root / "done" / "schedule.jsonl").write_bytes(b"x" * 64 * 2**20)
    connect = door(write_seconds=0.3, of_one=1)
    taking = connect(b"GET /runs/done/schedule.jsonl HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert taking.recv(16)
    ends = time.monotonic() + 90
    while status(connect(WHOLE)) != 200:  # the one place of this client is free again
        assert time.monotonic() < ends
