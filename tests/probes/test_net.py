"""Drops and retransmits from snapshots of a real lab trial, and from damaged ones."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.probes.net import PLUGIN
from fairlane.records import Figures

DATA = Path(__file__).parent / "data"
BEFORE, AFTER = ((DATA / f"4k-qd1.nvme-tcp.net.{when}").read_text() for when in ("before", "after"))


def lost(before: str, after: str) -> Any:
    return PLUGIN.observe(before, after, Figures()).context.get("net")


def test_a_clean_trial() -> None:
    assert lost(BEFORE, AFTER) == {"retransmits": 0, "drops": 0}


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("2397 2397 0 0 0 0", "2397 2397 5 0 0 0", {"retransmits": 5, "drops": 0}),
        ("(dropped 0,", "(dropped 17,", {"retransmits": 0, "drops": 17}),
        ("rx_dropped:0", "rx_dropped:3", {"retransmits": 0, "drops": 3}),
    ],
)
def test_each_counter_is_read(was: str, now: str, told: dict[str, int]) -> None:
    assert was in AFTER
    assert lost(BEFORE, AFTER.replace(was, now)) == told
    assert lost(BEFORE.replace("236 236 0 0 0 0", "236 236 5 0 0 0"), AFTER.replace(was, now)) == told | (
        {"retransmits": 0} if told["retransmits"] else {}
    )


def carried(**interfaces: tuple[int, int]) -> str:
    """``lo=(received, sent)``, as grep prints the counters."""
    return "".join(
        f"/sys/class/net/{name}/statistics/rx_bytes:{rx}\n/sys/class/net/{name}/statistics/tx_bytes:{tx}\n"
        for name, (rx, tx) in interfaces.items()
    )


def test_the_busiest_interface_is_the_link() -> None:
    """A bond counts again what its members carried."""
    first = carried(bond0=(1000, 500), eth0=(600, 100), eth1=(400, 400), eth2=(5, 5))
    then = carried(bond0=(9000, 900), eth0=(8000, 100), eth1=(1000, 800), eth3=(10**9, 10**9))
    assert lost(first, then) == {"rx_bytes": 8000, "tx_bytes": 400}
    assert lost(then, first) == {"rx_bytes": 0, "tx_bytes": 0}


def test_what_was_not_counted_is_not_told_as_none() -> None:
    snmp = "".join(line + "\n" for line in AFTER.splitlines() if line.startswith("/proc/net/snmp"))
    assert lost(snmp, snmp) == {"retransmits": 0}
    assert lost(BEFORE, snmp) == {"retransmits": 0}
    assert lost(BEFORE.replace(" RetransSegs", ""), AFTER.replace(" RetransSegs", "")) == {"drops": 0}
    assert lost("", "") is None


def test_an_interface_made_anew_counts_from_zero() -> None:
    assert lost(BEFORE.replace("rx_dropped:0", "rx_dropped:9"), AFTER) == {"retransmits": 0, "drops": 0}


line = st.builds(
    "{}{}".format,
    st.sampled_from(
        ["/proc/net/snmp:Tcp: RetransSegs ", "/proc/net/snmp:Tcp: ", "(dropped ", "/sys/class/net/a/x_dropped:"]
    ),
    st.integers(-5, 10**25).map(str) | st.sampled_from(["", "x", "9" * 6000, "\u0663", "1 2 3"]),
)


@given(*[st.text(max_size=60) | st.lists(line, max_size=8).map("\n".join)] * 2)
def test_no_snapshot_makes_it_raise(before: str, after: str) -> None:
    assert all(value >= 0 for value in (lost(before, after) or {}).values())
    assert all(value >= 0 for value in (lost(BEFORE + before, AFTER + after) or {}).values())
