"""The API server of the cluster tests is a real one: it keeps, validates, authorises and forwards as in production."""

import base64
import contextlib
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.control_plane import ControlPlane
from testkit.crds import RESOURCES, crds
from testkit.plain_client import RefusedError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cluster

MACHINE = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {"name": "machine"},
    "spec": {
        "runStrategy": "Always",
        "dataVolumeTemplates": [
            {
                "metadata": {"name": "disk", "labels": {"fairlane.io/run": "1"}},
                "spec": {
                    "source": {"blank": {}},
                    "storage": {"storageClassName": "fast", "resources": {"requests": {"storage": "8Gi"}}},
                },
            }
        ],
        "template": {
            "metadata": {"labels": {"kubevirt.io/domain": "machine"}},
            "spec": {
                "domain": {
                    "cpu": {"cores": 2},
                    "ioThreadsPolicy": "supplementalPool",
                    "ioThreads": {"supplementalPoolThreadCount": 4},
                    "devices": {
                        "blockMultiQueue": True,
                        "disks": [{"name": "data", "serial": "fl-1", "disk": {"bus": "virtio"}}],
                        "rng": {},
                    },
                    "memory": {"guest": "1Gi"},
                },
                "readinessProbe": {"tcpSocket": {"port": 22}},
                "volumes": [{"name": "data", "dataVolume": {"name": "disk"}}],
            },
        },
    },
}


def create(plane: ControlPlane, namespace: str, body: Any, plural: str = "virtualmachines") -> Any:
    path = f"/apis/kubevirt.io/v1/namespaces/{namespace}/{plural}?fieldValidation=Strict"
    return plane.call("POST", path, body)


def changed(path: str, value: object) -> Any:
    """The machine with one field of its template's domain set."""
    machine = json.loads(json.dumps(MACHINE))
    *parents, last = path.split(".")
    place = machine["spec"]["template"]["spec"]["domain"]
    for part in parents:
        place = place[part]
    place[last] = value
    return machine


def test_a_good_machine_is_stored_as_it_was_sent(control_plane: ControlPlane, namespace: str) -> None:
    assert create(control_plane, namespace, MACHINE)["spec"] == MACHINE["spec"]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("devices.blockMultiQueue", "yes", "^422 Invalid: .*blockMultiQueue in body must be of type boolean"),
        ("cpu.cores", "two", "^422 Invalid: .*cores in body must be of type integer"),
        ("memory.guest", "much", "^422 Invalid: .*guest in body should match"),
        ("devices.disks", {}, "^422 Invalid: .*disks in body must be of type array"),
        ("ioThreadPolicy", "auto", '^400 BadRequest: .*unknown field "spec.template.spec.domain.ioThreadPolicy"'),
        ("devices.rng.source", "/dev/random", "^400 BadRequest: .*unknown field"),
    ],
)
def test_a_bad_machine_is_refused(
    control_plane: ControlPlane, namespace: str, path: str, value: object, says: str
) -> None:
    with pytest.raises(RefusedError, match=says):
        create(control_plane, namespace, changed(path, value))


@pytest.mark.parametrize("memory", ["1Gi", 1073741824, "1.5G"])
def test_a_quantity_is_a_number_or_text(control_plane: ControlPlane, namespace: str, memory: object) -> None:
    assert create(control_plane, namespace, changed("memory.guest", memory))


def test_status_is_written_on_its_own(control_plane: ControlPlane, namespace: str) -> None:
    body = {**MACHINE, "kind": "VirtualMachineInstance", "spec": MACHINE["spec"]["template"]["spec"]}  # type: ignore[index]
    made = create(control_plane, namespace, {**body, "status": {"phase": "Running"}}, "virtualmachineinstances")
    assert "status" not in made
    conditions = [{"type": "Ready", "status": "True", "lastProbeTime": None}]
    made["status"] = {"phase": "Running", "conditions": conditions}
    stored = control_plane.call("PUT", control_plane.path(made) + "/status?fieldValidation=Strict", made)
    assert stored["status"]["phase"] == "Running"


def test_every_resource_is_served_and_accepted_as_structural(control_plane: ControlPlane) -> None:
    definitions = control_plane.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    assert len(definitions) == len(RESOURCES) == len(crds())
    for definition in definitions:
        conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
        assert conditions.get("NonStructuralSchema", "False") == "False", definition["metadata"]["name"]
        assert conditions["Established"] == "True"


