"""Fits of loads drawn from known distributions."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairlane.capture.fit import STEPS, locality
from fairlane.capture.popular import Popularity


def drawn(blocks: NDArray[np.int64], most: int = 1 << 19) -> tuple[list[tuple[int, int, int]], float]:
    table = Popularity(most)
    for part in np.array_split(blocks, max(1, len(blocks) // 50_000)):
        table.add(part, np.zeros(len(part), np.int64))
    return table.repeats((0,)), table.share


def zipf(theta: float, places: int, ios: int, seed: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    weight = np.arange(1, places + 1) ** -theta
    chosen = rng.choice(places, ios, p=weight / weight.sum())
    return rng.permutation(places)[chosen].astype(np.int64)


@pytest.mark.parametrize("ios", [500, 5_000, 100_000])
def test_a_uniform_load_has_no_hot_spot_however_few_ios(ios: int) -> None:
    blocks = np.random.default_rng(2).integers(0, 50_000, ios)
    found = locality(*drawn(blocks), 50_000)
    assert found is not None
    assert found.distribution == ""
    assert found.hot == pytest.approx(0.10, abs=0.05)


def test_the_number_of_places_is_estimated_from_repeats() -> None:
    blocks = np.random.default_rng(2).integers(0, 100_000, 50_000)  # touches 39 % of them
    found = locality(*drawn(blocks), 10**9)
    assert found is not None
    assert found.blocks == pytest.approx(39_347, rel=0.02)
    assert found.places == pytest.approx(100_000, rel=0.05)


@pytest.mark.parametrize("theta", [0.6, 0.9, 1.2, 1.5])
def test_a_zipf_load_is_found_with_its_exponent(theta: float) -> None:
    found = locality(*drawn(zipf(theta, 65_536, 150_000)), 65_536)
    assert found is not None
    assert found.distribution.startswith("zipf:")
    assert float(found.distribution.partition(":")[2]) == pytest.approx(theta, abs=0.06)


def test_a_zipf_load_is_found_in_a_sample_of_blocks() -> None:
    repeats, share = drawn(zipf(0.8, 200_000, 400_000), most=1 << 15)
    assert share < 1
    found = locality(repeats, share, 200_000)
    assert found is not None
    assert found.distribution.startswith("zipf:")
    assert float(found.distribution.partition(":")[2]) == pytest.approx(0.8, abs=0.15)


def test_zones_are_found_as_zones() -> None:
    rng = np.random.default_rng(4)
    hot = rng.random(200_000) < 0.7
    blocks = np.where(hot, rng.integers(0, 2_000, 200_000), rng.integers(2_000, 20_000, 200_000))
    found = locality(*drawn(blocks), 20_000)
    assert found is not None
    assert found.distribution.startswith("zoned:")
    zones = [tuple(map(int, zone.split("/"))) for zone in found.distribution.removeprefix("zoned:").split(":")]
    assert [sum(column) for column in zip(*zones, strict=True)] == [100, 100]
    assert found.curve[STEPS.index(0.10)] == pytest.approx(0.70, abs=0.03)


def test_nothing_is_made_of_nothing() -> None:
    assert locality([], 1.0, 100) is None
    found = locality([(1, 0, 3)], 1.0, 100)
    assert found is not None
    assert found.distribution == ""
