"""Lanes on Ceph as text: what a study may ask for, what it means, and what a machine lacks for it."""

import re
from pathlib import Path
from typing import Any

import pytest
from lab_study import figures
from pydantic import ValidationError

from fairlane.lanes.base import Site
from fairlane.lanes.cephfs import Cephfs, CephfsSpec
from fairlane.lanes.rbd import Rbd, RbdSpec
from fairlane.platforms.lab.spec import Ceph, LabSpec
from fairlane.platforms.lab.wall import ceph, layout, qemu_probe, resources
from fairlane.study.guest_device import GuestDevice
from fairlane.study.spec import Study

SITE = Site("", "", "", 0, "", size=2**30, cluster="/c")


def rbd(**keys: Any) -> RbdSpec:
    return RbdSpec.model_validate({"transport": "rbd", **keys})


def cephfs(**keys: Any) -> CephfsSpec:
    return CephfsSpec.model_validate({"transport": "cephfs", **keys})


@pytest.mark.parametrize(
    ("asked", "width", "overhead"),
    [(2, 2, 2.0), (3, 3, 3.0), ("3", 3, 3.0), ("2+1", 3, 1.5), ("4+2", 6, 1.5), ("3+2", 5, 5 / 3)],
)
def test_redundancy(asked: int | str, width: int, overhead: float) -> None:
    spec = rbd(redundancy=asked)
    assert (spec.width, spec.overhead) == (width, overhead)


