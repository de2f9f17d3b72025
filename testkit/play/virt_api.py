"""KubeVirt's virt-api: the subresources of machines, served behind the API server's aggregator.

The API server authenticates and authorises the user, then forwards the request with its own client certificate and the
user's name in X-Remote-User; requests without these are rejected.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from testkit.authority import Authority
from testkit.play.client import Refused
from testkit.play.compute import FINAL, strategy
from testkit.play.kinds import API_SERVICE, CONFIG_MAP, NAMESPACE, SERVICE, VM, VMI, Kind, deleting, phase
from testkit.play.machines import Machines
from testkit.play.world import World

API = "/apis/subresources.kubevirt.io/v1"
PROTOCOL = "plain.kubevirt.io"
"""Websocket subprotocol of streams: a binary message is the next piece of the raw stream."""
_HOST, _NAMESPACE = "virt-api.kubevirt.svc", "kubevirt"
_CHUNK = 1 << 16
_RESOURCES = {
    "virtualmachines/start": ("VirtualMachine", "update"),
    "virtualmachines/stop": ("VirtualMachine", "update"),
    "virtualmachines/restart": ("VirtualMachine", "update"),
    "virtualmachineinstances/portforward": ("VirtualMachineInstance", "get"),
}
_VERSION = {"major": "", "minor": "", "gitVersion": "v1.6.3", "gitCommit": "played", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go0", "compiler": "python",
            "platform": "linux/amd64"}  # fmt: skip


class VirtApi:
    """An async context manager, registered with the API server for its duration."""

    def __init__(self, world: World, machines: Machines) -> None:
        self._world, self._machines = world, machines
        self._stack = AsyncExitStack()
        self.tunnels = 0
        """Open streams."""

    async def __aenter__(self) -> "VirtApi":
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlane-virt-api-")))
            authority = Authority(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*authority.issue("virt-api", f"DNS:{_HOST}", "DNS:localhost", "IP:127.0.0.1"))
            await self._trust(context)
            runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            port = runner.addresses[0][1]
            await self._register(authority.certificate.read_bytes(), port)
            stack.push_async_callback(self._unregister)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _trust(self, context: ssl.SSLContext) -> None:
        """Trusts the aggregator only, whose certificate authority the cluster publishes to extension servers."""
        config = await self._world.client.request(
            "GET", CONFIG_MAP.path("kube-system", "extension-apiserver-authentication")
        )
        if authority := config["data"].get("requestheader-client-ca-file"):
            context.load_verify_locations(cadata=authority)
            context.verify_mode = ssl.CERT_REQUIRED

    async def _register(self, authority: bytes, port: int) -> None:
        client = self._world.client
        await client.create(NAMESPACE, {"metadata": {"name": _NAMESPACE}})
        service = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(SERVICE, {"metadata": {"name": "virt-api"}, "spec": service}, _NAMESPACE)
        spec = {
            "group": "subresources.kubevirt.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"name": "virt-api", "namespace": _NAMESPACE, "port": port},
            "caBundle": base64.b64encode(authority).decode(),
        }  # fmt: skip
        name = "v1.subresources.kubevirt.io"
        await client.delete(API_SERVICE, "", name)  # of an earlier registration
        await client.create(API_SERVICE, {"metadata": {"name": name}, "spec": spec})
        while True:
            with suppress(Refused):
                await client.request("GET", f"{API}/version")
                return
            await asyncio.sleep(0.05)

    async def _unregister(self) -> None:
        with suppress(TimeoutError):  # the API server may be gone
            async with asyncio.timeout(10):
                await self._world.client.delete(API_SERVICE, "", "v1.subresources.kubevirt.io")

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_through_the_aggregator])
        machine, instance = (f"{API}/namespaces/{{namespace}}/{k.plural}/{{name}}" for k in (VM, VMI))
        application.add_routes([
            web.get("/apis", _groups), web.get("/apis/subresources.kubevirt.io", _group),
            web.get(API, _resources), web.get(f"{API}/", _resources),
            web.get(f"{API}/version", _version), web.get(f"{API}/healthz", _healthy),
            web.put(f"{machine}/start", self._start), web.put(f"{machine}/stop", self._stop),
            web.put(f"{machine}/restart", self._restart),
            web.get(f"{instance}/portforward/{{port}}", self._forward),
            web.get(f"{instance}/portforward/{{port}}/{{protocol}}", self._forward),
            web.get(f"{machine}/portforward/{{port}}", self._forward),
            web.get(f"{machine}/portforward/{{port}}/{{protocol}}", self._forward),
        ])  # fmt: skip
        return application

    async def _start(self, request: web.Request) -> web.Response:
        vm = self._find(VM, request)
        if self._world.get(VMI, *_named(request)) or strategy(vm) == "Always":
            raise _status(409, "Conflict", _conflict(VM, request, "VM is already running"))
        await self._world.patch(VM, vm, {"spec": _run(vm, "Always")})
        return web.Response(status=202)

    async def _stop(self, request: web.Request) -> web.Response:
        vm = self._find(VM, request)
        if strategy(vm) == "Halted":
            raise _status(409, "Conflict", _conflict(VM, request, "VM is not running"))
        await self._world.patch(VM, vm, {"spec": _run(vm, "Halted")})
        return web.Response(status=202)

    async def _restart(self, request: web.Request) -> web.Response:
        vm = self._find(VM, request)
        vmi = self._world.get(VMI, *_named(request))
        if strategy(vm) == "Halted" or not vmi:
            raise _status(409, "Conflict", _conflict(VM, request, "VM is not running"))
        await self._world.delete(VMI, vmi)
        return web.Response(status=202)

    def _find(self, kind: Kind, request: web.Request) -> dict[str, Any]:
        obj = self._world.get(kind, *_named(request))
        if not obj:
            message = f'{kind.plural[:-1]}.kubevirt.io "{request.match_info["name"]}" not found'
            raise _status(404, "NotFound", message)
        return obj

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """A stream to a port of the guest. As in KubeVirt, either side's end ends both directions."""
        vmi = self._find(VMI, request)
        if phase(vmi) != "Running" or phase(vmi) in FINAL or deleting(vmi):
            raise _status(409, "Conflict", _conflict(VMI, request, "VMI is not running"))
        if request.match_info.get("protocol", "tcp") != "tcp":
            raise _status(400, "BadRequest", "only protocol tcp is played")
        at = self._machines.address(*_named(request), int(request.match_info["port"]))
        try:
            if not at:
                raise ConnectionRefusedError("connect: connection refused")
            reader, writer = await asyncio.open_connection(*at)
        except OSError as error:
            message = f"Internal error occurred: dialing VM: dial tcp: {error}"
            raise _status(500, "InternalError", message) from error
        socket = web.WebSocketResponse(protocols=[PROTOCOL], max_msg_size=0)
        self.tunnels += 1
        try:
            await socket.prepare(request)
            await _carry(socket, reader, writer)
        finally:
            self.tunnels -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return socket


