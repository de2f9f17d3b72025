"""What the API server itself says of requests: its audit log. Of the controllers' it says what they wrote, too."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

CLIENTS = ("bench-kube-burner", "bench-fairlane")
CONTROLLERS = "bench-controllers"
"""Users of the API server: one per client, and one that is not counted."""
_WRITTEN = {"group": "kubevirt.io", "resources": ["virtualmachines/status", "virtualmachineinstances/status"]}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": list(CLIENTS)},
        {"level": "Request", "users": [CONTROLLERS], "verbs": ["patch"], "resources": [_WRITTEN]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Request:
    """One request, however it ended. Times in s since 1970, by the server's clock, to the microsecond."""

    user: str
    verb: str
    resource: str
    """Plural, with the subresource if there is one; the path where it is no resource."""
    namespace: str
    name: str
    received: float
    answered: float
    """When the answer was sent; of a watch: when it began."""
    status: int
    body: dict[str, Any]
    """What was sent, of the controllers."""


class Log:
    """The audit log's file, read on from where it was left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def read(self) -> list[Request]:
        """Requests that were answered since the last reading; a watch counts once, when it began."""
        found: dict[str, Request] = {}
        for event in self._events():
            found.setdefault(event["auditID"], _request(event))
        return list(found.values())

    def _events(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                yield json.loads(line)


def _request(event: dict[str, Any]) -> Request:
    about = event.get("objectRef", {})
    resource = about.get("resource") or event["requestURI"].partition("?")[0]
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        resource="/".join(filter(None, (resource, about.get("subresource")))),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        status=event.get("responseStatus", {}).get("code", 0),
        body=event.get("requestObject") or {},
    )


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def by_kind(requests: Sequence[Request]) -> Counter[str]:
    """Number of requests by verb and resource; what is no resource (discovery, version) together."""
    return Counter(f"{r.verb} {r.resource}" if not r.resource.startswith("/") else "discovery" for r in requests)
