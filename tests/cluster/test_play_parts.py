"""Parts of the played cluster that need none."""

import pytest

from testkit.play import Behaviour, cloudinit


def test_jitter_repeats_with_the_seed_and_stays_in_its_bounds() -> None:
    one, other = Behaviour(jitter=0.5), Behaviour(jitter=0.5, seed=2)
    drawn = [one.takes(10, "vm", str(n)) for n in range(1000)]
    assert drawn == [one.takes(10, "vm", str(n)) for n in range(1000)]
    assert drawn != [other.takes(10, "vm", str(n)) for n in range(1000)]
    assert 5 <= min(drawn) < 5.1
    assert 14.9 < max(drawn) <= 15
    assert Behaviour().takes(10, "vm") == 10


@pytest.mark.parametrize(
    ("user_data", "keys"),
    [
        ("#cloud-config\ndisable_root: false\nssh_authorized_keys: [a, b]\n", "a\nb\n"),
        ("#cloud-config\nssh_authorized_keys: [a]\n", ""),  # of the default user; root's would only say so
        ("#cloud-config\nusers: [{name: root, ssh_authorized_keys: [c]}, {name: me, ssh_authorized_keys: [d]}]", "c\n"),
        ("#!/bin/sh\necho a >> /root/.ssh/authorized_keys\n", ""),
        ("#cloud-config\n", ""),
    ],
)  # fmt: skip
def test_root_is_let_in_as_cloud_init_would(user_data: str, keys: str) -> None:
    assert cloudinit.read(user_data).authorized_keys == keys
