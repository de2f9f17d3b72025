"""How long the machine had been up when the trial ended, and how long the trial took by that clock."""

from fairlane.probes.base import Probe
from fairlane.records import Figures


class Uptime(Probe):
    capture = "cat /proc/uptime"

    def observe(self, before: str, after: str, load: Figures) -> Figures:
        try:
            begun, ended = (float(text.split()[0]) for text in (before, after))
        except (ValueError, IndexError):
            return Figures()
        return Figures(metrics={"job_time": (ended - begun + 0.01) * 1e9}, context={"uptime": {"ended_s": ended}})


PLUGIN = Uptime()
