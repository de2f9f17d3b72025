"""The interval log that all jobs share: rows of real fio 3.33 (two jobs, reads and writes), and damaged ones."""

import io

import pytest

from fairlane.errors import Garbage
from fairlane.formats.fio_series import read_series

REAL = """\
999, 3540, 0, 0, 0
999, 3434, 1, 0, 0
1999, 3243, 0, 0, 0
1999, 3200, 1, 0, 0
3000, 2807, 0, 0, 0
3000, 2832, 1, 0, 0
1000, 3488, 0, 0, 0
1000, 3520, 1, 0, 0
1999, 3250, 0, 0, 0
1999, 3212, 1, 0, 0
3000, 2884, 0, 0, 0
3000, 3014, 1, 0, 0
"""


def read(text, interval_ms=1000):
    return read_series(io.BytesIO(text.encode()), interval_ms)


def test_jobs_and_directions_are_added_up():
    assert read(REAL) == [3540 + 3434 + 3488 + 3520, 3243 + 3200 + 3250 + 3212, 2807 + 2832 + 2884 + 3014]


def test_an_interval_without_io_has_no_row_and_is_0():
    assert read("1000, 10, 0, 0\n4001, 20, 0, 0\n") == [10, 0, 0, 20]


def test_what_is_left_when_a_job_ends_is_no_interval():
    assert read("1000, 10, 0, 0\n1999, 12, 0, 0\n2003, 9, 0, 0\n1000, 5, 0, 0\n2000, 6, 0, 0\n") == [15, 18]


def test_finer_intervals():
    assert read("100, 1, 0, 0\n201, 2, 0, 0\n299, 3, 0, 0\n", 100) == [1, 2, 3]


def test_an_empty_log():
    assert read("") == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [("1000, 1, 0, 4096\n", "mixed-log"), ("9999999999999, 1, 0, 0\n", "too-large"), ("1000, 1, 0, 0\n10", "cut-off")],
)
def test_damaged_logs(text, kind):
    with pytest.raises(Garbage) as error:
        read(text)
    assert error.value.kind == kind
