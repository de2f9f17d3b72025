import math
import re
import xml.etree.ElementTree as ET
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlane.report import svg
from fairlane.report.svg import Scale

SPAN = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))


def test_text_and_attributes_are_escaped():
    drawn = svg.picture("f", 10, '<b>"&', "d", svg.tag("g", "</svg><script>", id='" onload="x'))
    root = ET.fromstring(drawn)  # noqa: S314 - our own output
    assert "<script>" not in drawn
    assert root[0].text == '<b>"&'
    assert root[2].attrib == {"id": '" onload="x'}
    assert root[2].text == "</svg><script>"


def test_a_picture_tells_a_screen_reader_what_it_is():
    root = ET.fromstring(svg.picture("f", 20, "Title", "Description"))  # noqa: S314
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == root[0].attrib["id"]
    assert root.attrib["aria-describedby"] == root[1].attrib["id"]
    assert root.attrib["viewBox"] == "0 0 480 20"


@given(SPAN)
def test_ticks_are_round_few_and_inside(span):
    low, high = span[0], span[0] + span[1]
    assume(high - low > 1e-6 * max(abs(low), 1))
    found = svg.ticks(low, high)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-6 * (high - low) - 1e-12 <= t <= high + 1e-6 * (high - low) + 1e-12 for t in found)


def test_ticks_hit_zero_exactly():
    assert svg.ticks(-0.1, 0.4) == (-0.1, 0.0, 0.1, 0.2, 0.3, 0.4)
    assert svg.ticks(0, 24000, 3) == (0, 10000, 20000)
    assert svg.ticks(5, 5) == (5,)


@given(st.floats(1e-6, 1), st.floats(1.05, 1e6))
def test_ratio_ticks_lie_inside(low, reach):
    found = svg.ratio_ticks(low, low * reach, 6)
    assert all(low * (1 - 1e-6) <= t <= low * reach * (1 + 1e-6) for t in found)
    assert len(found) <= 14


def test_ratio_ticks_are_the_ones_a_reader_expects():
    assert svg.ratio_ticks(0.9, 1.3) == pytest.approx((0.9, 1, 1.1, 1.2, 1.3))
    assert svg.ratio_ticks(0.3, 5) == (0.5, 1, 2, 4)
    assert svg.ratio_ticks(0.001, 900) == (0.001, 0.01, 0.1, 1, 10, 100)


def test_scales_place_values_and_stop_at_the_edge():
    linear = Scale(0, 10, 100, 200)
    assert [linear(v) for v in (0, 5, 10, 99)] == [100, 150, 200, 200]
    log = Scale(0.5, 2, 0, 100, log=True)
    assert log(1) == pytest.approx(50)
    assert log(math.sqrt(2)) == pytest.approx(75)
    assert Scale(3, 3, 0, 9)(3) == 0


def test_colours_exist_in_the_style_sheet_light_dark_and_printed():
    style = resources.files("fairlane.report").joinpath("templates/style.css").read_text()
    code = "".join(path.read_text() for path in Path(svg.__file__).parent.glob("*.py"))
    names = set(re.findall(r'colour\("([\w-]+)"\)', code)) | {f"lane-{n}" for n in range(svg.LANES)}
    schemes = [set(re.findall(r"--([\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", style, re.S)]
    assert len(schemes) == 3
    for scheme in schemes:
        assert {"better", "worse", "muted", "paper"} <= names | {"paper"} <= scheme


def test_coordinates_are_short():
    assert [svg.num(x) for x in (1.0, 1.04, -0.01, 12.345)] == ["1", "1", "0", "12.3"]


def test_dots_land_where_they_belong():
    points = [(10.04, 5), (9.96, 8.5), (250.55, 1.5)]
    path = ET.fromstring(svg.dots(points, "d"))[0].attrib["d"]  # noqa: S314
    x = y = 0.0
    for (px, py), step in zip(points, path.removeprefix("m").split("m"), strict=True):
        dx, dy = (float(v) for v in step.removesuffix("h0").split())
        x, y = x + dx, y + dy
        assert (x, y) == pytest.approx((px, py), abs=0.06)
