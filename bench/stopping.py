"""When studies end, and with which words: blocks, right, wrong and undecided words, and printed intervals that hold.

    uv run python bench/stopping.py             some 4 minutes on 2 cores
    uv run python bench/stopping.py --quick     under a minute, figures to about +-5 %

Two lanes in 1, 8 or 24 cells with the same true difference; log-ratios are normal, the margin is 5 %. Studies are
carried out look by look with the product's open_cells and judged by its judge. *Right*: ``faster`` at a difference,
``tie`` at none. *Wrong*: a difference where there is none; ``slower``, ``tie`` or ``different-but-small`` at the margin
or more. *Any*: studies with a wrong word in any cell. *Covered*: printed intervals that hold the truth. Lines without a
difference have twice as many studies.
"""

import argparse
import math
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
from calibration import DIFFERENT, TIES  # type: ignore[import-not-found] # beside it
from hostile import alike, covers, verdicts  # type: ignore[import-not-found] # beside it

CELLS, EFFECTS, SDS = (1, 8, 24), (0.0, 0.05, 0.10, 0.50), (0.02, 0.05, 0.10)


@dataclass(frozen=True)
class Line:
    """One case; shares of comparisons, ``any_wrong`` of studies."""

    cells: int
    effect: float
    sd: float
    studies: int
    blocks: float
    right: float
    wrong: float
    any_wrong: float
    covered: float


def measure(case: tuple[int, float, float], comparisons: int, seed: int) -> Line:
    cells, effect, sd = case
    studies = max(1, comparisons * (1 if effect else 2) // cells)
    rng = np.random.default_rng((seed, cells, int(1000 * effect), int(1000 * sd)))
    made = list(verdicts(cells, alike(cells, sd, math.log1p(effect)), rng, studies))
    every = [v for one in made for v in one]
    false = DIFFERENT if not effect else TIES | {"slower"}

    def share(hits: int) -> float:
        return hits / len(every)

    return Line(
        cells,
        effect,
        sd,
        studies,
        share(sum(v.blocks for v in every)),
        share(sum(v.verdict == ("faster" if effect else "tie") for v in every)),
        share(sum(v.verdict in false for v in every)),
        sum(any(v.verdict in false for v in one) for one in made) / studies,
        share(sum(map(covers(effect), every))),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 comparisons")
    parser.add_argument("--comparisons", type=int, default=1000, help="per line: so many studies, divided by cells")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    comparisons = 100 if asked.quick else asked.comparisons
    cases = list(product(CELLS, EFFECTS, SDS))
    print("cells  true   sd  studies  blocks   right  wrong  open    any  covered")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for x in pool.map(measure, cases, [comparisons] * len(cases), [asked.seed] * len(cases)):
            rest = max(0.0, 1 - x.right - x.wrong)
            print(
                f"{x.cells:5} {x.effect:5.0%} {x.sd:4.0%} {x.studies:8} {x.blocks:7.1f} {100 * x.right:7.1f}"
                f"{100 * x.wrong:7.1f}{100 * rest:6.1f}{100 * x.any_wrong:7.1f}{100 * x.covered:9.1f}",
                flush=True,
            )
    print(f"\nper cent; {comparisons:,} comparisons a line")


if __name__ == "__main__":
    main()
