"""Storage classes on a command line: which kind of target a word is, the study that is made, the plan that is printed.

Storage classes and profiles are as their projects have them: Ceph RBD (Block for both access modes, a file system for
one), TopoLVM (both modes, ReadWriteOnce), NFS (file systems alone)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.errors import FairlaneError
from fairlane.lanes.storage_class import StorageClassSpec
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt.classes import Storage, StorageClass
from fairlane.platforms.kubevirt.spec import KubevirtSpec
from fairlane.study.load import parse_study
from fairlane.versus import before, targets
from fairlane.versus.loads import load
from fairlane.versus.plan import Wanted
from fairlane.versus.targets.base import Request, named
from fairlane.versus.targets.storage_classes import PACE, SIZE, Classes, compose

GIB = 2**30
RBD = StorageClass(
    "rbd", "openshift-storage.rbd.csi.ceph.com", default=True,
    modes=(("Block", "ReadWriteMany"), ("Block", "ReadWriteOnce"), ("Filesystem", "ReadWriteOnce")),
)  # fmt: skip
LVMS = StorageClass(
    "lvms", "topolvm.io", "WaitForFirstConsumer", modes=(("Block", "ReadWriteOnce"), ("Filesystem", "ReadWriteOnce"))
)
NFS = StorageClass("nfs", "nfs.csi.k8s.io", modes=(("Filesystem", "ReadWriteMany"),))
PORTWORX = StorageClass("px", "pxd.portworx.com", copies="3")


def cluster(*classes: StorageClass, images: tuple[str, ...] = ()) -> Storage:
    return Storage({one.name: one for one in classes}, images)


def composed(
    *texts: str, storage: Storage | None = None, options: dict[str, Any] | None = None, **more: Any
) -> Classes:
    what = load(more.pop("shapes", {}), more.pop("profile", None), None, None)
    given = {"seed": 1, "buffered": False, "accepts": {}, **(options or {})}
    request = Request(texts, what, Wanted(**more), given, f"fairlane versus {' '.join(texts)}")
    return compose(named(texts, "sc", "storage classes"), storage or cluster(RBD, LVMS, NFS, PORTWORX), request)


def lanes(plan: Classes) -> dict[str, tuple[str, str, str]]:
    found: dict[str, tuple[str, str, str]] = {}
    for name, lane in plan.study.lanes.items():
        assert isinstance(lane, StorageClassSpec)
        found[name] = (lane.storage_class, lane.volume_mode, lane.access_mode)
    return found


def platform(plan: Classes) -> KubevirtSpec:
    assert isinstance(plan.study.platform, KubevirtSpec)
    return plan.study.platform


def kind_of(error: pytest.ExceptionInfo[FairlaneError]) -> str:
    return error.value.kind


# --- what a word is


def test_a_prefix_names_a_class_and_everything_else_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "sc:there").mkdir()

    def plural(*texts: str) -> str:
        return targets.kind(texts, str(tmp_path)).plural

    assert plural("sc:rbd", "old=sc:lvms", "Old NAS=sc:x") == "storage classes"
    assert plural("./a", "host:/b", "x=/c") == "paths"
    assert plural("sc:/srv", "./sc:rbd") == "paths"  # the machine sc; a file of this machine
    assert plural("sc:there", "/b") == "paths"  # what exists under its very name is a path
    assert plural() == "paths"


def test_paths_and_classes_do_not_mix() -> None:
    for texts in (("sc:rbd", "./a"), ("./a", "new=sc:rbd")):
        with pytest.raises(FairlaneError) as refused:
            targets.kind(texts)
        assert kind_of(refused) == "targets-mixed"
        assert "sc:NAME" in refused.value.hint


def test_options_of_the_other_kind_are_refused() -> None:
    of_paths, of_classes = targets.load("paths"), targets.load("storage_classes")
    targets.refuse(of_classes, ["size", "time", "context", "namespace", "image"])
    targets.refuse(of_paths, ["size", "keep_free", "destroy", "shared"])
    for target, option in ((of_classes, "keep_free"), (of_classes, "destroy"), (of_paths, "namespace")):
        with pytest.raises(FairlaneError) as refused:
            targets.refuse(target, ["size", option])
        assert (kind_of(refused), refused.value.where) == ("option-elsewhere", f"--{option.replace('_', '-')}")


def test_a_name_before_the_prefix_is_the_label_and_lanes_are_unique() -> None:
    found = named(("Old SAN=sc:rbd.v1", "sc:rbd-v1", "again=sc:rbd.v1"), "sc", "storage classes")
    assert [(n.lane, n.label, n.name) for n in found] == [
        ("old-san", "Old SAN", "rbd.v1"),
        ("rbd-v1", "rbd-v1", "rbd-v1"),
        ("again", "again", "rbd.v1"),
    ]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (("sc:rbd",), "one-path"),
        (("sc:", "sc:rbd"), "target-unnamed"),
        (("sc:rbd", "sc:rbd"), "name-twice"),
        (("a=sc:rbd", "a=sc:lvms"), "name-twice"),
    ],
)
def test_what_cannot_be_meant_is_refused(texts: tuple[str, ...], kind: str) -> None:
    with pytest.raises(FairlaneError) as refused:
        named(texts, "sc", "storage classes")
    assert kind_of(refused) == kind


def test_classes_that_the_cluster_has_not_are_one_error_with_those_that_it_has() -> None:
    with pytest.raises(FairlaneError) as refused:
        composed("sc:rdb", "sc:fast", "sc:lvms", storage=cluster(RBD, LVMS))
    assert kind_of(refused) == "storage-class-unknown"
    assert refused.value.message == "the cluster has no storage classes rdb, fast"
    assert refused.value.hint == "did you mean rbd? The cluster has: lvms, rbd (default)"
    unread = composed("sc:any", "sc:other", storage=Storage(None))  # the permission is missing: the doctor's line
    assert [*lanes(unread)] == ["any", "other"]


# --- the study


def test_the_volume_mode_is_one_that_all_offer_and_the_access_mode_that_of_one_node() -> None:
    once = ("Block", "ReadWriteOnce")
    assert lanes(composed("sc:rbd", "sc:lvms")) == {"rbd": ("rbd", *once), "lvms": ("lvms", *once)}
    files = composed("sc:rbd", "sc:nfs")
    assert lanes(files) == {
        "rbd": ("rbd", "Filesystem", "ReadWriteOnce"),
        "nfs": ("nfs", "Filesystem", "ReadWriteMany"),
    }
    assert "volume_mode" not in files.study.design.vary
    unknown = composed("sc:px", "sc:nfs")  # CDI does not know the class: as the others
    assert lanes(unknown)["px"] == ("px", "Filesystem", "ReadWriteOnce")


def test_classes_without_a_common_volume_mode_are_compared_with_a_warning() -> None:
    raw = replace(LVMS, modes=(("Block", "ReadWriteOnce"),))
    plan = composed("sc:lvms", "sc:nfs", storage=cluster(raw, NFS))
    assert [mode for _, mode, _ in lanes(plan).values()] == ["Block", "Filesystem"]
    assert {"volume_mode", "image_format"} <= {*plan.study.design.vary}
    assert any("volume mode" in text for _, text in plan.warnings())


def test_a_quarter_of_an_hour_holds_boot_fill_and_twelve_blocks() -> None:
    plan = composed("sc:rbd", "sc:lvms", size=20 * GIB, seconds=900.0)
    # 180 s to boot, 2 x 20 GiB at 200 MiB/s = 204.8 s, 30 s to remove; 12 blocks x 2 cells x 2 classes = 48 trials of
    # (900 - 414.8) / 48 = 10.1 s, of which 1 s ramp and 3 s beside the load: 6.1 s, in steps of half a second 6 s
    assert (plan.sizes.blocks, plan.sizes.runtime, plan.sizes.ramp) == (12, 6.0, 1.0)
    assert plan.sizes.seconds == pytest.approx(414.8 + 48 * 10)
    assert platform(plan).disk_size == 20 * GIB
    assert plan.study.design.looks == (6, 8, 10, 12)
    assert {c.params["runtime"] for c in plan.study.cells()} == {6_000_000_000}
    assert all(c.params["prefill"] for c in plan.study.cells())


def test_without_time_and_size_it_is_a_quarter_of_an_hour_with_ten_gibibytes() -> None:
    plan = composed("sc:rbd", "sc:lvms")
    assert plan.sizes.size == platform(plan).disk_size == SIZE
    assert 0.9 * PACE.usual <= plan.sizes.seconds <= PACE.usual
    shorter = composed("sc:rbd", "sc:lvms", shapes={"rw": ["randread"]}, blocks=6, runtime=1.0, size=2**25)
    assert (shorter.sizes.blocks, shorter.sizes.runtime) == (6, 1.0)


def test_a_time_in_which_machines_only_boot_is_too_short() -> None:
    with pytest.raises(FairlaneError) as refused:
        composed("sc:rbd", "sc:lvms", seconds=240.0, size=20 * GIB)
    # 414.8 s before and after, and 24 trials of 2 + 1 + 3 s
    assert kind_of(refused) == "time-short"
    assert "--for 559s" in refused.value.hint
    assert "--size" in refused.value.hint


def test_a_load_that_names_its_regions_gets_a_volume_for_them() -> None:
    plan = composed("sc:rbd", "sc:lvms", profile="etcd")
    assert plan.sizes.size == SIZE
    with pytest.raises(FairlaneError) as refused:
        composed("sc:rbd", "sc:lvms", profile="etcd", size=2**20)
    assert kind_of(refused) == "size-small"


def test_context_namespace_and_image_go_into_the_study() -> None:
    options = {"context": "prod", "namespace": "bench", "image": "datasource:os-images/debian"}
    plan = composed("sc:rbd", "sc:lvms", options=options)
    spec = platform(plan)
    assert (spec.context, spec.namespace, spec.use_existing) == ("prod", "bench", True)
    assert (spec.image, spec.root_class) == ("datasource:os-images/debian", "rbd")  # roots of both in one class
    assert plan.as_json()["volumes"] == {"rbd": [SIZE, 10 * GIB, 10 * GIB], "lvms": [SIZE]}
    assert plan.as_json()["clean"] == "fairlane lab clean --platform kubevirt --context prod --namespace bench"
    with pytest.raises(FairlaneError) as refused:
        composed("sc:rbd", "sc:lvms", options={"image": "fedora"})
    assert refused.value.message.startswith("--image: ")


def test_the_class_for_machines_wins_over_the_default_one() -> None:
    assert cluster(LVMS, RBD).default == "rbd"
    assert cluster(RBD, replace(LVMS, default_of_machines=True)).default == "lvms"
    assert cluster(LVMS).default == ""


# --- the plan


def test_the_plan_says_what_is_made_what_must_match_and_how_it_goes(snapshot: SnapshotAssertion) -> None:
    plan = composed("sc:rbd", "thin=sc:lvms", size=20 * GIB, seconds=900.0,
                    storage=cluster(RBD, LVMS, images=("os-images/debian",)))  # fmt: skip
    plan = replace(plan, lines=(
        Line("API server", "ok", "Kubernetes v1.35.0, https://10.0.0.1:6443, as me; answers in 12 ms"),
        Line("permissions", "ok", "all 40 granted for runs that create their own namespace"),
        Line("storage class lvms", "warn", "the driver reports 10 GiB free, but the study needs 20 GiB",
             "smaller disks"),
    ))  # fmt: skip
    lines = before.lines(plan)
    assert "\n".join(lines) == snapshot
    assert max(map(len, lines)) <= 80
    assert plan.text == snapshot(name="study")
    assert parse_study(plan.text, "saved") == plan.study
    told = before.as_json(plan)
    assert (told["machines"], told["volumes"], told["size_bytes"]) == (
        2,
        {"rbd": [20 * GIB], "lvms": [20 * GIB]},
        20 * GIB,
    )


def test_copies_that_classes_state_are_named() -> None:
    rows = dict(composed("sc:px", "sc:rbd").costs())
    assert "px 3" in rows["differ"]
