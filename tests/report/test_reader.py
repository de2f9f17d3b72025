"""A reader who has the report's words alone: tags stripped, figures gone. What it concludes is what was true.

The truth is put into the fake platform, the page is read back by its sentences, and each claim in them is held against
the truth: which lane, which direction, in which cells, by how much, and what is in doubt. That the comparison can fail
is shown by holding pages against the truth of another run.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.report import prose
from tests.figures import figures

pytestmark = pytest.mark.xdist_group("reader")  # the runs that are read are made once

CELLS = ("4k randread qd1", "4k randread qd16", "64k randread qd1", "64k randread qd16")
LABELS = {"old": "the old path", "new": "the new path", "worn": "a worn path", "share": "a share"}
TRANSPORTS = {"old": "iscsi", "new": "nvme_tcp", "worn": "iscsi", "share": "nfs"}
REFUSED = "refused"

Truth = Mapping[str, Any]
"""Lane's label -> (speed at 4k, speed at 64k) against the old path, or ``refused``."""


@dataclass(frozen=True)
class Known:
    """A study and what is true of it."""

    speeds: Mapping[str, tuple[float, float]]
    noise: float = 0.01
    metric: str = "iops"

    @property
    def truth(self) -> Truth:
        """Of the metric itself: a lane that is faster has less latency. A share differs in more than its transport."""
        found: dict[str, Any] = {LABELS["share"]: REFUSED}
        for lane, speeds in self.speeds.items():
            ratios = speeds if self.metric == "iops" else tuple(1 / speed for speed in speeds)
            found[LABELS[lane]] = dict(zip(CELLS, (r for r in ratios for _ in (1, 16)), strict=True))
        return found

    def page(self, folder: Path) -> str:
        """The report of its run."""
        effects = {lane: {"speed": small, "cells": {"64k *": large}} for lane, (small, large) in self.speeds.items()}
        lanes = {
            name: {"transport": TRANSPORTS[name], "label": LABELS[name]} for name in ("old", *self.speeds, "share")
        }
        load = {"kind": "fio", "rw": ["randread"], "bs": ["4k", "64k"], "iodepth": [1, 16], "runtime": "1s"}
        study = {
            "name": "known",
            "question": "Which path is best?",
            "platform": {"kind": "fake", "effects": effects, "noise": {"sd": self.noise}},
            "lanes": lanes,
            "baseline": "old",
            "workloads": {"main": {**load, "primary": self.metric}},
            "design": {"seed": 5, "looks": [12]},
        }
        folder.mkdir(exist_ok=True)
        (folder / "study.yaml").write_text(json.dumps(study))
        assert run(["run", str(folder / "study.yaml"), "--out", str(folder / "run")]) == Exit.OK
        return (folder / "run" / "report.html").read_text()


WINNER = Known({"new": (1.0, 1.4), "worn": (0.8, 0.8)})
SWAPPED = Known({"new": (0.8, 0.8), "worn": (1.0, 1.4)})
LATENCY = Known({"new": (1.3, 1.3), "worn": (0.7, 1.0)}, metric="lat_p99")
NOISY = Known({"new": (1.03, 1.03), "worn": (0.98, 1.6)}, noise=0.1)


class Words(HTMLParser):
    """The text of a page, a line per paragraph, list item, heading or row of a table; cells parted by `` | ``."""

    LINES = frozenset({"p", "li", "tr", "h1", "h2", "h3", "h4", "summary", "caption", "dt", "dd", "title", "div"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = 0
        self.feed(page)
        self.close()
        self.lines = [line for part in "".join(self._parts).split("\n") if (line := " ".join(part.split()))]

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in {"style", "svg"}
        self._parts += ["\n"] if tag in self.LINES else []

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"style", "svg"}
        self._parts += ["\n"] if tag in self.LINES else [" | "] if tag in {"td", "th"} else []

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data.replace("\n", " "))

    def between(self, first: str, last: str) -> list[str]:
        """The lines from the heading ``first`` to the heading ``last``; a table of contents names them too."""
        begin = self.lines.index(first)
        return self.lines[begin + 1 : self.lines.index(last, begin)]


