"""The number of blocks that a study needs, planned from the spread of a pilot run.

The interval of n blocks is t_(n-1) s / sqrt(n) wide to either side; the result is the smallest n for which that is
within the wanted half width (Student's t, solved for n; at 95 %, +-2 % and a spread of 1, 2, 5, 10 % of the
paired log-ratios: 4, 7, 27, 99 blocks). The error rate is alpha shared among all primary comparisons, the widest that
Holm's procedure draws.

A pilot of few blocks knows its own spread badly: with 4 blocks s is below half of the truth in one of seven.
So there are two numbers: at the observed spread, and at its upper 90 % limit s sqrt(nu / chi2_(0.10, nu)), nu = n - 1,
from the chi-square distribution of nu s^2 / sigma^2. Planning with an upper limit of s is Browne's advice (Stat. Med.
14, 1995, 1933-1940): the study is then long enough in nine cases of ten, rather than in half of them.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import chdtri

from fairlane.metrics import METRICS
from fairlane.records import Cell, Evidence
from fairlane.stats.effects import Effect, blocks_needed
from fairlane.stats.pairs import pair, shelve

if TYPE_CHECKING:
    from fairlane.study.spec import Study

SURE = 0.90
"""Confidence of the upper limit of the spread."""
_MOST = 100_000


@dataclass(frozen=True)
class Need:
    """The blocks that one primary comparison needs: a lane against the baseline in one cell."""

    cell: Cell
    lane: str
    metric: str
    blocks: int
    """Blocks of the pilot that count."""
    sd: float | None
    """Spread of the paired log-ratios between blocks; about a relative figure: 0.02 is 2 %. None below 2 blocks."""
    sd_upper: float | None
    """Its upper 90 % limit."""
    half_width: float
    """The wanted half width of the interval: 0.02 is +-2 %."""
    needed: int | None
    """Blocks at the observed spread; None: unknown, or the figures are counted in coarser steps."""
    needed_upper: int | None
    """Blocks at its upper limit."""


def level(study: "Study") -> float:
    """Two-sided error rate of one interval: alpha / number of primary comparisons."""
    return study.design.alpha / max(1, len(study.judged) * len(study.rivals))


def needs(evidence: Evidence, half_width: float | None = None) -> tuple[Need, ...]:
    """The blocks that every primary comparison needs, in the order of the study, from all blocks of the run.

    ``half_width``: relative, 0.02 for +-2 %; None: each metric's margin. ValueError if it is not positive.
    """
    if half_width is not None and not half_width > 0:
        raise ValueError(f"a half width is above 0, not {half_width}")
    study = evidence.study
    shelves = shelve(evidence.observations, {workload.primary for workload in study.workloads.values()})
    result = []
    for cell in study.judged:
        metric = METRICS[study.workloads[cell.workload].primary]
        wanted = half_width or study.design.margins.get(metric.name, metric.margin)
        for lane in study.rivals:
            lane_pair = pair(shelves.get(cell.key, {}), lane, study.baseline, metric.name)
            effect = lane_pair.effect if len(lane_pair.rows) >= 2 else None
            sd = effect.sd if effect else None
            upper = upper_limit(effect.sd, effect.n) if effect else None
            at, at_upper = (_blocks(effect, s, wanted, level(study)) for s in (sd, upper))
            result.append(Need(cell, lane, metric.name, len(lane_pair.rows), sd, upper, wanted, at, at_upper))
    return tuple(result)


def _blocks(effect: Effect | None, sd: float | None, wanted: float, rate: float) -> int | None:
    edge = math.log1p(wanted)
    if effect is None or sd is None or effect.resolution >= edge:
        return None
    return blocks_needed(sd, edge, rate, _MOST)


def upper_limit(sd: float, n: int) -> float:
    """Upper 90 % limit of the true spread, from ``sd`` (n - 1) of ``n`` >= 2 normal figures."""
    return sd * math.sqrt((n - 1) / float(chdtri(n - 1, SURE)))
