"""Who one is to a real API server: kubeconfigs, plugins, token files, pods, proxies, and what expires."""

import asyncio
import base64
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlane.errors import FairlaneError
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.access import Access
from fairlane.platforms.kubevirt.api import Api, ApiError
from fairlane.platforms.kubevirt.api_errors import Answer, Operation, plain
from fairlane.platforms.kubevirt.transport import Transport
from testkit.control_plane import ControlPlane
from tests.platforms.kubevirt.conftest import Connected
from tests.words import kind

PLUGIN = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
calls = folder / "calls"
calls.write_text(str(int(calls.read_text()) + 1 if calls.exists() else 1))
token = (folder / "token").read_text()
if not token:
    sys.exit("session-has-ended\\n\\x1b[31mlog in")
status = {"token": token}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


def changed(config: Path, to: Path, **changes: Any) -> Path:
    """A copy of a kubeconfig: ``user`` in place of its user, ``cluster`` merged into its cluster (None: left out)."""
    found = yaml.safe_load(config.read_text())
    if "user" in changes:
        found["users"][0]["user"] = changes["user"]
    cluster = {**found["clusters"][0]["cluster"], **changes.get("cluster", {})}
    found["clusters"][0]["cluster"] = {key: value for key, value in cluster.items() if value is not None}
    to.write_text(yaml.safe_dump(found))
    return to


def token_of(config: Path) -> str:
    return str(yaml.safe_load(config.read_text())["users"][0]["user"]["token"])


async def who(api: Api) -> str:
    return str((await api.create(kinds.WHO_AM_I, {}))["status"]["userInfo"]["username"])


# What expires


@pytest.mark.cluster
def test_a_kubeconfig_that_was_written_anew_is_read_again(
    control_plane: ControlPlane, tmp_path: Path, connected: Connected
) -> None:
    config = changed(control_plane.kubeconfig(), tmp_path / "config", user={"token": "long-gone"})

    async def work(api: Api) -> None:
        with pytest.raises(ApiError, match="Unauthorized", check=kind("credentials")) as error:
            await api.call("GET", "/version")
        assert error.value.status == 401
        assert error.value.hint
        changed(control_plane.kubeconfig(), config)
        names = await asyncio.gather(*(who(api) for _ in range(20)))
        assert names == ["admin"] * 20

    connected(config, work)


@pytest.mark.cluster
def test_a_plugin_is_asked_again_once_for_all(
    control_plane: ControlPlane, tmp_path: Path, connected: Connected
) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "token").write_text("long-gone")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "interactiveMode": "Never",
        "args": [str(tmp_path / "plugin.py"), str(tmp_path)],
    }  # fmt: skip
    config = changed(control_plane.kubeconfig(), tmp_path / "config", user={"exec": plugin})
    token = token_of(control_plane.kubeconfig())

    async def work(api: Api) -> None:
        assert (tmp_path / "calls").read_text() == "1"
        (tmp_path / "token").write_text(token)
        assert await asyncio.gather(*(who(api) for _ in range(30))) == ["admin"] * 30
        assert (tmp_path / "calls").read_text() == "2"
        assert await who(api) == "admin"
        assert (tmp_path / "calls").read_text() == "2"

    connected(config, work)
    (tmp_path / "token").write_text("")
    with pytest.raises(FairlaneError, match="session-has-ended", check=kind("credentials", where=str(config))) as error:
        connected(config, work)
    assert "\x1b" not in error.value.message
    assert "kubectl version" in error.value.hint


@pytest.mark.cluster
def test_a_pod_uses_its_service_account_as_it_is_rotated(control_plane: ControlPlane, tmp_path: Path) -> None:
    host, port = control_plane.url.removeprefix("https://").split(":")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBECONFIG": ""}
    (tmp_path / "ca.crt").write_bytes(control_plane.authority.certificate.read_bytes())
    (tmp_path / "token").write_text(control_plane.service_account_token("default", "runner", -100))

    async def work(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Path, "home", lambda: tmp_path)
        for name, value in environ.items():
            patch.setenv(name, value)
        access = await Access.find(environ=environ, service_account=tmp_path)
        async with Api(Transport(access, qps=50, burst=50, patience=10, notify=None)) as api:
            assert api.in_cluster
            assert api.server == control_plane.url
            with pytest.raises(ApiError, match="Unauthorized"):
                await who(api)
            (tmp_path / "token").write_text(control_plane.service_account_token("default", "runner") + "\n")
            assert await who(api) == "system:serviceaccount:default:runner"

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(work(patch))


