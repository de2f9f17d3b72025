"""cloud-init's user data for a machine's first boot. Pure."""

import json
from collections.abc import Mapping, Sequence
from shlex import quote

_INSTALL = """\
missing=
for p in {programs}; do command -v "$p" > /dev/null || missing="$missing $p"; done
[ -n "$missing" ] || exit 0
if command -v dnf > /dev/null; then dnf -y install $missing
elif command -v apt-get > /dev/null; then
  wait="-o DPkg::Lock::Timeout=300" # an update of the image's own may have just begun
  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get $wait -y install $missing
elif command -v zypper > /dev/null; then zypper --non-interactive install $missing
elif command -v apk > /dev/null; then apk add $missing
else echo "no package manager is known here" >&2; exit 1
fi
"""
"""Installs programs; the package has the program's name, as fio's does everywhere."""
_QUIET = """\
command -v systemctl > /dev/null || exit 0
systemctl --no-block mask --now dnf-makecache.timer apt-daily.timer apt-daily-upgrade.timer fstrim.timer || :
"""
"""Stops updates and disk trims, which would be load beside trials. At every boot, before timers run."""


def user_data(files: Mapping[str, str], programs: Sequence[str] = ()) -> str:
    """cloud-init's user data: root logs in with the run's key and without a password, the host key is pinned, no other
    user is created. ``files``: ``authorized_keys`` and ``host_key`` (a private one). Missing ``programs`` are
    installed. The hostname is left to KubeVirt's own data and the network to the image.

    The text is JSON, a subset of YAML, so that keys need no YAML quoting.
    """
    config: dict[str, object] = {
        "disable_root": False,
        "ssh_pwauth": False,
        "users": [],
        "ssh_authorized_keys": [line for line in files["authorized_keys"].splitlines() if line.strip()],
        "ssh_keys": {"ed25519_private": files["host_key"]},
        "bootcmd": [["sh", "-c", _QUIET]],
        "package_update": False,
        "package_upgrade": False,
    }
    if programs:
        script = _INSTALL.format(programs=" ".join(quote(program) for program in programs))
        config["runcmd"] = [["sh", "-c", script]]
    return "#cloud-config\n" + json.dumps(config, indent=1, sort_keys=True) + "\n"
