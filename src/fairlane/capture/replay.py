"""Runs a workload with fio on a file of its own and captures it, to measure how well it resembles the captured load.

With root the file is put behind a loop device, so that the capture has the replay's I/Os alone; without root the disk
below the file is watched, and everybody's I/Os on it count. Nothing of a replay stays, not even after a kill.
"""

import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import yaml
from pydantic import ValidationError

from fairlane.capture import target, watch
from fairlane.capture.record import Capture
from fairlane.errors import FairlaneError, Refused, RunFailed, because
from fairlane.machines.child import signal_group
from fairlane.records import Cell
from fairlane.units import format_size, parse_size
from fairlane.workloads.fio import PLUGIN, FioSpec

MOST = 1 << 30
"""Bytes of the file at most, by default."""
_BEGIN = 30.0
_LEAD, _AFTER = 1.0, 10


@dataclass(frozen=True)
class Replay:
    """A captured replay. ``scale``: its working set over that of the workload."""

    capture: Capture
    scale: float


def spec(tree: Any, where: str) -> FioSpec:
    """The workload in ``tree``. Raises FairlaneError."""
    try:
        found = FioSpec.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise FairlaneError("workload-invalid", f"{place}: {first['msg']}", where=where) from None
    if len(found.cells("replay")) != 1:
        raise FairlaneError(
            "replay-cells", "a replay needs a workload with one cell, but this one has several", where=where
        )
    return found


def read(path: Path) -> dict[str, Any]:
    """The keys of a workload's file. Raises FairlaneError."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FairlaneError("workload-invalid", f"not valid YAML: {error}", where=str(path)) from None
    if not isinstance(tree, dict):
        raise FairlaneError("workload-invalid", "expected the keys of one workload", where=str(path))
    return tree


def resized(tree: Mapping[str, Any], most: int) -> tuple[dict[str, Any], int, float]:
    """The workload within ``most`` bytes: (its keys, bytes that it uses, scale)."""
    parts = [tree, *tree.get("jobs", {}).values()]
    ends = [parse_size(p.get("offset", "0b")) + parse_size(p["size"]) for p in parts if "size" in p]
    need = max(ends, default=most)
    scale = min(1.0, most / need)

    def part(keys: Mapping[str, Any]) -> dict[str, Any]:
        new = dict(keys)
        for key in ("size", "offset"):
            if key in new and scale < 1:
                new[key] = format_size(max(int(parse_size(new[key]) * scale) >> 20, 0 if key == "offset" else 1) << 20)
        return new

    out = part(tree)
    if "jobs" in out:
        out["jobs"] = {name: part(job) for name, job in out["jobs"].items()}
    out.setdefault("size", format_size(min(need, most)))
    return out, min(need, most), scale


def replay(
    tree: Mapping[str, Any],
    on: Path,
    seconds: int,
    *,
    most: int = MOST,
    source: str = "auto",
    where: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Runs the workload for ``seconds`` on a file that it makes at ``on`` (a new name, or in a folder) and removes;
    ``on`` may be a block device if the workload only reads. Raises FairlaneError, Refused, RunFailed."""
    keys, need, scale = resized(tree, most)
    keys |= {"runtime": f"{seconds + int(_BEGIN) + _AFTER}s", "ramp": "0s"}
    (cell,) = spec(keys, where).cells("replay")
    with ExitStack() as stack:
        folder, mark = stack.enter_context(_bench())
        if on.is_block_device():
            if PLUGIN.writes(cell):
                raise Refused(
                    "replay-writes",
                    f"{on} is a disk, but the workload writes: a replay writes only to a file that it creates",
                    hint="set --on to a new file, or a folder, on the storage under test",
                )
            device, found = str(on), target.look(str(on))
        else:
            device, found = stack.enter_context(_volume(on, need))
            progress(f"filling {format_size(need)} at {on}")
            _shell(PLUGIN.prepare(cell, device), folder, mark)
        progress(f"replaying for {seconds} s")
        with _load(cell, device, folder, mark):
            _wait_for_load(found.disk.name)
            return Replay(watch.watch(found, seconds, source), scale)


