"""What errors, hints and the doctor say of a cluster, in snapshots; every other test here goes by kinds and figures."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fairlane.errors import FairlaneError, RunFailed
from fairlane.platforms._examined import Line
from fairlane.platforms.kubevirt import diagnose, kinds, permissions, placement, preflight, readback
from fairlane.platforms.kubevirt.api_errors import Answer, Operation
from fairlane.platforms.kubevirt.manifests import unspecified_clones
from fairlane.platforms.kubevirt.readback import Change
from fairlane.platforms.kubevirt.storm_phases import wrong_way
from testkit.control_plane import ControlPlane
from tests.platforms.kubevirt import furnished
from tests.platforms.kubevirt.conftest import Connected
from tests.platforms.kubevirt.test_kv_readback import lane
from tests.platforms.kubevirt.test_kv_storm_phases import made

ANSWERS = (
    (400, 'strict decoding error: unknown field "spec.tempate"'),
    (401, ""),
    (403, 'vms is forbidden: User "jane" cannot list resource "vms"'),
    (403, "unable to create new content in namespace b because it is being terminated"),
    (
        403,
        'vms "a" is forbidden: exceeded quota: team, requested: storage=40Gi, used: storage=1Ti, limited: storage=1Ti',
    ),
    (403, 'admission webhook "validator.kubevirt.io" denied the request: spec.x is not allowed'),
    (404, "the server could not find the requested resource"),
    (500, 'failed calling webhook "validator.kubevirt.io": no endpoints'),
    (503, "try later"),
)
SIGNS = (
    *("exceeded quota", "it is ErrorUnschedulable", "it is ErrImagePull", "it is CrashLoopBackOff"),
    *("claim a is Pending", "it is Provisioning"),
)


def told(error: FairlaneError) -> str:
    return f"{error.labelled()}\n  {error.hint}" if error.hint else error.labelled()


def listed(lines: list[Line]) -> str:
    return "\n".join(f"{line.state} {line.name}: {line.found}\n  {line.fix}".rstrip() for line in lines)


def test_refusals_of_an_api_server(snapshot: SnapshotAssertion) -> None:
    operation = Operation("create", "VirtualMachine", "a", "b", kinds.VM.group)
    errors = [Answer.of({"message": text}, status).error(operation) for status, text in ANSWERS]
    assert "\n".join(map(told, errors)) == snapshot


def test_what_to_do_about_a_machine_that_does_not_come_up(snapshot: SnapshotAssertion) -> None:
    advice = [diagnose.advice(sign) for sign in SIGNS]
    assert len({kind for kind, _ in advice}) == len(SIGNS)
    assert "\n".join(f"[{kind}] {hint}" for kind, hint in advice) == snapshot


def refusals() -> Iterator[FairlaneError]:
    """Of studies that the nodes, or the other lanes, do not allow."""
    study = furnished.study("clone: snapshot } -> }", storm=True)
    yield from unspecified_clones(study)
    well = {"labels": {"kubevirt.io/schedulable": "true"}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    nodes: list[dict[str, Any]] = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "b"}, "status": ready},
        {"metadata": {"name": "c", **well}, "status": ready, "spec": {"unschedulable": True}},
        {
            "metadata": {"name": "d", **well},
            "status": ready,
            "spec": {"taints": [{"key": "g", "effect": "NoSchedule"}]},
        },
    ]
    for chosen in (study, furnished.study(node_selector="{rack: a7}")):
        with pytest.raises(RunFailed) as refused:
            placement.chosen(nodes, chosen)
        yield refused.value
    with pytest.raises(RunFailed) as refused:
        placement.dealt(5, ["x", "y"], {"x": 3, "y": 1})
    yield refused.value


def test_what_nodes_and_lanes_do_not_allow(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(map(told, refusals())) == snapshot


def test_what_is_not_as_it_was_asked(snapshot: SnapshotAssertion) -> None:
    texts = [
        str(Change("spec.bus", None, "sata")),
        str(Change("spec.cache", "none", "writeback")),
        str(Change("spec.threads", 8, None)),
        wrong_way([made("a", "csi-clone"), made("b", "copy", "modes differ")], "csi-clone"),
        wrong_way([made("a", "csi-clone"), made("b", "copy")], None),
        wrong_way([made("a", "")], "snapshot"),
        readback.misnamed("a", lane(protocol="nfs"), {"provisioner": "rbd.csi.ceph.com"}),
    ]
    assert "\n".join(texts) == snapshot


def test_permissions_that_are_missing(snapshot: SnapshotAssertion) -> None:
    required = [p for p in permissions.PERMISSIONS if p.scope == "source" or p.optional]
    none: dict[permissions.Verb, bool] = {
        (p.group, p.resource, p.scope, verb): False for p in required for verb in p.verbs
    }
    lines = permissions._lines(required, none, "bench", use_existing=True, user="jane")
    assert listed(lines) == snapshot


@pytest.mark.slow
@pytest.mark.cluster
def test_the_doctor(plane: ControlPlane, connected: Connected, snapshot: SnapshotAssertion) -> None:
    furnished.furnish(plane)
    well = furnished.study(storm=True)
    pool = "io_threads_policy: supplementalPool, io_threads: 2"
    changes = (
        f"storage_class: fast, clone: snapshot -> storage_class: fats, {pool}",
        "storage_class: slow, clone: snapshot -> storage_class: slow, volume_mode: Filesystem, clone: copy",
        "datasource:images/fedora -> docker://fedora",
        "nodes: 2 -> nodes: 3",
        "fleet: 2 -> fleet: 3",
    )
    ill = furnished.study("\n".join(changes), storm=True)
    lines = [connected(plane.kubeconfig(), partial(preflight.examine, study=study)) for study in (well, ill)]
    assert "\n\n".join(listed([line for line in part if line.name != "API server"]) for part in lines) == snapshot
