"""What is looked at in a cluster and may not be there, or not for us: each list is asked for once."""

from typing import TYPE_CHECKING, Any

from fairlane.platforms.kubevirt.api_errors import ApiError
from fairlane.platforms.kubevirt.kinds import Kind

if TYPE_CHECKING:
    from fairlane.platforms.kubevirt.api import Api

_NOT_FOR_US = (403, 404, 405)


class Reading:
    """Reads through ``api``; a refusal is an answer (None), everything else an ApiError."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self._lists: dict[tuple[Kind, str], list[dict[str, Any]] | None] = {}
        self._refused: set[tuple[Kind, str]] = set()
        self._groups: dict[str, frozenset[str] | None] = {}

    async def served(self, kind: Kind) -> bool:
        """Whether the cluster has this kind at all: everybody may ask that."""
        group = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        if group not in self._groups:
            try:
                found = await self._api.call("GET", group)
                self._groups[group] = frozenset(r["name"] for r in found.get("resources") or [])
            except ApiError as error:
                if error.status not in _NOT_FOR_US:
                    raise
                self._groups[group] = None
        return kind.plural in (self._groups[group] or ())

    async def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]] | None:
        """All of a kind; None: they may not be read, or the cluster does not have the kind."""
        key = (kind, namespace)
        if key not in self._lists:
            try:
                self._lists[key] = await self._api.list(kind, namespace)
            except ApiError as error:
                if error.status not in _NOT_FOR_US:
                    raise
                self._lists[key] = None
        return self._lists[key]

    async def get(self, kind: Kind, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object; None: there is none, or it may not be read (then it is ``refused``)."""
        try:
            return await self._api.get(kind, name, namespace)
        except ApiError as error:
            if error.status not in _NOT_FOR_US:
                raise
            self._refused.add((kind, namespace))
            return None

    def refused(self, kind: Kind, namespace: str = "") -> bool:
        """Whether a ``get`` was refused, rather than answered with nothing."""
        return (kind, namespace) in self._refused
