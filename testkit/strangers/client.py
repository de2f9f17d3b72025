"""The user's side of SSH: keys, the real host keys of all machines, an ssh config with an entry for each, and an
``ssh`` on a PATH that reads it, because OpenSSH finds ``~/.ssh/config`` by the account and not by HOME."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from testkit.strangers import wishes
from testkit.strangers.wishes import Host


class Client:
    """Keys and configuration in ``folder``."""

    def __init__(self, folder: Path, like: Path | None = None) -> None:
        """``like``: folder of the client whose keys it has; not given: new ones."""
        self.folder = folder
        self.config = folder / "config"
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name in ("ssh", "scp", "sftp"):
            program = shutil.which(name)
            assert program, f"{name} is not installed"
            (self.bin / name).write_text(f'#!/bin/sh\nexec {program} -F {self.config} "$@"\n')
            (self.bin / name).chmod(0o755)
        self._trusted: dict[str, str] = {}
        self._first: dict[str, str] = {}
        self.user = "" if like else self._make("user")[1]
        for key in like.glob("*.pub") if like else ():
            shutil.copy(key, folder)
            shutil.copy(key.with_suffix(""), folder)
            if key.stem.endswith("-host-key"):
                self._first[key.stem.removesuffix("-host-key")] = " ".join(key.read_text().split()[:2])
        self._trust(dict(self._first))

    def key_files(self) -> Iterable[Path]:
        """The files of its keys."""
        return [path for key in sorted(self.folder.glob("*.pub")) for path in (key, key.with_suffix(""))]

    def _make(self, name: str) -> tuple[str, str]:
        """A new key: private, public."""
        file = self.folder / name
        for old in (file, file.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        return file.read_text(), file.with_suffix(".pub").read_text()

    def host_key(self, host: str, *, trusted: bool = True) -> tuple[str, str]:
        """A new host key: private, public. ``trusted``: known_hosts has the public half from now on."""
        private, public = self._make(f"{host}-host-key")
        public = " ".join(public.split()[:2])
        if trusted:
            self._trust({**self._trusted, host: public})
            self._first.setdefault(host, self._trusted[host])
        return private, public

    def forget_rotations(self) -> None:
        """known_hosts has every machine's first host key again."""
        self._trust(dict(self._first))

    def _trust(self, keys: dict[str, str]) -> None:
        self._trusted = keys
        known = "".join(f"{name} {key}\n" for name, key in sorted(keys.items()))
        (self.folder / "known_hosts").write_text(known)

    def write(self, ports: Mapping[str, int], hosts: Sequence[Host]) -> None:
        """The config: NAME (user ops), NAME-root, NAME-visitor, and NAME-by-OTHER for every pair of machines."""
        entries = ["# made by the stand"]
        for number, host in enumerate(hosts):
            name = host.name
            for alias, user in ((name, "ops"), (f"{name}-root", "root"), (f"{name}-visitor", "visitor")):
                entries.append(self._entry(alias, name, user, "127.0.0.1", ports[name]))
            for other in hosts:
                if other is not host:
                    jump = self._entry(f"{name}-by-{other.name}", name, "ops", wishes.address(number, 0), 22)
                    entries.append(f"{jump}  ProxyJump {other.name}\n")
        self.config.write_text("\n".join(entries))

    def _entry(self, alias: str, host: str, user: str, address: str, port: int) -> str:
        return f"""Host {alias}
  HostName {address}
  Port {port}
  User {user}
  IdentityFile {self.folder / "user"}
  IdentitiesOnly yes
  UserKnownHostsFile {self.folder / "known_hosts"}
  HostKeyAlias {host}
  StrictHostKeyChecking yes
"""
