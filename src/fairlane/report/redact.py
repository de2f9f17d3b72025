"""Replace names of hosts, addresses, serials and users in a report, so that it can be shared. Pure.

Two sources: what the run declares to be a name (machines of the study, hosts and serials that were read back), and
what has the form of one (IPv4, IPv6, MAC, IQN, NQN, WWN, UUID, ``user@host``, home directories). One name has one
placeholder wherever it occurs, so that two findings about one host still agree.
"""

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from fairlane.records import Evidence, Severity, Word
from fairlane.report.phrases import count
from fairlane.report.prose import Banner
from fairlane.report.sections import Report, Trial
from fairlane.verdicts.scorecard import Outcome

KINDS = {
    "host": "host", "user": "user", "address": "address", "mac": "MAC address", "iqn": "IQN", "nqn": "NQN",
    "wwn": "WWN", "serial": "serial number", "name": "further name",
}  # fmt: skip
"""Prefix of a placeholder -> what it stands for."""
KEPT = frozenset({"root", "localhost", "local", "here", "lo", "none", "auto", "unknown", "default", "yes", "no"})
"""Names that identify nobody: of this machine, of its administrator, of nothing."""
_OWN = frozenset(
    {
        *(*get_args(Word), *get_args(Severity), *get_args(Outcome), "withheld", "caution", "no", "trials"),
        *(
            "guest",
            "hypervisor",
            "host",
            "hosts",
            "array",
            "target",
            "machine",
            "network",
            "node",
            "nodes",
            "medium",
            "vm",
        ),
    }
)
"""Words that the page is laid out by, and places that it speaks of: a machine of such a name keeps it."""

_HOSTS = re.compile(
    r"(?:^|_)(?:hosts?|hostnames?|nodes?|nodename|machines?|servers?|portals?|address|addresses|destination|traddr|"
    r"monitors|ur[il]|endpoint|vcenter)$"
)
_KEYED = re.compile(r"(?:^|_)(?:hosts|nodes|machines|servers)$")
"""Of a mapping: its keys are names."""
_USERS = re.compile(r"(?:^|_)(?:user|username|login)$")
_SERIALS = re.compile(r"(?:^|_)(?:serial|serials|serial_number|wwn|wwid|nguid|eui64|uuid|guid|destroy|identity)$")
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9](?:[\w.-]{0,251}\w)?")
_LEAST = 2
"""Characters of a name, at least: one letter is everywhere."""

_HEX = "[0-9A-Fa-f]"
_IPV4 = r"(?<!\d)(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\d)"
_PAIRS = rf"(?<!\w)(?<!\b{_HEX}{{2}}:)"
"""Not within a longer row of pairs; ``mac:`` may stand before."""
_FORMS = {
    "iqn": r"\biqn\.\d{4}-\d{2}\.[\w.-]+(?::[\w.:/-]*\w)?",
    "nqn": r"\bnqn\.\d{4}-\d{2}\.[\w.-]+(?::[\w.:/-]*\w)?",
    "wwn": rf"\b(?:naa|eui)\.{_HEX}{{16,32}}\b|\bt10\.\w[\w.-]*|\bwwn-0x{_HEX}{{8,32}}\b|\b0x{_HEX}{{16,32}}\b"
           rf"|\b3(?:6{_HEX}{{31}}|[25]{_HEX}{{15}})\b|{_PAIRS}(?:{_HEX}{{2}}:){{7}}{_HEX}{{2}}(?![\w:])",
    "mac": rf"{_PAIRS}(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}(?!\w)|(?<![\w-])(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}(?![\w-])",
    "serial": rf"\b{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}\b|(?<=/by-id/)[\w.:+-]+"
              r"|(?<=serial:)\w[\w.+-]*|(?<=serial=)\w[\w.+-]*|(?<=serial: )\w[\w.+-]*",
    "user": r"(?<=/home/)[\w.-]+|(?<=/Users/)[\w.-]+|(?<=\\Users\\)[\w.-]+|\b[A-Za-z_][\w.-]*(?=@[\w\[](?!ha256:))",
    "host": r"(?<=\w@)(?!sha256:)(?!(?:\d+\.){3})[A-Za-z0-9][\w.-]*\w|(?<=://)(?!(?:\d+\.){3})[A-Za-z0-9][\w.-]*\w"
            r"|\b[A-Za-z0-9](?:[\w-]*\.)+(?:local|lan|internal|intranet|intra|corp|home\.arpa|localdomain)\b",
    "address": rf"{_IPV4}|(?<![\w.])(?={_HEX}*:{_HEX}*:)(?:[0-9A-Fa-f:]*:{_IPV4}|[0-9A-Fa-f:]*(?:{_HEX}|::))(?!\w)",
}  # fmt: skip
"""Kind -> pattern of what is a name by its form; the first that fits at a place counts."""


