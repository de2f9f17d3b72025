"""The machine that both sides make: study 000's, one CPU, 512 MiB, and a root volume cloned from a golden image."""

from typing import Any

IMAGE, IMAGES = "golden", "golden-images"
"""DataSource of the golden image, and its namespace."""
STORAGE_CLASS = "fast"


def machine(number: int | str, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    """A VirtualMachine that starts by itself; what it brings along carries the same ``labels``."""
    name = f"vm-{number}"
    volume = {
        "metadata": {"name": f"{name}-root", "labels": labels},
        "spec": {
            "sourceRef": {"kind": "DataSource", "name": IMAGE, "namespace": IMAGES},
            "storage": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": STORAGE_CLASS,
                "resources": {"requests": {"storage": "6Gi"}},
            },
        },
    }
    disks = [{"name": "root", "disk": {"bus": "virtio"}, "bootOrder": 1}]
    instance = {
        "domain": {
            "cpu": {"cores": 1},
            "memory": {"guest": "512Mi"},
            "devices": {"disks": disks, "interfaces": [{"name": "default", "masquerade": {}}]},
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [{"name": "root", "dataVolume": {"name": f"{name}-root"}}],
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "runStrategy": "Always",
            "dataVolumeTemplates": [volume],
            "template": {"metadata": {"labels": labels}, "spec": instance},
        },
    }
