"""Runs of the fake platform below one folder, and a real server for them in a process of its own."""

import asyncio
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.web.app import Viewer
from fairlane.web.connections import Connections
from fairlane.web.guard import LOCAL
from fairlane.web.live import Limits
from fairlane.web.server import Server, open_door
from testkit.process import Fairlane

STUDY = """\
name: {name}
question: {question}
platform: {{kind: fake, effects: {{fast: {{speed: 1.3}}}}, noise: {{sd: 1%}}{more}}}
lanes: {{slow: {{transport: iscsi}}, fast: {{transport: nvme_tcp, label: {label}}}}}
baseline: slow
workloads: {{main: {{kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}}}
design: {{seed: 3, looks: {looks}}}
"""
PATIENT = Limits(patience=240.0)
"""A page that comes empty because the machine is busy is none to test."""
HOSTILE = '"The <script>alert(1)</script> lane \\u202eevil"'


@dataclass(frozen=True)
class Studies:
    """Makes study files below a folder of their own."""

    folder: Path

    def write(
        self,
        name: str = "small",
        *,
        question: str = "Is fast faster?",
        label: str = HOSTILE,
        looks: str = "[6]",
        more: str = "",
    ) -> Path:
        text = STUDY.format(name=name, question=question, label=label, looks=looks, more=more)
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run. Copied, never changed."""
    place = tmp_path_factory.mktemp("finished")
    assert run(["run", str(Studies(place).write()), "--out", str(place / "done")]) == Exit.OK
    return place / "done"


@pytest.fixture
def studies(tmp_path: Path) -> Studies:
    return Studies(tmp_path)


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    """A folder with one finished run."""
    shutil.copytree(finished, tmp_path / "runs" / "done")
    return tmp_path / "runs"


def cut(run_folder: Path, lines: int, torn: bytes = b"") -> None:
    """The run as it was after so many lines of its journal; ``torn``: what a crash left of the next."""
    journal = run_folder / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:lines]) + torn)
    for derived in ("report.html", "report.md", "verdicts.json", "observations.jsonl"):
        (run_folder / derived).unlink(missing_ok=True)


@dataclass(frozen=True)
class Served:
    url: str
    process: Fairlane


@pytest.fixture
def serving() -> Iterator[Callable[..., Served]]:
    """``fairlane serve`` on a free port, ready."""
    with ExitStack() as started:

        def serve(folder: Path) -> Served:
            process = started.enter_context(Fairlane("serve", folder, "--port", "0"))
            line = process.stdout.readline()
            assert re.match(r"http://", line), process.end()
            return Served(line.strip(), process)

        yield serve


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths that this process opens meanwhile. An audit hook cannot be taken away again, so it is told to sleep."""
    paths: list[str] = []
    awake = True

    def hook(event: str, args: tuple[object, ...]) -> None:
        if awake and event == "open":
            paths.append(os.fsdecode(args[0]) if isinstance(args[0], str | bytes) else "")

    sys.addaudithook(hook)
    try:
        yield paths
    finally:
        awake = False


class Client:
    """Asks an application in this process; one event loop for all questions."""

    def __init__(
        self, folder: Path, hosts: Iterable[str] = LOCAL, token: str = "", base: str = "http://127.0.0.1:8642"
    ):
        self.viewer = Viewer(folder, PATIENT)
        self._runner = asyncio.Runner()
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.viewer.app(hosts, token)), base_url=base, follow_redirects=True
        )

    @property
    def cookies(self) -> httpx.Cookies:
        return self._http.cookies

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._runner.run(self._http.request(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def close(self) -> None:
        self._runner.run(self.viewer.close())
        self._runner.run(self._http.aclose())
        self._runner.close()


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    """Makes clients of the runs below a folder."""
    made: list[Client] = []

    def make(*args: Any, **more: Any) -> Client:
        made.append(Client(*args, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def inside(root: Path) -> Iterator[Callable[..., tuple[Viewer, str]]]:
    """A real server in a thread of this process, so that its viewer can be looked into."""
    started: list[tuple[Server, threading.Thread]] = []

    def serve(limits: Limits | None = None, connections: Connections | None = None) -> tuple[Viewer, str]:
        door = open_door("127.0.0.1", 0, "")
        viewer = Viewer(root, limits or PATIENT)
        server = Server(viewer, door, connections)
        thread = threading.Thread(target=lambda: asyncio.run(server.run_until_stopped()))
        thread.start()
        started.append((server, thread))
        return viewer, door.url

    yield serve
    for server, thread in started:
        server.should_exit = True
        thread.join()
