"""Parse rules. A rule is one line; a wrong one raises one FairlaneError with the nearest form. Pure.

LANE >= X % over BASELINE [in METRIC] [on CELLS] [, no block below Y %]     also <=, >, <; under; "above" with <=
LANE within X % of BASELINE [in METRIC] [on CELLS]
LANE ties BASELINE [in METRIC] [on CELLS]
LANE [not] faster than BASELINE [in METRIC] [on CELLS]     also slower
METRIC of LANE <= QUANTITY [on CELLS] [, no block above QUANTITY]
no critical finding [on CELLS] | no warning [on CELLS] | no finding [on CELLS]

CELLS are patterns with ``and`` between them: 4k randread and mixes/8k*
"""

import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from fairlane.errors import FairlaneError, nearest
from fairlane.gate.cells import patterns
from fairlane.gate.rules import (
    BANDWIDTHS,
    COUNTS,
    DURATIONS,
    Absolute,
    Clean,
    Directed,
    Quantity,
    Relative,
    Rule,
    Sign,
    Within,
)
from fairlane.metrics import METRICS

LONGEST = 500
"""Longest rule, characters."""
FORMS = (
    "LANE >= 20 % over BASELINE [in METRIC] [on CELLS] [, no block below 10 %]",
    "LANE within 5 % of BASELINE [in METRIC] [on CELLS]",
    "LANE ties BASELINE [in METRIC] [on CELLS]",
    "LANE faster than BASELINE [in METRIC] [on CELLS]",
    "METRIC of LANE <= 2ms [on CELLS] [, no block above 3ms]",
    "no critical finding [on CELLS]",
)

_NUMBER = r"\d{1,12}(?:\.\d{1,6})?"
_NAME = r"[^\s,%<>=≤≥]{1,60}"
_SIGN = r"(?P<sign>>=|<=|>|<|≥|≤|at\ least|at\ most|more\ than|less\ than)"
_SIGNS: dict[str, Sign] = {
    "≥": ">=", "at least": ">=", "≤": "<=", "at most": "<=", "more than": ">", "less than": "<",
    ">=": ">=", "<=": "<=", ">": ">", "<": "<",
}  # fmt: skip
_IN = rf"(?:\ in\ (?P<metric>{_NAME}))?"
_ON = r"(?:\ on\ (?P<cells>[^,]+?))?"


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.VERBOSE | re.IGNORECASE | re.ASCII)


_RELATIVE = _form(
    rf"""(?P<lane>{_NAME})\ ?{_SIGN}\ ?(?P<percent>{_NUMBER})\ ?%\ (?P<side>over|under)\ (?P<baseline>{_NAME})
    {_IN}{_ON}(?:\ ?,\ ?no\ block\ (?P<edge>below|above)\ (?P<block>{_NUMBER})\ ?%)?"""
)
_WITHIN = _form(
    rf"""(?P<lane>{_NAME})\ (?:within\ (?P<percent>{_NUMBER})\ ?%\ of|ties)\ (?P<baseline>{_NAME}){_IN}{_ON}"""
)
_DIRECTED = _form(
    rf"""(?P<lane>{_NAME})\ (?P<not>not\ )?(?P<way>faster|slower)\ than\ (?P<baseline>{_NAME}){_IN}{_ON}"""
)
_AMOUNT = rf"{_NUMBER}\ ?[A-Za-zµ/]{{0,5}}"
_ABSOLUTE = _form(
    rf"""(?P<metric>{_NAME})\ of\ (?P<lane>{_NAME})\ ?{_SIGN}\ ?(?P<limit>{_AMOUNT}){_ON}
    (?:\ ?,\ ?no\ block\ (?P<edge>below|above)\ (?P<block>{_AMOUNT}))?"""
)
_CLEAN = _form(rf"""no\ (?P<what>critical\ findings?|warnings?|findings?){_ON}""")
_QUANTITY = re.compile(rf"({_NUMBER}) ?(\S*)", re.ASCII)


def parse(text: str) -> Rule:
    """The rule in ``text``. Raises only FairlaneError."""
    shown = _printable(text[:LONGEST])
    if len(text) > LONGEST:
        raise FairlaneError("rule-too-long", f"the rule is longer than {LONGEST} characters: {shown[:60]} ...")
    if not text.isprintable():
        raise FairlaneError("rule-lines", f"a rule must be one line of plain text: {shown}")
    line = " ".join(text.split())
    try:
        for pattern, make in _MAKE:
            if match := pattern.fullmatch(line):
                return make(match)
    except FairlaneError as error:
        raise FairlaneError(error.kind, f"{error.message}, in the rule: {shown}", hint=error.hint) from None
    raise FairlaneError("rule-invalid", f"not a rule: {shown or '(nothing)'}", hint=_meant(line))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _meant(line: str) -> str:
    """The form that ``line`` resembles."""
    words = line.casefold().split()
    form = (
        FORMS[5] if words[:1] == ["no"]
        else FORMS[4] if words[1:2] == ["of"]
        else FORMS[1] if "within" in words
        else FORMS[2] if "ties" in words
        else FORMS[3] if {"faster", "slower", "than"} & set(words) and "%" not in line
        else FORMS[0] if "%" in line or "over" in words or "under" in words
        else ""
    )  # fmt: skip
    return f"write {form}" if form else "write one of: " + "; ".join(FORMS)


