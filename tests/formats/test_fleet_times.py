"""Which trials of a fleet are void because a machine began or ended late."""

from dataclasses import replace

import pytest

from fairlane.formats.fleet_times import BEGIN, EMULATED, END, SHARE, Times, judge, reason

ON_TIME = [Times("alpha", 0.001, 0.0005, 0.3), Times("beta", 0.002, 0.0005, 0.4)]


def late(changed: Times, seconds: float = 2.0, *, emulated: bool = False) -> list[str]:
    found: list[str] = judge([ON_TIME[0], changed], seconds, emulated=emulated)["late"]
    return found


def test_machines_on_time_are_kept_with_their_times() -> None:
    fleet = judge(ON_TIME, 2.0)
    assert reason(fleet) == ""
    assert fleet["machines"]["beta"] == {"began": 0.002, "within": 0.0005, "ended": 0.4}


@pytest.mark.parametrize("key", ["began", "ended"])
def test_a_late_machine_voids_the_trial(key: str) -> None:
    slow = replace(ON_TIME[1], began=3.0) if key == "began" else replace(ON_TIME[1], ended=3.0)
    (text,) = late(slow)
    assert "beta" in text
    assert "alpha" not in text
    assert reason(judge([ON_TIME[0], slow], 2.0))


def test_limits_grow_with_the_load_and_on_emulated_machines() -> None:
    assert late(replace(ON_TIME[1], began=2 * BEGIN))
    assert not late(replace(ON_TIME[1], began=2 * BEGIN), 2 * BEGIN / SHARE + 1)
    assert not late(replace(ON_TIME[1], began=2 * BEGIN), emulated=True)
    assert not late(replace(ON_TIME[1], ended=END * EMULATED), emulated=True)


def test_an_uncertain_clock_is_no_delay() -> None:
    assert not late(replace(ON_TIME[1], began=1.0, within=0.9))


def test_what_takes_all_machines_longer_is_no_delay_of_one() -> None:
    slow = [replace(times, ended=9.0) for times in ON_TIME]
    assert reason(judge(slow, 2.0)) == ""


@pytest.mark.parametrize("content", [{}, {"late": None}, {"late": "beta"}, {"late": []}])
def test_other_content_voids_nothing(content: dict[str, object]) -> None:
    assert reason(content) == ""
