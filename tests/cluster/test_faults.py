"""What stands between tests and the API server leaves nothing behind."""

import gc
import socket
import threading
import warnings
from pathlib import Path

import pytest

from testkit.authority import Authority
from testkit.faults import FaultProxy

pytestmark = pytest.mark.cluster

ROUNDS = 10


def test_a_connection_that_comes_while_it_closes_is_closed_too(tmp_path: Path) -> None:
    """A later test would answer for it: whichever runs when Python collects its socket."""
    certificate = Authority(tmp_path).certificate
    made: list[socket.socket] = []

    def hammer(port: int, end: threading.Event) -> None:
        while not end.is_set():
            try:
                made.append(socket.create_connection(("127.0.0.1", port), 0.2))
            except OSError:
                return

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(ROUNDS):
            end = threading.Event()
            with FaultProxy("https://127.0.0.1:1", certificate) as proxy:
                thread = threading.Thread(target=hammer, args=(int(proxy.url.rsplit(":", 1)[1]), end))
                before = len(made)
                thread.start()
                while len(made) < before + 20:
                    pass
            end.set()
            thread.join()
        for one in made:
            one.close()
        del proxy
        gc.collect()
    assert [str(one.message) for one in caught if "unclosed" in str(one.message)] == []
