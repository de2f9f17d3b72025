"""What a script does, in the messages about it."""

import pytest

from fairlane.machines import script
from fairlane.machines.base import gist


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("sleep 9\ncat x", "sleep 9"),
        ("set -eu\nd=$(mktemp -d)\ncd $d\n( uname -r > out\n)\n", "uname -r > out"),  # as Guest.ask wraps it
        ("# trial 4k randread.b001.iscsi\nset -u\ncd $(mktemp -d)\nfio", "trial 4k randread.b001.iscsi"),
        ("set -eu\n" + script.run_step("log in", "iscsiadm --login", "$STEP"), "step 'log in'"),
        (script.run_step("prefill", "fio"), "step prefill"),
        ("echo c > /proc/sysrq-trigger", "echo c > /proc/sysrq-trigger"),
        ("x" * 80, "x" * 57 + "..."),
        (":", ""),
        ("", ""),
    ],
)
def test_gist(text: str, short: str) -> None:
    assert gist(text) == short
