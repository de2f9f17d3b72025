"""Real machines behind the played cluster: reached with ssh through the API server, cloned with what they wrote."""

import asyncio
import base64
import json
import os
import signal
from pathlib import Path

import pytest

from fairlane.machines.keys import Keys
from fairlane.platforms.lab.wall import rootfs
from testkit.control_plane import ControlPlane
from testkit.play import Class
from testkit.play.hands import PATIENCE, Hands, machine, played, volume
from testkit.play.kinds import EVENT, SECRET, VM, VMI, Object, phase
from testkit.play.lab import IOPS, LabMachines

pytestmark = [pytest.mark.cluster, pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

_DISKS = """for s in /sys/block/vd*/serial /sys/block/sd*/device/vpd_pg80; do
  [ -e $s ] || continue
  case $(tr -d '\\0' < $s) in *fl-data) d=${s#/sys/block/}; echo ${d%%/*} $(cat /sys/block/${d%%/*}/size) ;; esac
done"""


def _machine(root: Object, bus: str) -> Object:
    """Boots from ``root``; with a data disk on ``bus`` and cloud-init's data."""
    data = volume(name="slow", size="64Mi")
    keys = {"name": "keys", "cloudInitNoCloud": {"secretRef": {"name": "keys"}}}
    made = machine(("ROOT", root), ("DATA", data), volumes=[keys])
    made["spec"]["template"]["spec"]["domain"]["devices"]["disks"][1] |= {"serial": "fl-data", "disk": {"bus": bus}}
    return made


def _named(name: str, body: Object) -> Object:
    whole: Object = json.loads(json.dumps(body).replace("ROOT", f"{name}-root").replace("DATA", f"{name}-data"))
    return whole


async def _ssh(hands: Hands, vmi: str, keys: Keys, script: str, *, wait: bool = True) -> tuple[int, str]:
    """Exit status and output of a script that root runs on a machine, tried until its sshd answers."""
    async with hands.tunnel(vmi, 22) as port, asyncio.timeout(4 * PATIENCE):
        login = keys.login(port)
        options = ("BatchMode=yes", "StrictHostKeyChecking=yes", f"HostKeyAlias={login.alias}", "ConnectTimeout=60",
                   f"UserKnownHostsFile={login.known_hosts}", "IdentitiesOnly=yes")  # fmt: skip
        while True:
            done = await asyncio.create_subprocess_exec(
                "ssh", "-F", "none", "-p", str(port), "-i", str(login.key), *(w for o in options for w in ("-o", o)),
                "root@127.0.0.1", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, err = await done.communicate()
            status = done.returncode or 0
            if status != 255 or not wait or b"denied" in err:
                return status, out.decode() + err.decode()
            await asyncio.sleep(1)


async def _listed(hands: Hands, where: str) -> list[Object]:
    items: list[Object] = (await hands.client.request("GET", where))["items"]
    return items


def test_machines_are_reached_and_cloned_with_what_was_written(control_plane: ControlPlane, tmp_path: Path) -> None:
    root = rootfs.cached_root()
    if not root:
        pytest.skip("the lab's root file system is not built: run any study with platform lab and clock wall")
    keys, others = (tmp_path / name for name in ("keys", "others"))
    keys.mkdir()
    others.mkdir()
    ours, strangers = Keys.make(keys), Keys.make(others)
    (others / "known_hosts").write_text((keys / "known_hosts").read_text())

    async def body() -> None:
        classes = (Class("ceph-rbd", default=True), Class("slow", parameters={IOPS: "100"}))
        machines = LabMachines(root=root)
        async with played(control_plane.kubeconfig(), None, machines, classes, subresources=True) as hands:
            files = ours.files()
            told = {"disable_root": False, "ssh_authorized_keys": [files["authorized_keys"]],
                    "ssh_keys": {"ed25519_private": files["host_key"]}}  # fmt: skip
            user_data = base64.b64encode(f"#cloud-config\n{json.dumps(told)}".encode()).decode()
            await hands.make(SECRET, "keys", {"data": {"userdata": user_data}})

            image = volume({"source": {"registry": {"url": "docker://any"}}})
            await hands.make(VM, "golden", _named("golden", _machine(image, "virtio")))
            await hands.until(VMI, "golden", lambda vmi: phase(vmi) == "Running")
            script = f"hostname; {_DISKS}; echo written > /root/mark && sync"
            assert await _ssh(hands, "golden", ours, script) == (0, "golden\nvdb 131072\n")
            status, said = await _ssh(hands, "golden", strangers, "true")
            assert status == 255
            assert "Permission denied" in said

            await hands.client.patch(VM, hands.namespace, "golden", {"spec": {"runStrategy": "Halted"}})
            await hands.until_gone(VMI, "golden")
            copied = volume({"source": {"pvc": {"name": "golden-root", "namespace": hands.namespace}}})
            await hands.make(VM, "clone", _named("clone", _machine(copied, "scsi")))
            await hands.until(VMI, "clone", lambda vmi: phase(vmi) == "Running")
            assert await _ssh(hands, "clone", ours, f"cat /root/mark; {_DISKS}") == (0, "written\nsda 131072\n")

            os.kill(machines.vms[hands.namespace, "clone"].process.pid, signal.SIGKILL)
            where = EVENT.path(hands.namespace)
            async with asyncio.timeout(PATIENCE):
                while not (ends := [e for e in await _listed(hands, where) if e["reason"] == "Stopped"]):
                    await asyncio.sleep(0.1)
            assert ends[0]["message"].startswith("clone ended: QEMU was killed by signal 9 (SIGKILL)")
        assert not machines.folder.exists()

    asyncio.run(body())
