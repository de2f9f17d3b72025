"""What lanes say of themselves and refuse, in snapshots; every other test here goes by kinds and figures."""

from functools import partial
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.errors import FairlaneError
from fairlane.lanes.base import Ground
from fairlane.lanes.storage_class import StorageClass
from tests.lanes.test_multipath_spec import REFUSED, spec
from tests.lanes.test_named_volumes import SITE, claim, refusal
from tests.lanes.test_stored import BAD, LANES, lane, of, problems

BARREN = Ground(keeps=False, fleet=2, mtu=1500, faults=("link",))
CLAIMS: tuple[dict[str, Any], ...] = (
    {"protocol": "iscsi", "block_multi_queue": True, "io_threads_policy": "supplementalPool", "io_threads": 4},
    {"clone": "copy", "volume_mode": "Filesystem"},
)


def test_studies_that_are_refused(snapshot: SnapshotAssertion) -> None:
    told = []
    for read, texts in ((spec, [text for text, *_ in REFUSED]), (lane, [text for text, *_ in BAD])):
        for text in texts:
            with pytest.raises(FairlaneError) as refused:
                read(text)
            told.append(f"{refused.value.labelled()}\n  {refused.value.hint}".rstrip())
    told += [refusal(partial(claim, bus="sata", block_multi_queue=True)), refusal(partial(claim, device={}))]
    assert "\n".join(told) == snapshot


def test_links_and_media_that_are_no_ground(snapshot: SnapshotAssertion) -> None:
    told = [f"{one.labelled()}\n  {one.hint}" for text in LANES.values() for one in problems(of(lane(text)), BARREN)]
    assert "\n".join(told) == snapshot


def test_paths_and_what_is_known(snapshot: SnapshotAssertion) -> None:
    transports = [
        *(of(lane(text)) for text in LANES.values()),
        *(StorageClass("a", claim(**keys), SITE) for keys in CLAIMS),
    ]
    told = [" > ".join(transport.path()) + f"\n  {transport.spec.known()}" for transport in transports]
    assert "\n".join(told) == snapshot
