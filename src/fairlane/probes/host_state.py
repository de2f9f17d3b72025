"""What may have slowed the machine down: temperatures, throttled CPUs, frequency governors, speeds of its links.

``/sys/class/hwmon`` (kernel: hwmon/sysfs-interface.rst, thousandths of a degree), else ``/sys/class/thermal``;
``thermal_throttle`` of each CPU; ``cpufreq`` policies; ``/sys/class/net/*/speed`` in Mbit/s, of interfaces with a
device. A virtual machine has next to none of these.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from fairlane.probes.base import Probe, counter
from fairlane.records import Figures

_ROOM = 64
"""Most sensors and links that are reported."""


class HostState(Probe):
    """``host``: ``temperatures``: sensor -> ``{"celsius", "limit", "alarm", "disk"}``, the higher of both snapshots;
    ``throttles``: times that a CPU throttled; ``governors``: governor -> number of policies; ``links``: interface ->
    bits per second."""

    virtual = False
    # Shell builtins, no program. A disk is a folder of its sensor's device.
    capture: ClassVar[str] = """
got() { v=; { read -r v < "$1"; } 2> /dev/null || v=; }
n=0
for f in /sys/class/hwmon/hwmon*/temp*_input; do
  [ -e "$f" ] || continue
  got "$f"; t=$v; h=${f%/*}; s=${f%_input}; d=-
  for b in "$h"/device/nvme*n* "$h"/device/block/*; do [ ! -e "$b" ] || d=${b##*/}; done
  got "$s"_max; m=$v; got "$s"_alarm; a=$v; got "$s"_label; l=$v; got "$h/name"
  echo "temp $d ${t:--} ${m:--} ${a:--} ${h##*/} $v ${l:-${s##*/}}"
  n=1
done
[ $n = 1 ] || for f in /sys/class/thermal/thermal_zone*; do
  [ -e "$f/temp" ] || continue
  got "$f/temp"; t=$v; got "$f/type"
  echo "temp - ${t:--} - - ${f##*/} $v"
done
for f in /sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count; do
  [ -e "$f" ] || continue
  got "$f"; echo "throttle ${f##*/} $v"
done
if [ "${WHEN:-before}" = before ]; then
  for f in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
    [ -e "$f" ] || continue
    got "$f"; echo "governor $v"
  done
  for f in /sys/class/net/*/device; do
    [ -e "$f" ] || continue
    f=${f%/device}; got "$f/speed"; echo "link ${f##*/} $v"
  done
fi"""

    def observe(self, before: str, after: str, load: Figures) -> Figures:  # noqa: ARG002
        host: dict[str, Any] = {}
        temperatures: dict[str, dict[str, Any]] = {}
        for name, sensor in (*_sensors(before), *_sensors(after)):
            known = temperatures.get(name)
            if known is None and len(temperatures) >= _ROOM:
                continue
            if known is None or sensor["celsius"] >= known["celsius"]:
                alarm = sensor["alarm"] or bool(known and known["alarm"])
                temperatures[name] = {**sensor, "alarm": alarm}
        first, last = _throttles(before), _throttles(after)
        governors = Counter(words[1] for words in _lines(before, "governor") if len(words) == 2)
        links = {
            words[1]: speed * 10**6
            for words in _lines(before, "link")[:_ROOM]
            if len(words) == 3 and (speed := counter(words[2])) and speed < 2**31 - 1
        }
        if temperatures:
            host["temperatures"] = temperatures
        if first is not None and last is not None and last >= first:
            host["throttles"] = last - first
        if governors:
            host["governors"] = dict(governors)
        if links:
            host["links"] = links
        return Figures(context={"host": host} if host else {})


def _lines(text: str, kind: str) -> list[list[str]]:
    return [words for line in text.splitlines() if (words := line.split()) and words[0] == kind]


def _sensors(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for words in _lines(text, "temp"):
        if len(words) < 7:
            continue
        _, disk, value, limit, alarm, chip, *names = words
        celsius, most = counter(value.removeprefix("-")), counter(limit)
        if celsius is None or not celsius or celsius > 250_000:
            continue  # sensors that are not connected show 0, or nonsense
        sensor: dict[str, Any] = {"celsius": (-celsius if value.startswith("-") else celsius) / 1e3}
        sensor["limit"] = most / 1e3 if most and most < 250_000 else None
        sensor["alarm"] = alarm == "1"
        sensor["disk"] = "" if disk == "-" else disk
        yield f"{chip} {' '.join(names)}", sensor


def _throttles(text: str) -> int | None:
    counts = [counter(words[2]) for words in _lines(text, "throttle") if len(words) == 3]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


PLUGIN = HostState()
