import io
import re
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from fairlane.records import Finding
from fairlane.report import model, phrases, prose
from fairlane.report.terminal import show


def printed(case: Any, *, terminal: bool, width: int) -> str:
    out = io.StringIO()
    show(Console(file=out, force_terminal=terminal, width=width, color_system="truecolor" if terminal else None), *case)
    return out.getvalue()


@pytest.mark.parametrize("label", ["NVMe/TCP", "NVMe/TCP over 25 GbE with four queues and header digest"])
def test_plain_output_is_80_columns_without_any_escape(make_case, label):
    text = printed(make_case(nvme=label), terminal=False, width=300)
    assert "\x1b" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_a_narrow_terminal_is_not_exceeded(case):
    text = re.sub(r"\x1b\[[\d;]*m", "", printed(case, terminal=True, width=60))
    assert max(cell_len(line) for line in text.splitlines()) <= 60


def test_answer_table_and_findings_are_there(case):
    text = " ".join(printed(case, terminal=False, width=80).split())
    assert text.startswith(prose.MODELLED.title)
    (nvme,) = (c for c in model.build(*case).answers if c.lane == "NVMe/TCP")
    assert nvme.summary in text
    (row,) = (v for v in case[1] if v.primary and v.lane == "nvme-tcp" and v.cell == "4k randread qd1")
    ends, size = re.escape(phrases.interval(row.low, row.high)), re.escape(phrases.size(row))
    assert re.search(rf" 4k randread qd1 5,416 6,151 {ends} ▲ faster {size} ", text), "the estimate, not an end"
    assert f"critical: {case[2][2].message} (local: 4k randread qd1)" in text


def test_why_there_is_no_interval_stands_below_the_table(make_case):
    failed = frozenset(f"main.4k-randread-qd1.b{b:03d}.local" for b in range(6))
    case = make_case(failed=failed, findings=())
    text = printed(case, terminal=False, width=80)
    assert re.search(r"4k randread qd1 .*✕ refused", text)
    (why,) = {v.notes[0] for v in case[1] if v.primary and v.verdict == "refused"}
    assert f"\n✕ {why}" in text


def test_names_and_messages_cannot_paint_the_terminal(make_case):
    bad = "[red]x[/red] \x1b[2J\u202e :bomb:"
    case = make_case(nvme="[red]lane[/red]", findings=(Finding("check", "warning", bad),))
    text = printed(case, terminal=True, width=80)
    assert "[red]lane[/red]" in text
    assert "\x1b[2J" not in text
    assert r"[red]x[/red] \x1b[2J\u202e :bomb:" in text
