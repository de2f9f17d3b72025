"""A real kube-apiserver on a real etcd, for tests: started in seconds, thrown away as a whole.

There is no controller-manager, no scheduler and no kubelet: what they would do, the tests do (``testkit/play``).
So nothing is collected, bound or finalised by itself, and a namespace has no default service account. Quotas are
enforced by the real admission plugin once somebody has filled in their status. Webhooks there are none.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fairlane.machines.child import WITH_US
from testkit.authority import Authority
from testkit.crds import crds
from testkit.plain_client import PlainClient, RefusedError

ISSUER = "https://kubernetes.default.svc"
USERS: Mapping[str, Sequence[str]] = {"admin": ("system:masters",), "fairlane": (), "somebody": ()}
"""Whom a new cluster knows, and their groups. Who is in no group may do nothing until a role is bound to the name."""

_ROOT = Path(__file__).parents[1]
_LEEWAY = 60
"""Seconds for which kube-apiserver accepts a token after its end (DefaultLeeway of go-jose, which it uses)."""
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver", "system:anonymous"]}, {"level": "Metadata"}],
}

Server = Literal["etcd", "kube-apiserver"]


def servers() -> Path:
    """The folder in which etcd and kube-apiserver are, once they are built."""
    script = _ROOT / "scripts/cluster-servers.sh"
    return Path(subprocess.check_output(["sh", script, "where"], text=True).strip())


class ControlPlane(PlainClient):
    """An API server of our own: ``start``, ask it as a PlainClient, ``stop``; or ``with ControlPlane() as plane``.

    ``flags`` go to kube-apiserver after ours, so they win. Its processes are killed when the thread that started them
    ends, however it ends. Everything is in ``folder``, logs included, and goes with ``stop``.
    """

    def __init__(self, *flags: str, users: Mapping[str, Sequence[str]] = USERS) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-cluster-"))
        self.authority = Authority(self.folder)
        self._flags = flags
        self._client_port, self._peer_port, self._port = free_ports(3)
        self.processes: dict[Server, subprocess.Popen[bytes]] = {}
        self._custom: list[str] = []
        tokens = {user: f"{random.SystemRandom().getrandbits(128):032x}" for user in users}
        rows = [f'{tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in users.items()]
        (self.folder / "tokens.csv").write_text("".join(rows))
        (self.folder / "audit.json").write_text(json.dumps(_AUDIT))
        self._serving = self.authority.issue("apiserver", "IP:127.0.0.1", "DNS:localhost")
        self._proxy = self.authority.issue("aggregator")
        super().__init__(f"https://127.0.0.1:{self._port}", self.authority.certificate, tokens)

    def __enter__(self) -> "ControlPlane":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts both and returns once the API server is ready; RuntimeError with the end of a log if one ends."""
        try:
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends both and removes everything. They have nothing to save, and no client of theirs is waited for."""
        for name in list(self.processes):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Starts it (again) where it was, and waits until it is ready."""
        self._spawn("kube-apiserver", *self._apiserver_flags(), *self._flags)
        self.wait(lambda: self.answers("/readyz"), "kube-apiserver to be ready")
        self._wait_for_custom_resources()  # ready is what is built in: the others say 429 until they are read again

    def restart_apiserver(self) -> None:
        """Ends it in an orderly way, as an upgrade does, and starts it at the same address.

        Its watch cache begins anew: a watch that goes on from an older version than that gets 410 Gone.
        """
        process = self.processes.pop("kube-apiserver")
        process.terminate()
        process.wait()
        self.start_apiserver()

    def kill_apiserver(self) -> None:
        """As a machine that loses its power: connections break, and until ``start_apiserver`` none is accepted."""
        self.kill("kube-apiserver")

    def kill(self, name: Server) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    @contextlib.contextmanager
    def paused(self, name: Server = "kube-apiserver") -> Iterator[None]:
        """While this lasts the process does nothing: connections stay open, new ones are accepted, nobody answers."""
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            self.wait(lambda: all(_stopped(task) for task in Path(f"/proc/{process.pid}/task").iterdir()), "the stop")
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def throttled(self, user: str, token: str = "") -> Iterator[None]:
        """While this lasts (a minute at most) the server answers each request of this user with 429 and Retry-After.

        API priority and fairness gives the user no seat. It still lets one request through when none is running, so one
        is kept running whose body never comes. ``token`` is needed for a service account; its user name is
        system:serviceaccount:NAMESPACE:NAME. Members of system:masters are exempt.
        """
        schemas = _no_seat_for(user)
        self.apply(schemas)
        with contextlib.ExitStack() as held:

            def full() -> bool:
                try:
                    self.call("GET", "/version", user=user, token=token)
                except RefusedError as refused:
                    return refused.status == 429
                held.enter_context(self.endless(token or self.tokens[user]))
                return False

            self.wait(full, "the throttle")
            yield
        for schema in schemas:
            self.call("DELETE", self.path(schema))

    def start_etcd(self) -> None:
        """Starts it (again) with the data it had. Nothing is flushed to the disk: it outlives a kill, not the host."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._client_port, self._peer_port))
        self._spawn(
            "etcd",
            *("--name=tests", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=tests={peer}"),
        )

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig whose one context is that user's, with a token; KeyError for one that the cluster lacks."""
        return self._kubeconfig(user, {"token": self.tokens[user]})

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 3600, *, file: bool = False) -> Path:
        """A kubeconfig of a service account, created if need be, whose token ends in ``seconds``.

        With ``file`` the token is in a file beside it, with the suffix .token, which may be overwritten by a new one.
        """
        token = self.service_account_token(namespace, name, seconds)
        if not file:
            return self._kubeconfig(f"{namespace}-{name}", {"token": token})
        path = self.folder / f"{namespace}-{name}.token"
        path.write_text(token)
        return self._kubeconfig(path.stem, {"tokenFile": str(path)})

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token of a service account, created if need be, that ends in ``seconds``; below zero: has ended.

        The TokenRequest API has a minimum of ten minutes, so it is signed here, with the API server's key. One that was
        accepted may be so for up to ten seconds more: the server remembers it that long.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with contextlib.suppress(RefusedError):  # there may be one
            self.call("POST", path, {"metadata": {"name": name}})
        uid = self.call("GET", f"{path}/{name}")["metadata"]["uid"]
        now = int(time.time())
        return self.authority.token(
            {
                **{"iss": ISSUER, "aud": [ISSUER], "sub": f"system:serviceaccount:{namespace}:{name}"},
                **{"iat": now - 2 * _LEEWAY, "nbf": now - 2 * _LEEWAY, "exp": now - _LEEWAY + seconds},
                "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            }
        )

    def requests(self, user: str) -> Counter[tuple[str, str]]:
        """How often this user has asked for what, by the server's audit log: (verb, resource or resource/subresource).

        Requests outside resources (discovery, /version) have their path instead. A watch counts from its first answer.
        """
        with (self.folder / "audit.jsonl").open() as lines:
            events = {
                (event := json.loads(line))["auditID"]: event
                for line in lines
                if f'"{user}"' in line and line.endswith("\n")
            }
        return Counter(_request_of(event) for event in events.values() if event["user"]["username"] == user)

    def memory(self) -> dict[Server, int]:
        """The resident memory of each process, in bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        return {
            name: int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * page
            for name, process in self.processes.items()
        }

    def install_crds(self) -> None:
        """Makes the API server know KubeVirt, CDI and volume snapshots, and waits until it serves all of them."""
        wanted = crds()
        self.apply(wanted)
        specs = [crd["spec"] for crd in wanted]
        self._custom = [
            f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}" for spec in specs
        ]
        self._wait_for_custom_resources()

    def refuses(self, path: str, body: object, words: str) -> bool:
        """Whether a POST would be refused with these ``words``; nothing is stored.

        What the server admits is decided by what its caches know: a new quota counts a moment after it was stored.
        """
        try:
            self.call("POST", f"{path}?dryRun=All", body)
        except RefusedError as refused:
            return words in str(refused)
        return False

    def allows(self, user: str, namespace: str, rule: Mapping[str, Sequence[str]]) -> bool:
        """Whether the ``rule`` of a role counts for the user yet: it does a moment after it was stored."""
        group, (resource, _, sub) = rule["apiGroups"][0], rule["resources"][0].partition("/")
        attributes = {"namespace": namespace, "verb": rule["verbs"][0], "group": group, "resource": resource}
        spec = {"user": user, "resourceAttributes": {**attributes, "subresource": sub}}
        review = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(review["status"]["allowed"])

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Returns once ``done``; RuntimeError with the end of a log if a server has ended or it takes four minutes."""
        deadline = time.monotonic() + 240
        while not done():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} has ended. The end of its log:\n{self._log(name)}")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"waited four minutes for {what}. The end of the log:\n{self._log('kube-apiserver')}"
                )
            time.sleep(0.05)

    def _wait_for_custom_resources(self) -> None:
        self.wait(lambda: all(self.answers(path) for path in self._custom), "the custom resources to be served")

    def _kubeconfig(self, name: str, credentials: Mapping[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority": str(self.authority.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": "tests", "user": name}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def _apiserver_flags(self) -> list[str]:
        (certificate, key), (proxy, proxy_key) = self._serving, self._proxy
        accounts = self.authority.account_key
        return [
            f"--etcd-servers=http://127.0.0.1:{self._client_port}",
            *(f"--secure-port={self._port}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"),
            *("--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none"),
            *(f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"),
            "--shutdown-send-retry-after",  # otherwise its end waits a minute for open watches
            *("--authorization-mode=RBAC", f"--token-auth-file={self.folder / 'tokens.csv'}"),
            f"--client-ca-file={self.authority.certificate}",
            *(f"--service-account-issuer={ISSUER}", f"--service-account-key-file={accounts}"),
            f"--service-account-signing-key-file={accounts}",
            "--disable-admission-plugins=ServiceAccount",  # it wants a default account, which nobody makes here
            *(f"--audit-policy-file={self.folder / 'audit.json'}", f"--audit-log-path={self.folder / 'audit.jsonl'}"),
            # The aggregator tells extension servers in these headers who asks, and proves with a certificate who it is.
            f"--requestheader-client-ca-file={self.authority.certificate}",
            *("--requestheader-allowed-names=aggregator", "--requestheader-username-headers=X-Remote-User"),
            *("--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-"),
            *(f"--proxy-client-cert-file={proxy}", f"--proxy-client-key-file={proxy_key}"),
        ]

    def _spawn(self, name: Server, *arguments: str) -> None:
        command = [*WITH_US, str(os.getpid()), str(servers() / name), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _log(self, name: str) -> str:
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-15:])


def _stopped(task: Path) -> bool:
    """Whether a thread has stopped: proc(5), the field behind the name, which may hold anything."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:  # it has just ended
        return True


def _no_seat_for(user: str) -> list[dict[str, Any]]:
    """A priority level in which nothing may run or wait, and the schema that puts all requests of a user there."""
    base = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": "throttled"}}
    nothing = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [resources],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": base["metadata"], "matchingPrecedence": 2, "rules": [rule]}
    return [
        {**base, "kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": nothing}},
        {**base, "kind": "FlowSchema", "spec": spec},
    ]


def _request_of(event: Mapping[str, Any]) -> tuple[str, str]:
    of = event.get("objectRef", {})
    if "resource" not in of:
        return event["verb"], event["requestURI"].partition("?")[0]
    return event["verb"], "/".join(filter(None, (of["resource"], of.get("subresource"))))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback on which nobody listens, each another.

    They are below those that the kernel gives to outgoing connections: a server that comes back finds its own free.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            if port in ports:
                continue
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    return ports
