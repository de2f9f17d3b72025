"""When a cell ends: at a planned look, with a word and an interval that shows its size, or without a chance of one."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scipy.special import ndtr, stdtrit

from fairlane.records import Observation, Word
from fairlane.stats.answers import answer, margin_of, moved
from fairlane.stats.contests import Claims, Contest, Stage, lent
from fairlane.stats.effects import Estimate
from fairlane.stats.efficiency import efficient
from fairlane.stats.looks import level

if TYPE_CHECKING:
    from fairlane.study.spec import Study

_PARKED, _HOPELESS = 8, 0.05
"""Blocks from which a cell is parked that has less than this chance of any word."""
_TIE = 10
"""Blocks before which the runner ends no cell on a tie: so many clean ones leave at most 26 % of trials (at 95 %) that
may be slow without having shown it; six leave 39 %."""
_ALONE = 10
"""Blocks before which no cell ends on its own spread: fewer do not show that they are alike."""
_SMALL: frozenset[Word] = frozenset({"tie", "different-but-small"})


def open_cells(
    study: "Study", observations: Sequence[Observation], look: int, *, modelled: bool = False
) -> frozenset[str]:
    """Keys of the cells that continue after look number ``look`` (index into ``study.design.looks``).

    A cell continues while the primary metric of any of its lanes has no word yet, or one whose printed interval still
    says little of the size (``_clear``); under a stop on width, while it is too wide. Cells that stopped at an earlier
    look, and lanes in which more blocks cannot help (nothing but failed trials, no such metric, hardly a chance of any
    word: ``chance``), do not. Blocks beyond the look are ignored, so that a resumed run decides as an undisturbed one.
    Empty at the last look; before it all cells, where the lanes are not interleaved and judged once. ``modelled``: by
    the virtual clock. IndexError: no such look.
    """
    plan = study.design.looks
    here = plan[look]
    if look + 1 == len(plan):
        return frozenset()
    if not study.design.paired:
        return frozenset(cell.key for cell in study.cells())
    claims = Claims(
        study,
        efficient(study, (observation for observation in observations if observation.block < here)),
        primary_only=True,
        modelled=modelled,
    )
    if study.design.stop:
        return too_wide(claims)
    return frozenset(
        c.cell.key for c in claims.primaries if c.reached == look + 1 and not c.refused and _goes_on(claims, c)
    )


def _goes_on(claims: Claims, contest: Contest) -> bool:
    """Whether more blocks are worth their time."""
    stage = claims.stage(contest)
    if not stage or stage.past.unsettled:
        return True
    if stage.filled and stage.blocks < _TIE:  # of fewer, one that failed is no exception yet
        return True
    made = answer(claims, contest)
    if made.withheld and made.withheld.kind != "missing":  # more blocks seldom make failures and stalls even
        return stage.blocks < _TIE
    if made.word == "inconclusive":
        return stage.effect.n < _PARKED or chance(claims, contest, stage) >= _HOPELESS
    if made.word != "tie" and made.joint:
        low, high = moved(made.joint, stage.past.move.ahead)
        if low <= 0 <= high:
            return True
    return not claims.modelled and not _settled(claims, contest, stage, made.word)


def _settled(claims: Claims, contest: Contest, stage: Stage, word: Word) -> bool:
    """Whether a word rests on blocks enough, and its interval shows the size."""
    if word in _SMALL:
        return stage.blocks >= _TIE
    anew = claims.study.design.provisionings > 1  # what is made anew is no neighbour
    return (stage.effect.n >= _ALONE or anew or lent(stage)) and _clear(claims, contest, stage)


def _clear(claims: Claims, contest: Contest, stage: Stage) -> bool:
    """Whether the printed interval lies beyond the margin, or is within half of it about the estimate."""
    edge, level = math.log1p(margin_of(claims.study, contest.metric)), stage.printed_level(claims.alpha)
    (low, high), mean = stage.ends(level), stage.effect.mean
    return low >= edge or high <= -edge or max(high - mean, mean - low) <= edge / 2


def chance(claims: Claims, contest: Contest, stage: Stage) -> float:
    """Chance (0..1) that the contest gets any word at its last planned look: its predictive power, by the normal
    approximation, which knows the ratio no better than the blocks so far (Spiegelhalter, Freedman and Blackburn,
    Control. Clin. Trials 7, 1986), at the whole alpha, to which Holm's rate may still loosen as other cells are
    decided. It ends no test early, so it costs no error. Where trials have no figure: the least, whatever they would
    have shown."""
    return min(_chance(claims, contest, stage, effect) for effect in (stage.effect, *stage.filled))


def _chance(claims: Claims, contest: Contest, stage: Stage, effect: Estimate) -> float:
    edge, mean = math.log1p(margin_of(claims.study, contest.metric)), abs(effect.mean)
    last, done = stage.plan[-1], min(effect.n / stage.plan[-1], 1.0)
    error = effect.sd / math.sqrt(last)
    df = effect.df + last - effect.n
    outer, inner = (
        -float(stdtrit(df, level(stage.plan, stage.plan, rate) / 2)) for rate in (claims.alpha, 2 * claims.alpha)
    )
    rest = math.sqrt((1 - done) / done) or 1e-9
    if error <= 0:
        return 1.0
    room = max(0.0, edge - inner * error)  # of a mean whose interval lies within the margin
    tie = ndtr((room - mean) / (error * rest)) - ndtr((-room - mean) / (error * rest))
    difference = sum(ndtr((side - outer * error) / (error * rest)) for side in (mean, -mean))
    return float(min(1.0, tie + difference))  # different-but-small is both


def too_wide(claims: Claims) -> frozenset[str]:
    """Keys of the cells whose primary intervals are wider than the study's ``stop``, and may become narrower."""
    stop, plan = claims.study.design.stop, claims.study.design.looks
    if not stop:
        return frozenset()
    limit, share = math.log1p(stop.width), claims.alpha / max(1, len(claims.primaries))
    still: dict[str, bool] = {}
    for contest in claims.primaries:
        stage = claims.stage(contest)
        few = stage is None or stage.effect.n < stop.least
        helps = stage is None or stage.effect.resolution < limit
        wide = few or (stage is not None and stage.effect.half_width(stage.level(share)) > limit)
        if contest.reached < len(plan) and not contest.refused:
            still[contest.cell.key] = still.get(contest.cell.key, False) or (wide and helps)
    return frozenset(key for key, wide in still.items() if wide)
