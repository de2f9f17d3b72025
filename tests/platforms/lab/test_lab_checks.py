"""Real trials in the lab that a check must find, and their twins that it must not."""

import asyncio

import pytest
from lab_study import small_study, study_of

from fairlane.checks.base import run_all
from fairlane.platforms.lab import Lab
from fairlane.records import Block, Evidence, Finding, Observation
from fairlane.runs.observe import observe

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab_image"), pytest.mark.timeout(1800)]


def findings(text: str) -> tuple[Evidence, list[Finding]]:
    """One block of the study, and what the checks say."""
    lab = Lab(study_of(text))
    (cell,) = lab.study.cells()
    block = Block(cell, 0, tuple(lab.study.lanes), 3)

    async def measure() -> tuple[dict[str, object], list[Observation]]:
        async with lab:
            opened = await lab.open(lambda _: None)
            return dict(opened.description), [
                observe(block, raw.lane, raw.outputs) async for raw in lab.run_block(block)
            ]

    description, seen = asyncio.run(measure())
    assert [trial.failed for trial in seen] == [""] * len(block.order)
    made = Evidence("r", lab.study, text, 1, (block,), tuple(seen), description, {}, modelled=True)
    return made, list(run_all(made))


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "full"), [("100mbit", True), ("10gbit", False)])
def test_a_link_that_is_full_was_what_was_measured(rate: str, full: bool) -> None:
    link = f", link: {{mtu: 9000, delay: 10us, rate: {rate}}}"
    speed = f", conditions: {{link_speed: {rate}}}"
    made, found = findings(small_study(platform=link, iscsi=speed, nvme=speed))
    bound = [f for f in found if f.check == "link_bound"]
    assert [(f.severity, f.lanes) for f in bound] == [("warning", ("iscsi",)), ("warning", ("nvme-tcp",))] * full
    assert [f.kind for f in bound] == ["full"] * len(bound)
    # nothing else is wrong with these trials, least of all what prefill: false would mean on a real disk
    ours = {"unwritten_space", "cache_served", "bandwidth", "achieved_mix", "late_starters", "cpu_bound", "overrun"}
    assert not ours & {f.check for f in found}
    for trial in made.observations:
        disk, load = trial.context["disk"], trial.context["load"]
        assert load["bytes"]["read"] <= disk["read_bytes"] < 2 * load["bytes"]["read"]
        assert disk["writes"] == 0
        assert 0 < trial.context["machine"]["busy"] <= 1
