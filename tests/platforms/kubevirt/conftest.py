"""A real API server, a proxy before it that makes it bad, and a connection to either."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairlane.platforms.kubevirt.api import Api
from testkit.control_plane import ControlPlane
from testkit.faults import FaultProxy
from tests.cluster.conftest import control_plane, namespace, plane, pytest_collection_modifyitems

__all__ = ["control_plane", "namespace", "plane", "pytest_collection_modifyitems"]

T = TypeVar("T")


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(control_plane.url, control_plane.authority.certificate) as between:
        yield between


class Connected:
    """Carries out ``work`` with a connection made from a kubeconfig."""

    def __init__(self, environment: pytest.MonkeyPatch) -> None:
        self._environment = environment

    def __call__(self, kubeconfig: Path, work: Callable[[Api], Awaitable[T]], **options: Any) -> T:
        self._environment.setenv("KUBECONFIG", str(kubeconfig))

        async def whole() -> T:
            async with await Api.connect(**options) as api:
                return await work(api)

        return asyncio.run(whole())


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connected:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Connected(monkeypatch)