CELL = r"(?P<cell>\d+k \w+ qd\d+)"
ENDS = r"\((?P<low>[\d.]+) to (?P<high>[\d.]+) %\)"
SIZED = rf"(?P<lane>.+) is (?P<size>[\d.]+) % (?P<word>faster|slower) than (?P<base>.+) {ENDS} at {CELL} \("
LOWER = (
    rf"p99 latency of (?P<lane>.+) is (?P<size>[\d.]+) % (?P<word>higher|lower) than (?P<base>.+)'s {ENDS} at {CELL} "
)
TIED = rf"(?P<lane>.+) and (?P<base>.+) tie: they differ by less than (?P<size>\d+) % \(.*\) at {CELL} \("
OPEN = rf"no conclusion for (?P<lane>.+) against (?P<base>.+?) \(.*\) at {CELL} \("
NEVER = rf"(?P<lane>.+) cannot be compared with (?P<base>.+) at {CELL}: (?P<why>.+)"
KINDS = {SIZED: "", LOWER: "", TIED: "tie", OPEN: "inconclusive", NEVER: REFUSED}
SUMMARIES = (
    r"(?P<lane>.+) against .+ in \d cells: (?P<mixed>.+)\.",
    r"(?P<lane>.+) is (?P<word>faster|slower|better|worse) than .+ in all (?P<n>\d) cells: (?P<sizes>.+)\.",
    r"(?P<lane>.+) and .+ (?P<word>tie) in all (?P<n>\d) cells: .+\.",
    r"No (?P<word>conclusion) on .+ of (?P<lane>.+) against .+ in all (?P<n>\d) cells\.",
    r"(?P<lane>.+) (?P<word>cannot be compared) with .+ in all (?P<n>\d) cells: (?P<why>.+)\.",
)
PLAIN = {"better": "faster", "worse": "slower", "conclusion": "inconclusive", "cannot be compared": REFUSED}


@dataclass(frozen=True)
class Claim:
    """What the page says of a lane in a cell."""

    word: str
    size: float = 0.0
    """Estimated percent more (less, if negative) of the metric; of a tie: less than so many; 0: none stands there."""
    ends: tuple[float, float] | None = None
    """The interval of ``size``, the lower end first."""


def heading(page: str, ident: str) -> str:
    """The heading of a section."""
    found = re.search(rf'<h2 id="h-{ident}"[^>]*>(.*?)</h2>', page)
    assert found
    return found[1]


class Reader:
    """What somebody concludes who reads the answer, how sure it is, and the table of intervals."""

    def __init__(self, page: str) -> None:
        words = Words(page)
        self.lines = words.lines
        self.heading = {ident: heading(page, ident) for ident in ("answer", "sure", "verdicts", "figures")}
        self.opening = words.between(self.heading["answer"], self.heading["verdicts"])
        self.answer = words.between(self.heading["verdicts"], self.heading["figures"])
        self.sure = words.lines[words.lines.index(self.heading["sure"]) :]
        self.claims: dict[tuple[str, str], Claim] = {}
        """(lane, cell) -> claim, by the sentences of single cells."""
        self.told: dict[str, dict[str, int]] = {}
        """Lane -> word -> in how many cells, by the headline alone."""
        self.sizes: dict[tuple[str, str], float] = {}
        """(lane, cell) -> percent, by the headline alone."""
        self.why: dict[str, str] = {}
        """Lane -> why it was refused."""
        for line in self.answer:
            if not self._cell(line):
                self._summary(line)
        self.intervals = self._intervals()

    def _cell(self, line: str) -> bool:
        for pattern, word in KINDS.items():
            if found := re.match(pattern, line):
                part = found.groupdict()
                assert part["base"] == LABELS["old"], line
                size = float(part.get("size") or 0)
                said = word or {"higher": "more", "lower": "less"}.get(part["word"], part["word"])
                sign = -1 if said in {"slower", "less"} else 1
                ends = [sign * float(part[end]) for end in ("low", "high") if part.get(end)]
                between = (min(ends), max(ends)) if ends else None
                self.claims[part["lane"], part["cell"]] = Claim(said, sign * size, between)
                return True
        return False

    def _summary(self, line: str) -> None:
        found = next((f for pattern in SUMMARIES if (f := re.fullmatch(pattern, line))), None)
        if not found:
            return
        part = found.groupdict()
        lane = part["lane"]
        if part.get("mixed"):
            counts = re.findall(r"(faster|slower|better|worse|tie|inconclusive|refused) in (\d)", part["mixed"])
        else:
            counts = [(part["word"], part["n"])]
        self.told[lane] = {PLAIN.get(word, word): int(n) for word, n in counts}
        for which, text in re.findall(r"(higher|lower) by ([^);]+)", line):
            for size, cell in re.findall(r"([\d.]+) % at (\d+k \w+ qd\d+)", text):
                self.sizes[lane, cell] = float(size) * (1 if which == "higher" else -1)
        if part.get("why"):
            self.why[lane] = part["why"]

    def _intervals(self) -> dict[tuple[str, str], tuple[float, float]]:
        """(lane, cell) -> percent, from the tables of the primary metric."""
        found, lane = {}, ""
        for line in self.answer:
            if line.startswith("Exploratory"):
                break
            if caption := re.match(rf"(?:IOPS|p99 latency) of (.+) against {LABELS['old']}; margin", line):
                lane = caption[1]
            ends = re.findall(r"([+\u2212][\d.]+) % to ([+\u2212][\d.]+) % \|", line)
            if ends and (cell := re.match(CELL, line)):
                low, high = (float(end.replace("\u2212", "-")) for end in ends[-1])  # the tie test's stands before it
                found[lane, cell["cell"]] = (low, high)
        return found


