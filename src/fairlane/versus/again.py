"""The command of a longer comparison, for undecided cells. Pure."""

import shlex

from fairlane.records import Evidence
from fairlane.units import format_duration, format_size
from fairlane.versus import ending
from fairlane.versus.composed import Composed

_PLANNED = ("--for", "--blocks", "--runtime", "--size", "--out", "--save-study")
"""Options that a longer comparison changes."""
_MANY = 60
"""Blocks beyond which a longer comparison is given as its time."""
_LONGEST = 480
"""Minutes of a comparison that is proposed, at most."""


def longer(evidence: Evidence, found: ending.Verdicts, composed: Composed | None, args: str) -> tuple[str, float]:
    """The command for as many blocks as would decide what is open, and its time in seconds; empty: nothing is."""
    open_, trial = ending.within_reach(found), ending.longer_trials(evidence, found)
    if not (open_ or trial) or composed is None:
        return "", 0.0
    kept, words = [], iter(shlex.split(args))
    for word in words:
        if word in _PLANNED:
            next(words, "")
        elif not word.startswith(tuple(f"{option}=" for option in _PLANNED)):
            kept.append(word)
    sizes = composed.sizes
    if trial:
        kept += ["--blocks", str(sizes.blocks), "--runtime", f"{trial:.0f}s"]
        seconds = sizes.seconds + (trial - sizes.runtime) * sizes.blocks * len(composed.load.cells) * len(
            composed.labels
        )
        return f"fairlane versus {shlex.join(kept)}", seconds
    most = max(v.blocks + (v.more_blocks or sizes.blocks) for v in open_)
    blocks = -(-int(1.2 * most) // 2) * 2
    seconds = sizes.seconds * blocks / sizes.blocks
    if blocks <= _MANY:
        kept += ["--blocks", str(blocks), "--runtime", format_duration(round(sizes.runtime * 1e9))]
        kept += ["--size", format_size(sizes.size)] if sizes.size else []
    else:  # longer trials, too
        kept += ["--for", f"{min(_LONGEST, max(1, round(seconds / 60)))}m"]
    return f"fairlane versus {shlex.join(kept)}", min(seconds, 60.0 * _LONGEST)
