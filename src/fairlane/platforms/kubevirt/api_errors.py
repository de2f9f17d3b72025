"""Errors of an API server as one sentence with a hint."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from fairlane.errors import RunFailed

if TYPE_CHECKING:
    from aiohttp import ClientRequest, ClientResponse

_LONGEST = 800
_MOST_CAUSES = 8
_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,]{1,253}), requested: (?P<requested>[^;]{1,300}?), used: ")
_POLICY = re.compile(
    r'admission webhook "(?P<webhook>[^"]{1,253})" denied the request'
    r"|ValidatingAdmissionPolicy '(?P<policy>[^']{1,253})' with binding '[^']{1,253}' denied request"
)
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]{1,253})"')
_UNKNOWN_FIELD = "strict decoding error: unknown field"
_OPERATORS = {
    "cdi.kubevirt.io": "CDI", "kubevirt.io": "KubeVirt", "snapshot.storage.k8s.io": "the CSI snapshot controller",
}  # fmt: skip


class ApiError(RunFailed):
    """The API server refused, or did not answer. ``status``: HTTP status, 0 without an answer; ``reason``: the API's
    (``Forbidden``, ``AlreadyExists``, ``Expired``), or ``Unreachable``."""

    def __init__(
        self, kind: str, message: str, *, status: int, reason: str, hint: str = "", unknown_kind: bool = False
    ) -> None:
        super().__init__(kind, message, hint=hint)
        self.status = status
        self.reason = reason
        self.unknown_kind = unknown_kind
        """Whether the server does not know this kind of object."""


@dataclass(frozen=True)
class Operation:
    """A request in words, for messages: ``create VirtualMachine fl/nvme-0``."""

    verb: str
    kind: str
    name: str = ""
    namespace: str = ""
    group: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return plain(f"{self.verb} {self.kind} {where}")


@dataclass(frozen=True)
class Answer:
    """A refusal, read from the API's Status object if there is one."""

    status: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    """Wrong fields, if the message does not name them."""
    retry_after: float = 0
    """Seconds to wait, by the server."""

    @classmethod
    def read(cls, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> "Answer":
        """Parse an answer with an HTTP ``status`` of 400 or more; ``body`` may be anything."""
        after = (headers or {}).get("Retry-After", "")
        pause = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0.0
        try:
            status_object = orjson.loads(body)
        except orjson.JSONDecodeError:
            status_object = None
        if isinstance(status_object, dict) and status_object.get("kind") == "Status":
            return replace(cls.of(status_object, status), retry_after=pause)
        text = plain(body[: 4 * _LONGEST].decode(errors="replace")) or "no message"
        return cls(status, _WORDS.get(status, f"HTTP {status}"), text, retry_after=pause)

    @classmethod
    def of(cls, status_object: Mapping[str, Any], status: int = 0) -> "Answer":
        """Parse a Status object, also from a watch's ERROR event."""
        code = status_object.get("code")
        status = status or (code if isinstance(code, int) else 500)
        details = status_object.get("details")
        details = details if isinstance(details, dict) else {}
        listed = details.get("causes")
        causes = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
        message = plain(str(status_object.get("message") or ""))
        fields = tuple(
            f"{c.get('field', '')}: {c.get('message', '')}" for c in causes if str(c.get("field")) not in message
        )
        reason = plain(str(status_object.get("reason") or _WORDS.get(status, f"HTTP {status}")), 80)
        return cls(status, reason, message, fields)

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        if self.status in {429, 500, 502, 503, 504}:
            return True
        # A quota not counted yet, and two creations that update one quota at the same time.
        waits = "status unknown for quota" in self.message
        return (self.status == 403 and waits) or (self.status == 409 and "resourcequotas" in self.message)

    def error(self, operation: Operation) -> ApiError:
        """The exception for ``operation``, with a hint."""
        fields = "; ".join(plain(cause, 200) for cause in self.causes[:_MOST_CAUSES])
        listed = f" ({fields})" if fields and self.status in {400, 422} else ""
        message = ": ".join(dict.fromkeys((str(operation), self.reason, f"{self.message}{listed}")))
        kind, hint = self._judged(operation)
        return ApiError(
            kind,
            plain(message, 2 * _LONGEST),
            status=self.status,
            reason=self.reason,
            hint=hint,
            unknown_kind=self._unknown_kind,
        )

    @property
    def _unknown_kind(self) -> bool:
        return self.status == 404 and (
            "could not find the requested resource" in self.message or self.message == "404 page not found"
        )

    def _judged(self, operation: Operation) -> tuple[str, str]:  # noqa: PLR0911 - one for each kind of answer
        """Kind and hint of the error."""
        if quota := _QUOTA.search(self.message):
            hint = f"quota {quota['quota']} has no room for {quota['requested']}: raise it, or use fewer machines"
            return "quota-full", hint
        if policy := _POLICY.search(self.message):
            name = policy["webhook"] or policy["policy"]
            return (
                "policy",
                f"the cluster's policy {name} refused it: ask the cluster's administrator for its requirements",
            )
        if webhook := _WEBHOOK_DOWN.search(self.message):
            return "webhook-down", f"the service of webhook {webhook['name']} does not answer: check its pods"
        if _UNKNOWN_FIELD in self.message and operation.group:
            hint = "the installed version does not have this field: it is too old or too new for Fairlane"
            return "field-unknown", hint
        if self.status == 401:
            return "credentials", "the server refuses the credentials, also after they were read again: sign in again"
        if self.status == 403 and "being terminated" in self.message:
            return "namespace-ending", "the namespace is being deleted: use another one, or wait until it is gone"
        if self.status == 403:
            return "forbidden", "`fairlane doctor --platform kubevirt` shows which permission is missing"
        if self._unknown_kind and operation.group:
            name = next((name for group, name in _OPERATORS.items() if f".{operation.group}".endswith(f".{group}")), "")
            return "not-installed", f"{name or operation.group} is not installed in this cluster, or too old"
        return "api", ""


_WORDS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Gone",
    422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 502: "BadGateway", 503: "ServiceUnavailable",
    504: "Timeout",
}  # fmt: skip


def plain(text: str, longest: int = _LONGEST) -> str:
    """One line of printable characters, the middle cut out above ``longest``: a server's text may contain terminal
    escapes, marks that reverse text, and megabytes."""
    text = text[: longest * 40]
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} ... {text[head + 5 - longest :]}"


class Refusal(Exception):  # noqa: N818 - reads as what it is
    """The server answered a websocket handshake with something else."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class Lost(OSError):  # noqa: N818 - reads as what happened
    """The connection ended between request and answer: it is unknown whether the request was executed."""


async def candid(
    request: "ClientRequest", handler: "Callable[[ClientRequest], Awaitable[ClientResponse]]"
) -> "ClientResponse":
    """Session middleware that raises Refusal and Lost. aiohttp drops a server's answer to a refused handshake, and
    silently resends a request after its connection was lost."""
    from aiohttp import ClientConnectorError, ClientOSError, ServerDisconnectedError  # noqa: PLC0415 - 150 ms

    try:
        response = await handler(request)
    except ClientConnectorError:
        raise  # nothing was sent
    except (ClientOSError, ServerDisconnectedError) as error:
        raise Lost(f"the connection was lost: {error}") from error
    if "Upgrade" in request.headers and response.status >= 400:
        raise Refusal(Answer.read(response.status, await response.read(), response.headers))
    return response