MISSES = 1
"""Intervals of a page that may miss by chance: each holds 95 % of the time by itself, and there are eight."""
CLOSE = 1.6
"""Half widths that one that misses may lie off: t at 5 % / 8 against t at 5 %, with 11 degrees of freedom or more."""


def missed(interval: tuple[float, float], change: float) -> float:
    """Half widths from the middle of the interval to the truth."""
    low, high = interval
    return abs(change - (low + high) / 2) / ((high - low) / 2)


def disagreements(page: str, truth: Truth) -> list[str]:
    """Where what a reader concludes is not so, or what is so cannot be read."""
    reader, wrong = Reader(page), []
    off: list[tuple[float, str]] = []
    lower = any(claim.word in {"more", "less"} for claim in reader.claims.values())
    for lane, cells in truth.items():
        said = {cell: reader.claims.get((lane, cell), Claim("nothing")) for cell in CELLS}
        if cells == REFUSED:
            wrong += [f"{lane} at {cell}: {claim.word}" for cell, claim in said.items() if claim.word != REFUSED]
            wrong += [] if reader.told.get(lane) == {REFUSED: 4} else [f"{lane}: {reader.told.get(lane)}"]
            wrong += [] if "volume mode" in reader.why.get(lane, "") else [f"{lane}: no reason"]
            continue
        counted: dict[str, int] = {}
        for cell, ratio in cells.items():
            claim, change = said[cell], (ratio - 1) * 100
            word = {"more": "slower", "less": "faster"}.get(claim.word, claim.word)
            counted[word] = counted.get(word, 0) + 1
            if word in {"faster", "slower"}:
                (low, high), table = claim.ends or (math.inf, -math.inf), reader.intervals.get((lane, cell))
                if not low <= claim.size <= high or low <= 0 <= high:
                    wrong.append(f"{lane} at {cell}: {claim.size} %, but {low} to {high} %")
                if table != pytest.approx((low, high), abs=0.11):  # to the last digit
                    wrong.append(f"{lane} at {cell}: the sentence says {low} to {high} %, the table {table}")
                if (word == "faster") != ((change > 0) != lower):
                    wrong.append(f"{lane} at {cell}: {word}, truly {change:+.1f} %")
            elif word == "tie":
                wrong += [f"{lane} at {cell}: tie, truly {change:+.1f} %"] if abs(change) >= claim.size else []
            elif word != "inconclusive":
                wrong.append(f"{lane} at {cell}: {word}, truly {change:+.1f} %")
            interval = reader.intervals.get((lane, cell))
            far = missed(interval, change) if interval else math.inf
            off += [(far, f"{lane} at {cell}: {interval}, truly {change:+.1f} %")] if far > 1 else []
            if (lane, cell) in reader.sizes and reader.sizes[lane, cell] != claim.size:
                wrong.append(
                    f"{lane} at {cell}: the headline says {reader.sizes[lane, cell]} %, the sentence {claim.size} %"
                )
        if reader.told.get(lane) != counted:
            wrong.append(f"{lane}: the headline counts {reader.told.get(lane)}, the sentences {counted}")
    return wrong + [text for far, text in off if far > CLOSE or len(off) > MISSES]


RUNS = {"winner": WINNER, "swapped": SWAPPED, "latency": LATENCY, "noisy": NOISY}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: known.page(folder / name) for name, known in RUNS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_what_a_reader_concludes_is_true(pages: dict[str, str], name: str) -> None:
    assert disagreements(pages[name], RUNS[name].truth) == []