@pytest.mark.cluster
def test_no_secret_is_told(control_plane: ControlPlane, tmp_path: Path, connected: Connected) -> None:
    secret = "s3cret-t0ken-of-nobody"  # noqa: S105
    config = changed(control_plane.kubeconfig(), tmp_path / "config", user={"token": secret})
    told: list[str] = []

    async def work(api: Api) -> None:
        with pytest.raises(ApiError) as error:
            await api.call("GET", "/version")
        said = [
            error.value.message,
            error.value.hint,
            repr(error.value),
            repr(api.counts),
            repr(api),
            *told,
            api.server,
        ]
        assert secret not in " ".join(said)

    connected(config, work, notify=told.append)


# The way there


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_what_is_wrong_with_a_kubeconfig_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problem(text: str | None, context: str = "") -> FairlaneError:
        config = home / "config"
        config.unlink(missing_ok=True)
        if text is not None:
            config.write_text(text)
        monkeypatch.setenv("KUBECONFIG", str(config))
        with pytest.raises(FairlaneError) as error:
            asyncio.run(Api.connect(context))
        assert error.value.where in {"", str(config)}
        return error.value

    cluster = {"name": "c", "cluster": {"server": "https://localhost:1"}}
    good = {
        "contexts": [{"name": "prod\x1b[0m", "context": {"cluster": "c", "user": "u"}},
                     {"name": "staging", "context": {"cluster": "none", "user": "u"}}],
        "clusters": [cluster], "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    assert problem(None).kind == "kubeconfig-missing"
    assert problem(json.dumps(good)).kind == "context-missing"
    unknown = problem(json.dumps(good), "stagin")
    assert (unknown.kind, "'stagin'" in unknown.message) == ("context-unknown", True)
    assert re.findall(r"staging|prod", unknown.hint) == ["staging"]
    assert "\x1b" not in problem(json.dumps(good), "zzz").hint
    nowhere = problem(json.dumps(good), "staging")
    assert (nowhere.kind, "none" in nowhere.message) == ("kubeconfig-invalid", True)
    for text in ("", "[]", "{{", "a: b", "contexts: 5", "contexts: [5]\ncurrent-context: 5"):
        assert problem(text).kind in {"kubeconfig-invalid", "context-missing"}
    socks = {**good, "current-context": "prod\x1b[0m"}
    socks["clusters"] = [{"name": "c", "cluster": {"server": "https://localhost:1", "proxy-url": "socks5://x:1"}}]
    proxied = problem(json.dumps(socks))
    assert (proxied.kind, "socks5" in proxied.message) == ("proxy", True)


def test_where_there_is_no_cluster_it_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(FairlaneError, check=kind("kubeconfig-missing", where=str(home / ".kube" / "config"))) as error:
        asyncio.run(Api.connect())
    assert "$KUBECONFIG" in error.value.hint


class Middle:
    """A proxy of the HTTP kind: it counts what is asked of it (CONNECT host:port) and passes it on."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []

    @asynccontextmanager
    async def works(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.split("\r\n")[0])
        host, port = head.split()[1].split(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copied(reader, back), _copied(there, writer))


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


WEBSOCKET = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/x/portforward/22/tcp"


@pytest.mark.cluster
@pytest.mark.parametrize("named", ["kubeconfig", "environment", "bypassed"])
def test_a_proxy_is_used_for_requests_watches_and_websockets(
    named: str, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    async def work() -> list[str]:
        middle = Middle()
        async with middle.works():
            cluster = {"proxy-url": middle.url} if named == "kubeconfig" else {}
            config = changed(control_plane.kubeconfig(), tmp_path / "config", cluster=cluster)
            monkeypatch.setenv("KUBECONFIG", str(config))
            if named != "kubeconfig":
                monkeypatch.setenv("HTTPS_PROXY", middle.url)
            if named == "bypassed":
                monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1")
            async with await Api.connect() as api:
                assert await who(api) == "admin"
                async with api.watch(kinds.CONFIG_MAP, "default", {}):
                    pass
                with pytest.raises(ApiError) as error:
                    await api.websocket(WEBSOCKET, ("plain.kubevirt.io",))
                assert error.value.status in {404, 503}  # the server's own words: nobody serves it here
            return middle.asked

    asked = asyncio.run(work())
    host = control_plane.url.removeprefix("https://")
    assert asked == ([] if named == "bypassed" else [f"CONNECT {host} HTTP/1.1"] * 3)


@pytest.mark.cluster
def test_a_server_that_is_another_is_refused_at_once(
    control_plane: ControlPlane, tmp_path: Path, connected: Connected
) -> None:
    original = control_plane.kubeconfig()
    without = changed(original, tmp_path / "without", cluster={"certificate-authority": None})
    insecure = changed(without, tmp_path / "insecure", cluster={"insecure-skip-tls-verify": True})
    named = changed(original, tmp_path / "named", cluster={"tls-server-name": "example.org"})

    async def refused(api: Api) -> None:
        for asking in (api.call("GET", "/version"), api.websocket(WEBSOCKET, ("plain.kubevirt.io",))):
            with pytest.raises(ApiError) as error:
                await asking
            assert "certificate-authority-data" in error.value.hint
        assert not api.retried

    async def accepted(api: Api) -> None:
        assert await who(api) == "admin"
        with pytest.raises(ApiError) as error:
            await api.websocket(WEBSOCKET, ("plain.kubevirt.io",))
        assert error.value.status in {404, 503}

    connected(without, refused)
    connected(named, refused)
    connected(insecure, accepted)


@pytest.mark.cluster
def test_a_client_certificate_is_proof_and_its_key_is_left_nowhere(
    control_plane: ControlPlane, tmp_path: Path, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certificate, key = control_plane.authority.issue("an-engineer")
    user = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    config = changed(control_plane.kubeconfig(), tmp_path / "config", user=user)

    async def work(api: Api) -> None:
        assert [path.name for path in tmp_path.iterdir()] == ["config"]
        assert await who(api) == "an-engineer"

    connected(config, work)


@pytest.mark.cluster
def test_an_impersonated_user_is_who_one_is(control_plane: ControlPlane, tmp_path: Path, connected: Connected) -> None:
    user = {"token": token_of(control_plane.kubeconfig()), "as": "jane", "as-groups": ["dev", "ops"]}
    config = changed(control_plane.kubeconfig(), tmp_path / "config", user=user)

    async def work(api: Api) -> None:
        info = (await api.create(kinds.WHO_AM_I, {}))["status"]["userInfo"]
        assert info["username"] == "jane"
        assert set(info["groups"]) >= {"dev", "ops"}

    connected(config, work)


@pytest.mark.cluster
def test_an_entry_of_netrc_does_not_get_in_the_way(
    control_plane: ControlPlane, home: Path, connected: Connected
) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    assert connected(control_plane.kubeconfig(), who) == "admin"


# What a server says may be anything


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff\xfe", b"[]", b"null", b"<html>\x1b[31m" + b"x" * 1_000_000, b'{"kind": "Status"}',
        b'{"kind": "Status", "message": 5, "reason": [], "code": "x", "details": {"causes": [5, {"field": []}]}}',
        json.dumps({"kind": "Status", "message": "\u202eevil\n\x07" * 9999, "details": {"causes": [
            {"field": f"spec.f{i}", "message": "y" * 9999} for i in range(999)]}}).encode(),
    ],
)  # fmt: skip
def test_answers_are_read_and_told_in_one_line_whatever_they_are(body: bytes) -> None:
    for status in (400, 401, 403, 404, 409, 410, 422, 429, 500, 503):
        error = Answer.read(status, body, {"Retry-After": "\u0661"}).error(
            Operation("create", "Thing\x1b", "a\nb", "c")
        )
        assert error.status == status
        assert error.message.isprintable()
        assert error.hint.isprintable()
        assert len(error.message) <= 1600
        assert error.message.startswith("create Thing c/a b: ")


def test_webhooks_and_quotas_are_known_by_their_words() -> None:
    def told(message: str, status: int = 403) -> tuple[str, str]:
        error = Answer.of({"message": message, "code": status}).error(Operation("create", "VirtualMachine"))
        return error.kind, error.hint

    denied = 'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: spec.x is not allowed'
    kind, hint = told(denied)
    assert (kind, "virtualmachine-validator.kubevirt.io" in hint) == ("policy", True)
    away = 'Internal error occurred: failed calling webhook "datavolume-validate.cdi.kubevirt.io": no endpoints'
    kind, hint = told(away, 500)
    assert (kind, "datavolume-validate.cdi.kubevirt.io" in hint) == ("webhook-down", True)
    full = 'vms "a" is forbidden: exceeded quota: team, requested: requests.storage=40Gi, used: requests.storage=1Ti, x'
    kind, hint = told(full)
    assert (kind, re.findall(r"team|[\w.]+=\w+", hint)) == ("quota-full", ["team", "requests.storage=40Gi"])


def test_what_is_too_long_loses_its_middle() -> None:
    assert plain("a" * 100 + "b" * 100, 50) == "a" * 33 + " ... " + "b" * 12
    assert plain("a\tb\x00 c", 50) == "a b c"
