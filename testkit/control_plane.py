"""A real kube-apiserver on a real etcd for tests: starts in seconds, discarded as a whole.

There is no controller-manager, scheduler or kubelet: tests play them (``testkit/play``). Nothing is collected, bound or
finalised by itself, and a namespace has no default service account. The real admission plugin enforces quotas once
their status is filled in. There are no webhooks.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fairlane.machines.child import WITH_US
from fairlane.machines.ports import number, reserve_port
from testkit.authority import Authority
from testkit.crds import crds
from testkit.plain_client import PlainClient, RefusedError

ISSUER = "https://kubernetes.default.svc"
USERS: Mapping[str, Sequence[str]] = {"admin": ("system:masters",), "fairlane": (), "somebody": ()}
"""Users of a new cluster and their groups. A user without a group has no permission until a role is bound to the
name."""

_ROOT = Path(__file__).parents[1]
_LEEWAY = 60
"""Seconds for which kube-apiserver accepts an expired token (DefaultLeeway of go-jose)."""
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver", "system:anonymous"]}, {"level": "Metadata"}],
}

Server = Literal["etcd", "kube-apiserver"]


def servers() -> Path:
    """Folder with etcd and kube-apiserver, once built."""
    script = _ROOT / "scripts/cluster-servers.sh"
    return Path(subprocess.check_output(["sh", script, "where"], text=True).strip())


class ControlPlane(PlainClient):
    """An API server for tests, used as a PlainClient: ``start`` and ``stop``, or ``with ControlPlane() as plane``.

    ``flags`` are appended to kube-apiserver's, so they win. Its processes are killed when the thread that started them
    ends in any way. ``stop`` removes ``folder``, which holds everything, logs included.
    """

    def __init__(self, *flags: str, users: Mapping[str, Sequence[str]] = USERS) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fairlane-cluster-"))
        self.authority = Authority(self.folder)
        self._flags = flags
        self._reserved = [reserve_port() for _ in range(3)]
        self._client_port, self._peer_port, self._port = map(number, self._reserved)
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
        """Starts both and returns once the API server is ready; raises RuntimeError with the end of a log if one
        ends."""
        try:
            self.start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends both and removes everything, without waiting for clients: there is nothing to save."""
        for name in list(self.processes):
            self.kill(name)
        for reserved in self._reserved:
            reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dead(self) -> str:
        """Which server is gone, with the end of its log."""
        names: tuple[Server, ...] = ("etcd", "kube-apiserver")
        gone = [name for name in names if name not in self.processes or self.processes[name].poll() is not None]
        return "; ".join(f"{name} has ended. The end of its log:\n{self._log(name)}" for name in gone)

    def start_apiserver(self) -> None:
        """Starts the API server (again) at the same address, and waits until it is ready."""
        self._spawn("kube-apiserver", *self._apiserver_flags(), *self._flags)
        self.wait(lambda: self.answers("/readyz"), "kube-apiserver to be ready")
        self._wait_for_custom_resources()  # ready covers built-in kinds: others answer 429 until they are loaded

    def restart_apiserver(self) -> None:
        """Restarts the API server gracefully, as an upgrade does, at the same address.

        Its watch cache is new: a watch that continues from an older version gets 410 Gone.
        """
        process = self.processes.pop("kube-apiserver")
        process.terminate()
        process.wait()
        self.start_apiserver()

    def kill_apiserver(self) -> None:
        """Kills the API server like a power failure: connections break, and none is accepted until
        ``start_apiserver``."""
        self.kill("kube-apiserver")

    def kill(self, name: Server) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    @contextlib.contextmanager
    def paused(self, name: Server = "kube-apiserver") -> Iterator[None]:
        """Stops the process for the duration: connections stay open, new ones are accepted, requests hang."""
        process = self.processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            self.wait(lambda: all(_stopped(task) for task in Path(f"/proc/{process.pid}/task").iterdir()), "the stop")
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def throttled(self, user: str, token: str = "") -> Iterator[None]:
        """Answers each request of this user with 429 and Retry-After for the duration, a minute at most.

        API priority and fairness gives the user no seat. It still admits one request when none is running, so a request
        without end is kept running. ``token`` is required for a service account, whose user name is
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
        """Starts etcd (again) with its data, which survive a kill of the process, not a crash of the host: nothing is
        flushed to disk."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._client_port, self._peer_port))
        self._spawn(
            "etcd",
            *("--name=tests", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=tests={peer}"),
        )

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig with one context of that user, with a token; KeyError for an unknown user."""
        return self._kubeconfig(user, {"token": self.tokens[user]})

    def service_account_kubeconfig(self, namespace: str, name: str, seconds: int = 3600, *, file: bool = False) -> Path:
        """A kubeconfig of a service account, created if missing, whose token expires in ``seconds``.

        With ``file`` the token is in a file beside it, with the suffix .token, which a new one may overwrite.
        """
        token = self.service_account_token(namespace, name, seconds)
        if not file:
            return self._kubeconfig(f"{namespace}-{name}", {"token": token})
        path = self.folder / f"{namespace}-{name}.token"
        path.write_text(token)
        return self._kubeconfig(path.stem, {"tokenFile": str(path)})

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token of a service account, created if missing, that expires in ``seconds``; below zero: expired.

        Signed here with the API server's key, because the TokenRequest API has a minimum of ten minutes. The server may
        accept a token for ten seconds beyond its end once it was accepted: its cache lasts that long.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        with contextlib.suppress(RefusedError):  # it may exist
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
        """Number of this user's requests in the server's audit log, by (verb, resource or resource/subresource).

        Requests outside resources (discovery, /version) are listed by path. A watch counts from its first answer.
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
        """Installs the definitions of KubeVirt, CDI and volume snapshots, and waits until the server serves them."""
        wanted = crds()
        self.apply(wanted)
        specs = [crd["spec"] for crd in wanted]
        self._custom = [
            f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}" for spec in specs
        ]
        self._wait_for_custom_resources()

    def refuses(self, path: str, body: object, words: str) -> bool:
        """Whether the server would refuse a POST with a message containing ``words``; stores nothing.

        Admission uses the server's caches: a new quota counts a moment after it was stored.
        """
        try:
            self.call("POST", f"{path}?dryRun=All", body)
        except RefusedError as refused:
            return words in str(refused)
        return False

    def allows(self, user: str, namespace: str, rule: Mapping[str, Sequence[str]]) -> bool:
        """Whether the ``rule`` of a role is in effect for the user, which takes a moment after storing it."""
        group, (resource, _, sub) = rule["apiGroups"][0], rule["resources"][0].partition("/")
        attributes = {"namespace": namespace, "verb": rule["verbs"][0], "group": group, "resource": resource}
        spec = {"user": user, "resourceAttributes": {**attributes, "subresource": sub}}
        review = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(review["status"]["allowed"])

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Waits until ``done``; raises RuntimeError with the end of a log if a server ends or after four minutes."""
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
            "--disable-admission-plugins=ServiceAccount",  # it requires a default account, which nothing creates here
            *(f"--audit-policy-file={self.folder / 'audit.json'}", f"--audit-log-path={self.folder / 'audit.jsonl'}"),
            # The aggregator sends the user in these headers to extension servers, and authenticates with a certificate.
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
    """Whether a thread is stopped: the field after the name in proc(5); the name may contain anything."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:  # it has just ended
        return True


def _no_seat_for(user: str) -> list[dict[str, Any]]:
    """A priority level without capacity, and the schema that assigns a user's requests to it."""
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
