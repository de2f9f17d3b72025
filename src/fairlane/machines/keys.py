"""The SSH keys of one run: generated for it, kept in its scratch folder, never in a run directory."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from fairlane.errors import RunFailed
from fairlane.machines.ssh import Login


@dataclass(frozen=True)
class Keys:
    """The user key and the host key of one run."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Keys":
        """Generates new keys in ``folder``. Raises RunFailed."""
        for name in ("user", "host"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fairlane", "-f", str(folder / name)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RunFailed("ssh-keygen", f"ssh-keygen failed: {done.stderr.strip()}")
        host = (folder / "host.pub").read_text().split()
        (folder / "known_hosts").write_text(f"fairlane {host[0]} {host[1]}\n")
        return cls(folder)

    def files(self) -> dict[str, str]:
        """The key files that a guest needs: name -> content."""
        return {
            "host_key": (self.folder / "host").read_text(),
            "authorized_keys": (self.folder / "user.pub").read_text(),
        }

    def login(self, port: int, host: str = "127.0.0.1") -> Login:
        """The SSH login to a machine at ``host`` that has these keys."""
        return Login(host, port, "root", self.folder / "user", self.folder / "known_hosts", "fairlane")