def test_snapshots_and_profiles_are_as_their_projects_have_them(control_plane: ControlPlane, namespace: str) -> None:
    snapshot = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": "golden", "namespace": namespace},
        "spec": {"volumeSnapshotClassName": "fast", "source": {"persistentVolumeClaimName": "disk"}},
    }
    profile = {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "StorageProfile",
        "metadata": {"name": namespace},
        "spec": {"cloneStrategy": "csi-clone", "claimPropertySets": [{"accessModes": ["ReadWriteMany"]}]},
    }
    assert [made["spec"] for made in control_plane.apply([snapshot, profile])] == [snapshot["spec"], profile["spec"]]
    profile["spec"] = {"cloneStrategy": "the fast one"}
    with pytest.raises(RefusedError, match="Unsupported value"):
        control_plane.apply([profile])


def test_a_restart_keeps_address_and_data(control_plane: ControlPlane, namespace: str) -> None:
    made = create(control_plane, namespace, MACHINE)
    address, path = control_plane.url, control_plane.path(made)
    control_plane.restart_apiserver()
    assert (control_plane.url, control_plane.call("GET", path)) == (address, made)
    control_plane.kill_apiserver()
    with pytest.raises(OSError, match="refused"):
        control_plane.call("GET", "/readyz")
    control_plane.start_apiserver()
    assert control_plane.call("GET", path) == made


def test_an_old_watch_is_gone_after_a_restart(control_plane: ControlPlane, namespace: str) -> None:
    old = create(control_plane, namespace, MACHINE)["metadata"]["resourceVersion"]
    for number in range(3):
        create(control_plane, namespace, {**MACHINE, "metadata": {"name": f"machine-{number}"}})
    machines = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"
    names = [event["object"]["metadata"]["name"] for event in control_plane.watch(machines, old, 3)]
    assert names == ["machine-0", "machine-1", "machine-2"]
    control_plane.restart_apiserver()
    told: list[Any] = []

    def asked() -> bool:
        with contextlib.suppress(RefusedError):  # 429: the watch cache is being filled
            told.extend(control_plane.watch(machines, old, 2))
        return bool(told)

    control_plane.wait(asked, "the machines' watch cache")
    (event,) = told
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_an_etcd_that_was_killed_has_lost_nothing(control_plane: ControlPlane, namespace: str) -> None:
    made = create(control_plane, namespace, MACHINE)
    control_plane.kill("etcd")
    control_plane.start_etcd()
    control_plane.wait(lambda: control_plane.answers("/readyz"), "etcd to be back")
    assert control_plane.call("GET", control_plane.path(made)) == made


def test_who_has_no_role_may_nothing_and_a_role_is_enough(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"
    with pytest.raises(RefusedError, match=r'^403 .*User "somebody" cannot list resource "virtualmachines"'):
        control_plane.call("GET", path, user="somebody")
    group, meta = "rbac.authorization.k8s.io", {"name": "reader", "namespace": namespace}
    may = {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachines"], "verbs": ["list"]}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": [may]}
    binding = {
        **{"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": meta},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "somebody"}],
    }
    control_plane.apply([role, binding])
    control_plane.wait(lambda: control_plane.answers(path, user="somebody"), "the role to count")
    with pytest.raises(RefusedError, match=r"^403 .*cannot delete"):
        control_plane.call("DELETE", path + "/machine", user="somebody")


