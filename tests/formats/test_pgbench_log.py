"""pgbench's log read within a window of time."""

import pytest

from fairlane.formats.pgbench_log import Misread, read_log

ROWS = [
    "0 1 500 0 1795307919 100000",
    "1 1 400 0 1795307919 200000",
    "0 2 300 0 1795307919 900000",
    "1 2 failed 0 1795307920 100000",
    "0 3 200 0 1795307921 0",
]


def read(window: tuple[float, float]) -> tuple[int, float, dict[str, int]]:
    log = read_log([("pgbench_log.1", enumerate(ROWS, 1))], window)
    return log.count, log.figures(1.0).metrics["tps"], log.others


def test_transactions_that_ended_in_the_window_count() -> None:
    second = 1795307919 * 10**6
    assert read((second + 200_000, second + 10**6)) == (2, 2.0, {})
    assert read((second + 200_001, second + 2 * 10**6)) == (1, 1.0, {"failed": 1})
    assert read((second, second + 3 * 10**6)) == (4, 4.0, {"failed": 1})


def test_an_error_names_file_and_line() -> None:
    with pytest.raises(Misread) as error:
        read_log([("pgbench_log.1", enumerate([*ROWS, "what"], 1))])
    assert (error.value.kind, error.value.where) == ("not-this-tool", "pgbench_log.1:6")