def _relative(match: re.Match[str]) -> Rule:
    sign, side = _sign(match), match["side"].lower()
    percent = Decimal(match["percent"])
    block = None if match["block"] is None else Decimal(match["block"])
    if side == "under" and max(percent, block or 0) > 100:
        raise FairlaneError(
            "rule-limit", "no figure can be more than 100 % under another", hint="for example, 100 is 66.7 % under 300"
        )
    _edge(match, sign)
    _different(match)
    return Relative(
        match["lane"], sign, percent, "over" if side == "over" else "under", match["baseline"],
        _named(match), _cells(match), block,
    )  # fmt: skip


def _within(match: re.Match[str]) -> Rule:
    _different(match)
    percent = None if match["percent"] is None else Decimal(match["percent"])
    if percent == 0:
        raise FairlaneError(
            "rule-limit",
            "no interval lies within 0 %",
            hint="name the smallest difference that matters, for example 5 %",
        )
    return Within(match["lane"], match["baseline"], percent, _named(match), _cells(match))


def _directed(match: re.Match[str]) -> Rule:
    _different(match)
    way: Literal["faster", "slower"] = "faster" if match["way"].lower() == "faster" else "slower"
    return Directed(match["lane"], way, match["baseline"], bool(match["not"]), _named(match), _cells(match))


def _absolute(match: re.Match[str]) -> Rule:
    metric, sign = _metric(match["metric"]), _sign(match)
    _edge(match, sign)
    block = None if match["block"] is None else _quantity(match["block"], metric)
    return Absolute(metric, match["lane"], sign, _quantity(match["limit"], metric), _cells(match), block)


def _clean(match: re.Match[str]) -> Rule:
    what = match["what"].lower()
    return Clean("critical" if "critical" in what else "warning" if "warning" in what else "info", _cells(match))


_MAKE: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Rule]], ...] = (
    (_CLEAN, _clean),
    (_RELATIVE, _relative),
    (_WITHIN, _within),
    (_DIRECTED, _directed),
    (_ABSOLUTE, _absolute),
)


def _sign(match: re.Match[str]) -> Sign:
    return _SIGNS[match["sign"].lower()]


def _cells(match: re.Match[str]) -> str:
    cells = (match["cells"] or "").strip()
    if re.search(r"(^| )(in|on) ", f"{cells} "):
        raise FairlaneError(
            "cell-unknown",
            f"no cell is called {cells!r}",
            hint="write the metric before the cells: in p99 on 4k randread",
        )
    words = ["and", *cells.lower().split(), "and"] if cells else []
    if ("and", "and") in pairwise(words):
        raise FairlaneError(
            "cell-unknown",
            f"a cell pattern is missing before or after 'and': {cells!r}",
            hint="for example: on 4k randread and 8k*",
        )
    return " and ".join(patterns(cells))


def _edge(match: re.Match[str], sign: Sign) -> None:
    """Check that ``no block below`` goes with >= and ``above`` with <=: the reverse could never fail."""
    right = "below" if sign[0] == ">" else "above"
    if match["edge"] and match["edge"].lower() != right:
        raise FairlaneError(
            "rule-edge",
            f"'no block {match['edge'].lower()}' does not go with {sign}",
            hint=f"with {sign} write: no block {right}",
        )


def _different(match: re.Match[str]) -> None:
    if match["lane"] == match["baseline"]:
        raise FairlaneError("rule-itself", f"{match['lane']} is compared with itself")


def _named(match: re.Match[str]) -> str:
    """The metric of a comparison; empty: each workload's primary one."""
    return _metric(match["metric"]) if match["metric"] else ""


def _metric(word: str) -> str:
    """Name in the registry: ``p99`` is lat_p99, ``p99.9`` lat_p999, ``sync_p99`` sync_lat_p99. Raises FairlaneError
    with the nearest name."""
    name = word.lower().replace(".", "")
    for candidate in (name, f"lat_{name}", name.replace("sync_", "sync_lat_")):
        if candidate in METRICS:
            return candidate
    short = [n.removeprefix("lat_") for n in METRICS]
    near = nearest(name, [*METRICS, *short])
    raise FairlaneError(
        "metric-unknown",
        f"unknown metric {word!r}",
        hint=f"did you mean {near}?" if near else f"metrics: {', '.join(METRICS)}",
    )


def _quantity(text: str, metric: str) -> Quantity:
    """A quantity in a unit of ``metric``. Raises FairlaneError with the allowed units."""
    units = {"ns": DURATIONS, "B/s": BANDWIDTHS}.get(METRICS[metric].unit, COUNTS)
    match = _QUANTITY.fullmatch(text)
    written = match[2].replace("µ", "u") if match else ""
    unit = {"K": "k", "KB/s": "kB/s"}.get(written, written)  # m and M, b and B differ; k and K do not
    if match is None or unit not in units:
        listed = ", ".join(u or "none" for u in units)
        raise FairlaneError(
            "rule-unit", f"{text!r} is not a valid value of {METRICS[metric].title}", hint=f"units: {listed}"
        )
    return Quantity(Decimal(match[1]), unit)


def parse_file(text: str, where: str) -> tuple[Rule, ...]:
    """The rules of a file, one per line; empty lines and ``#`` comments are skipped.

    Raises FairlaneError with file and line for the first invalid line, and for a file without rules.
    """
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        rule = re.sub(r"(^|\s)#.*", "", line).strip()
        if rule:
            try:
                rules.append(parse(rule))
            except FairlaneError as error:
                raise FairlaneError(error.kind, error.message, hint=error.hint, where=f"{where}:{number}") from None
    if not rules:
        raise FairlaneError(
            "rules-none", "no rule in the file", where=where, hint="write one rule per line: " + FORMS[0]
        )
    return tuple(rules)