def test_requests_are_counted_from_the_servers_own_log(control_plane: ControlPlane, namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:counted"
    token = control_plane.service_account_token(namespace, "counted")
    for _ in range(3):
        with pytest.raises(RefusedError):
            control_plane.call("GET", f"/api/v1/namespaces/{namespace}/pods", token=token)
    control_plane.call("GET", "/version", token=token)
    wanted = {("list", "pods"): 3, ("get", "/version"): 1}
    control_plane.wait(lambda: control_plane.requests(account) == wanted, "the audit log")


def test_a_token_ends(control_plane: ControlPlane, namespace: str) -> None:
    for seconds in (3, 10, 30, 90):  # a busy machine may take longer than that to ask at all
        token = control_plane.service_account_token(namespace, "short", seconds)
        with contextlib.suppress(RefusedError):
            assert control_plane.call("GET", "/version", token=token)["minor"]
            break
    else:
        pytest.fail("none was ever accepted")

    def over() -> bool:
        try:
            control_plane.call("GET", "/version", token=token)
        except RefusedError as refused:
            return refused.status == 401
        return False

    control_plane.wait(over, "the token to end")
    with pytest.raises(RefusedError, match=r"^401 Unauthorized"):
        control_plane.call("GET", "/version", token=control_plane.service_account_token(namespace, "short", -1))


def test_quota_is_enforced_by_the_real_plugin(control_plane: ControlPlane, namespace: str) -> None:
    hard = {"persistentvolumeclaims": "2", "requests.storage": "10Gi"}
    meta = {"name": "quota", "namespace": namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}
    (made,) = control_plane.apply([quota])
    made["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}  # as the quota controller would
    control_plane.call("PUT", control_plane.path(made) + "/status", made)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    def claim(name: str, size: str) -> Any:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    control_plane.wait(lambda: control_plane.refuses(claims, claim("much", "1Ti"), "exceeded quota"), "the quota")
    control_plane.call("POST", claims, claim("first", "6Gi"))
    with pytest.raises(RefusedError, match=r"^403 Forbidden: .*exceeded quota: quota, requested: requests.storage=6Gi"):
        control_plane.call("POST", claims, claim("second", "6Gi"))
    assert control_plane.call("GET", control_plane.path(quota))["status"]["used"]["requests.storage"] == "6Gi"


def test_a_user_can_be_throttled(control_plane: ControlPlane) -> None:
    with control_plane.throttled("somebody"):
        for _ in range(20):
            with pytest.raises(RefusedError) as refused:
                control_plane.call("GET", "/version", user="somebody")
            assert refused.value.status == 429
            assert int(refused.value.retry_after or 0) >= 1  # more where the server counts many in the second before
        assert control_plane.answers("/version", user="fairlane")
    control_plane.wait(lambda: control_plane.answers("/version", user="somebody"), "the throttle to end")


def test_a_paused_server_keeps_its_connections_and_says_nothing(control_plane: ControlPlane) -> None:
    address = urllib.parse.urlsplit(control_plane.url)
    with control_plane.paused(), socket.create_connection((address.hostname, address.port), timeout=60) as accepted:
        accepted.sendall(b"hello")
        accepted.settimeout(0.2)
        with pytest.raises(TimeoutError):
            accepted.recv(1)
    assert control_plane.answers("/version")


class Extension(http.server.BaseHTTPRequestHandler):
    """An extension API server that answers with what it was asked, and by whom."""

    def do_GET(self) -> None:  # http.server's name
        asked = {"kind": "APIResourceList", "groupVersion": "echo.fairlane.io/v1", "resources": []}
        if self.path.count("/") > 3:
            asked = {"path": self.path, "user": self.headers["X-Remote-User"]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(asked).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def extension(control_plane: ControlPlane, namespace: str) -> Iterator[int]:
    """The port of an Extension that talks to the aggregator alone."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(control_plane.authority.certificate))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(*control_plane.authority.issue("echo", f"DNS:echo.{namespace}.svc"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Extension) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_an_extension_is_reached_through_the_aggregator(
    control_plane: ControlPlane, namespace: str, extension: int
) -> None:
    service = {
        **{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo", "namespace": namespace}},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": extension}]},
    }
    route = {
        **{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"},
        "metadata": {"name": "v1.echo.fairlane.io"},
        "spec": {
            **{"group": "echo.fairlane.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15},
            "service": {"name": "echo", "namespace": namespace, "port": extension},
            "caBundle": base64.b64encode(control_plane.authority.certificate.read_bytes()).decode(),
        },
    }
    control_plane.apply([service, route])
    path = f"/apis/echo.fairlane.io/v1/namespaces/{namespace}/virtualmachineinstances/vm/portforward/22"
    control_plane.wait(lambda: control_plane.answers(path), "the route to the extension")
    assert control_plane.call("GET", path) == {"path": path, "user": "admin"}
    control_plane.call("DELETE", control_plane.path(route))


@pytest.mark.slow  # a server of its own
def test_a_server_that_does_not_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(RuntimeError, match=r"kube-apiserver[^\0]*--no-such-flag"):
        ControlPlane("--no-such-flag").start()


@pytest.mark.slow  # a server of its own
def test_nothing_is_left_of_a_cluster_that_was_stopped() -> None:
    with ControlPlane() as plane:
        pids = [process.pid for process in plane.processes.values()]
        assert min(plane.memory().values()) > 2**20
    assert not plane.folder.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


KILLED = """
import sys, time
from testkit.control_plane import ControlPlane
plane = ControlPlane()
plane.start()
print(plane.folder, *(process.pid for process in plane.processes.values()), flush=True)
time.sleep(600)
"""


def running(pid: str) -> bool:
    """Whether it runs: one that has ended may stay as a zombie where process 1 collects nobody."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow  # a server of its own
def test_servers_end_with_whoever_started_them() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        folder, *pids = owner.stdout.readline().split()
        assert [running(pid) for pid in pids] == [True, True]
        owner.kill()
    while any(running(pid) for pid in pids):  # the test's own timeout ends it
        time.sleep(0.05)
    shutil.rmtree(folder)
