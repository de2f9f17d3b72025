"""The part of cloud-init that decides who may log in as root, and with which host key."""

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
    """Authorized keys of root; empty: no login."""
    host_key: str
    """sshd's private key; empty: the guest generates one."""

    def files(self) -> dict[str, str]:
        """Files for the lab's machines."""
        return {"host_key": self.host_key or _own_key(), "authorized_keys": self.authorized_keys}


async def access(client: Client, vmi: Mapping[str, Any]) -> Access:
    """Access by the VMI's first cloud-init volume. Raises Refused for a missing Secret."""
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
    """Follows cloud-init's modules ``ssh`` and ``users_groups``: top-level keys go to the default user, and to root
    only with ``disable_root: false``; keys of a user named root always go to root."""
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
