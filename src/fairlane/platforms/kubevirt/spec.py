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
    """Virtual machines of KubeVirt, in an existing cluster."""

    kind: Literal["kubevirt"]
    """KubeVirt, OpenShift Virtualization."""
    context: str = ""
    """Context of the kubeconfig, which selects the cluster; empty: the current context. A run records the cluster's own
    identity."""
    namespace: Label = "fairlane"
    """Every run creates its own namespace, NAMESPACE-RUN, and removes it at the end."""
    use_existing: bool = False
    """Runs use ``namespace`` itself, which must exist: for users who may not create one. Only objects with the run's
    label are touched in it."""
    image: str
    """Source of root volumes: a container disk (docker://...), a file (https://...), or a DataSource of the cluster
    (datasource:NAMESPACE/NAME). Any Linux with cloud-init, bash and tar. Machines boot from a container disk directly,
    on their node and without a storage class; in a clone storm every root is a volume."""
    install: bool = True
    """Programs of the workloads (fio) that the image lacks are installed by its own package manager at the first
    boot, which needs access to a package repository. False: the image must have them."""
    root_size: Size = 10 * _GIB
    """Root volume of a machine. It is not under load; a clone storm clones it."""
    root_class: str = ""
    """Storage class of root volumes; empty: the lane's. In a clone storm it is always the lane's."""
    instance_type: str = ""
    """A VirtualMachineClusterInstancetype by its name (u1.medium), in place of ``cpus`` and ``memory``, which are read
    back."""
    preference: str = ""
    """A VirtualMachineClusterPreference by its name (fedora). The lane's own settings of its disk override it."""
    per_node: int | None = Field(default=None, ge=1, le=500)
    """Machines of a lane on each node, in place of ``fleet``."""
    nodes: int = Field(default=1, ge=1, le=1000)
    """Number of nodes over which the machines are spread."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have, with their values: {node-role.kubernetes.io/worker: ""}."""
    reach: Literal["auto", "portforward", "direct"] = "auto"
    """How machines are reached over SSH. portforward: through the API server. direct: at their own addresses, which
    needs access to the pod network. auto: direct where Fairlane itself runs in the cluster, else portforward."""
    boot_timeout: Duration = 15 * _MINUTE
    """Longest time from creating a machine until it answers, image pulls and volume creation included; then the run
    fails."""
    qps: float = Field(default=50, ge=0.1, le=10_000)
    """Requests per second that Fairlane sends to the API server on average. This limit may slow clone storms down, so
    results state the time spent waiting for it."""
    burst: int = Field(default=100, ge=1, le=100_000)
    """Requests that may go out at once before ``qps`` limits them."""
    node_probes: Literal["auto", "off"] = "auto"
    """Counters of the nodes themselves (CPU, disks, network), from a DaemonSet that the run creates. auto: if
    permissions allow it; otherwise the report has a note."""
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
                raise ValueError(f"{key}: {value}: expected a Kubernetes label and its value")
        return labels

    @field_validator("instance_type", "preference", "root_class")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _OBJECT.fullmatch(name):
            raise ValueError("expected a Kubernetes name: lower-case letters, digits, dots and dashes")
        return name

    @field_validator("node_probe_image")
    @classmethod
    def _pulled(cls, image: str) -> str:
        if not re.fullmatch(r"[!-~]{0,500}", image) or "://" in image:
            raise ValueError("expected a container image: registry/name:tag")
        return image

    @model_validator(mode="after")
    def _counted_once(self) -> Self:
        self.counted(self.nodes, self.per_node, ("nodes", "per_node"))
        return self

    @model_validator(mode="after")
    def _sized_once(self) -> Self:
        if self.instance_type and (both := sorted({"cpus", "memory"} & self.model_fields_set)):
            raise ValueError(f"{both[0]}: instance_type {self.instance_type} sets it already; remove one of the two")
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
