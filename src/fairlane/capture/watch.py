"""Watches a disk: counters every second, and a trace if one is possible. Nothing is written to any disk."""

import fcntl
import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fairlane.capture import diskstats, ring
from fairlane.capture.blk import BlkStream
from fairlane.capture.record import Capture
from fairlane.capture.tally import Tally
from fairlane.capture.target import Target, shell
from fairlane.errors import Garbage, RunFailed

_BATCH = 4 << 20
"""Bytes of a trace that are decoded at once, or what comes in ``_PATIENCE``."""
_PATIENCE = 0.5
_SETPIPE = 1031
_FAILURES = ("FAILED to start thread", "BLKTRACESETUP")
"""Messages after which blktrace keeps running without a trace."""
_UNTRACED = "size mix, depth distribution, latency distribution, locality, sync spacing and burstiness"


@dataclass
class _Output:
    """Output of the watcher on standard error."""

    samples: list[diskstats.Sample] = field(default_factory=list)
    formats: str = ""
    page: int = 4096
    dropped: int = 0
    started: bool = False
    failed: bool = False
    messages: list[str] = field(default_factory=list)
    cpu: float = 0.0
    _inside: str = ""

    def line(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if self._inside == "format":
            self._inside = "" if text == "end" else "format"
            self.formats += "" if text == "end" else text + "\n"
        elif self._inside == "times":
            self.cpu += sum(_minutes(part) for part in text.split())
        elif text in ("format", "times"):
            self._inside = text
        elif word == "stat":
            if found := diskstats.sample(rest.split()):
                self.samples.append(found)
        elif word == "page" and rest.isdigit():
            self.page = int(rest)
        elif word == "dropped" and rest.isdigit():
            self.dropped = int(rest)
        elif word == "started":
            self.started = True
        elif text.strip():
            self.messages.append(text.strip())
            self.failed |= any(word in text for word in _FAILURES)


def _minutes(text: str) -> float:
    """``0m1.5s``, as ``times`` prints."""
    minutes, _, seconds = text.strip().rstrip("s").partition("m")
    try:
        return float(minutes) * 60 + float(seconds)
    except ValueError:
        return 0.0


def watch(
    target: Target, seconds: int, wanted: str = "auto", progress: Callable[[float], None] = lambda _: None
) -> Capture:
    """Watches for ``seconds``, or until Ctrl-C, which keeps what was captured. ``progress``: called with the seconds
    since the start. Raises RunFailed if not even the counters could be read."""
    source, lacking = target.source(wanted)
    gaps = [f"{_UNTRACED}: {lacking}"] if lacking else []
    if target.counted:
        gaps.append("the time with I/Os in flight, which QEMU does not count: at most the time shown")
    began, clock = datetime.now(UTC), time.process_time()
    output, tally, reader, interrupted = _run(target, seconds, source, progress)
    if source != "none" and (output.failed or not output.started):
        if wanted != "auto":
            raise RunFailed("trace-failed", f"cannot start {source}: {_last(output)}", hint=_hint(target, source))
        gaps.append(f"{_UNTRACED}: cannot start {source} ({_last(output)})")
        source = "none"
        output, tally, reader, interrupted = _run(target, seconds, source, progress)
    if len(output.samples) < 2:
        raise RunFailed("capture-empty", f"{target.disk.name} was watched for less than a second: {_last(output)}")
    trace = None
    if source != "none":
        missed = reader.missed + output.dropped
        trace = {**tally.counts(), "missed": missed, "damaged": reader.damaged}
        if missed:
            gaps.append(f"{missed} events, which the kernel dropped because Fairlane did not read them fast enough")
    counters = "qemu" if target.counted else "diskstats"
    sources = (counters,) if source == "none" else (counters, source)
    return Capture(
        disk=target.disk,
        machine=target.machine,
        kernel=target.kernel,
        began=began.strftime("%Y-%m-%d %H:%M:%S UTC"),
        seconds=output.samples[-1][0] - output.samples[0][0],
        sources=sources,
        gaps=tuple(gaps),
        interrupted=interrupted,
        samples=tuple(output.samples),
        trace=trace,
        cpu={"fairlane": time.process_time() - clock, "source": output.cpu, "cpus": float(target.cpus)},
    )


def _last(output: _Output) -> str:
    return "; ".join(output.messages[-3:])[-400:] or "no message"


def _hint(target: Target, source: str) -> str:
    if source == "blktrace" and target.lockdown in ("integrity", "confidentiality"):
        return "kernel lockdown (Secure Boot) blocks blktrace; use --source events"
    return "use --source counters, which needs no trace"


Reader = ring.Ring | BlkStream


def _run(
    target: Target, seconds: int, source: str, progress: Callable[[float], None]
) -> tuple[_Output, Tally, Reader, bool]:
    """One watcher, to its end."""
    events = {
        "events": " ".join(_events(stacked=target.disk.stacked)),
        "blktrace": "-a queue -a complete" if target.disk.stacked else "-a issue -a complete",
        "none": "",
    }[source]
    words = (target.disk.name, target.number, str(seconds), source, events, target.tracefs)
    process = target.place.start(("sh", "-c", shell("vm.sh") + shell("watch.sh") + f"watch {shlex.join(words)}\n"))
    reading = _Reading(process, source, Tally(target.disk.size), stacked=target.disk.stacked)
    try:
        interrupted = _follow(process, reading, progress)
    finally:
        _close(process)
        reading.close()
        process.wait()
    reading.tally.close()
    reading.reader.close()
    return reading.output, reading.tally, reading.reader, interrupted


def _follow(process: "subprocess.Popen[bytes]", reading: "_Reading", progress: Callable[[float], None]) -> bool:
    """Reads until the watcher has ended; whether Ctrl-C made it end. A second one is an interrupt like any other."""
    interrupted, began = False, time.monotonic()
    while True:
        try:
            while reading.step():
                if reading.output.failed:
                    _close(process)
                progress(time.monotonic() - began)
            return interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            _close(process)


def _events(*, stacked: bool) -> tuple[str, str]:
    """A disk made of others has no requests of its own, only what is queued to it."""
    return ("block_bio_queue", "block_bio_complete") if stacked else ("block_rq_issue", "block_rq_complete")


def _close(process: "subprocess.Popen[bytes]") -> None:
    """The watcher ends when its standard input does."""
    assert process.stdin  # noqa: S101 - opened as pipe
    with suppress(OSError):
        process.stdin.close()


class _Reading:
    """Both outputs of the watcher, read as they come."""

    def __init__(self, process: "subprocess.Popen[bytes]", source: str, tally: Tally, *, stacked: bool) -> None:
        assert process.stdout and process.stderr  # noqa: S101, PT018 - opened as pipes
        self.output, self.tally = _Output(), tally
        self.reader: Reader = BlkStream(queued=stacked)
        self._events = source == "events"
        self._ready = not self._events
        self._data, self._size, self._rest = list[bytes](), 0, b""
        self._fed = time.monotonic()
        self._select = selectors.DefaultSelector()
        self._pipes = (process.stdout, process.stderr)
        for pipe, take in zip(self._pipes, (self._trace, self._text), strict=True):
            os.set_blocking(pipe.fileno(), False)
            self._select.register(pipe, selectors.EVENT_READ, take)
        with suppress(OSError):
            fcntl.fcntl(process.stdout, _SETPIPE, 1 << 20)

    def close(self) -> None:
        """Closes the pipes."""
        self._select.close()
        for pipe in self._pipes:
            pipe.close()

    def step(self) -> bool:
        """Waits for output and takes it. False: both are at their end, and all is counted."""
        for key, _ in self._select.select(_PATIENCE):
            data = os.read(key.fd, 1 << 20)
            if data:
                key.data(data)
            else:
                self._select.unregister(key.fileobj)
        ended = not self._select.get_map()
        if ended or self._size >= _BATCH or time.monotonic() - self._fed > _PATIENCE:
            self._feed()
        return not ended

    def _trace(self, data: bytes) -> None:
        self._data.append(data)
        self._size += len(data)

    def _text(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.output.line(line.decode(errors="replace"))

    def _feed(self) -> None:
        self._fed = time.monotonic()
        if not self._size:
            return
        if not self._ready:  # the formats came before the first page
            try:
                self.reader = ring.Ring(ring.layouts(self.output.formats), self.output.page)
            except Garbage as error:
                raise RunFailed(error.kind, str(error)) from None
            self._ready = True
        data, self._data, self._size = b"".join(self._data), [], 0
        events = self.reader.feed(data)
        self.tally.lossy |= bool(self.reader.missed or self.output.dropped)
        self.tally.feed(events, self.reader.complete)
