"""Where the answer turns: sentences that say what the verdicts hold, and no more."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.records import Cell, Verdict
from fairlane.records import Word as VerdictWord
from fairlane.verdicts.scorecard import Outcome
from fairlane.verdicts.turns import Turn, turn
from tests.verdicts.test_scorecard_words import VERDICT

WORDS: Mapping[str, VerdictWord] = {
    "+": "faster", "-": "slower", "=": "tie", "?": "inconclusive", "x": "refused", "~": "different-but-small",
}  # fmt: skip


def cells(*points: Mapping[str, Any], kind: str = "fio", workload: str = "main") -> list[Cell]:
    return [Cell(workload, kind, " ".join(str(v) for v in p.values()), p) for p in points]


def judged(them: Sequence[Cell], words: str) -> list[Verdict]:
    return [
        replace(VERDICT, workload=c.workload, cell=c.name, key=c.key, verdict=WORDS[w])
        for c, w in zip(them, words, strict=True)
    ]


def answer(them: Sequence[Cell], words: str) -> Turn:
    return turn(judged(them, words), them, "NVMe/TCP", "iSCSI")


def clients(*users: int) -> list[Cell]:
    return cells(*({"numjobs": n} for n in users), kind="oltp")


def grid(**axes: Sequence[Any]) -> list[Cell]:
    """Every combination, the last axis fastest."""
    points: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        points = [{**point, name: value} for point in points for value in values]
    return cells(*points)


@pytest.mark.parametrize(
    ("words", "headline"),
    [
        ("++++", "Yes"),
        ("----", "No"),
        ("====", "No difference that matters"),
        ("=~=~", "No difference that matters"),
        ("????", "Not decided"),
        ("xxxx", "Not comparable"),
        ("xx??", "Not decided"),
        ("++--", "It depends"),
        ("++==", "It depends"),
        ("--==", "No"),
        ("+++?", "Yes in 3 of 4 cells"),
        ("--=x", "No in 3 of 4 cells"),
        ("==??", "No difference that matters in 2 of 4 cells"),
        ("+-??", "It depends"),
    ],
)
def test_the_word(words: str, headline: str) -> None:
    assert answer(clients(1, 4, 8, 16), words).headline == headline


@pytest.mark.parametrize(
    ("users", "words", "where"),
    [
        ((1, 4, 8, 16), "--++", "NVMe/TCP from 8 clients on; iSCSI below (measured at 1, 4, 8 and 16 clients)"),
        ((1, 4, 8, 16), "++--", "iSCSI from 8 clients on; NVMe/TCP below (measured at 1, 4, 8 and 16 clients)"),
        ((1, 4, 8, 16), "---+", "NVMe/TCP at 16 clients; iSCSI up to 8 clients (measured at 1, 4, 8 and 16 clients)"),
        ((1, 8), "-+", "NVMe/TCP at 8 clients; iSCSI at 1 client"),
        (
            (1, 4, 8, 16),
            "--?+",
            "NVMe/TCP at 16 clients; iSCSI up to 4 clients; not decided at 8 clients "
            "(measured at 1, 4, 8 and 16 clients)",
        ),
        (
            (1, 4, 8, 16),
            "+--+",
            "NVMe/TCP at 1 client and at 16 clients; iSCSI from 4 to 8 clients (measured at 1, 4, 8 and 16 clients)",
        ),
        ((1, 4, 8, 16), "++++", ""),
    ],
)
def test_one_number_turns_the_answer(users: tuple[int, ...], words: str, where: str) -> None:
    assert answer(clients(*users), words).where == where


def test_the_order_of_the_cells_is_not_that_of_the_number() -> None:
    assert answer(clients(16, 1, 8, 4), "+-+-").where.startswith("NVMe/TCP from 8 clients on; iSCSI below")


@pytest.mark.parametrize(
    ("axes", "words", "where"),
    [
        ({"rw": ("randread", "randwrite"), "bs": (4096, 65536)}, "++--", "NVMe/TCP for reads; iSCSI for writes"),
        ({"rw": ("randread", "randwrite"), "bs": (4096, 65536)}, "-+-+", "NVMe/TCP at 64k; iSCSI at 4k"),
        ({"rw": ("randread", "read"), "iodepth": (1, 16)}, "++==",
         "NVMe/TCP for random; no difference that matters for sequential"),
        ({"rw": ("randread", "randwrite"), "bs": (4096, 65536)}, "+++-",
         "for reads: NVMe/TCP; for writes: NVMe/TCP at 4k, iSCSI at 64k"),
        ({"bs": (4096, 65536), "iodepth": (1, 4, 16)}, "+++-++",
         "at 4k: NVMe/TCP; at 64k: NVMe/TCP from iodepth 4 on, iSCSI at iodepth 1"),
    ],
)  # fmt: skip
def test_parameters_of_fio(axes: dict[str, Sequence[Any]], words: str, where: str) -> None:
    assert answer(grid(**axes), words).where == where


def test_the_workload_turns_the_answer() -> None:
    them = cells({"bs": 4096}, {"bs": 65536}, workload="bulk") + cells({"bs": 4096}, {"bs": 65536}, workload="small")
    assert answer(them, "++--").where == "NVMe/TCP in workload bulk; iSCSI in workload small"


def test_two_parameters_that_change_together_explain_nothing() -> None:
    """64k was only written and 4k only read: which of both turns the answer cannot be known."""
    them = cells({"rw": "randread", "bs": 4096}, {"rw": "randwrite", "bs": 65536})
    assert answer(them, "+-").where == "NVMe/TCP at randread 4096; iSCSI at randwrite 65536"


def test_cells_without_a_pattern_are_counted() -> None:
    them = grid(rw=("randread", "randwrite"), bs=(4096, 8192), iodepth=(1, 4))
    assert answer(them, "+--+-++-").where == "NVMe/TCP in 4 of 8 cells; iSCSI in 4 of 8 cells"


def test_cells_of_other_tools_have_names_alone() -> None:
    assert answer(cells({"x": "a"}, {"x": "b"}), "+-").where == "NVMe/TCP at a; iSCSI at b"


def test_a_withheld_verdict_is_not_counted_as_decided() -> None:
    them = clients(1, 4)
    first, second = judged(them, "++")
    found = turn([first, replace(second, headline=False, held="finding")], them, "NVMe/TCP", "iSCSI")
    assert found.headline == "Yes in 1 of 2 cells"
    assert found.where == "NVMe/TCP at 1 client; withheld at 4 clients"


_LANE: Mapping[Outcome, str] = {
    "better": "NVMe/TCP", "worse": "iSCSI", "even": "no difference that matters", "open": "not decided",
    "refused": "not comparable",
}  # fmt: skip


def _holds(place: str, users: Sequence[int]) -> set[int]:
    """The measured numbers that a clause speaks of, as a reader takes it."""
    rules: tuple[tuple[str, Callable[[list[int]], Callable[[int], bool]]], ...] = (
        (r"from (\d+) to (\d+) clients", lambda n: lambda u: n[0] <= u <= n[1]),
        (r"from (\d+) clients? on", lambda n: lambda u: u >= n[0]),
        (r"up to (\d+) clients?", lambda n: lambda u: u <= n[0]),
        (r"at (\d+) clients?", lambda n: lambda u: u == n[0]),
    )
    for pattern, rule in rules:
        if found := re.fullmatch(pattern, place):
            return {u for u in users if rule([int(g) for g in found.groups()])(u)}
    raise AssertionError(place)


@given(st.lists(st.sampled_from("+-=?x"), min_size=2, max_size=8))
def test_a_sentence_read_back_is_the_verdicts(words: list[str]) -> None:
    """Each clause, read as it stands, names exactly the clients with that outcome."""
    users = [2**n for n in range(len(words))]
    found = answer(clients(*users), "".join(words))
    if len(set(words)) == 1:
        assert found.where == ""
        return
    sentence = re.sub(r" \(measured at [^)]*\)$", "", found.where)
    said: dict[str, set[int]] = {}
    for clause in sentence.split("; "):
        name = next(n for n in _LANE.values() if clause.startswith(f"{n} "))
        rest = clause.removeprefix(f"{name} ")
        said[name] = set() if rest == "below" else set().union(*(_holds(p, users) for p in rest.split(" and ")))
    for name, mine in said.items():
        if not mine:  # below: all that the other clause leaves
            others = set().union(*(o for n, o in said.items() if n != name))
            assert max(set(users) - others) < min(others)
            said[name] = set(users) - others
    true: dict[str, set[int]] = {}
    outcomes: Mapping[str, Outcome] = {"+": "better", "-": "worse", "=": "even", "?": "open", "x": "refused"}
    for user, word in zip(users, words, strict=True):
        true.setdefault(_LANE[outcomes[word]], set()).add(user)
    assert said == true


@given(st.lists(st.sampled_from("+-=?x"), min_size=12, max_size=12))
def test_every_outcome_is_in_the_sentence_and_no_other(words: list[str]) -> None:
    them = grid(rw=("randread", "randwrite"), bs=(4096, 65536), iodepth=(1, 4, 16))
    found = answer(them, "".join(words))
    outcomes = {o for o, _ in found.groups}
    assert sum(len(group) for _, group in found.groups) == 12
    if len(outcomes) > 1:
        assert {o for o, name in _LANE.items() if name in found.where} == outcomes
    assert found.word in get_args(Turn.__annotations__["word"])


def test_no_verdicts_have_no_answer() -> None:
    assert turn([], [], "NVMe/TCP", "iSCSI").headline == "Not decided"
