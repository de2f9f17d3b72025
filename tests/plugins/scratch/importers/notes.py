"""Notes: a file ``*.notes`` with one ``lane block iops`` a line, as somebody types them while measuring."""

from collections.abc import Iterable, Sequence

from fairlane.formats.record import Record
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.records import Figures

_MARK = b"# notes of IOPS\n"


class Notes(Importer):
    title = "notes of IOPS, one trial a line"
    source = "this file"

    def claims(self, name: str, head: bytes) -> bool:
        return name.endswith(".notes") and head.startswith(_MARK)

    def read(self, files: Sequence[Source]) -> Iterable[Record]:
        for file in files:
            for number, line in enumerate(file.read().removeprefix(_MARK).decode(errors="replace").splitlines(), 2):
                try:
                    lane, block, iops = line.split()
                    figure = float(iops)
                except ValueError:
                    raise Unreadable(
                        "not-a-number", "expected lane, block and IOPS", where=f"{file.name}:{number}"
                    ) from None
                if not 0 < figure < 1e12 or not (lane + block).isprintable():
                    raise Unreadable("not-a-number", "these are no IOPS", where=f"{file.name}:{number}")
                context = {"conditions": {"tool": "notes"}}
                yield Record(
                    {"rw": "randread"}, Figures({"iops": figure}, {}, context), lane=lane, labels={"block": block}
                )


PLUGIN = Notes()
