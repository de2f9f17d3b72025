"""The part of a study file about domains of libvirt."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fairlane.lanes.pool import libvirt_name
from fairlane.living.destination import Destination
from fairlane.platforms._living.spec import ARRAY, LivingSpec, MachineName
from fairlane.study.paths import AbsolutePath
from fairlane.study.strict import Strict

_URI = re.compile(r"qemu(\+unix)?:///(system|session)(\?socket=/[A-Za-z0-9/._-]{1,200})?")


def _uri(value: str) -> str:
    if not _URI.fullmatch(value):
        raise ValueError("expected qemu:///system or qemu:///session: Fairlane reaches the hypervisor by its own ssh")
    return value


class Domain(Strict):
    """A domain that is there: nothing of it changes but the disks that Fairlane plugs in and out."""

    domain: Annotated[str, AfterValidator(libvirt_name)]
    """Its UUID, or its name. It must be running."""
    ssh: Destination
    """How ssh reaches it; the login must be root's, or have ``sudo -n``."""
    hypervisor: MachineName | None = None
    """Name of its hypervisor in ``hypervisors``; default: the only one."""


class LibvirtSpec(LivingSpec):
    """Domains of libvirt, which get a disk for each lane while they run."""

    kind: Literal["libvirt"]
    """Domains of libvirt on one hypervisor or several."""
    machines: dict[MachineName, Domain] = Field(min_length=1, max_length=200)
    """Name -> a running domain. Lanes are built on all of them and loaded together, unless a lane names its own
    (``machines``)."""
    hypervisors: dict[MachineName, Destination] = Field(min_length=1, max_length=50)
    """Name -> how ssh reaches a hypervisor, or ``local``. The login must be root's, or have ``sudo -n``."""
    uri: Annotated[str, AfterValidator(_uri)] = "qemu:///system"
    """How virsh on a hypervisor reaches its libvirt."""
    folder: AbsolutePath = "/var/lib/libvirt/images"
    """Folder on the hypervisors for the images of ``local`` lanes, each of ``size``; QEMU must be able to read it."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        for name, domain in self.machines.items():
            if domain.hypervisor is None and len(self.hypervisors) > 1:
                raise ValueError(f"machines.{name}: name its hypervisor, one of {', '.join(self.hypervisors)}")
            if domain.hypervisor is not None and domain.hypervisor not in self.hypervisors:
                known = ", ".join(self.hypervisors)
                raise ValueError(f"machines.{name}: hypervisor {domain.hypervisor} is not one of {known}")
        if twice := [name for name in self.hypervisors if name in self.machines or name == ARRAY]:
            raise ValueError(f"hypervisors: {twice[0]} is the name of another machine; choose a different one")
        return self

    def hypervisor(self, machine: str) -> str:
        """Name of the hypervisor of ``machine``."""
        return self.machines[machine].hypervisor or next(iter(self.hypervisors))

    @property
    def destinations(self) -> Mapping[str, str]:
        return {name: domain.ssh for name, domain in self.machines.items()}

    @property
    def reached(self) -> Mapping[str, str]:
        array = {name: to for name, to in super().reached.items() if name == ARRAY}
        return {**self.destinations, **self.hypervisors, **array}

    @property
    def able(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("local", *super().able)))

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "disks": 1}
