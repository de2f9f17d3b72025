"""Why a lab machine ended, from its console, stderr and exit code."""

from pathlib import Path

import pytest

from fairlane.platforms.lab.obituary import Obituary, how

BOOT = [f"[    {second}.000000] random: line {second}" for second in range(30)]
OOPS = """\
[   41.171551] BUG: kernel NULL pointer dereference, address: 0000000000000048
[   41.173345] #PF: supervisor read access in kernel mode
[   41.175912] Oops: 0000 [#1] PREEMPT SMP NOPTI
[   41.176503] CPU: 1 PID: 312 Comm: iscsi_trx Not tainted 6.12.0-amd64 #1
[   41.178200] RIP: 0010:iscsit_execute_cmd+0x31/0x2b0 [iscsi_target_mod]
[   41.190001] Call Trace:
[   41.190377]  <TASK>
[   41.190712]  iscsi_target_rx_thread+0x4a1/0x5c0 [iscsi_target_mod]
[   41.191412]  </TASK>
[   41.191901] ---[ end trace 0000000000000000 ]---
[   41.192633] Kernel panic - not syncing: Fatal exception
[   41.193401] Kernel Offset: disabled
[   41.193901] ---[ end Kernel panic - not syncing: Fatal exception ]---
""".splitlines()


def obituary(code: int | None, *console: str, stderr: str = "", during: str = "") -> Obituary:
    return Obituary("array", code, "\r\n".join(console).encode(), stderr.encode(), during)


def shown(of: Obituary) -> list[str]:
    """The console lines of the message."""
    return [line[2:] for line in str(of).splitlines() if line.startswith("  [")]


def test_a_panic_is_whole_from_the_oops_on_and_names_its_reason() -> None:
    ended = obituary(0, *BOOT, "", *OOPS, during="while it ran 'fio job'")
    assert str(ended).splitlines()[0] == (
        "the kernel of array panicked while it ran 'fio job': BUG: kernel NULL pointer dereference, address: "
        "0000000000000048, in iscsit_execute_cmd [iscsi_target_mod]"
    )
    assert shown(ended) == OOPS


def test_a_flood_is_cut_in_its_middle() -> None:
    trace = [f"[   42.0]  frame_{number}+0x1/0x2" for number in range(300)]
    lines = shown(obituary(0, *BOOT, *OOPS[:3], *trace, *OOPS[-3:]))
    assert len(lines) == 121
    assert lines[:3] == OOPS[:3]
    assert lines[-3:] == OOPS[-3:]
    assert "[186 lines left out]" in lines


def test_a_console_without_failure_ends_with_its_last_lines_and_an_old_failure_is_no_cause() -> None:
    assert shown(obituary(-9, *BOOT)) == BOOT[-8:]
    later = [f"[  99.0] line {number}" for number in range(500)]
    killed = obituary(-9, *OOPS[:10], *later)
    assert shown(killed) == later[-8:]
    assert killed.cause == "array ended: QEMU was killed by signal 9 (SIGKILL)"
    assert "out of memory" in killed.hint


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "QEMU was killed by signal 9 (SIGKILL)"),
        (-15, "QEMU was ended by signal 15 (SIGTERM)"),
        (-6, "QEMU aborted with signal 6 (SIGABRT)"),
        (-11, "QEMU crashed with signal 11 (SIGSEGV)"),
        (-99, "QEMU was ended by signal 99"),
        (1, "QEMU exited with code 1"),
        (None, "QEMU still runs"),
    ],
)
def test_codes_in_words(code: int | None, words: str) -> None:
    assert how(code) == words


def test_stderr_is_shown_and_nothing_reaches_a_terminal_unfiltered() -> None:
    text = str(obituary(1, "\x1b[2Jboot\x07ing", stderr="qemu: \x1b]0;x\x07could not open disk\n"))
    assert text.splitlines() == [
        "array ended: QEMU exited with code 1",
        "QEMU's stderr:",
        "  qemu: ]0;xcould not open disk",
        "last lines of the console:",
        "  booting",
    ]


def test_files_are_kept_up_to_a_mebibyte_and_missing_ones_are_empty(tmp_path: Path) -> None:
    (tmp_path / "console").write_bytes(b"x" * 2**20 + b"the end")
    ended = Obituary.read("the lab VM", 0, tmp_path / "console", tmp_path / "missing")
    assert list(ended.files) == ["the-lab-VM.console", "the-lab-VM.stderr"]
    assert (len(ended.console), ended.console[-7:], ended.stderr) == (2**20, b"the end", b"")
    assert ended.error().files == ended.files
    assert ended.cause.endswith("QEMU exited with code 0, as it does when a guest restarts or switches off")
    assert "the console is empty" in str(obituary(0))
