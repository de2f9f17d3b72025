"""DISKSPD: the XML that ``-Rxml`` prints.

Format: ``XmlResultParser.cpp`` and ``Common.cpp`` (GetXml) of DISKSPD's source, 2.0.x to 2.2.

Each time span is a trial: its targets ran together. Percentiles are those of all I/Os of all threads (``Latency``,
which needs ``-L``), in steps of a microsecond. A parameter is kept if all targets share it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from fairlane.formats.record import Record
from fairlane.importers import _reading as reading
from fairlane.importers._consistent import consistent, same
from fairlane.importers._reading import MS, US
from fairlane.importers.base import Importer, Source, Unreadable
from fairlane.metrics import WAYS, of_mix, own_metric
from fairlane.records import Figures

_PART = 2**14
_DEEPEST = 32
_MOST = 250_000
"""Elements: the buckets of a series, above all."""
_WAYS = {"read": ("ReadCount", "ReadBytes"), "write": ("WriteCount", "WriteBytes")}


class Diskspd(Importer):
    """Each time span of a file is a trial."""

    title = "DISKSPD results as XML (-Rxml)"
    source = "DISKSPD's source: XmlResultParser.cpp, Common.cpp"

    def claims(self, name: str, head: bytes) -> bool:  # noqa: ARG002
        text = head.decode(errors="replace")
        return re.match(r"\s*(?:<\?xml[^>]*>\s*)?<Results>", text) is not None and "<TimeSpan>" in text

    def read(self, files: Sequence[Source]) -> Iterator[Record]:
        for file in files:
            yield from _spans(_tree(file), file.name)


class _Tree(ET.TreeBuilder):
    """Builds the parts of a document that are read: not the series of single targets, nor most attributes. Raises
    Unreadable for deep nesting, which costs many times the file's size."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where
        self._open: list[str] = []
        self._count = 0
        self._skipped = 0
        """Depth at which an element begins that is not kept; 0: none."""

    def start(self, tag: str, attrs: dict[str, str], /) -> ET.Element:
        self._open.append(tag)
        if len(self._open) > _DEEPEST:
            raise Unreadable("nested", f"elements nested more than {_DEEPEST} deep", where=self._where)
        if not self._skipped and tag == "Iops" and "Thread" in self._open:
            self._skipped = len(self._open)
        if self._skipped:
            return _NOTHING
        self._count += 1
        if self._count > _MOST:
            raise Unreadable("too-large", f"more than {_MOST} elements", where=self._where)
        return super().start(tag, {name: attrs[name] for name in ("Total", "unit") if name in attrs})

    def data(self, data: str, /) -> None:
        if not self._skipped:
            super().data(data)

    def end(self, tag: str, /) -> ET.Element:
        depth = len(self._open)
        self._open.pop()
        if self._skipped:
            self._skipped = 0 if depth == self._skipped else self._skipped
            return _NOTHING
        return super().end(tag)


_NOTHING = ET.Element("skipped")


def _tree(file: Source) -> ET.Element:
    text = file.read(reading.LARGEST_TREE).decode(errors="replace")
    if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        raise Unreadable("document-type", "expected DISKSPD's XML, which has no document type", where=file.name)
    parser = ET.XMLParser(target=_Tree(file.name))  # noqa: S314 - no DTD, see above
    try:
        text = re.sub(r"^\s*<\?xml[^>]*>", "", text)
        for start in range(0, len(text), _PART):  # what the tree refuses ends a part, not an element
            parser.feed(text[start : start + _PART])
        root: ET.Element = parser.close()
    except ET.ParseError as error:
        raise Unreadable(
            "cut-off", f"cut off, or no XML: {error.msg}", where=f"{file.name}:{error.position[0]}"
        ) from None
    if root.tag != "Results":
        raise Unreadable("not-this-tool", "expected DISKSPD's <Results>", where=file.name)
    return root


