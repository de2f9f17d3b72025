"""pgio (the SLOB method for PostgreSQL): the output of ``runit.sh``.

Format: pgio's README and ``runit.sh``, release 1.0.

RIOPS are blocks of 8 KiB that PostgreSQL had to read (``pg_stat_database.blks_read``), counted in whole seconds. Some
of them may have come from the page cache. The output has no latencies and no UPDATE_PCT.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, same
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures

_RESULT = re.compile(
    r"DBNAME:\s+(\S{1,80})\. ([0-9]{1,9}) schemas, ([0-9]{1,9}) threads\(each\)\. Run time: ([0-9]{1,9}) seconds\. "
    r"RIOPS >(-?[0-9]{1,18})< CACHE_HITS/s >(-?[0-9]{1,18})<"
)
_BUFFERS = re.compile(r"Shared buffers: (\S{1,40})\. $")
_SCALE = re.compile(
    r"Testing [0-9]{1,9} schemas with [0-9]{1,9} thread\(s\) accessing \S{1,20} \(([0-9]{1,18}) blocks\)"
)
_BLOCKS = re.compile(r"(BEFORE|AFTER):\s+\S+\s*\|\s*([0-9]{1,18})\s*\|\s*([0-9]{1,18})\s*\|")
_BLOCK = 8192


@dataclass
class _Run:
    line: int
    settings: dict[str, str] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)


class Pgio(Importer):
    """A file may hold several runs, one after the other."""

    title = "pgio runit.sh, text output"
    source = "pgio's README and runit.sh"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        text = head.decode(errors="replace")
        aborted = text.lstrip().startswith("Abort: The psql command aborted when invoked as follows")
        return aborted or any(pattern.search(text) for pattern in (_RESULT, _SCALE))

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            run, runs = _Run(1), 0
            for number, line in reading.lines(file):
                where = f"{file.name}:{number}"
                if line.startswith("Abort"):
                    runs += 1
                    yield Record(failed=reading.shown(line, 300))
                    run = _Run(number + 1)
                elif result := _RESULT.search(line):
                    runs += 1
                    yield _record(run, result, where)
                    run = _Run(number + 1)
                elif blocks := _BLOCKS.match(line):
                    run.reads[blocks[1]] = int(blocks[3])
                elif buffers := _BUFFERS.match(line):
                    run.settings["shared_buffers"] = reading.shown(buffers[1])
                elif scale := _SCALE.match(line):
                    run.settings["blocks"] = scale[1]
            if not runs or run.settings:
                raise Unreadable(
                    "cut-off", "expected a line 'DBNAME: ... RIOPS >N< ...': cut off?", where=f"{file.name}:{run.line}"
                )


def _record(run: _Run, result: re.Match[str], where: str) -> Record:
    schemas, threads, seconds = (int(result[place]) for place in (2, 3, 4))
    blocks = int(run.settings["blocks"]) if "blocks" in run.settings else 0
    params = reading.known(bs=_BLOCK, numjobs=schemas * threads, size=schemas * blocks * _BLOCK or None)
    labels = {"database": reading.shown(result[1])}
    rates = [reading.number(result[place], where, "a rate that is not negative") for place in (5, 6)]
    if not seconds:
        raise Unreadable("no-time", "a run of 0 seconds", where=where)
    iops, reads = rates[0], {"reads": int(rates[0] * seconds)}
    if {"BEFORE", "AFTER"} <= run.reads.keys() and run.reads["AFTER"] >= run.reads["BEFORE"]:
        reads = {"reads": run.reads["AFTER"] - run.reads["BEFORE"]}
        unsure = 1 / seconds + (1 / iops if iops else 0.0)  # a whole second, and a rate without decimals
        same(reads["reads"] / seconds, iops, "blks_read / run time, and RIOPS", where, unsure=unsure)
    if not iops:
        return Record(params, labels=labels, failed="pgio read no block")
    context = {
        "load": {"iops": {"read": iops}, "runtime_ms": seconds * 1000},
        "pgio": reads
        | {"cache_hits_per_s": rates[1]}
        | reading.known(shared_buffers=run.settings.get("shared_buffers")),
        "conditions": {"tool": "pgio"},
    }
    steps = {"iops": 1 / seconds + 1 / iops}  # whole seconds, and a rate without decimals
    return consistent(Record(params, Figures({"iops": iops}, {}, context, steps), labels=labels), where)


PLUGIN = Pgio()
