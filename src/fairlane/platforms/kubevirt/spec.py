"""The kubevirt platform's part of a study."""

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlane.platforms._machines import MachinesSpec
from fairlane.platforms._names import Label
from fairlane.units import Duration, Size

_IMAGE = re.compile(r"(?:docker|https?)://[!-~]{1,500}|datasource:[a-z0-9][a-z0-9.-]{0,62}/[a-z0-9][a-z0-9.-]{0,252}")
_KEY = re.compile(r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_OBJECT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|")
_GIB = 1024**3
_MINUTE = 60 * 10**9


class KubevirtSpec(MachinesSpec):
    """Virtual machines of KubeVirt, in a cluster that is there already."""

    kind: Literal["kubevirt"]
    """KubeVirt, OpenShift Virtualization."""
    context: str = ""
    """Context of the kubeconfig that says which cluster; empty: the one that is current there. A run records the
    cluster's own identity."""
    namespace: Label = "fairlane"
    """Every run makes a namespace of its own, NAMESPACE-RUN, and removes it at its end."""
    use_existing: bool = False
    """Runs use ``namespace`` itself, which is there already: for users who may not make one. Only what carries the
    run's label is touched in it."""
    image: str
    """What root volumes are made of: a container disk (docker://...), a file (https://...), or a DataSource of the
    cluster (datasource:NAMESPACE/NAME). Any Linux with cloud-init, bash and tar. A container disk is a machine's root
    as it is, on its node, and needs no storage class; in a clone storm each of them is a volume."""
    install: bool = True
    """Programs of the workloads (fio) that the image lacks are installed by its own package manager at the first
    boot, which needs a way to its packages. False: the image must have them."""
    root_size: Size = 10 * _GIB
    """Root volume of a machine. It is not under load; in a clone storm it is what is cloned."""
    root_class: str = ""
    """Storage class of root volumes; empty: that of the lane. In a clone storm it is always that of the lane."""
    instance_type: str = ""
    """A VirtualMachineClusterInstancetype by its name (u1.medium), in place of ``cpus`` and ``memory``, which are read
    back."""
    preference: str = ""
    """A VirtualMachineClusterPreference by its name (fedora). What a lane says of its disk wins over it."""
    per_node: int | None = Field(default=None, ge=1, le=500)
    """Machines of a lane on each node, in place of ``fleet``."""
    nodes: int = Field(default=1, ge=1, le=1000)
    """Nodes that the machines are spread over."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have, with their values: {node-role.kubernetes.io/worker: ""}."""
    reach: Literal["auto", "portforward", "direct"] = "auto"
    """How machines are reached over SSH. portforward: through the API server. direct: at their own addresses, which
    needs a place in the pods' network. auto: direct where Fairlane itself runs in the cluster, else portforward."""
    boot_timeout: Duration = 15 * _MINUTE
    """A machine that does not answer this long after it was made is a failure: images are pulled and volumes are made
    meanwhile."""
    qps: float = Field(default=50, ge=0.1, le=10_000)
    """Requests per second that Fairlane sends to the API server on average. A limit that is reached makes clone storms
    slower, so that the time spent waiting for it is told."""
    burst: int = Field(default=100, ge=1, le=100_000)
    """Requests that may go out at once before ``qps`` holds."""
    node_probes: Literal["auto", "off"] = "auto"
    """Counters of the nodes themselves (CPU, disks, network), by a DaemonSet of our own. auto: where permissions allow
    it, and a note in the report where they do not."""
    node_probe_image: str = ""
    """Container image of the DaemonSet, a node exporter; empty: that of the Prometheus project."""
    reported_later = MachinesSpec.reported_later | {"copies", "volume_mode", "vm_cpus", "vm_memory", "cpu_pinning"}

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

    @field_validator("instance_type", "preference", "root_class")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _OBJECT.fullmatch(name):
            raise ValueError("expected a name as Kubernetes has it: lower-case letters, digits, dots and dashes")
        return name

    @field_validator("node_probe_image")
    @classmethod
    def _pulled(cls, image: str) -> str:
        if not re.fullmatch(r"[!-~]{0,500}", image) or "://" in image:
            raise ValueError("expected a container image as a pod has it: registry/name:tag")
        return image

    @model_validator(mode="after")
    def _counted_once(self) -> Self:
        self.counted(self.nodes, self.per_node, ("nodes", "per_node"))
        return self

    @model_validator(mode="after")
    def _sized_once(self) -> Self:
        if self.instance_type and (both := sorted({"cpus", "memory"} & self.model_fields_set)):
            raise ValueError(f"{both[0]}: instance_type {self.instance_type} says it; leave one of them away")
        return self

    @property
    def container_disk(self) -> str:
        """Container image of the guests' disk; empty: another kind of image."""
        return self.image.removeprefix("docker://") if self.image.startswith("docker://") else ""

    def known(self) -> Mapping[str, Any]:
        parameters = {**super().known()}
        if self.instance_type:  # read back of the running machines
            del parameters["vm_cpus"], parameters["vm_memory"]
        return parameters

    @property
    def machines(self) -> int:
        return super().machines if self.per_node is None else self.per_node * self.nodes
