"""Bytes to machines and back: through the tunnel, a real API server, its aggregator and a virt-api that is played."""

import asyncio
import gc
import hashlib
import random
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api import Api, ApiError
from fairlane.platforms.kubevirt.tunnel import Tunnel, banner
from fairlane.platforms.kubevirt.watching import Watcher
from testkit.control_plane import ControlPlane
from testkit.play import NoMachines, Play, Site
from testkit.play.virt_api import VirtApi
from testkit.stand import Stand
from tests.platforms.kubevirt.conftest import Connected

pytestmark = pytest.mark.cluster

VM = {
    "metadata": {"name": "vm"},
    "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}}}},
}
SUB = "virtualmachineinstances/portforward"
Guest = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Machine:
    """A machine that runs, and whose ports are functions here."""

    def __init__(self, virt_api: VirtApi, namespace: str, ports: dict[int, tuple[str, int]]) -> None:
        self.namespace = namespace
        self._virt_api, self._ports = virt_api, ports

    @asynccontextmanager
    async def listens(self, guest: Guest, port: int = 22) -> AsyncIterator[None]:
        handled: dict[asyncio.Task[Any] | None, asyncio.StreamWriter] = {}

        async def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            handled[asyncio.current_task()] = writer
            with suppress(OSError):
                await guest(reader, writer)
                writer.close()
                await writer.wait_closed()

        server = await asyncio.start_server(come, "127.0.0.1", 0)
        self._ports[port] = server.sockets[0].getsockname()
        try:
            yield
        finally:
            del self._ports[port]
            server.close()
            for task, writer in handled.items():
                if task and not task.done():
                    writer.transport.abort()
                    await asyncio.wait([task])

    @property
    def streams(self) -> int:
        return self._virt_api.tunnels

    async def quiet(self) -> None:
        """Returns once the virt-api has no stream any more."""
        while self.streams:
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def ports() -> dict[int, tuple[str, int]]:
    return {}


@pytest.fixture(scope="module")
def virt_api(control_plane: ControlPlane, ports: dict[int, tuple[str, int]]) -> Iterator[VirtApi]:
    machines = NoMachines(ports=ports)
    play = Play(control_plane.kubeconfig(), machines=machines, site=Site(nodes=1), subresources=False)
    with Stand(play) as stand:
        served = stand.call(VirtApi(play.world, machines).__aenter__())
        yield served
        stand.call(served.__aexit__(None, None, None))


@pytest.fixture
def machine(
    control_plane: ControlPlane, virt_api: VirtApi, namespace: str, ports: dict[int, tuple[str, int]],
    connected: Connected,
) -> Machine:  # fmt: skip
    async def start(api: Api) -> None:
        async with Watcher(api, kinds.VMI, namespace) as vmis:
            await api.create(kinds.VM, VM, namespace)
            await vmis.until(
                lambda i: i.get("vm", {}).get("status", {}).get("phase") == "Running" or None, 200, "no VMI"
            )

    connected(control_plane.kubeconfig(), start)
    return Machine(virt_api, namespace, ports)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def line_by_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a word with five lines, one after the other."""
    await reader.readline()
    for i in range(5):
        await asyncio.sleep(0.1)
        writer.write(b"%d\n" % i)


async def is_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def connection(tunnel: Tunnel) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """To the tunnel; the port may be closed, and the connection at any time too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def exchanged(tunnel: Tunnel, data: bytes) -> bytes:
    """What comes back of ``data``; less where the connection ends."""
    async with connection(tunnel) as (reader, writer):

        async def send() -> None:
            for start in range(0, len(data), 50_000):
                writer.write(data[start : start + 50_000])
                await writer.drain()

        try:
            _, back = await asyncio.gather(send(), reader.readexactly(len(data)))
        except (OSError, asyncio.IncompleteReadError):
            return b""
        return back


