"""A captured load as a picture for a terminal: bars and lines of text."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fairlane.capture.record import Capture
from fairlane.capture.shape import Part, Shape
from fairlane.units import format_size

_LEVELS = " ▁▂▃▄▅▆▇█"
_BAR = "█"
_WIDTH, _BARS = 60, 24
_SHOWN = 6


def spark(values: Sequence[float], width: int = _WIDTH) -> str:
    """One character for each of at most ``width`` spans: 0 is blank, the largest is full."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [i * len(values) // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    top = max(means)
    if top <= 0:
        return _LEVELS[0] * count
    return "".join(_LEVELS[0 if m <= 0 else max(1, round(m / top * 8))] for m in means)


def picture(capture: Capture, shape: Shape) -> list[str]:
    """Lines of text."""
    return [*_lines(capture, shape)]


def _lines(capture: Capture, shape: Shape) -> Iterator[str]:
    disk = capture.disk
    about = ", ".join(filter(None, (disk.identity, disk.model, size_text(disk.size))))
    yield f"{disk.name} ({about}) on {capture.machine}, {capture.seconds:.0f} s from {capture.began}"
    yield f"sources: {', '.join(capture.sources)}; {overhead(capture)}"
    if shape.captured is not None and shape.captured < 0.99:
        yield f"the trace has {100 * shape.captured:.1f} % of the I/Os that the disk counted"
    yield from (f"not captured: {gap}" for gap in capture.gaps)
    whole = shape.parts.get("all")
    if whole is None:
        yield "the disk was idle"
        return
    yield ""
    for way in ("read", "write"):
        if part := shape.parts.get(way):
            yield from _direction(way, part, whole)
    flight = f"{whole.depth:.1f} I/Os on average while busy" if whole.depth else ""
    high = f", p95 {whole.depth_high:.0f} (when issued)" if whole.depth_high else ""
    yield f"in flight  {flight}{high}; busy {100 * shape.busy:.0f} % of the time"
    yield f"flushes    {_flushes(shape)}"
    yield f"arrivals   {_arrivals(whole)}"
    yield ""
    for way, i in (("read", 0), ("write", 1)):
        values = [second[i] for second in shape.by_second]
        if any(values):
            yield f"{way}s/s".ljust(11) + f"|{spark(values)}| 0 to {max(values):.0f}"
    for way in ("read", "write"):
        if any(shape.heat.get(way, ())):
            yield f"{way}s at".ljust(11) + f"|{spark(shape.heat[way], 64)}| start to end of the disk"


def _direction(way: str, part: Part, whole: Part) -> Iterator[str]:
    share = part.iops / whole.iops
    line = f"{100 * share:5.1f} %  {part.iops:.0f}/s  {size_text(part.rate)}/s"
    if part.latency:
        line += f"  latency {_time(part.latency[0])}, p99 {_time(part.latency[1])}"
    yield f"{way}s".ljust(11) + line
    top = sorted(part.sizes.items(), key=lambda item: -item[1])
    if part.sequential is None:
        yield f"  mean size {size_text(part.size)}"
        return
    for size, of in sorted(top[:_SHOWN]):
        yield f"  {format_size(size):>8} {100 * of:5.1f} % {_BAR * round(_BARS * of)}".rstrip()
    if rest := sum(of for _, of in top[_SHOWN:]):
        yield f"  {'others':>8} {100 * rest:5.1f} %"
    text = f"  sequential {100 * part.sequential:.1f} %"
    if part.working_set:
        text += f"; working set about {size_text(part.working_set)}"
    if part.locality and part.sequential < 0.9:
        text += f"; {100 * part.locality.hot:.0f} % of the random I/Os in its hottest tenth"
        text += f" ({part.locality.distribution or 'uniform'})"
    yield text


def _flushes(shape: Shape) -> str:
    if shape.flushes is None:
        return "not known"
    text = f"{shape.flushes:.1f}/s"
    if shape.writes_per_flush is not None:
        text += f", {shape.writes_per_flush:.1f} writes between two flushes"
    if shape.fua:
        text += f"; {100 * shape.fua:.1f} % of the writes are FUA"
    return text


def _arrivals(whole: Part) -> str:
    if whole.variation is None:
        return "not known"
    text = f"variation of the gaps between I/Os {whole.variation:.1f} (0: regular, 1: random)"
    if whole.bursts:
        text += f"; bursts of {whole.bursts.ios:.0f} I/Os, pauses of {_time(whole.bursts.pause)}"
    return text


def overhead(capture: Capture) -> str:
    """What the capture cost."""
    cpu, seconds = capture.cpu, capture.seconds
    each = [100 * cpu.get(key, 0.0) / seconds for key in ("fairlane", "source")]
    cpus = f"{cpu.get('cpus', 1):.0f} CPUs"
    return f"cost: {each[0]:.1f} % of one CPU to count, {each[1]:.1f} % to read (the machine has {cpus})"


def size_text(size: float) -> str:
    """Bytes in round figures: ``4.0 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _time(seconds: float) -> str:
    for unit, of in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= of:
            return f"{seconds / of:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
