"""An existing block device, identified by a stable property: FC LUNs, disks of external arrays, local drives.

Sets nothing up, and writes only if ``destroy`` names the device: docs/safety.md.
"""

import re
from collections.abc import Mapping
from shlex import quote
from typing import Any, Literal

from pydantic import field_validator

from fairlane.lanes.base import Transport
from fairlane.study.base import LaneSpec

_LINK = "/dev/disk/by-id/"


class DeviceSpec(LaneSpec):
    """An existing block device, such as an FC LUN. Fairlane sets nothing up."""

    transport: Literal["device"]
    """An existing block device of the guest."""
    identity: str
    """Stable identity of the volume: its serial, WWN (naa..., eui..., uuid...), NQN#nsid, a
    device-mapper UUID, or a link in /dev/disk/by-id. A prefix selects the kind: serial:S, wwn:W, nqn:N#1, dm:U. It is
    written only if ``destroy`` names it too."""

    network = False
    initiators = ("guest", "hypervisor")

    @field_validator("identity")
    @classmethod
    def _stays(cls, value: str) -> str:
        if not value.isascii() or not re.fullmatch(r"[\x21-\x7e]{1,250}", value):
            raise ValueError("expected a serial, WWN, NQN#nsid or a /dev/disk/by-id link without blanks (each is a _)")
        if value.startswith("/") and (not value.startswith(_LINK) or ".." in value or value.count("/") != 4):
            raise ValueError(
                f"{value} may be another disk's name tomorrow: name a serial, a WWN or a link in {_LINK} (the machine "
                "tells them: lsblk -o NAME,SERIAL,WWN; ls -l /dev/disk/by-id)"
            )
        return value

    @property
    def existing(self) -> str:
        return "an existing device"

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "transport": "device"}


class Device(Transport[DeviceSpec]):
    Spec = DeviceSpec
    living = True
    backing = "external"

    def find(self) -> str:
        return f"named {quote(self.spec.identity)}"

    def path(self) -> tuple[str, ...]:
        return ("fio", self.spec.identity)


PLUGIN = Device
