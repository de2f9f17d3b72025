"""JUnit XML: checks and verdicts as test cases; for CI servers. By rules judges ``fairlane gate``.

Two suites. *Checks*: a case per check; critical findings fail it, and an incomplete run is an error. *Verdicts*: a case
per verdict. Faster, slower, a tie and a small difference all pass: rules decide what is wanted. Inconclusive and
no-spread are skipped. Refused is an error, as in a gate. A verdict withheld by a critical finding fails.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from fairlane import registry
from fairlane.export.base import Content, Format, plain
from fairlane.report.junit import Case, Result, Suite, junit

_OPEN = {"inconclusive": "not decided yet", "no-spread": "nothing is known of the spread"}


class Junit(Format):
    stream = "junit.xml"

    def files(self, content: Content) -> dict[str, bytes]:
        about = content.provenance
        suites = [
            Suite(f"{about['study']}: {name}", f"{about['run']}.{name}", list(cases), _properties(about))
            for name, cases in (("checks", _checks(content)), ("verdicts", _verdicts(content)))
        ]
        return {self.stream: junit(suites).encode()}


def _checks(content: Content) -> Iterable[Case]:
    complete, about = "the run is complete", content.provenance
    yield Case(complete) if about["complete"] else _bad(complete, "error", "incomplete", about["caveats"][-1])
    by_check: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in content.table("findings").records():
        by_check[row["check"]].append(row)
    for name in sorted({*registry.names("checks"), *by_check}):
        critical = [row["message"] for row in by_check[name] if row["severity"] == "critical"]
        case = _bad(name, "failure", "critical", "\n".join(critical)) if critical else Case(name)
        others = [f"{row['severity']}: {row['message']}" for row in by_check[name] if row["severity"] != "critical"]
        yield replace(case, output="\n".join(others))


def _verdicts(content: Content) -> Iterable[Case]:
    for row in content.table("verdicts").records():
        name = f"{row['lane']} against {row['baseline']}: {row['metric']} [{row['workload']}/{row['cell']}]"
        word, sentence = row["verdict"], row["sentence"]
        if word == "refused":
            case = _bad(name, "error", "refused", sentence)
        elif row["withheld"]:
            case = _bad(name, "failure", "withheld", f"{sentence}; {row['held_because']}")
        elif word in _OPEN:
            case = Case(name, "skipped", message=f"{_OPEN[word]}: {sentence}")
        else:
            case = Case(name, output=sentence)
        yield replace(case, properties=_properties(row))


def _bad(name: str, result: Result, kind: str, text: str) -> Case:
    """A case with the first line as its message and the whole text as details."""
    return Case(name, result, kind, text.partition("\n")[0], text)


def _properties(values: Mapping[str, Any]) -> dict[str, str]:
    """Name -> value of all non-empty fields; lists and nested values are JSON."""
    shown = {name: plain(value) for name, value in values.items() if value not in (None, "", (), {})}
    return {name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in shown.items()}


PLUGIN = Junit()