async def _carry(socket: web.WebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async def inwards() -> None:
        async for message in socket:
            if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                writer.write(message.data if isinstance(message.data, bytes) else message.data.encode())
                await writer.drain()

    async def outwards() -> None:
        while data := await reader.read(_CHUNK):
            await socket.send_bytes(data)

    both = [asyncio.ensure_future(inwards()), asyncio.ensure_future(outwards())]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        with suppress(OSError):
            await socket.close()


@web.middleware
async def _through_the_aggregator(request: web.Request, handler: Any) -> web.StreamResponse:
    if not request.headers.get("X-Remote-User"):
        raise _status(401, "Unauthorized", "the request did not come through the API server")
    answer: web.StreamResponse = await handler(request)
    return answer


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]


def _run(vm: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """The VM's spec with the requested state, in its own form (runStrategy or running)."""
    return {"running": wanted == "Always"} if "running" in vm["spec"] else {"runStrategy": wanted}


def _conflict(kind: Kind, request: web.Request, message: str) -> str:
    name = request.match_info["name"]
    return f'Operation cannot be fulfilled on {kind.plural[:-1]}.kubevirt.io "{name}": {message}'


def _status(code: int, reason: str, message: str) -> web.HTTPException:
    """An error as the API's Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code}  # fmt: skip

    class Failure(web.HTTPException):
        status_code = code

    return Failure(text=orjson.dumps(body).decode(), content_type="application/json")


def _json(body: object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


_GROUP = {
    "name": "subresources.kubevirt.io",
    "versions": [{"groupVersion": "subresources.kubevirt.io/v1", "version": "v1"}],
    "preferredVersion": {"groupVersion": "subresources.kubevirt.io/v1", "version": "v1"},
}


async def _groups(_: web.Request) -> web.Response:
    return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]})


async def _group(_: web.Request) -> web.Response:
    return _json({"kind": "APIGroup", "apiVersion": "v1", **_GROUP})


async def _resources(_: web.Request) -> web.Response:
    resources = [{"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": [verb]}
             for name, (kind, verb) in _RESOURCES.items()]  # fmt: skip
    header = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "subresources.kubevirt.io/v1"}
    return _json({**header, "resources": resources})


async def _version(_: web.Request) -> web.Response:
    return _json(_VERSION)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok")
