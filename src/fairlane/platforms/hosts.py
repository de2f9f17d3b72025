"""Hosts: machines that are there already, this one or any Linux that ssh reaches, and whatever storage they have."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from fairlane.guard.values import NONE
from fairlane.living.destination import Destination
from fairlane.platforms._living import LivingPlatform
from fairlane.platforms._living.spec import LivingSpec, MachineName


class HostsSpec(LivingSpec):
    """Existing machines: this one, or any Linux machine reachable over ssh."""

    kind: Literal["hosts"]
    """This machine, or any Linux machine with bash and fio that ssh reaches as you have configured it."""
    machines: dict[MachineName, Destination] = Field(min_length=1, max_length=200)
    """Name -> how ssh reaches it (your ssh_config, agent, jump hosts hold; host keys are always checked), or ``local``
    for this machine. Lanes are built on all of them and loaded together, unless a lane names its own (``machines``)."""

    @property
    def destinations(self) -> Mapping[str, str]:
        return self.machines

    def known(self) -> Mapping[str, Any]:
        none = ("bus", "io_threads", "queues", "cache_mode", "aio", "controllers", "image_format",
                "device_options", "cpu_pinning")  # fmt: skip
        return {
            **super().known(),
            "initiator": "host",
            **dict.fromkeys(none, NONE),
            "disks": 1,
        }


class Hosts(LivingPlatform):
    """Lanes on machines of somebody, with what these machines have."""

    Spec = HostsSpec


PLUGIN = Hosts
