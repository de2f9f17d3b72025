"""Parse the interval log that all jobs of one fio share (``write_iops_log`` with ``log_avg_msec``, ``per_job_logs=0``).

fio appends the rows of one job after those of the other, a row per interval and direction: end of the interval in ms
(now and then a millisecond early or late), IOPS in it, direction. An interval without I/O has no row. What is left when
a job ends makes a row of its own, whose interval may be no time at all; it is left out.
"""

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairlane.errors import Garbage
from fairlane.formats.fio_columns import rows
from fairlane.stats.histogram import Ints

_LONGEST = 10**6
"""Most intervals of a trial."""


def read_series(file: BinaryIO, interval_ms: int) -> list[float]:
    """IOPS of all jobs and directions in each interval since the log began. Empty: the log is. Raises Garbage."""
    total = np.zeros(0, np.int64)
    for line, every in rows(file, 4):
        table = every[_whole(every, interval_ms)]
        number: Ints = np.maximum((table[:, 0] + interval_ms // 2) // interval_ms - 1, 0)
        if int(number.max()) >= _LONGEST:
            raise Garbage("too-large", f"line {line} and following: more intervals than a trial can have")
        if table[:, 3].any():  # the block size of an average is 0
            raise Garbage("mixed-log", f"line {line} and following: single I/Os in a log of intervals")
        sums = np.zeros(max(len(total), int(number.max()) + 1), np.int64)
        sums[: len(total)] = total
        np.add.at(sums, number, table[:, 1])
        total = sums
    return [float(rate) for rate in total]


def _whole(table: Ints, interval_ms: int) -> NDArray[np.bool_]:
    """The rows whose interval is at least half as long as the others; where time goes back the next job begins."""
    whole = np.ones(len(table), np.bool_)
    for way in np.unique(table[:, 2]):
        here = np.flatnonzero(table[:, 2] == way)
        since = np.diff(table[here, 0], prepend=-interval_ms)
        whole[here] = (since < 0) | (since > interval_ms // 2)
    return whole
