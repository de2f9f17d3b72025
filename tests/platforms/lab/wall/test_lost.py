"""Machines that die while they are used: the error says what ran, how QEMU ended, and what the console showed last."""

import os
import signal

import pytest
from lab_bench import OneMachine, one_machine

from fairlane.errors import MachineLost, RunFailed
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]


def lost(machine: OneMachine, script: str) -> MachineLost:
    """The error of ``script``, which a machine does not survive. QEMU is killed once the script has sent its mark."""

    async def run() -> None:
        async for name, _ in machine.vm.guest.run(script, 400):
            assert name == "begun"
            os.kill(machine.vm.process.pid, signal.SIGKILL)

    with pytest.raises(MachineLost, check=kind("machine-lost")) as raised:
        machine.runner.run(run())
    print(raised.value, f"hint: {raised.value.hint}", sep="\n")
    return raised.value


@pytest.mark.slow
def test_a_killed_qemu_is_told_by_command_by_qmp_and_by_the_next_command() -> None:
    with one_machine("mortal", "configfs") as machine:
        error = lost(machine, "sleep 300 & mark begun; wait\n")
        first, header, *console = error.message.splitlines()
        assert first == (
            "mortal ended while it ran 'sleep 300 & mark begun; wait': QEMU was killed by signal 9 (SIGKILL)"
        )
        assert header == "last lines of the console:"
        assert any("FAIRLANE-UP" in line for line in console)
        assert "out of memory" in error.hint
        assert b"FAIRLANE-UP" in error.files["mortal.console"]

        with pytest.raises(MachineLost) as raised:
            machine.runner.run(machine.vm.execute("query-block"))
        assert raised.value.message.splitlines()[0] == (
            "mortal ended before QEMU could carry out query-block: QEMU was killed by signal 9 (SIGKILL)"
        )
        with pytest.raises(MachineLost) as raised:
            machine.runner.run(machine.vm.guest.ask("uname -r"))
        assert "mortal ended while it ran 'uname -r': QEMU was killed" in raised.value.message


@pytest.mark.slow
def test_a_broken_connection_is_no_death_and_a_panic_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    with one_machine("mortal", "configfs") as machine:
        assert machine.sh("cat /proc/sys/kernel/panic_on_oops") == "1"
        monkeypatch.setattr("fairlane.platforms.lab.wall.vm.DYING", 2.0)
        with pytest.raises(RunFailed, match=r"while it ran 'kill -9 \$PPID'", check=kind("connection-lost")):
            machine.runner.run(machine.vm.guest.ask("kill -9 $PPID"))
        monkeypatch.undo()
        machine.runner.run(machine.vm.guest.open(300))

        error = lost(machine, "echo c > /proc/sysrq-trigger\nsleep 300\n")
        first, *_, last = error.message.splitlines()
        assert first == (
            "the kernel of mortal panicked while it ran 'echo c > /proc/sysrq-trigger': sysrq triggered crash"
        )
        assert "Call Trace:" in error.message
        assert "sysrq_handle_crash" in error.message
        assert "Kernel Offset" in last
