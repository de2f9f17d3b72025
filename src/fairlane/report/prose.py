"""The report's sentences: banners, certainty of the answer, method, commands to repeat it. Pure."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from fairlane.errors import FairlaneError
from fairlane.records import Evidence, Finding, Verdict
from fairlane.report import fleet, phrases
from fairlane.report.phrases import count, share
from fairlane.report.text import MINUS
from fairlane.stats.answers import margin_of
from fairlane.stats.looks import CALM
from fairlane.stats.variance import splits
from fairlane.study.base import PROVISIONINGS_FOR_OTHERS, Design
from fairlane.study.load import parse_study
from fairlane.verdicts.scorecard import by_reason

if TYPE_CHECKING:
    from fairlane.study.spec import Study


@dataclass(frozen=True)
class Banner:
    """A warning that a reader needs before the first figure."""

    title: str
    text: str


MODELLED = Banner(
    "Modelled: a virtual clock",
    "These figures come from one virtual machine under a virtual clock: one slow core on which time is instructions "
    "executed (1 ns each), a modelled medium and a modelled link. They are valid as ratios between lanes and for "
    "finding regressions, not as absolute IOPS or latencies. Every block starts from the same saved state; only "
    "addresses, the order of the lanes and the instants of starting vary, so the intervals speak of these alone.",
)
EMULATED = Banner(
    "Emulated: no hardware virtualization",
    "The guests ran on an emulated processor. Software costs far more than on real hardware, so absolute figures are "
    "meaningless and ratios may differ from those of real machines.",
)
QUICK = Banner(
    "Quick form: a first try",
    "This is the short form of the study (--quick): fewer lanes, cells or blocks, shorter trials. A smoke test with "
    "indicative figures: decide from the whole study.",
)
INVENTED = Banner(
    "Invented figures",
    "The platform invents its figures from the seed, for tests and documentation. Nothing here was measured.",
)


def banners(evidence: Evidence, *, invented: bool = False) -> tuple[Banner, ...]:
    """The banners at the top of the report. ``invented``: figures of a joined run are."""
    invented = invented or evidence.study.platform.invented
    shown = ((INVENTED, invented), (MODELLED, evidence.modelled), (EMULATED, evidence.emulated),
             (QUICK, bool(evidence.study.quick)))  # fmt: skip
    return tuple(banner for banner, on in shown if on)


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


_FEW = 6
"""Blocks below which the shape of their distribution is unknown; the sign-flip test begins here too."""


def terms(study: "Study", metrics: Sequence[str]) -> str:
    """The error rate and the margins that decide: ``Error rate 5 % (alpha), margin 5 % (IOPS)``."""
    by_margin: dict[float, list[str]] = {}
    for name in dict.fromkeys(metrics):
        by_margin.setdefault(margin_of(study, name), []).append(phrases.metric_of(name).title)
    margins = [f"margin {share(margin)} ({', '.join(titles)})" for margin, titles in by_margin.items()]
    return ", ".join([f"Error rate {share(study.design.alpha)} (alpha)", *margins])


def sureness(evidence: Evidence, verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> tuple[str, ...]:
    """Sentences for and against trusting the answer."""
    study, observations = evidence.study, evidence.observations
    sentences: list[str] = []
    if not evidence.complete:
        planned = sum(len(b.order) for b in evidence.blocks)
        sentences.append(
            f"The run is not complete: {len(observations):,} of {count(planned, 'planned trial')} are in. Figures may "
            "change."
        )
    blocks = [len({o.block for o in group}) for _, group in groupby(observations, key=lambda o: o.cell)]
    if blocks:
        sentences.append(_blocks(evidence, len(blocks), _span(blocks)))
    primary = [v for v in verdicts if v.primary and v.verdict != "refused"]
    if len(primary) > 1 and any(v.low is not None for v in primary):
        sentences.append(
            f"With {len(primary)} primary comparisons, a false difference appears in at most "
            f"{share(study.design.alpha)} of such studies where blocks are independent (Holm, all interim analyses "
            "included). Intervals are "
            f"those of one comparison: {share(1 - study.design.alpha)}."
        )
    if missed := [v.unseen for v in primary if v.unseen]:
        sentences.append(
            f"Verdicts hold for the trials that ran: stalls in up to {share(round(max(missed), 2))} of trials can go "
            "unnoticed with so few blocks (at 95 %)."
        )
    if evidence.modelled:
        sentences.append(
            "The virtual clock repeats bit for bit: running the same seed again adds nothing. Between blocks only "
            "addresses, lane order and start times vary; real machines vary more."
        )
    few_blocks = [v.blocks for v in primary if v.low is not None and v.blocks < _FEW]
    if few_blocks:
        modelled_only = ", and the spread comes only from addresses, lane order and start times"
        sentences.append(
            f"With {_span(few_blocks)} blocks a normal distribution of the log-ratios is assumed, not tested"
            f"{modelled_only if evidence.modelled else ''}: "
            "trust the size of a difference more than the last digit of its interval."
        )
    failed = [o for o in observations if o.failed]
    if failed:
        sentences.append(
            f"{len(failed)} of {count(len(observations), 'trial')} failed; each voids its block in its comparisons, "
            "and the intervals allow for the figure that the trial may have had. No outlier was dropped."
        )
    elif observations and not study.platform.measured_here:
        sentences.append(
            f"{count(len(observations), 'result')}, each with figures. Fairlane imputed and dropped nothing; earlier "
            "omissions are unknown."
        )
    elif observations:
        sentences.append(f"All {len(observations):,} trials succeeded. No value was imputed and no outlier dropped.")
    if lost := sum(o.lost for o in observations):
        sentences.append(
            f"{count(lost, 'more trial')} lost a machine: {'its block was' if lost == 1 else 'their blocks were'} done "
            "again, whole."
        )
    sentences += fleet.sentences(evidence)
    sentences += _no_claims(verdicts)
    open_ = [v for v in primary if v.verdict == "inconclusive"]
    if open_:
        more = phrases.further(open_)
        advice = f" {more.capitalize()} may decide them, at the same spread." if more else ""
        sentences.append(
            f"{len(open_)} of {count(len(primary), 'primary comparison')} {'is' if len(open_) == 1 else 'are'} "
            f"inconclusive.{advice}"
        )
    sentences += [
        f"{count(len(held), 'decided verdict')} not in the headline: {reason}."
        for reason, held in by_reason(verdicts).items()
    ]
    sums = [(s, sum(f.severity == s for f in findings)) for s in ("critical", "warning", "info")]
    totals = ", ".join(count(n, s) if s == "warning" else f"{n} {s}" for s, n in sums if n)
    sentences.append(f"Findings: {totals}." if totals else "No findings.")
    return (*sentences, *_pairing(evidence))


def _pairing(evidence: Evidence) -> Iterator[str]:
    """The gain of comparing within blocks, by workload; and the part of the spread that more blocks do not reduce."""
    for name, parts in splits(evidence).items():
        metric = phrases.metric_of(evidence.study.workloads[name].primary).title
        what = f"{metric} of {name}" if len(evidence.study.workloads) > 1 else metric
        times = f"{parts.narrower:.1f}" if parts.narrower < _MANY_TIMES else f"more than {_MANY_TIMES}"
        gain = "gained no precision in" if times == "1.0" else f"made intervals {times} times narrower for"
        correlation, low, high = (f"{100 * x:.0f} %" for x in (parts.correlation, *parts.share))
        yield f"Pairing {gain} {what} (intra-block correlation {correlation}, 95 % interval {low} to {high})."
        if parts.lane_provision and (parts.lane_provision_p or 0.0) <= 0.05:
            yield (
                f"{100 * parts.lane_provision / parts.total:.0f} % of the variance of {what} is a lane's own in each "
                "provisioning: more blocks do not average it out, only more provisionings do."
            )


_MANY_TIMES = 99
"""Largest factor printed; above, the text says only that it is larger."""


def _no_claims(verdicts: Sequence[Verdict]) -> list[str]:
    """Sentences on comparisons without a claim: single results, refusals, copies of lanes."""
    sentences = []
    primary = [v for v in verdicts if v.primary]
    if single := [v for v in primary if v.verdict == "no-spread"]:
        sentences.append(
            f"{count(len(single), 'primary comparison')} {'rests' if len(single) == 1 else 'rest'} on single results: "
            "their spread is unknown, so no claim is possible."
        )
    if refused := [v for v in primary if v.verdict == "refused"]:
        sentences.append(f"{count(len(refused), 'primary comparison')} refused: the lanes are not comparable there.")
    return sentences


def _blocks(evidence: Evidence, cells: int, each: str) -> str:
    """Grouping and order of the trials, as far as it is known."""
    one = len(evidence.study.lanes) == 1
    head = f"{count(cells, 'cell')}, {each} {'trial' if each == '1' else 'trials'} {'each' if one else 'of each lane'}."
    if one and not evidence.study.platform.measured_here:
        return head
    if not evidence.study.design.paired:
        return (
            f"{head} The lanes ran at different times: every other change in between is part of the differences, "
            "and more trials do not remove it."
        )
    if not evidence.study.platform.measured_here:
        return f"{head} The lanes were interleaved, and are compared within blocks; order and addresses are the tool's."
    return (
        f"{count(cells, 'cell')}, {each} blocks each. A block runs every lane once, in a fresh random order, with the "
        "same addresses for all lanes; lanes are compared within blocks only."
    )


def scope(evidence: Evidence, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What the answer holds for, and the noise floor: sentences that stand right below it."""
    return (*_provisionings(evidence), *_floor(verdicts))


