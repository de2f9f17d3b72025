"""Variance components of a workload's figures: the part shared by a block's lanes, and the part of each trial.

Log figures y of lane l in block b of provisioning p (one making of volumes and machines, ``design.provisionings``):

    y_lpb = mu + lambda_l + P_p + (lambda P)_lp + B_pb + e_lpb

with random P, lambda P, B and e. Comparing within blocks cancels P and B; e averages out over blocks, (lambda P) only
over provisionings. With k lanes and n blocks per provisioning the mean squares of the analysis of variance expect

    blocks within provisionings   k s_B + s_e
    trials (residual)             s_e
    lanes by provisionings        n0 s_LP + s_e
    provisionings                 k n0 s_P + n0 s_LP + k s_B + s_e

(n0 = (N - sum n_p^2 / N) / (P - 1) for N blocks in P unequal provisionings). Equating them to observed values gives the
estimates; a negative one is cut at 0: the method of moments of Searle, Casella and McCulloch, *Variance Components*,
1992. Cells have their own means and are added up as sums of squares, so a share is an average over the cells. Blocks in
which any lane lacks a figure are left out: the rest is balanced, and the estimates exact in expectation.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, fdtri

from fairlane.metrics import METRICS
from fairlane.records import Evidence
from fairlane.stats.pairs import Shelf, shelve

if TYPE_CHECKING:
    from fairlane.study.base import Design

Floats = NDArray[np.float64]

_ROUNDING = 1e-18
"""Variance that the arithmetic of logarithms may leave where there is none."""


@dataclass(frozen=True)
class Table:
    """One cell: ``logs`` has the shape lanes x blocks; ``provisions`` names the provisioning of each block."""

    logs: Floats
    provisions: tuple[Hashable, ...] = ()
    """Empty: all blocks belong to one."""


@dataclass(frozen=True)
class Split:
    """Variances of the log figures of one trial, each at least 0."""

    block: float
    """Variance shared by the lanes of a block."""
    trial: float
    """Variance of the trial alone."""
    provision: float | None
    """Variance shared by the lanes of a provisioning; None: there is only one."""
    lane_provision: float | None
    """Variance of a lane in a provisioning: more blocks do not reduce it; None: there is only one provisioning."""
    lane_provision_p: float | None
    """p-value of there being none of it, by the F test of its mean square; None: there is only one."""
    share: tuple[float, float]
    """95 % interval of ``correlation``, from the F distribution of the ratio of the mean squares."""
    blocks: int
    """Blocks of all cells that count."""

    @property
    def total(self) -> float:
        return self.block + self.trial + (self.provision or 0.0) + (self.lane_provision or 0.0)

    @property
    def correlation(self) -> float:
        """Correlation of the lanes within a block, 0..1: the share of the variance that comparing within blocks
        cancels."""
        return self.block / (self.block + self.trial)

    @property
    def narrower(self) -> float:
        """Factor by which paired intervals are narrower than those of as many independent trials; inf: no width is
        left."""
        return math.sqrt(1 / (1 - self.correlation)) if self.correlation < 1 else math.inf


def split(tables: Sequence[Table]) -> Split | None:
    """The components over ``tables``. None without spread, or where no table has 2 lanes and 2 blocks."""
    sums = _Sums()
    for table in tables:
        sums.add(table)
    if not sums.df_trial or not sums.df_block or sums.ss_block + sums.ss_trial <= _ROUNDING * sums.df_trial:
        return None
    trial = sums.ss_trial / sums.df_trial
    block = (sums.ss_block - sums.df_block * trial) / sums.k_df_block
    provision = lane_provision = p = None
    if sums.df_provision:
        if trial:
            f = sums.ss_lane_provision / sums.df_lane_provision / trial
            p = float(fdtrc(sums.df_lane_provision, sums.df_trial, f))
        lane_provision = (sums.ss_lane_provision - sums.df_lane_provision * trial) / sums.n_lane_provision
        mean_block = sums.ss_block / sums.df_block
        rest = sums.ss_provision - sums.df_provision * mean_block - sums.n_provision * max(lane_provision, 0.0)
        provision, lane_provision = max(rest / sums.k_n_provision, 0.0), max(lane_provision, 0.0)
    return Split(max(block, 0.0), trial, provision, lane_provision, p, _share(sums), sums.blocks)


def _share(sums: "_Sums") -> tuple[float, float]:
    """Ends of the interval of s_B / (s_B + s_e): F (1 + k s_B / s_e)^-1 has the F distribution; exact for one cell and
    normal figures (Searle, Casella and McCulloch 1992, the interval of a ratio of components)."""
    if not sums.ss_trial:
        return 1.0, 1.0
    f = (sums.ss_block / sums.df_block) / (sums.ss_trial / sums.df_trial)
    k = sums.k_df_block / sums.df_block
    ratios = [max(0.0, (f / float(fdtri(sums.df_block, sums.df_trial, q)) - 1) / k) for q in (0.975, 0.025)]
    return ratios[0] / (1 + ratios[0]), ratios[1] / (1 + ratios[1])


class _Sums:
    """Sums of squares, degrees of freedom and their coefficients, added over cells."""

    def __init__(self) -> None:
        self.ss_block = self.ss_trial = self.ss_provision = self.ss_lane_provision = 0.0
        self.df_block = self.df_trial = self.df_provision = self.df_lane_provision = self.blocks = 0
        self.k_df_block = self.n_provision = self.k_n_provision = self.n_lane_provision = 0.0

    def add(self, table: Table) -> None:
        y = np.asarray(table.logs, dtype=float)
        k, n = y.shape
        if k < 2 or n < 2:
            return
        labels = table.provisions or (0,) * n
        names = list(dict.fromkeys(labels))
        member = np.array([[label == name for label in labels] for name in names], dtype=float)  # provisions x blocks
        sizes = member.sum(axis=1)
        block = y.mean(axis=0)
        own = (y @ member.T) / sizes  # means: lanes x provisions
        shared = own.mean(axis=0)
        lane, grand = y.mean(axis=1), float(y.mean())
        p = len(names)
        self.blocks += n
        self.ss_block += k * float(((block - shared @ member) ** 2).sum())
        self.df_block += n - p
        self.k_df_block += k * (n - p)
        self.ss_trial += float(((y - own @ member - block + shared @ member) ** 2).sum())
        self.df_trial += (k - 1) * (n - p)
        if p > 1:
            n0 = n - float((sizes**2).sum()) / n  # times P - 1
            self.ss_provision += k * float((sizes * (shared - grand) ** 2).sum())
            self.df_provision += p - 1
            self.n_provision += n0
            self.k_n_provision += k * n0
            self.ss_lane_provision += float((sizes * (own - lane[:, None] - shared + grand) ** 2).sum())
            self.df_lane_provision += (k - 1) * (p - 1)
            self.n_lane_provision += (k - 1) * n0


def splits(evidence: Evidence) -> dict[str, Split]:
    """The components of the primary metric by workload; workloads without an estimate are left out.

    Empty where the lanes of a block did not run together (``design.paired: false``).
    """
    study = evidence.study
    if not study.design.paired:
        return {}
    primaries = {workload.primary for workload in study.workloads.values()}
    shelves = shelve(evidence.observations, primaries)
    shares = {}
    for name, workload in study.workloads.items():
        mine = [cell for cell in evidence.cells() if cell.workload == name]
        tables = [_table(study.design, shelves.get(cell.key, {}), workload.primary) for cell in mine]
        if parts := split(tables):
            shares[name] = parts
    return shares


def _table(design: "Design", shelf: Shelf, metric: str) -> Table:
    """The blocks in which every lane that has any figure has one."""
    assert metric in METRICS  # noqa: S101 - the study's model allows no other
    figures = {
        lane: {b: math.log(r.figures[metric].value) for b, r in readings.items() if metric in r.figures}
        for lane, readings in shelf.items()
    }
    lanes = [lane for lane, logs in figures.items() if logs]
    blocks = sorted(set.intersection(*(set(figures[lane]) for lane in lanes))) if lanes else []
    logs = np.array([[figures[lane][b] for b in blocks] for lane in lanes]).reshape(len(lanes), len(blocks))
    return Table(logs, tuple(design.provisioning_of(b) for b in blocks) if design.provisionings > 1 else ())