def test_bytes_go_and_come_back_whole(control_plane: ControlPlane, machine: Machine, connected: Connected) -> None:
    data = random.Random(1).randbytes(20 << 20)  # noqa: S311

    async def work(api: Api) -> None:
        async with machine.listens(echo), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            back = await exchanged(tunnel, data)
            assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()
            assert tunnel.trouble == ""
            await machine.quiet()  # the local side has ended it

    connected(control_plane.kubeconfig(), work)


def test_many_connections_at_once(control_plane: ControlPlane, machine: Machine, connected: Connected) -> None:
    async def work(api: Api) -> None:
        async with machine.listens(echo), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            words = [f"{i}".encode() * 1000 for i in range(100)]
            assert await asyncio.gather(*(exchanged(tunnel, word) for word in words)) == words

    connected(control_plane.kubeconfig(), work, qps=1000, burst=1000)


def test_tunnels_take_no_place_from_requests(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(machine.listens(echo))
            tunnel = await stack.enter_async_context(await Tunnel.open(api, machine.namespace, "vm"))
            for _ in range(80):
                await stack.enter_async_context(connection(tunnel))
            while machine.streams < 80:
                await asyncio.sleep(0.01)
            assert await api.get(kinds.VMI, "vm", machine.namespace)

    connected(control_plane.kubeconfig(), work, qps=1000, burst=1000)


def test_what_the_guest_said_last_arrives(control_plane: ControlPlane, machine: Machine, connected: Connected) -> None:
    data = random.Random(2).randbytes(5 << 20)  # noqa: S311

    async def says_it_and_goes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    async def work(api: Api) -> None:
        async with machine.listens(says_it_and_goes), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            async with connection(tunnel) as (reader, _):
                assert await reader.read() == data
            await machine.quiet()

    connected(control_plane.kubeconfig(), work)


def test_who_has_said_all_may_still_listen(
    control_plane: ControlPlane, machine: Machine, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.platforms.kubevirt.tunnel._QUIET_SECONDS", 200)  # the guest ends it, not a clock

    async def work(api: Api) -> None:
        async with machine.listens(line_by_line), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            async with connection(tunnel) as (reader, writer):
                writer.write(b"go\n")
                writer.write_eof()
                assert await reader.read() == b"0\n1\n2\n3\n4\n"
            await machine.quiet()

    connected(control_plane.kubeconfig(), work)


def test_who_has_said_all_and_hears_nothing_is_let_go(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        async with machine.listens(is_silent), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            async with connection(tunnel) as (reader, writer):
                writer.write(b"go\n")
                writer.write_eof()
                assert await reader.read() == b""
            await machine.quiet()

    connected(control_plane.kubeconfig(), work)


def test_a_port_that_nobody_listens_on_closes_the_connection(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        async with await Tunnel.open(api, machine.namespace, "vm", 2222) as tunnel:
            async with connection(tunnel) as (reader, _):
                assert await reader.read() == b""
            assert "connection refused" in tunnel.trouble
        async with await Tunnel.open(api, machine.namespace, "no-such-vm") as tunnel:
            assert await exchanged(tunnel, b"x") == b""
            assert "no-such-vm" in tunnel.trouble

    connected(control_plane.kubeconfig(), work)


def test_a_closed_tunnel_leaves_nothing(control_plane: ControlPlane, machine: Machine, connected: Connected) -> None:
    async def work(api: Api) -> None:
        tunnel = await Tunnel.open(api, machine.namespace, "vm")
        async with machine.listens(echo), AsyncExitStack() as stack:
            held = [await stack.enter_async_context(connection(tunnel)) for _ in range(3)]
            for reader, writer in held:
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
            assert len([task for task in asyncio.all_tasks() if "kubevirt/tunnel.py" in repr(task)]) >= 3
            await tunnel.close()
            assert not [task for task in asyncio.all_tasks() if "kubevirt/tunnel.py" in repr(task)]
            for reader, _ in held:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", tunnel.port)
            await machine.quiet()

    connected(control_plane.kubeconfig(), work)


def test_a_server_that_does_not_answer_keeps_no_connection_from_ending(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    """TLS takes its leave of a server that may stand still: no socket is left for the interpreter to find."""
    paused = ExitStack()

    async def work(api: Api) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(machine.listens(echo))
            tunnel = await stack.enter_async_context(await Tunnel.open(api, machine.namespace, "vm"))
            reader, writer = await stack.enter_async_context(connection(tunnel))
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            paused.enter_context(control_plane.paused())
            asking = asyncio.create_task(api.call("GET", "/version"))
            await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.wait([asking])

    with paused, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        connected(control_plane.kubeconfig(), work)
        gc.collect()
        assert [str(warning.message) for warning in told if warning.category is ResourceWarning] == []


@pytest.mark.slow
def test_after_a_restart_of_the_api_server_new_connections_work(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    async def work(api: Api) -> None:
        async with machine.listens(echo), await Tunnel.open(api, machine.namespace, "vm") as tunnel:
            async with connection(tunnel) as (reader, writer):
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
                control_plane.kill_apiserver()
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            assert await exchanged(tunnel, b"y") == b""
            assert "Cannot connect" in tunnel.trouble
            control_plane.start_apiserver()
            while await exchanged(tunnel, b"z") != b"z":  # the aggregator finds the virt-api a moment later
                await asyncio.sleep(0.1)
            assert tunnel.trouble == ""

    connected(control_plane.kubeconfig(), work)


def test_the_greeting_of_sshd(control_plane: ControlPlane, machine: Machine, connected: Connected) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in (b"an old custom\r\nSSH", b"-2.0-OpenSSH_9.2p1 Debian\r", b"\nmore"):
            writer.write(piece)
            await asyncio.sleep(0.01)
        await reader.read()

    async def is_no_sshd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 100_000)

    async def work(api: Api) -> None:
        async def heard(vmi: str = "vm", timeout: float = 200) -> bytes | None:
            return await banner(api, machine.namespace, vmi, timeout)

        assert await heard() is None  # nobody listens
        assert await heard("no-such-vm") is None
        async with machine.listens(greets):
            assert await heard() == b"SSH-2.0-OpenSSH_9.2p1 Debian"
        async with machine.listens(is_silent):
            assert await heard(timeout=0.5) is None
        async with machine.listens(is_no_sshd):
            assert await heard() is None
        await machine.quiet()

    async def forbidden(api: Api) -> None:
        with pytest.raises(ApiError, match=r"Forbidden.*portforward") as error:
            await banner(api, machine.namespace, "vm", 30)
        assert "doctor" in error.value.hint

    connected(control_plane.kubeconfig(), work)
    connected(control_plane.kubeconfig("somebody"), forbidden)


def test_a_token_that_has_expired_is_read_again_for_a_tunnel(
    control_plane: ControlPlane, machine: Machine, connected: Connected
) -> None:
    name = machine.namespace
    config = control_plane.service_account_kubeconfig(name, "runner", -100, file=True)
    subject = {"kind": "ServiceAccount", "name": "runner", "namespace": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}

    async def bind(api: Api) -> None:
        await api.create(kinds.ROLE_BINDING, {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": role}, name)
        may = {"apiGroups": ["subresources.kubevirt.io"], "resources": [SUB], "verbs": ["get"]}
        user = f"system:serviceaccount:{name}:runner"
        control_plane.wait(lambda: control_plane.allows(user, name, may), "the role to count")

    async def work(api: Api) -> None:
        async with machine.listens(echo), await Tunnel.open(api, name, "vm") as tunnel:
            assert await exchanged(tunnel, b"x") == b""
            assert "Unauthorized" in tunnel.trouble
            config.with_suffix(".token").write_text(control_plane.service_account_token(name, "runner") + "\n")
            assert await exchanged(tunnel, b"x") == b"x"
            assert api.retried["401"] == 2

    connected(control_plane.kubeconfig(), bind)
    connected(config, work)