def _spans(root: ET.Element, where: str) -> Iterator[Record]:
    profiles = root.findall("./Profile/TimeSpans/TimeSpan")
    spans = root.findall("./TimeSpan")
    if not spans or len(profiles) != len(spans):
        raise Unreadable("cut-off", "expected as many <TimeSpan> of results as of the profile", where=where)
    version = reading.shown(root.findtext("./System/Tool/Version") or "")
    conditions = reading.known(tool="diskspd", tool_version=version)
    labels = reading.known(host=reading.shown(root.findtext("./System/ComputerName") or ""))
    started = moment(root.findtext("./System/RunTime") or "") if len(spans) == 1 else None
    for number, (profile, span) in enumerate(zip(profiles, spans, strict=True), 1):
        place = f"{where} (time span {number})"
        params = _params(profile, span, place)
        if (error := span.findtext("Error")) is not None:
            yield Record(params, labels=labels, failed=reading.shown(error, 300) or "DISKSPD reports an error")
            continue
        record = Record(params, _figures(profile, span, conditions, place), labels=labels, started=started)
        depth = [float(params.get(name) or 0) for name in ("iodepth", "numjobs", "disks")]  # each thread and target
        yield consistent(record, place, in_flight=math.prod(depth))


def _figures(profile: ET.Element, span: ET.Element, conditions: dict[str, Any], where: str) -> Figures:
    seconds = _number(span, "TestTimeSeconds", where)
    targets = span.findall("./Thread/Target")
    if not seconds or not targets:
        raise Unreadable("cut-off", "expected a <TestTimeSeconds> above 0 and <Thread> with <Target>", where=where)
    ios = {way: sum(_number(t, count, where) for t in targets) for way, (count, _) in _WAYS.items()}
    size = {way: sum(_number(t, count, where) for t in targets) for way, (_, count) in _WAYS.items()}
    for whole, parts in (("IOCount", ios), ("BytesCount", size)):
        if all(target.find(whole) is not None for target in targets):
            printed = sum(_number(target, whole, where) for target in targets)
            same(printed, sum(parts.values()), f"{whole}, and reads and writes added", where)
    metrics, steps, load = measured(ios, size, seconds, where)
    latencies = dict(_latencies(span, where, mix=all(ios.values())))
    metrics |= latencies
    steps |= {name: 0.5 * US / ns for name, ns in latencies.items()}
    load |= _series(profile, span, where)
    context: dict[str, Any] = {"load": load, "conditions": conditions}
    if (busy := _optional(span.find("./CpuUtilization/Average/UsagePercent"), where)) is not None:
        machine = {"busy": busy / 100, "cpus": _optional(span.find("ProcCount"), where)}
        context["machine"] = reading.known(**machine)
    return Figures(metrics, {}, context, steps)


def measured(
    ios: Mapping[str, float], size: Mapping[str, float], seconds: float, where: str
) -> tuple[dict[str, float], dict[str, float], dict[str, Any]]:
    """Metrics, their steps, and ``context["load"]`` of the I/Os and bytes that each direction had in ``seconds``."""
    total = sum(ios.values())
    if not total:
        raise Unreadable("no-io", "no I/O completed", where=where)
    metrics = {
        "iops": total / seconds,
        "bw": sum(size.values()) / seconds,
        **of_mix("iops", {way: n / seconds for way, n in ios.items()}),
        **of_mix("bw", {way: n / seconds for way, n in size.items()}),
    }
    steps = {  # two decimals of a second
        name: 0.005 / seconds + 1 / n
        for way, n in {"": total, **ios}.items()
        for name in (own_metric("iops", way), own_metric("bw", way))
        if name in metrics
    }
    load: dict[str, Any] = {
        "ios": {way: int(count) for way, count in ios.items()},
        "bytes": {way: int(count) for way, count in size.items()},
        "iops": {way: count / seconds for way, count in ios.items()},
        "runtime_ms": seconds * 1000,
    }
    return metrics, steps, load


