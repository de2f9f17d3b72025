"""An interval that is valid at any moment, for readers of a study that is still running.

An ordinary interval is invalid between two planned looks: read often enough, it will exclude the truth. This one may be
read after every block, and a study may be stopped on it: the chance that it *ever* misses, over all
blocks of an endless study, is at most alpha. The price is its width, 1.64 times that of the fixed one at 20 blocks, so
the verdict itself waits for the looks.

The paired log-ratios are taken as normal with unknown spread, as in the verdict. The t test's scale-invariant
likelihood ratio, mixed over the standardised effect with a normal prior of variance g, is a martingale under the true
mean (Wang and Ramdas, arXiv 2310.03722, section 4: Lai's construction, Ann. Stat. 4, 1976, with a Gaussian mixture in
place of the flat one). By Ville's inequality the chance that it ever exceeds 1/alpha is at most alpha. It is, with
nu = n - 1 and A = 1 + ng,

    M_n = A^(-1/2) [(1 + t^2/nu) / (1 + t^2/(nu A))]^(n/2)

and M_n < 1/alpha, solved for t, is the interval:

    mean +- s/sqrt(n) sqrt(nu (R - 1) / (1 - R/A)),   R = (sqrt(A)/alpha)^(2/n),   without limits where R >= A.

(s with n - 1.) The blocks of a cell are exchangeable but not quite independent, because orders are balanced; what that
costs is simulated in the tests and stated in docs/statistics.md.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from fairlane.records import Note
from fairlane.stats.effects import Effect

if TYPE_CHECKING:
    from fairlane.stats.pairs import Pair
    from fairlane.study.spec import Study


def multiplier(n: int, alpha: float, g: float) -> float:
    """Half width in standard errors s/sqrt(n) after ``n`` blocks, error rate ``alpha`` (0..1) over all moments.

    inf where the blocks are too few for any limit. ``g`` > 0: variance of the mixture over effect / spread.
    """
    if n < 2:
        return math.inf
    a = 1 + n * g
    log_r = (2 / n) * (0.5 * math.log(a) - math.log(alpha))
    if log_r >= math.log(a):
        return math.inf
    r = math.exp(log_r)
    return math.sqrt((n - 1) * (r - 1) / (1 - r / a))


@lru_cache(maxsize=256)
def mixture(alpha: float, last: int) -> float:
    """The g that makes the interval narrowest after 3/5 of the ``last`` planned blocks: 12 of the default 20.

    Any g chosen before the data is valid. This one depends on the plan and alpha alone; at alpha = 5 % its intervals
    are within 2 % of the narrowest possible at 10 as well as at 20 blocks. A small g is blind at first, a large one
    wide at last. Never tuned to more than 20 blocks: a long plan is no reason to see nothing of its first ones.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - 0.4 s, for runs that go on alone

    n = min(20, max(3, round(0.6 * last)))
    # M needs A^(n-1) > alpha^-2 for any limit: below this g there is none
    least = math.log(math.expm1(-2 * math.log(alpha) / (n - 1)) / n)
    best = minimize_scalar(lambda log_g: multiplier(n, alpha, math.exp(log_g)), bounds=(least, least + 20))
    return math.exp(best.x)


def half_width(effect: Effect, alpha: float, g: float) -> float:
    """Half the interval of the mean log-ratio, inf where there is none yet; at least the figures' resolution."""
    many = multiplier(effect.n, alpha, g)
    return many if math.isinf(many) else max(many * effect.sd / math.sqrt(effect.n), effect.resolution)


def interval(effect: Effect, alpha: float, g: float) -> tuple[float, float]:
    """Ends of the interval as log-ratios; (-inf, inf) where there is none yet."""
    half = half_width(effect, alpha, g)
    return effect.mean - half, effect.mean + half


def spent(study: "Study") -> tuple[float, float]:
    """Error rate and g of each primary comparison of a study: alpha / (number of primaries), over all moments."""
    comparisons = len(study.judged) * len(study.rivals)
    alpha = study.design.alpha / max(1, comparisons)
    return alpha, mixture(alpha, study.design.looks[-1])


def so_far(study: "Study", pair: "Pair") -> Iterator[Note]:
    """The note for a primary verdict of an unfinished run; none while there is no interval.

    ``pair``: all blocks measured so far, also those beyond the last look.
    """
    if len(pair.rows) < 2:
        return
    low, high = interval(pair.effect, *spent(study))
    if high < FAR:
        yield Note(
            "so-far", f"so far, after {len(pair.rows)} blocks (valid at any time): {percent(low)} to {percent(high)}"
        )


FAR = math.log(10)
"""Log-ratio; an interval that reaches beyond ten times the baseline is not printed: it is too early."""


def percent(log_ratio: float) -> str:
    """A log-ratio as a change: ``+11.8 %``; a digit more below one percent."""
    change = 100 * math.expm1(log_ratio)
    return f"{change:+.{1 if abs(change) >= 1 else 2}f} %"