_REAPER = r"""
trap '' HUP INT TERM PIPE
cat > /dev/null
n=0
while [ $n -lt 40 ]; do
  pids=$(grep -lazs "^%s=$2\$" /proc/[0-9]*/environ | tr -dc '0-9\n')
  [ -n "$pids" ] || break
  kill -KILL $pids
  sleep 0.1
  n=$((n + 1))
done
rm -rf "$1"
"""
"""Waits until this program has ended, killed or not, then ends what it started (fio's jobs lead sessions of their own,
but have its environment) and removes the folder."""
_MARK = "FAIRLANE_REPLAY"


@contextmanager
def _bench() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """An empty folder, and the environment of what works in it; both end with this program, whatever ends it."""
    folder, token = tempfile.mkdtemp(prefix="fairlane-replay-"), secrets.token_hex(8)
    with subprocess.Popen(
        ["sh", "-c", _REAPER % _MARK, "sh", folder, token],
        stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True,
    ):  # fmt: skip
        yield Path(folder), {**os.environ, _MARK: token}


@contextmanager
def _volume(on: Path, size: int) -> Iterator[tuple[str, target.Target]]:
    """A new file of ``size`` bytes: with root a loop device on it, and the disk to watch. The file has no name any more
    once it is open, and the loop device is detached by its last user: nothing stays after a kill."""
    file = on / f".fairlane-replay-{os.getpid()}" if on.is_dir() else on
    folder = os.statvfs(file.parent) if file.parent.is_dir() else None
    if folder and folder.f_bavail * folder.f_frsize < size * 1.05:
        raise FairlaneError(
            "no-space", f"{format_size(size)} do not fit into {file.parent}", hint="set a smaller --size, such as 256m"
        )
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(
            "replay-exists", f"{file} exists: a replay writes only to a file that it creates", hint="choose a new name"
        ) from None
    with ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            os.truncate(handle, size)
            device = stack.enter_context(_loop(file.absolute()))
            found = target.look(device or str(file.absolute()))
        finally:
            file.unlink(missing_ok=True)
        yield device or f"/proc/{os.getpid()}/fd/{handle}", found


@contextmanager
def _loop(file: Path) -> Iterator[str]:
    """With root a loop device on ``file``, which goes once nobody has it open; empty: there is none."""
    device = ""
    if os.geteuid() == 0:
        device = target.quiet(("losetup", "-f", "--show", "--direct-io=on", str(file)))
        device = device or target.quiet(("losetup", "-f", "--show", str(file)))
    if not device:
        yield ""
        return
    try:
        handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        target.quiet(("losetup", "-d", device))
    try:
        yield device
    finally:
        os.close(handle)


def _shell(script: str, folder: Path, mark: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-eu", "-c", script], cwd=folder, env=mark, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, check=False
    )
    if done.returncode:
        raise RunFailed("fio-failed", f"fio failed: {_errors(folder) or done.stderr.decode(errors='replace')[-600:]}")


def _errors(folder: Path) -> str:
    return " ".join(f.read_text(errors="replace").strip()[-600:] for f in folder.glob("*.err")).strip()


@contextmanager
def _load(cell: Cell, device: str, folder: Path, mark: Mapping[str, str]) -> Iterator[None]:
    """fio at work; ended at the end. Raises RunFailed if it ends before."""
    script = PLUGIN.script(cell, [device], 1)
    process = subprocess.Popen(
        ["sh", "-eu", "-c", script], cwd=folder, env=mark, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield
        if process.poll() not in (None, 0):
            raise RunFailed("fio-failed", f"fio ended early{because(_errors(folder))}")
    finally:
        signal_group(process.pid, signal.SIGTERM)
        process.wait()


def _wait_for_load(name: str) -> None:
    """Until the disk counts I/Os: fio sets up before it starts."""
    stat = Path("/sys/class/block", name, "stat")
    before, began = stat.read_text(), time.monotonic()
    while stat.read_text() == before:
        if time.monotonic() - began > _BEGIN:
            raise RunFailed("fio-failed", f"fio did not begin within {_BEGIN:.0f} s")
        time.sleep(0.05)
    time.sleep(_LEAD)
