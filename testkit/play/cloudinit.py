"""What cloud-init makes of a VMI's user data, as far as it decides who may log in as root and who answers."""

import base64
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testkit.play.client import Client
from testkit.play.kinds import SECRET

_SOURCES = ("cloudInitNoCloud", "cloudInitConfigDrive")


@dataclass(frozen=True)
class Access:
    authorized_keys: str
    """Of root; empty: nobody gets in."""
    host_key: str
    """sshd's private key; empty: the guest makes one of its own."""

    def files(self) -> dict[str, str]:
        """What the lab's machines are given of it."""
        return {"host_key": self.host_key or _own_key(), "authorized_keys": self.authorized_keys}


async def access(client: Client, vmi: Mapping[str, Any]) -> Access:
    """Of the VMI's first cloud-init volume. Raises Refused for a Secret that is not there."""
    for volume in vmi["spec"].get("volumes") or ():
        for source in _SOURCES:
            if source in volume:
                return read(await _text(client, vmi["metadata"]["namespace"], volume[source]))
    return Access("", "")


async def _text(client: Client, namespace: str, source: Mapping[str, Any]) -> str:
    """The user data: inline, or in a Secret under one of the names that KubeVirt knows."""
    if "userData" in source:
        return str(source["userData"])
    if "userDataBase64" in source:
        return base64.b64decode(source["userDataBase64"]).decode()
    reference = source.get("secretRef") or source.get("userDataSecretRef") or {}
    secret = await client.request("GET", SECRET.path(namespace, reference["name"]))
    for name in ("userdata", "userData"):
        if name in secret["data"]:
            return base64.b64decode(secret["data"][name]).decode()
    return ""


def read(user_data: str) -> Access:
    """As cloud-init's modules ``ssh`` and ``users_groups`` do it: keys at the top go to the default user, and to root
    too, but usable only with ``disable_root: false``; those of a user named root are root's in any case."""
    if not user_data.startswith("#cloud-config"):
        return Access("", "")
    config = yaml.safe_load(user_data) or {}
    keys = list(config.get("ssh_authorized_keys") or ()) if config.get("disable_root", True) is False else []
    for user in config.get("users") or ():
        if isinstance(user, dict) and user.get("name") == "root":
            keys += user.get("ssh_authorized_keys") or ()
    host = (config.get("ssh_keys") or {}).get("ed25519_private", "")
    return Access("".join(f"{key.strip()}\n" for key in keys), host)


def _own_key() -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
        return file.read_text()
