"""What is said of faults: counts refuse and withhold, whatever the stalls are."""

from typing import Any

import pytest

from fairlane.records import Figures
from fairlane.stats.judge import judge

WRITES = "rw: [randwrite]"


def figures(data: dict[str, Any] | None = None, iops_before: float = 0.0, **fault: Any) -> Figures:
    whole = {
        "kind": "link",
        "path": 0,
        "recovered": True,
        "carried": {"path0": {"before": 50_000, "during": 90}},
        **fault,
    }
    metrics = {"iops": 1000.0, "iops_before": iops_before}
    return Figures(metrics, {}, {"fault": whole, "data": {"wrong_blocks": 0, "io_errors": 0, **(data or {})}})


FINE = figures()


def found(run_check: Any, beside: Any, odd: Figures, blocks: int = 3) -> list[tuple[str, str, bool, Any]]:
    seen = run_check("failover", beside(odd, FINE, WRITES, blocks=blocks))
    assert all(f.lanes == ("odd",) and f.cells for f in seen)
    return [(f.severity, f.kind, f.refuses, next(iter(f.evidence.values()))) for f in seen]


def test_a_fault_that_was_survived_is_no_finding(run_check: Any, beside: Any) -> None:
    assert found(run_check, beside, FINE) == []
    assert found(run_check, beside, Figures({"iops": 1.0})) == []


def test_one_wrong_block_refuses_the_lane(run_check: Any, beside: Any) -> None:
    ((severity, kind, refuses, total),) = found(run_check, beside, figures({"wrong_blocks": 1}))
    assert (severity, kind, refuses, total) == ("critical", "wrong-blocks", True, 3)
    evidence = beside(figures({"wrong_blocks": 1}), FINE, WRITES, blocks=6)
    (verdict,) = [v for v in judge(evidence, run_check("failover", evidence)) if v.primary]
    assert verdict.verdict == "refused"


@pytest.mark.parametrize(
    ("odd", "told", "figures_told"),
    [
        (
            figures({"io_errors": 4, "first_error": "Input/output error"}),
            "errors",
            {"io_errors": 4, "first_error": "Input/output error"},
        ),
        (figures(recovered=False), "lasting", {}),
        (
            figures(carried={"path0": {"before": 1000, "during": 51}}),
            "uncut",
            {"path": "link 0", "before": 1000, "during": 51},
        ),
        (figures(carried={"path0": {"before": 0, "during": 0}}), "idle", {"path": "link 0", "before": 0}),
        (
            figures(iops_before=100.0, carried={"path0": {"before": 4000, "during": 0}}),
            "idle",
            {"path": "link 0", "before": 4000},
        ),
    ],
)
def test_what_is_no_clean_fault_takes_the_headline(
    run_check: Any, beside: Any, odd: Figures, told: str, figures_told: dict[str, Any]
) -> None:
    ((severity, kind, refuses, proof),) = found(run_check, beside, odd)
    assert (severity, kind, refuses) == ("critical", told, False)
    assert figures_told.items() <= proof.items()


def test_a_path_that_is_not_watched_is_no_finding(run_check: Any, beside: Any) -> None:
    assert found(run_check, beside, figures(carried={})) == []
    assert found(run_check, beside, figures(carried={"path0": {"before": 1000, "during": 50}})) == []


def test_a_trial_with_a_fault_is_not_meant_to_be_steady(run_check: Any, beside: Any) -> None:
    iops = [1000.0] * 40 + [0.0] * 80 + [1000.0] * 60
    series = {"load": {"series": {"interval_ms": 100, "iops": iops}}}
    quiet = Figures({"iops": 1000.0}, {}, {**FINE.context, **series})
    assert run_check("unsteady", beside(quiet, FINE, WRITES, blocks=3)) == []
    assert run_check("unsteady", beside(Figures({"iops": 1000.0}, {}, series), FINE, WRITES, blocks=3))
