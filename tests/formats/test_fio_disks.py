from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.formats.fio_disks import disks


def disk(reads: int, writes: int = 0, parts: tuple[int, int] | None = None, **more: int) -> dict[str, Any]:
    found = {"read_ios": reads, "write_ios": writes, "read_merges": 1, "write_merges": 2, **more}
    return found | ({"aggr_read_ios": parts[0], "aggr_write_ios": parts[1]} if parts else {})


def counted(*found: dict[str, Any]) -> tuple[int, int] | None:
    total = disks(list(found))
    return (total["reads"], total["writes"]) if total else None


def test_disks_side_by_side_are_added() -> None:
    assert disks([disk(5, 6), disk(7, 8)]) == {"reads": 12, "writes": 14, "read_merges": 2, "write_merges": 4}


def test_paths_of_a_multipath_device_are_its_parts() -> None:
    assert counted(disk(100, 50, (49, 25)), disk(51, 26), disk(48, 25), disk(7)) == (107, 50)


def test_two_multipath_devices() -> None:
    one = (disk(100, 0, (50, 0)), disk(60), disk(40))
    two = (disk(30, 0, (15, 0)), disk(14), disk(16))
    assert counted(*one, *two) == (130, 0)


def test_a_device_upon_a_device_upon_paths() -> None:
    assert counted(disk(100, 0, (99, 0)), disk(99, 0, (49, 0)), disk(50), disk(48), disk(3)) == (103, 0)


def test_parts_that_do_not_make_up_their_device_tell_nothing() -> None:
    assert counted(disk(100, 0, (50, 0)), disk(1), disk(2)) is None
    assert counted(disk(100, 0, (50, 0))) is None


def test_bytes_where_all_disks_tell_sectors() -> None:
    sectors = {"read_sectors": 16, "write_sectors": 8}
    assert disks([disk(1, 1, None, **sectors)])["read_bytes"] == 8192
    assert "read_bytes" not in disks([disk(1, 1, None, **sectors), disk(1)])


@pytest.mark.parametrize(
    "tree", [None, [], {}, "x", [1], [{}], [disk(-1)], [disk(True)], [disk(2**70)], [disk(1)] * 2000]
)
def test_what_is_no_disk_util(tree: Any) -> None:
    assert disks(tree) == {}


@given(st.lists(st.builds(disk, st.integers(0, 9), st.integers(0, 9), st.none() | st.tuples(*[st.integers(0, 9)] * 2))))
def test_any_devices(tree: list[Any]) -> None:
    total = disks(tree)
    assert not total or total["reads"] <= sum(one["read_ios"] for one in tree)


def test_a_thousand_devices_upon_each_other() -> None:
    deep = [disk(9, 9, (9, 9)) for _ in range(1023)]
    assert counted(*deep, disk(9, 9)) == (9, 9)