def test_the_winner_is_named_with_its_cells_and_a_size_and_the_tie_is_one(pages: dict[str, str]) -> None:
    reader = Reader(pages["winner"])
    assert reader.told["the new path"] == {"faster": 2, "tie": 2}
    assert reader.told["a worn path"] == {"slower": 4}
    assert {cell for (lane, cell), c in reader.claims.items() if lane == "the new path" and c.word == "faster"} == {
        "64k randread qd1",
        "64k randread qd16",
    }
    assert {cell for lane, cell in reader.sizes if lane == "the new path"} == {"64k randread qd1", "64k randread qd16"}
    assert all(abs(size - 40) < 2 for (lane, _), size in reader.sizes.items() if lane == "the new path")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("winner", {
            "the new path": ("It depends.", "the new path at 64k; no difference that matters at 4k."),
            "a worn path": ("No.", "a worn path is slower than the old path in all 4 cells."),
        }),
        ("swapped", {
            "the new path": ("No.", "the new path is slower than the old path in all 4 cells."),
            "a worn path": ("It depends.", "a worn path at 64k; no difference that matters at 4k."),
        }),
        ("latency", {"the new path": ("Yes.", "the new path is better than the old path in all 4 cells.")}),
    ],
)  # fmt: skip
def test_the_first_screen_answers_for_each_contender(
    pages: dict[str, str], name: str, told: Mapping[str, tuple[str, str]]
) -> None:
    lines = Reader(pages[name]).opening
    for lane, (word, sentence) in told.items():
        at = lines.index(f"{lane} instead of {LABELS['old']}: {word}")
        assert lines[at + 1].startswith(sentence)


def test_less_latency_is_said_to_be_better(pages: dict[str, str]) -> None:
    reader = Reader(pages["latency"])
    assert reader.told["the new path"] == {"faster": 4}
    assert all(size < 0 for (lane, _), size in reader.sizes.items() if lane == "the new path")
    assert reader.claims["a worn path", "4k randread qd1"].size > 0


def test_doubts_are_told_with_their_number(pages: dict[str, str]) -> None:
    reader = Reader(pages["noisy"])
    open_ = sum(claim.word == "inconclusive" for claim in reader.claims.values())
    assert open_ >= 6
    assert sum(counts.get("inconclusive", 0) for counts in reader.told.values()) == open_
    assert [line for line in reader.sure if "inconclusive" in line and figures(line)[:1] == [str(open_)]]
    assert [line for line in reader.sure if "refused" in line and figures(line) == ["4"]]


@pytest.mark.parametrize("name", RUNS)
def test_that_figures_are_invented_stands_before_the_question(pages: dict[str, str], name: str) -> None:
    lines = Words(pages[name]).lines
    assert lines.index("invented figures") < lines.index("Which path is best?")
    assert any(prose.INVENTED.text in line for line in Reader(pages[name]).opening)


def test_with_the_lanes_swapped_the_conclusions_swap(pages: dict[str, str]) -> None:
    """Each page is right of its own run and wrong of the other: the comparison with the truth can fail."""
    for page, truth in (("winner", SWAPPED.truth), ("swapped", WINNER.truth)):
        wrong = disagreements(pages[page], truth)
        assert {line.split(" at ")[0] for line in wrong} >= {"the new path", "a worn path"}
    one, other = Reader(pages["winner"]), Reader(pages["swapped"])
    assert one.told["the new path"] == other.told["a worn path"]
    assert one.told["a worn path"] == other.told["the new path"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("path is ", "path is 9"),
        ("faster than the old path (", "faster than the old path (9"),
        (" % to +", " % to +9"),
        ("% faster than", "% slower than"),
        ("faster in 2 (IOPS higher", "faster in 2 (IOPS lower"),
        ("faster in 2 (", "faster in 3 ("),
        ("new path is", "worn path is"),
        ("a share cannot be compared with", "a share and"),
        ("differ in volume mode", "differ in something"),
        ("tie: they differ", "differ: they differ"),
        ("at 64k randread qd1 (", "at 4k randread qd1 ("),
    ],
)
def test_a_page_that_says_anything_else_is_caught(pages: dict[str, str], old: str, new: str) -> None:
    page = pages["winner"]
    assert old in page
    assert disagreements(page.replace(old, new), WINNER.truth)
