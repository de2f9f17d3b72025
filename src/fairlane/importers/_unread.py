"""Results that are known by their first lines and are not read: the message names the tool, and what to run instead."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairlane.importers.base import Unreadable

_FIO = "run the load with fio --output-format=json+"


@dataclass(frozen=True)
class _Tool:
    name: str
    head: re.Pattern[bytes]
    """A line of its output, anywhere in the first bytes of a file."""
    instead: str


def _tool(name: str, head: bytes, instead: str = _FIO) -> _Tool:
    return _Tool(name, re.compile(head, re.MULTILINE), instead)


_TOOLS: Sequence[_Tool] = (
    _tool("Iometer", rb"^'Test Type,Test Description", f"{_FIO}, or import its rows with --tool table"),
    _tool("CrystalDiskMark", rb"^\s*CrystalDiskMark \d", "run DISKSPD, which it drives: diskspd -L -Rxml"),
    _tool("KDiskMark", rb"^\s*KDiskMark \(\d", "run fio, which it drives: fio --output-format=json+"),
    _tool("ATTO Disk Benchmark", rb"ATTO Disk Benchmark", "run diskspd -L -Rxml"),
    _tool("AS SSD", rb"^\s*AS SSD Benchmark", "run diskspd -L -Rxml"),
    _tool("DISKSPD for Linux", rb"^\s*Results for job \d+:\s*$"),
    _tool("ioping", rb"^--- .{1,400} ioping statistics ---", f"{_FIO} --iodepth=1"),
    _tool("bonnie++", rb"^Version\s+[12]\.\S+\s+-+Sequential Output-+|^format_version,bonnie_version"),
    _tool("dd", rb"^\d+\+\d+ records (?:in|out)\s*$"),
    _tool("hdparm", rb"^\s*Timing (?:buffered|cached|O_DIRECT) (?:disk )?reads:"),
    _tool("IOzone", rb"^\s*Iozone: Performance Test of File I/O"),
    _tool("rados bench", rb"^\S* ?Maintaining \d+ concurrent (?:writes|reads) of \d+ bytes",
          f"{_FIO} --ioengine=rbd"),
    _tool("YCSB", rb"^\[OVERALL\], RunTime\(ms\),",
          "let YCSB write histograms (-p hdrhistogram.fileoutput=true) and import these"),
    _tool("virtbench", rb'"test_type"\s*:\s*"(?:fio_benchmark|vm_creation|migration|chaos_benchmark|boot_storm)"',
          "import the fio_raw.json of each machine below per-vm-results"),
)  # fmt: skip


def named(head: bytes) -> str:
    """Empty, if no tool of the table wrote a file with these first bytes. Raises Unreadable, which names it."""
    for tool in _TOOLS:
        if tool.head.search(head):
            raise Unreadable("tool-unread", f"this is output of {tool.name}, which is not read: {tool.instead}")
    return ""