def _provisionings(evidence: Evidence) -> Iterator[str]:
    """How often volumes and machines were made, and so what the verdicts hold for."""
    design, platform = evidence.study.design, evidence.study.platform
    if design.provisionings > 1:
        made = len({design.provisioning_of(o.block) for o in evidence.observations})
        yield (
            f"Volumes and machines were provisioned anew {count(made, 'time')}, for "
            f"{count(design.blocks_per_provisioning, 'block')} of each cell"
            + (": the verdicts hold for these volumes." if made < PROVISIONINGS_FOR_OTHERS else ".")
        )
    elif platform.placed:
        yield "Volumes and machines were provisioned once: the verdicts hold for these volumes."


def _floor(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The interval of a lane against its own copy: what this study calls no difference."""
    copies = [v for v in verdicts if v.control and v.low and v.high]
    if not copies:
        return
    widest = max(copies, key=lambda v: math.log((v.high or 1) / (v.low or 1)))
    where = widest.cell if len(copies) == 1 else f"the widest of {count(len(copies), 'cell')}, {widest.cell}"
    span = phrases.interval(widest.low, widest.high)
    yield f"Noise floor: {widest.baseline} against a copy of itself is {span} ({where})."


_APART = (
    "The unit is the trial. The lanes' trials are independent samples: the effect is the difference of their mean "
    "logarithms, its interval Welch's t, turned back into a percentage. With fewer than two trials of either lane "
    "there is no interval, and so no claim."
)


def _stopping(design: Design) -> str:
    if not design.paired:
        return "Verdicts are drawn once, from all trials."
    if len(design.looks) == 1:
        return f"The number of blocks was fixed beforehand: {design.looks[0]}."
    if design.stop:
        return (
            f"A cell stops as soon as its primary intervals are within {share(design.stop.width)} of the ratio, after "
            f"{design.stop.least} to {design.stop.most} blocks, whatever their values. Intervals are widened for this: "
            f"they are drawn at {share(1 - CALM * design.alpha)}."
        )
    looks = ", ".join(str(n) for n in design.looks)
    return (
        f"Verdicts are drawn after {looks} blocks only (Hwang-Shih-DeCani spending, boundaries of t); a cell ends "
        "when it has a verdict and a narrow enough interval, or hardly a chance of a verdict. The error rate accounts "
        "for every interim analysis. The printed intervals are valid also for studies that ended early."
    )


def method(evidence: Evidence) -> tuple[str, ...]:
    """Sentences on the statistical method."""
    design = evidence.study.design
    if not evidence.study.platform.measured_here:
        return _method_elsewhere(evidence)
    return (
        _APART
        if not design.paired
        else "The unit is the block: every lane once, in balanced random order. The effect is the paired log-ratio "
        f"ln(lane) {MINUS} ln(baseline) within each block; its interval is Student's t over blocks, "
        "turned back into a percentage.",
        _stopping(design),
        f"One metric per workload is primary; errors over all primaries are held at {share(design.alpha)} (Holm). All "
        "other metrics are exploratory (adjusted by Benjamini-Hochberg): hints, never headlined.",
        "Cells lend each other their spread (Smyth 2004): few blocks of each are enough together. Correlated "
        "neighbouring blocks widen the interval.",
        "Margins (the smallest difference that matters) were set before the run and are drawn as a band. A tie is "
        f"proven against the margin by two one-sided tests, each at {share(design.alpha)} (the interval drawn thick).",
        "Changes are those of the metric itself: +10 % latency is worse.",
        "Percentiles come from merged histograms (jobs and directions; for the absolute figures blocks too); they are "
        "never averaged.",
        f"Every random choice comes from the seed {evidence.seed}.",
    )  # fmt: skip


def _method_elsewhere(evidence: Evidence) -> tuple[str, ...]:
    """The method of imported results: without orders, addresses and seeds."""
    alpha = share(evidence.study.design.alpha)
    return (
        "Others measured these figures; Fairlane read them from the output of their tools or from their pages. The "
        "conditions of the lanes state how they were measured.",
        _APART
        if not evidence.study.design.paired
        else f"The unit is the block. The effect is the paired log-ratio ln(lane) {MINUS} ln(baseline) within each "
        "block; its interval is Student's t over blocks, turned back into a percentage.",
        f"One metric per workload is primary; errors over all primaries are held at {alpha} (Holm). All other metrics "
        "are exploratory (adjusted by Benjamini-Hochberg): hints, never headlined.",
        "The margin is the smallest difference that matters. A tie is proven against it by two one-sided tests, each "
        f"at {alpha}.",
        "Changes are those of the metric itself: +10 % latency is worse.",
        "Percentiles come from merged histograms where there are histograms; otherwise they are the published ones.",
        "Metrics are defined as below where the lanes' conditions have no definition of their own.",
    )


def repeat(evidence: Evidence) -> str:
    """The sentence above the commands: their input."""
    if not evidence.study.platform.measured_here:
        return "An import cannot be measured again. The same files and map give the same run; its study is below:"
    return f"Save the study below as {evidence.study.name}.yaml, then:"


def commands(evidence: Evidence) -> tuple[str, ...]:
    """Commands that repeat the run; with options only where it departed from its study file."""
    if not evidence.study.platform.measured_here:
        return ("fairlane import FILES --map MAP --out repeat", "fairlane report repeat")
    name, design, options = shlex.quote(f"{evidence.study.name}.yaml"), evidence.study.design, ""
    try:
        original = parse_study(evidence.study_text, name).design
    except FairlaneError:  # written for another version of Fairlane: print all options
        original = None
    if original is None or evidence.seed != original.seed:
        options += f" --seed {evidence.seed}"
    if len(design.looks) == 1 and (original is None or design.looks != original.looks):
        options += f" --blocks {design.looks[0]}"
    return (f"fairlane run {name}{options} --out repeat", "fairlane report repeat")
