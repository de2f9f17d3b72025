"""Prometheus' node exporter on a run's nodes: its DaemonSet, and which of its figures are kept.

The kernel's counters of CPU, pressure and disks (``/proc/stat``, ``/proc/pressure``, ``/proc/diskstats``) are not
namespaced: every container reads the node's, so the exporter needs no host paths, host PIDs or root, and its pod meets
the ``restricted`` Pod Security Standard. Counters of interfaces and TCP are namespaced: they are the node's only in a
pod on the node's network. Both forms are here.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fairlane.platforms.kubevirt.labels import labels, selector

Network = Literal["host", "pod"]
"""Network of the exporter's pods. ``host``: the node's interfaces are visible, and the exporter listens on the node's
address during the run."""
NETWORKS: tuple[Network, ...] = ("host", "pod")
"""The form with more figures first."""

IMAGE = "quay.io/prometheus/node-exporter:v1.9.1"
NAME = "fairlane-nodes"
_PART = "nodes"

_FIRST_PORT, _PORTS = 9300, 200
"""In 9000-9999, which OpenShift opens between nodes for host services, but not near 9100, the default of a cluster's
own exporter."""
_VIRTUAL = r"^(lo|veth.*|[a-f0-9]{15}|cali.*|lxc.*|cilium_.*|ovn-k8s-mp[0-9]*|genev_sys_.*|vxlan_sys_.*|br-int|ovs-system|tap.*|docker0|cni0)$"  # noqa: E501
"""Interfaces of pods and the pod network, whose traffic the node's own interfaces count too."""

_ARGUMENTS = (
    "--collector.disable-defaults",
    "--web.disable-exporter-metrics",
    "--collector.cpu",
    "--collector.stat",
    "--collector.pressure",
    "--collector.diskstats",
    "--collector.loadavg",
    "--collector.time",
)
_OF_NETWORK = (
    "--collector.netdev",
    f"--collector.netdev.device-exclude={_VIRTUAL}",
    "--collector.netclass",
    f"--collector.netclass.ignored-devices={_VIRTUAL}",
    "--collector.netstat",
)


def port_of(run_id: str) -> int:
    """A run's port, chosen so that two runs on one node rarely collide."""
    return _FIRST_PORT + int(run_id, 16) % _PORTS


def selector_of(run_id: str) -> str:
    """Label selector of the DaemonSet and of its pods."""
    return f"{selector(run_id)},fairlane.io/part={_PART}"


def arguments(network: Network, port: int) -> list[str]:
    """The exporter's command line, for version 1.1 and later. The kubelet fills in ``$(ADDRESS)``."""
    listen = f"--web.listen-address=[$(ADDRESS)]:{port}"
    return [listen, *_ARGUMENTS, *(_OF_NETWORK if network == "host" else ())]


def daemon_set(run_id: str, nodes: Sequence[str], image: str, *, network: Network, user: bool) -> dict[str, Any]:
    """The DaemonSet on exactly ``nodes``. ``user``: set a numeric user id, required for an image that names its user
    (``nobody``); OpenShift assigns one from the namespace's range and refuses others."""
    port = port_of(run_id)
    own = labels(run_id, part=_PART)
    one = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    container = {
        "name": "node-exporter",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(network, port),
        "env": [{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": f"status.{network}IP"}}}],
        "ports": [{"name": "metrics", "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "metrics"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    security: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": network == "host",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {**security, "runAsUser": 65534} if user else security,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": one}}},
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"{NAME}-{run_id}", "labels": own},
        "spec": {
            "selector": {"matchLabels": own},
            "template": {"metadata": {"labels": own}, "spec": pod},
        },
    }


_LINE = re.compile(r"^(node_\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_PLAIN = {
    "node_context_switches_total": "switches",
    "node_time_seconds": "time",
    "node_load1": "load1",
    "node_netstat_Tcp_RetransSegs": "retransmits",
}
_PRESSURE = re.compile(r"node_pressure_(cpu|io|memory)_waiting_seconds_total")
_DISKS = {
    "node_disk_reads_completed_total": "reads",
    "node_disk_read_bytes_total": "read_bytes",
    "node_disk_writes_completed_total": "writes",
    "node_disk_written_bytes_total": "write_bytes",
}
_NICS = {
    "node_network_receive_bytes_total": "rx_bytes",
    "node_network_transmit_bytes_total": "tx_bytes",
    "node_network_receive_drop_total": "rx_drops",
    "node_network_transmit_drop_total": "tx_drops",
    "node_network_speed_bytes": "speed",
}


def compact(text: str) -> dict[str, Any]:
    """The kept part of an exporter's answer (text format 0.0.4), every figure as printed.

    ``cpu``: mode -> seconds of each CPU, in CPU order; ``pressure``: kind -> seconds in which some task waited;
    ``disks`` and ``nics``: name -> counters (``speed``: bytes/s); ``switches``, ``retransmits``, ``time``, ``load1``;
    ``version`` of the exporter. Missing figures have no key; empty: not an exporter's answer.
    """
    kept: dict[str, Any] = {}
    cpus: dict[str, dict[str, float]] = {}
    for name, of, value in _samples(text):
        if key := _PLAIN.get(name):
            kept[key] = value
        elif name == "node_exporter_build_info":
            kept["version"] = of.get("version", "")[:40]
        elif name == "node_cpu_seconds_total":
            cpus.setdefault(of.get("cpu", ""), {})[of.get("mode", "")] = value
        elif match := _PRESSURE.fullmatch(name):
            kept.setdefault("pressure", {})[match[1]] = value
        elif key := _DISKS.get(name):
            kept.setdefault("disks", {}).setdefault(of.get("device", ""), {})[key] = value
        elif key := _NICS.get(name):
            kept.setdefault("nics", {}).setdefault(of.get("device", ""), {})[key] = value
    if cpus:
        order = sorted(cpus, key=lambda cpu: (len(cpu), cpu))
        modes = {mode: None for cpu in order for mode in cpus[cpu]}
        kept["cpu"] = {mode: [cpus[cpu].get(mode, 0.0) for cpu in order] for mode in modes}
    return kept


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        if not (match := _LINE.match(line)):
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:  # an interface without a link reports a negative speed
            yield match[1], dict(_LABEL.findall(match[2] or "")), value