@pytest.mark.parametrize(
    ("keys", "loc", "told"),
    [
        ({"redundancy": 1}, ("redundancy",), ""),
        ({"redundancy": "2+0"}, ("redundancy",), ""),
        ({"redundancy": "1+1"}, ("redundancy",), ""),
        ({"redundancy": "two"}, ("redundancy",), ""),
        ({"redundancy": True}, ("redundancy",), ""),
        ({"redundancy": "2+1; rm"}, ("redundancy",), ""),
        ({"pgs": 12}, (), r"\bpgs: "),
        ({"object_size": "3m"}, (), r"\bobject_size: "),
        ({"features": ["fast-diff", "exclusive-lock"]}, (), r"\bfeatures: .*\bfast-diff\b.*\bobject-map\b"),
        ({"features": ["data-pool"]}, ("features", 0), ""),
        ({"initiator": "guest"}, (), r"\binitiator: .*\brbd\b"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], loc: tuple[str | int, ...], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rbd(**keys)
    (error,) = refused.value.errors()
    assert (error["loc"], error["type"] in {"value_error", "literal_error"}) == (loc, True)
    assert re.search(told, error["msg"])


def test_lanes_that_ask_for_the_same_share_a_pool_and_others_do_not() -> None:
    assert rbd(redundancy=3).pool("rbd") == rbd(redundancy="3").pool("rbd")
    pools = {rbd(**k).pool("rbd") for k in ({}, {"redundancy": 2}, {"pgs": 64}, {"redundancy": "2+1"})}
    assert len(pools) == 4


def test_parameters_tell_what_lanes_are_compared_in() -> None:
    image = rbd(redundancy="2+1", features=["layering"]).known()
    file = cephfs(redundancy=2).known()
    assert (image["copies"], file["copies"]) == ("2+1", 2)
    assert (image["volume_mode"], file["volume_mode"]) == ("Block", "Filesystem")
    assert image["write_ack"] == file["write_ack"]
    assert image["initiator"] == "hypervisor"
    assert image["bus"] == "virtio-blk"
    assert re.search(r"\bRBD\b.*\b2\+1$", image["backend"])
    assert re.findall(r"\d\w*|layering|data-pool", image["path_settings"]) == ["4m", "32", "layering", "data-pool"]


def test_the_guest_s_cache_decides_librbd_s() -> None:
    """QEMU sets librbd's ``rbd_cache`` from its own cache.direct, so that nothing of it is in the node."""
    spec = rbd(device=GuestDevice(cache="writeback"))
    node = Rbd("one", spec, SITE).backend()
    assert node == {"driver": "rbd", "pool": spec.pool("rbd"), "image": "one", "conf": "/c/ceph.conf", "user": "admin"}
    assert Cephfs("two", cephfs(), SITE).backend() == {"driver": "file", "filename": "/c/two.disk"}


def test_every_step_is_of_the_hypervisor_and_carries_no_secret() -> None:
    for steps in (Rbd("a", rbd(redundancy="2+1"), SITE).steps(), Cephfs("b", cephfs(), SITE).steps()):
        assert {step.place for step in steps} == {"hypervisor"}
        assert not any("key" in step.describe for step in steps)


def study(**platform: Any) -> tuple[LabSpec, tuple[layout.Volume, ...]]:
    keys = {"kind": "lab", "clock": "wall", "medium": {"size": "1g"}, **platform}
    made = Study.model_validate(
        {
            "name": "s",
            "platform": keys,
            "baseline": "a",
            "lanes": {"a": {"transport": "rbd"}, "b": {"transport": "cephfs", "redundancy": "4+2"}},
            "workloads": {"w": {"kind": "fio"}},
        }
    )
    assert isinstance(made.platform, LabSpec)
    return made.platform, layout.volumes(made, made.platform)


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: f"/usr/bin/{program}")
    monkeypatch.setattr(qemu_probe, "has_driver", lambda _: True)
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_a_cluster_that_is_too_small_is_refused_with_its_sums(complete: None) -> None:
    spec, volumes = study()
    osds, space = ceph.problems(spec.ceph, volumes)
    assert (osds.kind, figures(osds.message), "lanes.b" in osds.message) == ("ceph-osds", {"6", "3"}, True)
    assert "platform.ceph.osds: 6" in osds.hint
    assert (space.kind, figures(space.message)) == ("ceph-space", {"4.5 GiB", "3", "2.0 GiB", "3.9 GiB"})
    assert re.findall(r"platform\.[\w.]*\w", space.hint) == ["platform.medium.size", "platform.ceph.osd_size"]
    spec, volumes = study(ceph={"osds": 6})
    assert ceph.problems(spec.ceph, volumes) == []


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, complete: None) -> None:
    spec, volumes = study(ceph={"osds": 6})
    monkeypatch.setattr("shutil.which", lambda program: None if program.startswith("ceph-") else f"/bin/{program}")
    monkeypatch.setattr(qemu_probe, "has_driver", lambda _: False)
    (error,) = ceph.problems(spec.ceph, volumes)
    assert error.kind == "package-missing"
    missing = ["ceph-fuse", "ceph-mds", "ceph-mgr", "ceph-mon", "ceph-osd", "qemu-block-extra"]
    assert re.findall(r"\b(?:ceph|qemu)-[\w-]+", error.message) == missing
    assert "scripts/setup.sh ceph" in error.hint


def test_no_ceph_lane_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert ceph.problems(Ceph(), ()) == []


def test_ceph_is_for_the_wall_clock() -> None:
    with pytest.raises(ValidationError, match=r"ceph: .*clock: wall"):
        LabSpec(kind="lab", ceph=Ceph(osds=2))


def test_configuration_keeps_to_its_folder_and_to_loopback() -> None:
    text = ceph.configuration(Path("/x/ceph"), "id", 20001, Ceph(memstore=True))
    assert "mon host = v2:127.0.0.1:20001" in text
    assert "osd objectstore = memstore" in text
    assert "/var/" not in text
    assert "/etc/" not in text


def test_the_cluster_s_memory_and_disk_are_in_the_sums() -> None:
    spec, volumes = study(ceph={"osds": 6})
    memory, disk = resources.problems(spec, volumes, resources.Capacity(2**30, 8, 2**30))
    assert (memory.kind, "2.0 GiB" in figures(memory.message)) == ("memory", True)
    assert (disk.kind, figures(disk.message) >= {"2", "1g", "4.5 GiB", "1.0 GiB"}) == ("disk-space", True)
    spec, volumes = study(ceph={"osds": 6, "memstore": True})
    (memory,) = resources.problems(spec, volumes, resources.Capacity(2**30, 8, 2**30))
    assert (memory.kind, "13.6 GiB" in figures(memory.message)) == ("memory", True)
