"""Plays the DaemonSet controller and the kubelets of a few nodes in one namespace: pods pass the real admission, and
each runs a real node exporter with its container's arguments, on an address of its node.

All nodes are this machine, so all exporters report the same counters.
"""

import contextlib
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from testkit.control_plane import ControlPlane
from testkit.debian import unpacked
from testkit.plain_client import RefusedError

PULLED = "quay.io/prometheus/node-exporter@sha256:" + "0" * 64
_PACKAGE = "prometheus-node-exporter"


def node_exporter() -> Path:
    """The program: installed, or unpacked from Debian's package into the cache."""
    for name in ("node_exporter", _PACKAGE):
        if path := which(name):
            return Path(path)
    return unpacked(_PACKAGE) / "usr/bin" / _PACKAGE


@contextlib.contextmanager
def addresses(count: int) -> Iterator[list[str]]:
    """Addresses of this machine that an API server forwards to: it refuses the loopback network."""
    taken: list[str] = []
    ip = which("ip") or which("ip", path="/usr/sbin:/sbin")
    if not ip:
        pytest.skip("needs an address beside the loopback network: there is no ip (iproute2)")
    try:
        while len(taken) < count:
            address = f"10.254.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
            added = subprocess.run(
                [ip, "address", "add", f"{address}/32", "dev", "lo"], capture_output=True, check=False
            )
            if not added.returncode:
                taken.append(address)
            elif b"exists" not in added.stderr and b"already assigned" not in added.stderr:  # else another test has it
                pytest.skip(f"needs an address beside the loopback network: {added.stderr.decode().strip()}")
        yield taken
    finally:
        for address in taken:
            subprocess.run([ip, "address", "del", f"{address}/32", "dev", "lo"], check=False)


class NodePods:
    """``with NodePods(plane, namespace, {node: address}, program) as pods``.

    ``image_there``: False: no kubelet can pull the image. ``firewall``: blocks the nodes' own addresses. ``running``:
    node -> process of its exporter.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        nodes: Mapping[str, str],
        program: Path,
        *,
        image_there: bool = True,
        firewall: bool = False,
    ) -> None:
        self.nodes, self.image_there, self.firewall = nodes, image_there, firewall
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.daemon_sets: list[dict[str, Any]] = []
        """DaemonSets in order of creation."""
        self._plane, self._program = plane, program
        self._sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self._core = f"/api/v1/namespaces/{namespace}"
        self._known: dict[str, dict[str, str]] = {}  # uid of a DaemonSet -> node -> pod
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "NodePods":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for node in list(self.running):
            self.end(node)
        if self._failed:
            raise self._failed[0]

    def end(self, node: str) -> None:
        """Ends the node's exporter; its pod stays."""
        process = self.running.pop(node)
        process.kill()
        process.wait()

    def replace(self, node: str) -> None:
        """Deletes the node's pod; a new one follows."""
        with self._lock:
            ((uid, pods),) = self._known.items()
            self.end(node)
            self._delete(pods.pop(node))
            self._start(next(ds for ds in self.daemon_sets if ds["metadata"]["uid"] == uid), node)

    def _run(self) -> None:
        try:
            while not self._over.wait(0.05):
                with self._lock:
                    self._look()
        except BaseException as error:
            self._failed.append(error)

    def _look(self) -> None:
        sets = {ds["metadata"]["uid"]: ds for ds in self._plane.call("GET", self._sets)["items"]}
        for uid in self._known.keys() - sets.keys():
            for node, pod in self._known.pop(uid).items():  # as the garbage collector does
                if node in self.running:
                    self.end(node)
                self._delete(pod)
        for uid in sets.keys() - self._known.keys():
            self._known[uid] = {}
            self.daemon_sets.append(sets[uid])
            affinity = sets[uid]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            wanted = {value for term in terms for field in term["matchFields"] for value in field["values"]}
            for node in sorted(wanted & self.nodes.keys()):
                try:
                    self._start(sets[uid], node)
                except RefusedError as reason:
                    self._event(sets[uid], f"Error creating: {str(reason).partition(': ')[2]}")

    def _start(self, owner: dict[str, Any], node: str) -> None:
        template, meta = owner["spec"]["template"], owner["metadata"]
        name = f"{meta['name']}-{secrets.token_hex(3)}"
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta["name"], "uid": meta["uid"],
                     "controller": True}  # fmt: skip
        metadata = {**template["metadata"], "name": name, "ownerReferences": [reference]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"], "nodeName": node}}
        self._plane.call("POST", f"{self._core}/pods?fieldValidation=Strict", pod)
        self._known[meta["uid"]][node] = name
        (container,) = template["spec"]["containers"]
        if not self.image_there:
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}"'}
            state = {"name": container["name"], "state": {"waiting": waiting}, "ready": False, "restartCount": 0,
                     "image": container["image"], "imageID": ""}  # fmt: skip
            self._status(f"{self._core}/pods/{name}", {"phase": "Pending", "containerStatuses": [state]})
            return
        hidden = self.firewall and template["spec"].get("hostNetwork", False)
        arguments = [argument.replace("$(ADDRESS)", self.nodes[node]) for argument in container["args"]]
        if not hidden:
            self.running[node] = subprocess.Popen([self._program, *arguments], stderr=subprocess.DEVNULL)
            _answers(self.nodes[node], container["ports"][0]["containerPort"], self.running[node])
        address = self.nodes[node]
        state = {"name": container["name"], "state": {"running": {}}, "ready": True, "restartCount": 0,
                 "image": container["image"], "imageID": PULLED}  # fmt: skip
        running = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [state]}
        self._status(f"{self._core}/pods/{name}", running)
        count = len(self._known[meta["uid"]])
        status = {"numberReady": count, "currentNumberScheduled": count, "desiredNumberScheduled": len(self.nodes),
                  "numberMisscheduled": 0, "observedGeneration": meta["generation"]}  # fmt: skip
        self._status(f"{self._sets}/{meta['name']}", status)

    def _delete(self, pod: str) -> None:
        self._plane.call("DELETE", f"{self._core}/pods/{pod}?gracePeriodSeconds=0")

    def _status(self, path: str, status: dict[str, Any]) -> None:
        self._plane.call("PATCH", f"{path}/status", {"status": status}, kind="application/merge-patch+json")

    def _event(self, about: dict[str, Any], message: str) -> None:
        meta = about["metadata"]
        regarding = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": meta["name"],
                     "namespace": meta["namespace"], "uid": meta["uid"]}  # fmt: skip
        self._plane.call("POST", f"{self._core}/events", {
            "metadata": {"name": f"{meta['name']}.{secrets.token_hex(8)}"}, "involvedObject": regarding,
            "reason": "FailedCreate", "type": "Warning", "message": message,
            "source": {"component": "daemonset-controller"},
        })  # fmt: skip


def _answers(address: str, port: int, process: "subprocess.Popen[bytes]") -> None:
    """Waits until the exporter listens."""
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((address, port)):
            return
        time.sleep(0.02)
    raise RuntimeError(f"the node exporter ended with {process.returncode}")