def _latencies(span: ET.Element, where: str, *, mix: bool) -> Iterator[tuple[str, float]]:
    """Mean and percentiles in ns, by metric; of a mix those of each direction too."""
    for way in ("", *WAYS) if mix else ("",):
        title = way.title() or "Total"
        if mean := _optional(span.find(f"./Latency/Average{title}Milliseconds"), where):
            yield own_metric("lat_mean", way), mean * MS
        for bucket in span.findall("./Latency/Bucket"):
            name = reading.percentile_name(_number(bucket, "Percentile", where))
            value = _optional(bucket.find(f"{title}Milliseconds"), where)
            if name and value:
                yield own_metric(name, way), value * MS


def _series(profile: ET.Element, span: ET.Element, where: str) -> dict[str, Any]:
    interval = _optional(profile.find("IoBucketDuration"), where)
    buckets = span.findall("./Iops/Bucket")[: reading.POINTS + 1]
    totals = [reading.number(bucket.get("Total", ""), where, "the Total of a bucket") for bucket in buckets]
    return reading.series(interval, totals)


def _params(profile: ET.Element, span: ET.Element, where: str) -> dict[str, Any]:
    """Parameters that all targets share. DISKSPD defines -o per target and thread."""
    targets = profile.findall("./Targets/Target")
    if not targets:
        raise Unreadable("cut-off", "expected a <Target> in the profile", where=where)

    def shared(tag: str) -> float | None:
        values = {_optional(target.find(tag), where) for target in targets}
        return values.pop() if len(values) == 1 else None

    writes, bs = shared("WriteRatio"), shared("BlockSize")
    random = {_random(target, where) for target in targets}
    rates = [target.find("Throughput") for target in targets]
    limited = any(rate is not None and _optional(rate, where) for rate in rates)
    duration, warmup = (_optional(profile.find(tag), where) for tag in ("Duration", "Warmup"))
    return reading.known(
        rw=pattern(random.pop(), writes) if len(random) == 1 and writes is not None else None,
        bs=int(bs) if bs else None,
        iodepth=_whole(shared("RequestCount")),
        numjobs=_whole(_optional(span.find("ThreadCount"), where)),
        disks=len(targets),
        rwmixread=100 - writes if writes is not None and 0 < writes < 100 else None,
        runtime=int(duration * 1e9) if duration else None,
        ramp=int(warmup * 1e9) if warmup is not None else None,
        direct=_direct(targets),
        # bytes per ms or IOPS, per thread and target, as text: a limited run must differ from an unlimited one
        throughput=", ".join(_limit(rate) for rate in rates[:32]) if limited else None,
    )


def _random(target: ET.Element, where: str) -> str:
    if target.find("Random") is None:
        return "sequential"
    ratio = _optional(target.find("RandomRatio"), where)
    return "random" if ratio is None or ratio == 100 else "mixed"


def pattern(order: str, writes: float) -> str | None:
    """``randrw`` of ``random`` and a share of writes in percent; None for ``mixed`` orders."""
    if order == "mixed":
        return None
    kind = "read" if writes == 0 else "write" if writes == 100 else "rw"
    return ("rand" if order == "random" else "") + kind


def _direct(targets: Sequence[ET.Element]) -> bool | None:
    values = {target.findtext("DisableOSCache") == "true" for target in targets}
    return values.pop() if len(values) == 1 else None


def _limit(rate: ET.Element | None) -> str:
    if rate is None or not rate.text:
        return "none"
    return reading.shown(f"{rate.text} {rate.get('unit', 'bytes/ms')}", 40)


def moment(text: str) -> float | None:
    """``2024/06/14 13:49:12 UTC`` to Unix time."""
    try:
        return datetime.strptime(text.strip(), "%Y/%m/%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(parent: ET.Element, tag: str, where: str) -> float:
    element = parent.find(tag)
    if element is None:
        raise Unreadable("cut-off", f"expected <{tag}> in <{reading.shown(parent.tag, 40)}>", where=where)
    return reading.number(element.text or "", where, f"a number as <{tag}>")


def _optional(element: ET.Element | None, where: str) -> float | None:
    if element is None:
        return None
    return reading.number(element.text or "", where, f"a number as <{reading.shown(element.tag, 40)}>")


def _whole(value: float | None) -> int | None:
    return int(value) if value else None


PLUGIN = Diskspd()
