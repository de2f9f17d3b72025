"""Lane diagrams: hops stand in the band of their place, differences are marked, several lanes make several figures."""

import re
import xml.etree.ElementTree as ET

import pytest

from fairlane.report import diagram
from fairlane.report.diagram import bands
from fairlane.report.lanes import Lane
from fairlane.report.text import DASH


def lane(*path: str, name: str = "x", baseline: bool = False, shared: frozenset[str] = frozenset()) -> Lane:
    return Lane(name, name, "iscsi", baseline, path, shared)


PATHS = {
    ("fio", "sd", "open-iscsi", "TCP eth1: 25gbit", "LIO", "iblock", "null_blk"): (3, 0, 1, 3),
    ("fio", "QEMU's iscsi", "TCP 10.0.2.2 (forwarded)", "LIO", "null_blk"): (1, 1, 1, 2),
    ("fio", "virtio-blk", "QEMU", "null-co"): (2, 1, 0, 1),
    ("fio", "QEMU", "file", "FUSE", "ceph-fuse", "TCP lo", "OSD", "3 copies on OSDs"): (1, 4, 1, 2),
    ("fio", "/dev/nullb0"): (1, 0, 0, 1),
    ("fio", "nvme", "nvme-rdma", "soft-RoCE eth1", "nvmet", "null_blk"): (3, 0, 1, 2),
}


@pytest.mark.parametrize(("path", "sizes"), PATHS.items(), ids=lambda x: " ".join(map(str, x)))
def test_hops_stand_in_the_band_of_their_place(path, sizes):
    placed = bands(lane(*path))
    assert tuple(len(placed[band]) for band in diagram.BANDS) == sizes
    assert tuple(hop.text for band in diagram.BANDS for hop in placed[band]) == path


def test_a_link_of_several_paths_says_how_many():
    (link,) = bands(lane("fio", "TCP path0 + path1: 25gbit", "LIO", "m"))["network"]
    assert link.paths == 2


def test_what_the_baseline_lacks_is_marked_in_picture_and_table():
    base = lane("fio", "sd", "TCP eth1", "LIO", "m", name="base", baseline=True)
    other = lane("fio", "nvme", "TCP eth1", "nvmet", "m", name="other", shared=frozenset(base.path))
    (figure,) = diagram.figures([base, other], "lanes")
    texts = ["".join(e.itertext()) for e in ET.fromstring(figure.svg).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - ours
    assert sorted(t for t in texts if t.startswith("≠")) == ["≠ nvme", "≠ nvmet"]
    assert figure.table.rows[1] == ("other", "fio, nvme ≠", DASH, "TCP eth1", "nvmet ≠, m")


def test_a_machine_that_was_there_is_not_called_virtual():
    (figure,) = diagram.figures([lane("fio", "ext4", "/dev/sda", baseline=True)], "lanes", diagram.MACHINE)
    assert "virtual" not in figure.svg
    assert figure.table.columns[1] == diagram.MACHINE
    (figure,) = diagram.figures([lane("fio", "ext4", "/dev/sda", baseline=True)], "lanes")
    assert figure.table.columns[1] == diagram.BANDS[0]


def test_nothing_is_drawn_outside_or_over_another_box():
    lanes = [lane("fio", f"hop {'long ' * n}", "TCP a", "t", "m", name=f"l{n}", baseline=n == 0) for n in range(8)]
    figures = diagram.figures(lanes, "lanes")
    assert [f.id for f in figures] == ["lanes-1", "lanes-2", "lanes-3", "lanes-4"]
    for figure in figures:
        assert figure.table.rows[0][0] == "l0"  # the baseline is in each
        root = ET.fromstring(figure.svg)  # noqa: S314 - ours
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        boxes = [
            tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height"))
            for g in root.iter("{http://www.w3.org/2000/svg}g")
            for r in g.iter("{http://www.w3.org/2000/svg}rect")
        ]
        assert boxes
        for x, y, w, h in boxes:
            assert 0 <= x < x + w <= width
            assert 0 <= y < y + h <= height
        for i, (x, y, w, h) in enumerate(boxes):
            for x2, y2, w2, h2 in boxes[i + 1 :]:
                assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_a_hostile_hop_is_text():
    (figure,) = diagram.figures([lane("fio", "<script>alert(1)</script>", "m", baseline=True)], "lanes")
    assert "<script" not in figure.svg
    assert re.search("&lt;script&gt;", figure.svg)
