"""Context switches per I/O: a figure of the machine under load alone."""

import pytest

from fairlane.probes.system import PLUGIN as GUEST
from fairlane.probes.system_target import PLUGIN as ARRAY
from fairlane.records import Figures

BEFORE = "/proc/uptime:100.00 50.00\n/proc/stat:ctxt 1000\n"
AFTER = "/proc/uptime:110.00 55.00\n/proc/stat:ctxt 6000\n"


@pytest.mark.parametrize(
    ("load", "switches"),
    [
        ({"load": {"ios": {"read": 2000, "write": 500}}}, 2.0),
        ({"load": {"ios": {"read": 0, "write": 500}, "all": {"ios": {"read": 2000, "write": 500}}}}, 2.0),
        ({"load": {"ios": {"read": 2000, "write": 500}, "cached": True}, "disk": {"reads": 1, "writes": 1}}, 2.0),
    ],
)
def test_switches_are_of_all_ios_of_the_window(load: dict[str, object], switches: float) -> None:
    assert GUEST.observe(BEFORE, AFTER, Figures(context=load)).metrics == {"switches_per_io": switches}


def test_other_machines_and_unknown_ios_have_no_figure() -> None:
    known = Figures(context={"load": {"ios": {"read": 2000, "write": 500}}})
    array = ARRAY.observe(BEFORE, AFTER, known)
    assert array.metrics == {}
    assert array.context["system_target"]["switches_per_io"] == 2.0
    assert GUEST.observe(BEFORE, AFTER, Figures()).metrics == {}
