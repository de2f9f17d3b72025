"""Lanes that differ in what a completed write or an fsync guarantees, or on which an fsync guarantees nothing."""

from collections.abc import Iterable, Iterator, Mapping

from fairlane.checks._behind import SYNCS, WRITES, BehindCheck, Lane, Load, listed, promise
from fairlane.checks._trials import text
from fairlane.records import Finding, Severity


class FlushPromise(BehindCheck):
    """``behind.flush`` of each lane against the baseline's: where a completed write is (``write``), and what an fsync
    adds (``sync``). Where the workload syncs, the price of the promise is in the figures, and the difference is info;
    where it does not, lanes are faster by what they do not promise. Cells that only read are left out."""

    def compare(self, lanes: Mapping[str, Lane], load: Load) -> Iterable[Finding]:
        promises = {name: known for name, lane in lanes.items() if (known := promise(lane))}
        baseline = next(iter(lanes), "")
        ours = promises.get(baseline)
        plain = tuple(key for key in load.writing if key not in load.syncing)
        others = [name for name, theirs in promises.items() if ours and theirs != ours]
        if ours and others:
            what = "; ".join(f"{lanes[name].shown}: {_words(*promises[name])}" for name in (baseline, *others))
            proof = {name: text(lanes[name].one, "flush", "words") for name in (baseline, *others)}
            severe: tuple[tuple[tuple[str, ...], Severity, str], ...] = (
                (
                    plain,
                    "warning",
                    "No load here syncs, so the figures include neither the cost nor the guarantee of a sync",
                ),
                (load.syncing, "info", "The load syncs, so the figures include the cost of each guarantee"),
            )
            for cells, severity, why in severe:
                if cells:
                    yield self.finding(
                        "differs",
                        severity,
                        f"the lanes guarantee different things for a completed write. {what}. {why}",
                        cells=cells,
                        lanes=[baseline, *others],
                        evidence=proof,
                    )
        yield from self._empty(lanes, promises, load)

    def _empty(
        self, lanes: Mapping[str, Lane], promises: Mapping[str, tuple[str, str]], load: Load
    ) -> Iterator[Finding]:
        empty = [name for name, (_, sync) in promises.items() if sync == "nothing"]
        if empty and load.syncing:
            yield self.finding(
                "no-promise",
                "warning",
                f"the load syncs, but an fsync on {listed(lanes[name].shown for name in empty)} makes nothing stable: "
                + " ".join(dict.fromkeys(text(lanes[name].one, "flush", "words") for name in empty)),
                cells=load.syncing,
                lanes=empty,
                evidence={name: promises[name][0] for name in empty},
            )


def _words(write: str, sync: str) -> str:
    return f"a completed write {WRITES[write]}, and an fsync {SYNCS[sync]}"


PLUGIN = FlushPromise()
