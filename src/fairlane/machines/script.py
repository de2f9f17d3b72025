"""Turn lanes, workloads and probes into shell that a guest runs by itself.

A guest under the virtual clock has no connection while it runs, so it gets one script per block with everything in it.
Guests reached over SSH run the same scripts. The guest provides the functions of machines/guest/lib.sh.
"""

import hashlib
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from fairlane import registry
from fairlane.lanes.base import Step, Transport
from fairlane.machines.folders import OWN, Folders
from fairlane.records import Block

LOAD_BEGINS, LOAD_ENDS = "load-begins", "load-ends"
"""Marks that a block's script sends around each load."""

JITTER = 0.016
"""Seconds. At iodepth 16 the instant at which a load starts against the kernel's 4 ms tick moves IOPS by 1-2 %. Without
jitter all blocks of the virtual clock would share a few instants, and intervals would not know of it."""

_HEAD = "set -u\n. /fairlane/lib.sh\n"


def device(lane: str) -> str:
    """``Folders.device`` on the lab's machines."""
    return OWN.device(lane)


def run_step(name: str, text: str, note: str = "/run/step") -> str:
    """Shell that runs one step strictly, leaving its name in the file ``note``, where an error report finds it."""
    # not "( ... ) || exit": that would switch set -e off inside
    return f"echo {quote(name)} > {note}\n( set -eu\n{text.strip()}\n)\n[ $? -eq 0 ] || exit 1\n"


def link_step(name: str, find: str, note: str = "/run/step", folders: Folders = OWN, *, lines: bool = False) -> str:
    """Shell that links the one device that ``find`` prints as ``folders.device(name)``, with its kernel name beside
    it. ``lines``: it prints one a line, so that blanks may be in it."""
    link = folders.device(name)
    count = "grep -c ." if lines else "wc -w"
    return run_step(f"find the device of {name}", f"""
mkdir -p {folders.lanes}
found=$({find})
[ "$(echo "$found" | {count})" -eq 1 ] || {{ echo "expected one device, found: $found" >&2; exit 1; }}
ln -sfn "$found" {link}
basename "$(readlink -f "$found")" > {link}.name
""", note)  # fmt: skip


IDENTITY = """
d=$(readlink -f {device}); d=${{d##*/}}
if [ -e /sys/class/block/$d ]; then
  row device "/dev/$d"
  read -r x < /sys/class/block/$d/size; row device.bytes $((x * 512))
  for k in logical_block_size write_cache fua; do
    read -r x < /sys/class/block/$d/queue/$k; row device.$k "$x"
  done
else
  row device "$(readlink -f {device})"
  row device.bytes "$(stat -c %s "$(readlink -f {device})")"
fi
"""
"""Shell that prints the identity of a linked device, for machines that run meanwhile."""


def setup_script(platform: Iterable[Step], lanes: Iterable[Transport[Any]], prepare: Iterable[str]) -> str:
    """Shell that builds the lanes, prepares the media, and describes the result.

    It leaves ``platform.tsv`` and one ``NAME.tsv`` per lane in the current folder.
    """
    parts = [_HEAD, "mkdir -p /dev/lane\n"]
    steps, lanes = list(platform), list(lanes)
    parts += [run_step(step.name, step.apply) for step in steps]
    for lane in lanes:
        parts += [run_step(step.name, step.apply) for step in lane.steps()]
        parts.append(run_step(f"find the device of {lane.name}", f"""
found=$({lane.find()})
[ "$(echo "$found" | wc -w)" -eq 1 ] || {{ echo "expected one device, found: $found" >&2; exit 1; }}
ln -sf "$found" {device(lane.name)}
basename "$found" > {device(lane.name)}.name
"""))  # fmt: skip
    parts += [run_step("prepare the medium", text) for text in prepare]
    parts.append(_describe("platform", steps))
    for lane in lanes:
        identity = f"""
d=$(basename "$(readlink -f {device(lane.name)})")
row device "/dev/$d"
row device.bytes $(($(cat /sys/class/block/$d/size) * 512))
row device.logical_block_size "$(cat /sys/class/block/$d/queue/logical_block_size)"
row device.write_cache "$(cat /sys/class/block/$d/queue/write_cache)"
row device.fua "$(cat /sys/class/block/$d/queue/fua)"
"""
        parts.append(_describe(lane.name, lane.steps(), identity))
    return "".join(parts)


def _describe(name: str, steps: Iterable[Step], more: str = "") -> str:
    text = "\n".join(f"( {step.describe.strip()}\n)" for step in steps if step.describe)
    return run_step(f"describe {name}", f"{{\n{text}\n{more}}} > {name}.tsv")


def jitter(seed: int, lane: str) -> float:
    """Seconds in [0, JITTER), for one trial of a block."""
    digest = hashlib.sha256(f"start {seed} {lane}".encode()).digest()
    return JITTER * int.from_bytes(digest[:4], "big") / 2**32


def block_script(block: Block, settle: float) -> str:
    """Shell that runs one block: per lane a snapshot, the load, a snapshot, and one frame with all of it.

    ``settle``: idle seconds before each load; up to JITTER more are drawn from the block's seed.
    """
    workload = registry.load("workloads", block.cell.kind)
    watching = ((name, probe) for name, probe in registry.every("probes") if probe.place == "guest" and probe.virtual)
    probes = [(name, probe.capture.strip()) for name, probe in watching]
    parts = [_HEAD]

    def capture(when: str) -> str:
        return "".join(f"( {text}\n) > probe.{name}.{when} 2>> probe.err\n" for name, text in probes)

    for lane in block.order:
        where = block.cell, (device(lane),), block.seed
        begin = f"{capture('before')}sleep {settle + jitter(block.seed, lane):.6f}\nmark {LOAD_BEGINS}\n"
        end = f"mark {LOAD_ENDS}\n{capture('after')}"
        if gated := workload.gated(*where, "load_begins", "load_ends").strip():
            load = f"load_begins() {{\n{begin}}}\nload_ends() {{\n{end}}}\n( {gated}\n)\necho $? > status"
        else:
            load = f"{begin}( {workload.script(*where).strip()}\n)\nstatus=$?\n{end}echo $status > status"
        parts.append(f"""
rm -rf /run/trial.{quote(lane)}; mkdir /run/trial.{quote(lane)} && cd /run/trial.{quote(lane)}
read -r DEVICE < {device(lane)}.name
{load}
cd / && send {quote(lane)} /run/trial.{quote(lane)}
""")
    return "".join(parts)


def rows(text: str) -> dict[str, str]:
    """Parse the output of ``row``: key -> value. The first value of a repeated key counts."""
    out: dict[str, str] = {}
    for line in text.splitlines():
        key, tab, value = line.partition("\t")
        if tab:
            out.setdefault(key, value)
    return out


def differences(steps: Iterable[Step], described: Mapping[str, str]) -> list[str]:
    """Differences between the read-back values and the step's expected ones."""
    return [
        f"{step.name}: {key} is {described.get(key, 'missing')}, expected {value}"
        for step in steps
        for key, value in step.expect.items()
        if described.get(key) != value
    ]
