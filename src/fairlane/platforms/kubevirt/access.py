"""Credentials and connections to a cluster: kubeconfig with its plugins and token files, or a pod's service account.

The official client reads both. This module adds: it reads credentials again after the server refuses them, reports the
error of a failed plugin, and looks up the environment's proxy once instead of for every request.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from fairlane import __version__
from fairlane.errors import FairlaneError, RunFailed, nearest
from fairlane.platforms.kubevirt.api_errors import candid, plain

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.client.rest import RESTClientObject

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod's token and the cluster's CA."""
_PLUGIN_SECONDS = 60
_IMPERSONATE = {"as": "Impersonate-User", "as-uid": "Impersonate-Uid"}
_READ_BUFFER = 1 << 21
_CHECKS, _PAUSE = 25, 0.01
CONNECTIONS = 128
"""Connections for requests; further requests wait."""


@dataclass(frozen=True)
class _Loaded:
    """Credentials read at one time, and the clients made with them."""

    configuration: "Configuration"
    headers: tuple[tuple[str, str], ...]
    requests: "RESTClientObject"
    streams: "RESTClientObject"


@dataclass
class Access:
    """Access to one cluster. ``generation``: how often the credentials were read again."""

    context: str
    kubeconfig: str
    """Paths as in $KUBECONFIG; empty: in a pod of the cluster."""
    service_account: Path
    generation: int = 0
    _current: _Loaded | None = None
    _retired: list[_Loaded] = field(default_factory=list)
    """Earlier credentials, whose clients may still serve watches and tunnels."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _sockets: WeakSet[socket.socket] = field(default_factory=WeakSet)
    """Sockets of all connections made so far."""

    @classmethod
    async def find(
        cls, context: str = "", environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
    ) -> "Access":
        """Finds credentials in kubectl's order: $KUBECONFIG, ~/.kube/config, the pod's service account. Raises
        FairlaneError."""
        paths = environ.get("KUBECONFIG", "") or str(Path.home() / ".kube" / "config")
        there = any(Path(p).expanduser().exists() for p in paths.split(os.pathsep) if p)
        if not there and (context or environ.get("KUBECONFIG") or not environ.get("KUBERNETES_SERVICE_HOST")):
            raise FairlaneError(
                "kubeconfig-missing", "there is no kubeconfig, and Fairlane does not run in a pod", where=paths,
                hint="`kubectl config view` shows kubectl's configuration; name its file in $KUBECONFIG",
            )  # fmt: skip
        access = cls(context, paths if there else "", service_account)
        access._current = await access._read(environ)
        return access

    @property
    def in_cluster(self) -> bool:
        """Whether Fairlane runs in a pod of the cluster."""
        return not self.kubeconfig

    @property
    def server(self) -> str:
        """Address of the API server, without credentials."""
        parts = urlsplit(self._loaded.configuration.host)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def requests(self) -> "RESTClientObject":
        """The client for requests: a bounded number of connections."""
        return self._loaded.requests

    @property
    def streams(self) -> "RESTClientObject":
        """The client for watches and websockets, each with a connection of its own."""
        return self._loaded.streams

    @property
    def _loaded(self) -> _Loaded:
        assert self._current  # noqa: S101 - find() reads it before anybody sees the object
        return self._current

    def url(self, path: str) -> str:
        """The full URL of ``path``."""
        return str(self._loaded.configuration.host) + path

    async def headers(self) -> list[tuple[str, str]]:
        """Headers of each request; secret, because they contain the token."""
        token = await self._loaded.configuration.get_api_key_with_prefix("BearerToken")
        # A token file often ends with a newline, which the client keeps.
        return [*self._loaded.headers, *([("Authorization", token.strip())] if token else [])]

    async def renew(self, generation: int) -> None:
        """Reads the credentials again after the server refused those of ``generation``; once for all waiting requests.
        Raises RunFailed."""
        async with self._lock:
            if self.generation != generation:
                return
            try:
                loaded = await self._read(os.environ)
            except FairlaneError as error:
                raise RunFailed(error.kind, error.message, hint=error.hint, where=error.where) from error
            self._retired.append(self._loaded)
            self._current = loaded
            self.generation += 1

    async def close(self) -> None:
        """Ends all connections, watches and tunnels included."""
        for loaded in (*self._retired, self._loaded):
            await loaded.requests.close()
            await loaded.streams.close()
        # The library forgets connections of websockets and of cancelled requests, which TLS still has to shut down. A
        # slow server is not waited for.
        if not await self._ended():
            for one in self._sockets:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            await self._ended()

    async def _ended(self) -> bool:
        """Whether all connections end soon: a fixed number of checks, because a time limit could expire on a busy
        machine without one."""
        for _ in range(_CHECKS):
            if all(one.fileno() < 0 for one in self._sockets):
                return True
            await asyncio.sleep(_PAUSE)
        return False

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an address as getaddrinfo() returns it."""
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    async def _read(self, environ: Mapping[str, str]) -> _Loaded:
        return await self._from_kubeconfig(environ) if self.kubeconfig else self._from_pod(environ)

    def _from_pod(self, environ: Mapping[str, str]) -> _Loaded:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415 - 1 s, as all of the client
        from kubernetes.aio.config import ConfigException, incluster_config  # noqa: PLC0415

        library: Any = incluster_config  # without types
        configuration = Configuration()
        loader = library.InClusterConfigLoader(
            str(self.service_account / "token"), str(self.service_account / "ca.crt"), environ=environ
        )
        try:
            loader.load_and_set(configuration)
            return _clients(configuration, (), environ, self._socket)
        except (ConfigException, OSError) as error:
            raise FairlaneError(
                "credentials", f"the pod's service account cannot be used: {plain(str(error))}",
                where=str(self.service_account),
                hint="automountServiceAccountToken must not be false",
            ) from error  # fmt: skip

    async def _from_kubeconfig(self, environ: Mapping[str, str]) -> _Loaded:
        from kubernetes.aio.client import Configuration  # noqa: PLC0415 - as above
        from kubernetes.aio.config import ConfigException, kube_config  # noqa: PLC0415
        from yaml import YAMLError  # noqa: PLC0415

        library: Any = kube_config  # without types
        configuration = Configuration()

        async def load() -> _Loaded:
            await loader.load_and_set(configuration)
            try:
                if "exec" in user and not configuration.api_key and not configuration.cert_file:
                    raise self._no_credentials(user["exec"], log.text)
                return _clients(configuration, _impersonation(user), environ, self._socket)
            finally:
                # Keys of the kubeconfig must not stay in /tmp until we end. The library remembers its files by content
                # while it is loaded, so a folder of our own (temp_file_path) could not be removed either.
                library._cleanup_temp_files()

        try:
            merged = library.KubeConfigMerger(self.kubeconfig).config
            user = self._user(merged.value)
            loader = library.KubeConfigLoader(merged, active_context=self.context or None, config_base_path=None)
            with _LibraryLog() as log:
                return await asyncio.wait_for(load(), _PLUGIN_SECONDS)
        except TimeoutError:
            raise FairlaneError(
                "credentials", f"the credential plugin of the kubeconfig did not answer within {_PLUGIN_SECONDS} s",
                where=self.kubeconfig, hint="run `kubectl version` and answer the plugin's questions, then try again",
            ) from None  # fmt: skip
        except (ConfigException, YAMLError, OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            # The client raises the last four for a file that is no kubeconfig.
            reason = plain(str(error)) if isinstance(error, (ConfigException, OSError)) else "not a kubeconfig file"
            raise FairlaneError(
                "kubeconfig-invalid", f"the kubeconfig cannot be used: {reason}", where=self.kubeconfig
            ) from error

    def _no_credentials(self, plugin: Mapping[str, Any], log: str) -> FairlaneError:
        return FairlaneError(
            "credentials", f"the credential plugin {plain(str(plugin.get('command')))} returned no credentials: "
            f"{plain(log) or 'it printed no reason'}",
            where=self.kubeconfig, hint="sign in first: `kubectl version` must show the server's version",
        )  # fmt: skip

    def _user(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The context's user in a merged kubeconfig; empty: none. Raises FairlaneError for an unknown context."""
        contexts = {str(c.value["name"]): c.value for c in config.get("contexts") or []}
        wanted = self.context or str(config.get("current-context") or "")
        if wanted in contexts:
            name = (contexts[wanted].get("context") or {}).get("user")
            users = (u.value for u in config.get("users") or [])
            return next((user.get("user") or {} for user in users if user.get("name") == name), {})
        known = plain(", ".join(list(contexts)[:20])) or "none"
        if not wanted:
            kind, message = "context-missing", "the kubeconfig has no current context"
        else:
            kind, message = "context-unknown", f"the kubeconfig has no context {plain(wanted)!r}"
        near = nearest(wanted, list(contexts))
        raise FairlaneError(
            kind,
            message,
            where=self.kubeconfig,
            hint=f"did you mean {plain(near)!r}?" if near else f"it has: {known}",
        )


def _clients(
    configuration: "Configuration",
    headers: tuple[tuple[str, str], ...],
    environ: Mapping[str, str],
    new_socket: Callable[[tuple[Any, ...]], socket.socket],
) -> _Loaded:
    """Both clients, created from certificate and key files now."""
    from aiohttp import ClientSession, TCPConnector  # noqa: PLC0415 - as above
    from kubernetes.aio.client.rest import RESTClientObject  # noqa: PLC0415 - as above

    # Clusters are tested with Go's TLS, which accepts a CA that Python 3.13 rejects by RFC 5280.
    configuration.disable_strict_ssl_verification = True
    configuration.proxy = configuration.proxy or _proxy(configuration.host, environ)
    if configuration.proxy and urlsplit(configuration.proxy).scheme not in {"http", "https"}:
        scheme = plain(urlsplit(configuration.proxy).scheme, 20)
        raise FairlaneError(
            "proxy",
            f"the cluster is behind a {scheme} proxy; only http proxies are supported",
            hint="change proxy-url in the kubeconfig, or HTTPS_PROXY",
        )

    def client(limit: int) -> RESTClientObject:
        made = RESTClientObject(configuration)
        # aiohttp's trust_env, set in the client's own session, would read ~/.netrc and the environment in a thread
        # before every request, and would refuse a token beside an entry of ~/.netrc.
        made.pool_manager = ClientSession(
            connector=TCPConnector(limit=limit, ssl=made.ssl_context, socket_factory=new_socket),
            trust_env=False,
            read_bufsize=_READ_BUFFER,
            headers={"User-Agent": f"fairlane/{__version__}"},
            middlewares=(candid,),
        )
        return made

    return _Loaded(configuration, headers, client(CONNECTIONS), client(0))


def _impersonation(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Headers for a kubeconfig's ``as`` and ``as-groups``, which the client ignores: the user would have too many
    rights."""
    headers = [(_IMPERSONATE[key], str(user[key])) for key in _IMPERSONATE if user.get(key)]
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or []]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return tuple(headers)


def _proxy(host: str, environ: Mapping[str, str]) -> str | None:
    """The environment's proxy for ``host`` (HTTPS_PROXY, NO_PROXY), chosen as kubectl does."""
    from urllib.request import proxy_bypass  # noqa: PLC0415 - 20 ms

    parts = urlsplit(host)
    lower = {name.lower(): value for name, value in environ.items()}
    proxy = lower.get(f"{parts.scheme}_proxy") or lower.get("all_proxy")
    bypassed = proxy_bypass(parts.hostname or "", {"no": lower.get("no_proxy", "")})
    return proxy if proxy and not bypassed else None


class _LibraryLog(logging.Handler):
    """Captures the client's log, the only place where it reports a failed plugin."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self._log = logging.getLogger("kubernetes.aio.config.kube_config")

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()

    def __enter__(self) -> "_LibraryLog":
        self._log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
