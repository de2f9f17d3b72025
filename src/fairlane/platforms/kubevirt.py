"""KubeVirt: virtual machines of a Kubernetes cluster (OpenShift Virtualization), their volumes by storage class.

What is here is the platform's part of the study; ``Described`` refuses to run it.
"""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlane.platforms._described import Described
from fairlane.platforms._machines import MachinesSpec
from fairlane.platforms._names import Label
from fairlane.study.units import Size

_IMAGE = re.compile(r"(?:docker|https?)://[!-~]{1,500}|datasource:[a-z0-9][a-z0-9.-]{0,62}/[a-z0-9][a-z0-9.-]{0,252}")
_KEY = re.compile(r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_GIB = 1024**3


class KubevirtSpec(MachinesSpec):
    """Virtual machines of KubeVirt, in a cluster that is there already. Described; not carried out yet."""

    kind: Literal["kubevirt"]
    """KubeVirt, OpenShift Virtualization."""
    context: str = ""
    """Context of the kubeconfig that says which cluster; empty: the one that is current there. A run records the
    cluster's own identity."""
    namespace: Label = "fairlane"
    """Namespace of the machines and their volumes. One that is not there is made, and removed after the run."""
    image: str
    """What root volumes are made of: a container disk (docker://...), a file (https://...), or a DataSource of the
    cluster (datasource:NAMESPACE/NAME)."""
    root_size: Size = 10 * _GIB
    """Root volume of a machine. It is not under load; in a clone storm it is what is cloned."""
    root_class: str = ""
    """Storage class of root volumes; empty: that of the lane."""
    per_node: int | None = Field(default=None, ge=1, le=500)
    """Machines of a lane on each node, in place of ``fleet``."""
    nodes: int = Field(default=1, ge=1, le=1000)
    """Nodes that the machines are spread over."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have, with their values: {node-role.kubernetes.io/worker: ""}."""
    transports = ("storage_class", "iscsi", "nvme_tcp")

    @field_validator("image")
    @classmethod
    def _importable(cls, image: str) -> str:
        if not _IMAGE.fullmatch(image):
            raise ValueError("expected docker://IMAGE, https://FILE or datasource:NAMESPACE/NAME")
        return image

    @field_validator("node_selector")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for key, value in labels.items():
            if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ValueError(f"{key}: {value}: expected a label of Kubernetes and its value")
        return labels

    @model_validator(mode="after")
    def _counted_once(self) -> Self:
        self.counted(self.nodes, self.per_node, ("nodes", "per_node"))
        return self

    @property
    def machines(self) -> int:
        return super().machines if self.per_node is None else self.per_node * self.nodes


class Kubevirt(Described):
    """Lanes: ``storage_class``; ``iscsi`` and ``nvme_tcp`` with an external array, whose initiator is the guest's."""

    Spec = KubevirtSpec


PLUGIN = Kubevirt