class Redaction:
    """The placeholders of one report, numbered by kind as their names first occur."""

    def __init__(self, evidence: Evidence, hide: Sequence[str] = ()) -> None:
        """``hide``: further names to replace, by whole words."""
        self._known: dict[str, tuple[str, str]] = {}
        self._given: dict[tuple[str, str], str] = {}
        for name in hide:
            self._know("name", name)
        for kind, name in declared(evidence):
            self._know(kind, name)
        self._pattern = self._compiled()

    def _compiled(self) -> re.Pattern[str]:
        names = sorted(self._known, key=lambda name: (-len(name), name))
        listed = "|".join(map(re.escape, names))
        words = [rf"(?P<known>(?<![^\W_])(?:{listed})(?![^\W_]))"] if names else []
        forms = [f"(?P<{kind}>{pattern})" for kind, pattern in _FORMS.items()]
        return re.compile("|".join((*words, *forms)), re.IGNORECASE)

    def _learn(self, text: str) -> str:
        """What has the form of a user, a host or a serial somewhere is one everywhere: ``ann@vm1``, then ``vm1``."""
        for match in self._pattern.finditer(text):
            if match.lastgroup in ("user", "host", "serial"):
                self._know(match.lastgroup, match[0])
        return text

    def _know(self, kind: str, name: str) -> None:
        if len(name) < _LEAST or name.lower() in KEPT | _OWN:
            return
        key = name.lower()
        self._known.setdefault(key, (kind, key))
        short = key.partition(".")[0]
        if kind == "host" and short != key and len(short) >= _LEAST and not short.isdigit():
            self._known.setdefault(short, (kind, key))  # db1 is db1.example.org

    def text(self, text: str) -> str:
        """``text`` with placeholders."""
        return self._pattern.sub(self._placeholder, text)

    def _placeholder(self, match: re.Match[str]) -> str:
        found, form = match[0], match.lastgroup or ""
        if form == "known":
            kind, name = self._known[found.lower()]
        elif form == "address" and not _identifies(found):
            return found if re.fullmatch(_IPV4, found) else re.sub(_IPV4, self._within, found)
        elif found.lower() in KEPT:
            return found
        else:
            kind, name = form, found.lower()
        return self._named(kind, name)

    def _within(self, match: re.Match[str]) -> str:
        """An IPv4 address at the end of what is no IPv6 address."""
        return self._named("address", match[0]) if _identifies(match[0]) else match[0]

    def _named(self, kind: str, name: str) -> str:
        return self._given.setdefault((kind, name), f"{kind}-{1 + sum(k == kind for k, _ in self._given)}")

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind -> number of names replaced so far."""
        return {kind: n for kind in KINDS if (n := sum(k == kind for k, _ in self._given))}

    def report(self, report: Report) -> Report:
        """``report`` with placeholders, without links to raw files, which hold the names, and with a banner."""
        bare = dataclasses.replace(
            report,
            trials=tuple(
                dataclasses.replace(row, trials=tuple(Trial(t.block, "", t.failed) for t in row.trials))
                for row in report.trials
            ),
        )
        mapped(bare, self._learn)
        self._pattern = self._compiled()
        done: Report = mapped(bare, self.text)
        replaced = ", ".join(count(n, KINDS[kind]) for kind, n in self.counts.items()) or "no name"
        note = Banner(
            "Redacted",
            f"Placeholders replace {replaced}; one placeholder stands for one name throughout. Links to raw files are "
            "left out. Check free text before you share it: names of lanes, pools and storage classes are kept.",
        )
        return dataclasses.replace(done, banners=(*done.banners, note))


def _identifies(found: str) -> bool:
    """Whether ``found`` is an address, and not that of every machine's own loopback."""
    try:
        address = ipaddress.ip_address(found)
    except ValueError:
        return False
    return not address.is_loopback and not address.is_unspecified


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """``value`` (dataclasses, tuples, mappings, nested at will) with every string in it changed."""
    if isinstance(value, str):
        new = change(value)
        return value if new == value else new  # a footnote stays what it is
    if isinstance(value, tuple | list | frozenset):
        return type(value)(mapped(part, change) for part in value)
    if isinstance(value, Mapping):
        return {mapped(k, change): mapped(v, change) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: mapped(getattr(value, f.name), change) for f in dataclasses.fields(value) if f.init}
        )
    return value


def declared(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """(kind, name) of what study, description, fingerprint, journal and trials declare to be a name."""
    study = evidence.study
    for tree in (
        study.model_dump(mode="json"), evidence.description, evidence.fingerprint, list(evidence.events),
        [o.context for o in evidence.observations],
    ):  # fmt: skip
        yield from _declared(tree, "")


def _declared(tree: Any, key: str) -> Iterator[tuple[str, str]]:
    """``key``: the last part of the key that ``tree`` stands under."""
    if isinstance(tree, Mapping):
        keyed = bool(_KEYED.search(key)) and not any(_HOSTS.search(str(k)) for k in tree)
        for name, part in tree.items():
            if keyed and _NAME.fullmatch(str(name)):
                yield "host", str(name)
            below = key if keyed and isinstance(part, str) else str(name).rpartition(".")[2]
            yield from _declared(part, below)
    elif isinstance(tree, list | tuple):
        for part in tree:
            yield from _declared(part, key)
    elif isinstance(tree, str) and 0 < len(tree.strip()) < _LONG:
        if _HOSTS.search(key):
            yield from _hosts(tree)
        elif kind := "serial" if _SERIALS.search(key) else "user" if _USERS.search(key) else "":
            yield kind, tree.strip()


_LONG = 1000
"""Characters from which a value is a text, and no name."""


def _hosts(text: str) -> Iterator[tuple[str, str]]:
    """The names in a value: ``root@vm1:22, vm2`` has two hosts and a user. A sentence has none."""
    for item in text.split(","):
        user, _, place = item.strip().removeprefix("ssh://").rpartition("@")
        place = re.split(r"[/%]", place.partition("://")[2] or place, maxsplit=1)[0]
        bare = re.sub(r":\d+$", "", place).strip("[]")
        if user:
            yield "user", user.partition(":")[0]
        if _NAME.fullmatch(bare) and not any(
            re.fullmatch(pattern, bare, re.IGNORECASE)
            for kind, pattern in _FORMS.items()
            if kind not in ("host", "user")
        ):
            yield "host", bare
