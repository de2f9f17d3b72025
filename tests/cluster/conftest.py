"""The cluster that the tests share, and why they skip where there can be none."""

import secrets
from collections.abc import Iterator

import pytest

from testkit.clearing import clear
from testkit.control_plane import ControlPlane, servers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests marked ``cluster``, and says why, where what they need is missing. Files of theirs that boot machines
    come first: they take longest, and where several workers share the files, the others are done meanwhile."""
    marked = [item for item in items if item.get_closest_marker("cluster")]
    booting = {item.path for item in marked if item.get_closest_marker("lab")}
    items.sort(key=lambda item: item.path not in booting)
    if marked and (lack := _lack()):
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=lack))


def _lack() -> str:
    if not servers().exists():
        return "kube-apiserver and etcd are not built: run make cluster-servers (once, some ten minutes)"
    return ""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real API server that knows KubeVirt, CDI and snapshots: one for all tests, each in a namespace of its own.

    A test that restarts it leaves it running, with the flags it had.
    """
    with ControlPlane() as plane:
        plane.install_crds()
        yield plane


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same, for a file whose tests see all of it: nothing of others is in it, and nothing of theirs stays."""
    clear(control_plane)
    yield control_plane
    clear(control_plane)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A fresh namespace. Nothing removes it: that would take a namespace controller, and the cluster goes anyway."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    return name
