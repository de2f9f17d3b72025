"""Operations of tests on a played cluster: create, read, await objects, and reach machines' ports."""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from testkit.play.behaviour import Behaviour
from testkit.play.client import Client, Refused
from testkit.play.controller import Play
from testkit.play.kinds import EVENT, NAMESPACE, VMI, Kind, Object
from testkit.play.machines import Machines
from testkit.play.site import Class, Site
from testkit.play.virt_api import API, PROTOCOL

PATIENCE = 100.0
"""Seconds to wait for anything."""


@dataclass
class Hands:
    """A played cluster, a namespace in it, and a client of the test."""

    play: Play
    client: Client
    namespace: str

    async def make(self, kind: Kind, name: str, body: Object | None = None, **meta: Any) -> Object:
        return await self.client.create(kind, {"metadata": {"name": name, **meta}, **(body or {})}, self.namespace)

    async def get(self, kind: Kind, name: str) -> Object | None:
        try:
            return await self.client.request("GET", kind.path(self.namespace, name))
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

    async def until(self, kind: Kind, name: str, true: Callable[[Object], Any]) -> Object:
        """The object once the condition holds. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if (obj := await self.get(kind, name)) and true(obj):
                    return obj
                await asyncio.sleep(0.02)

    async def until_gone(self, kind: Kind, name: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.get(kind, name):
                await asyncio.sleep(0.02)

    async def event_message(self, reason: str) -> str:
        """The message of the first event with this reason. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while True:
                events = await self.client.request("GET", EVENT.path(self.namespace))
                for event in events["items"]:
                    if event["reason"] == reason:
                        return str(event["message"])
                await asyncio.sleep(0.02)

    def steps(self, kind: Kind, name: str) -> list[str]:
        """Logged steps of objects of this name, by the time they were sent; several writers may get their answers in
        another order."""
        log = sorted(self.play.log, key=lambda r: r.sent)
        return [r.phase for r in log if (r.kind, r.namespace, r.name) == (kind.name, self.namespace, name)]

    async def logged(self, kind: Kind, name: str, *wanted: str) -> list[str]:
        """The steps once they include ``wanted``: the log gets a step when its writer has the answer, which may be
        after others have read the object. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            while not set(wanted) <= set(steps := self.steps(kind, name)):
                await asyncio.sleep(0.01)
        return steps

    def _port(self, vmi: str, port: int) -> str:
        return f"{API}/namespaces/{self.namespace}/{VMI.plural}/{vmi}/portforward/{port}"

    async def forward(self, vmi: str, port: int) -> aiohttp.ClientWebSocketResponse:
        """A stream to a port of a machine."""
        return await self.client.stream(self._port(vmi, port), PROTOCOL)

    async def refusal(self, vmi: str, port: int) -> Object:
        """The Status that refuses a stream."""
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key,
        }
        answer: Object = json.loads(await self.client.answer(self._port(vmi, port), upgrade))
        return answer

    @asynccontextmanager
    async def tunnel(self, vmi: str, port: int) -> AsyncIterator[int]:
        """A local port whose connections are each a stream to a port of the VMI."""

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                stream = await self.forward(vmi, port)
            except aiohttp.ClientError:
                writer.close()
                return

            async def outwards() -> None:
                while data := await reader.read(1 << 16):
                    await stream.send_bytes(data)
                await stream.close()

            sending = asyncio.create_task(outwards())
            async for message in stream:
                writer.write(message.data)
            writer.close()
            sending.cancel()

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


@asynccontextmanager
async def played(
    kubeconfig: Path, behaviour: Behaviour | None = None, machines: Machines | None = None,
    classes: Sequence[Class] = Site().classes, *, subresources: bool = False,
) -> AsyncIterator[Hands]:  # fmt: skip
    """A played cluster with a new namespace; removes site and namespace at the end."""
    site = Site(classes=classes)
    async with (
        Play(kubeconfig, behaviour=behaviour, machines=machines, site=site, subresources=subresources) as play,
        Client(kubeconfig) as client,
    ):
        hands = Hands(play, client, f"play-{secrets.token_hex(3)}")
        await client.create(NAMESPACE, {"metadata": {"name": hands.namespace}})
        yield hands
        play.resume()
        await client.delete(NAMESPACE, "", hands.namespace)
        await hands.until_gone(NAMESPACE, hands.namespace)


def machine(*disks: tuple[str, Object], strategy: str = "Always", **spec: Any) -> Object:
    """Spec of a VirtualMachine with these disks: (name of its DataVolume, spec of that); boots from the first."""
    devices = [{"name": f"disk{n}", "serial": f"serial-{n}", "disk": {"bus": "virtio"}} for n in range(len(disks))]
    volumes = [{"name": f"disk{n}", "dataVolume": {"name": name}} for n, (name, _) in enumerate(disks)]
    volumes += spec.pop("volumes", [])
    inside = {"domain": {"devices": {"disks": devices}, "memory": {"guest": "256Mi"}}, "volumes": volumes, **spec}
    return {"spec": {
        "runStrategy": strategy,
        "dataVolumeTemplates": [{"metadata": {"name": name}, "spec": body} for name, body in disks],
        "template": {"metadata": {"labels": {"fairlane.io/run": "1"}}, "spec": inside},
    }}  # fmt: skip


def volume(source: Object | None = None, name: str = "ceph-rbd", size: str = "1Gi", **more: Any) -> Object:
    """Spec of a DataVolume: blank, or filled from ``source``."""
    storage = {"resources": {"requests": {"storage": size}}, "storageClassName": name,
               "accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}  # fmt: skip
    return {**({"source": {"blank": {}}} if source is None else source), "storage": {**storage, **more}}


def claim(source: Object | None = None, name: str = "ceph-rbd") -> Object:
    """Spec of a claim: with the content of ``source``, or empty."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": name, "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
    return {"spec": {**spec, **({"dataSource": source} if source else {})}}
