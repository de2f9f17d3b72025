"""Prepare the disks that the hypervisor gives to guests (images, secrets, forwarded ports) and read back QEMU's state
of them."""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote

from fairlane.errors import RunFailed
from fairlane.machines import script
from fairlane.machines.base import Guest
from fairlane.platforms.lab.spec import Link
from fairlane.platforms.lab.wall import disks
from fairlane.platforms.lab.wall.layout import ARRAY_MANAGED, Volume
from fairlane.platforms.lab.wall.vm import Vm
from fairlane.units import format_bitrate, format_duration

_INTERFACE = "mgmt"


async def images(volumes: Iterable[Volume]) -> None:
    """Creates the images of volumes for which an empty file is not enough. Raises RunFailed."""
    for volume in volumes:
        spec = disks.device(volume)
        if spec.format == "raw" and not spec.preallocation:
            continue
        options = (
            *(("-o", f"cluster_size={spec.cluster_size}") if spec.cluster_size else ()),
            *(("-o", f"preallocation={spec.preallocation}") if spec.preallocation else ()),
        )
        command = ("qemu-img", "create", "-q", "-f", spec.format, *options, volume.site.medium, str(volume.site.size))
        done = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
        _, stderr = await done.communicate()
        if done.returncode:
            raise RunFailed(
                "image-build",
                f"{volume.name}: qemu-img could not make its image: {stderr.decode(errors='replace').strip()}",
            )


def write_secrets(secrets: Mapping[str, str], folder: Path) -> None:
    """Puts the files of ``Parts.secrets`` into the folder of the run's machines, for their owner alone."""
    for name, secret in secrets.items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secret)


async def forward(array: Vm, volumes: Iterable[Volume]) -> dict[str, str]:
    """Forwards a port of this machine to the array for each volume whose initiator runs in the hypervisor: name of the
    volume -> ``host:port``. Raises RunFailed."""
    ports: dict[str, int] = {}
    for volume in volumes:
        if volume.emulated and volume.needs_array and (port := volume.transport.port):
            ports[volume.name] = port
            rule = f"hostfwd_add {_INTERFACE} tcp:127.0.0.1:0-{ARRAY_MANAGED}:{port}"
            reply = await array.execute("human-monitor-command", **{"command-line": rule})
            if reply.strip():
                raise RunFailed("port", f"{volume.name}: cannot forward a port to the array: {reply.strip()}")
    if not ports:
        return {}
    table = await array.execute("human-monitor-command", **{"command-line": "info usernet"})
    chosen = forwarded(table)
    if missing := [name for name, port in ports.items() if port not in chosen]:
        raise RunFailed("port", f"{missing[0]}: QEMU forwards no port to its target")
    return {name: f"127.0.0.1:{chosen[port]}" for name, port in ports.items()}


def forwarded(table: str) -> dict[int, int]:
    """Port in the guest -> port of this machine, from QEMU's ``info usernet``."""
    rows = re.findall(r"TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)", table)
    return {int(inside): int(outside) for outside, inside in rows}


async def host_devices(host: Guest, volumes: Iterable[Volume]) -> dict[str, Volume]:
    """Volumes whose initiator is this machine's kernel, by name, each with its block device here, found as in a
    guest. Raises RunFailed."""
    placed = {}
    for volume in volumes:
        find = volume.transport.find()
        paths = (await host.ask(f"{find} > device"))["device"].decode().split()
        if len(paths) != 1:
            raise RunFailed(
                "devices", f"{volume.name}: expected one device on this machine, found: {' '.join(paths) or 'none'}"
            )
        # a guest will write to it, and its own guard cannot examine this machine
        destroy = '"$i"' if volume.owned else quote(volume.spec.destroy)
        await host.ask(f'i=$(identity {paths[0]}); guard {paths[0]} "$i" - {destroy}')
        placed[volume.name] = replace(volume, host_device=paths[0])
    return placed


def shape(link: Link) -> str:
    """Shell for the array that shapes traffic of the forwarded ports as every other link, both ways: QEMU's user
    network has no other end to shape, so an ifb device shapes incoming packets."""
    netem = f"netem delay {format_duration(link.delay)} rate {format_bitrate(link.rate)} limit 100000"
    text = f"""
modprobe ifb numifbs=0
ip link add {_INTERFACE}-in type ifb
ip link set {_INTERFACE}-in up
tc qdisc add dev {_INTERFACE} root {netem}
tc qdisc add dev {_INTERFACE} ingress
tc filter add dev {_INTERFACE} parent ffff: matchall action mirred egress redirect dev {_INTERFACE}-in
tc qdisc add dev {_INTERFACE}-in root {netem}
"""
    return script.run_step("shape the forwarded link", text, "$STEP")


async def disk_state(vm: Vm, volume: Volume) -> disks.DiskState:
    """QEMU's state of a disk of ``vm``. Raises RunFailed if it differs from the study."""
    nodes = await vm.execute("query-named-block-nodes", flat=True)
    threads = [item["id"] for item in await vm.execute("query-iothreads")]
    thread = ""
    if disks.device(volume).bus != "nvme":
        thread = await vm.execute("qom-get", path=f"/machine/peripheral/{disks.qdev(volume)}", property="iothread")
    state = disks.disk_state(volume, nodes, threads, thread)
    for path, property_, wanted in disks.properties(volume):
        value = await vm.execute("qom-get", path=path, property=property_)
        state = disks.with_property(state, property_, value, wanted)
    if state.wrong:
        raise RunFailed("lane-state", f"{volume.name} differs from the study:\n" + "\n".join(state.wrong))
    return state
