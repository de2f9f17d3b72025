"""The words of outputs that cannot be read, and of workloads that nobody can run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from fairlane.errors import Garbage
from fairlane.workloads.clone import PLUGIN as CLONE
from fairlane.workloads.failover import PLUGIN as FAILOVER
from tests.workloads import test_clone, test_described_loads, test_failover, test_fio

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


def complaint(call: Callable[[], object]) -> str:
    with pytest.raises(Garbage) as raised:
        call()
    return f"{raised.value} [{raised.value.kind}]"


def told(spec: Callable[..., object], keys: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        spec(**keys)
    return "; ".join(str(e["ctx"]["error"]) for e in raised.value.errors() if e["type"] == "value_error")


def test_garbage(snapshot: "SnapshotAssertion") -> None:
    asked, outputs = test_failover.recorded("nvme-tcp")
    storms = [lambda d=data: CLONE.observe(test_clone.cell(1), d) for data, _ in test_clone.NO_STORMS]
    reports = [lambda r=report: test_fio.read(r) for report, _ in test_fio.GARBAGE]
    faults = [lambda n=n, d=d: FAILOVER.observe(asked, {**outputs, n: d}) for n, d, _ in test_failover.MISSING]
    words = dict.fromkeys(complaint(call) for call in (*reports, *storms, *faults))
    assert "\n".join(w for w in words if "digits" not in w and "__init__" not in w) == snapshot, (
        "none of Python's words"
    )


def test_refused_workloads(snapshot: "SnapshotAssertion") -> None:
    words = [told(test_fio.spec, keys) for keys, *_ in test_fio.MISREAD]
    words += [told(test_failover.spec, keys) for keys, _ in test_failover.IMPOSSIBLE]
    words += [told(test_described_loads.oltp, keys) for keys, _ in test_described_loads.NO_OLTP]
    words += [told(test_described_loads.slob, keys) for keys, _ in test_described_loads.NO_SLOB]
    assert "\n".join(filter(None, words)) == snapshot, "pydantic's own words are left out"
