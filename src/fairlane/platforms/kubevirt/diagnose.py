"""Find out why a machine does not come up: its conditions, its volumes, and related events."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairlane.errors import RunFailed
from fairlane.platforms.kubevirt import kinds
from fairlane.platforms.kubevirt.api_errors import plain

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

_MOST = 3
"""Newest events that an error quotes."""

_NO_TROUBLE = ("LiveMigratable", "StorageLiveMigratable")
"""Conditions that are often False without any trouble."""

Object = Mapping[str, Any]


async def why(api: "Api", namespace: str, name: str, vm: Object | None, vmi: Object | None) -> str:
    """The cluster's reports about machine ``name``, in one line for an error."""
    texts = [*_state(vm, vmi), *_conditions(vmi or vm)]
    volumes = [str(t["metadata"]["name"]) for t in (vm or {}).get("spec", {}).get("dataVolumeTemplates", [])]
    with suppress(RunFailed):  # without permission for events
        claims = await api.list(kinds.PVC, namespace) if volumes else []
        unbound = [
            c for c in claims if c["metadata"]["name"] in volumes and c.get("status", {}).get("phase") != "Bound"
        ]
        texts += [_claim(claim) for claim in unbound]
        events = await api.list(kinds.EVENT, namespace)
        texts += _events(events, {name, *volumes}, {str(claim["metadata"]["name"]) for claim in unbound})
    return plain("; ".join(dict.fromkeys(plain(text, 400) for text in texts)), 900) or "the cluster reports no reason"


def advice(text: str) -> tuple[str, str]:
    """Kind of the error and hint for ``text``, the result of ``why``; both empty: none."""
    return next(((kind, hint) for sign, kind, hint in _ADVICE if sign in text), ("", ""))


_ADVICE = (
    ("exceeded quota", "quota-full", "raise the quota, or use fewer or smaller machines and volumes"),
    ("is ErrorUnschedulable", "nodes-full", "make room on the nodes, or use fewer or smaller machines"),
    ("ImagePull", "image-pull",
     "the nodes cannot pull platform.image: check its name, and whether its registry requires a login"),
    ("is CrashLoopBackOff", "boot-failed",
     "boot one machine from platform.image by hand, and read the log of its virt-launcher pod"),
    ("is Pending", "volume-unbound", "create a claim of that storage class by hand: if it stays Pending too, check the "
     "class's driver; if the driver is only slow, raise platform.boot_timeout"),
    ("it is Provisioning", "volume-unfinished", "read the logs of CDI and of the storage class's driver; if "
     "they are only slow, raise platform.boot_timeout"),
)  # fmt: skip
"""Part of ``why``'s result -> kind, hint; the first match counts."""


def _state(vm: Object | None, vmi: Object | None) -> Iterable[str]:
    if vm is None:
        yield "its VirtualMachine is gone"
    elif status := vm.get("status", {}).get("printableStatus"):
        yield f"it is {status}"
    if vmi is not None:
        yield f"its instance is {vmi.get('status', {}).get('phase') or 'new'}"


def _conditions(of: Object | None) -> Iterable[str]:
    for condition in (of or {}).get("status", {}).get("conditions", []):
        failed = condition.get("status") == "False" and condition.get("type") not in _NO_TROUBLE
        if failed and condition.get("message"):
            yield f"{condition.get('type')}: {condition['message']}"


def _claim(claim: Object) -> str:
    """The state of an unbound claim."""
    phase, of = claim.get("status", {}).get("phase"), claim.get("spec", {}).get("storageClassName")
    return f"claim {claim['metadata']['name']} of storage class {of} is {phase or 'new'}"


def _events(every: Iterable[Object], names: set[str], unbound: set[str]) -> Iterable[str]:
    """The newest warnings of objects whose names begin with one of ``names`` (launcher pods have suffixes), and all
    events of ``unbound`` claims: Kubernetes reports a silent driver as a normal event."""
    relevant = []
    for event in every:
        name = str(event.get("involvedObject", {}).get("name", ""))
        if name in unbound or (event.get("type") == "Warning" and _of(name, names)):
            relevant.append(event)
    relevant.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""), reverse=True)
    for event in relevant[:_MOST]:
        yield f"{event.get('reason')}: {event.get('message')}"


def _of(name: str, names: set[str]) -> bool:
    bare = name.removeprefix("virt-launcher-")
    return any(bare == one or bare.startswith(f"{one}-") for one in names)
