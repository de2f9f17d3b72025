"""JUnit XML: checks and verdicts as test cases; for CI servers. By rules judges ``fairlane gate``.

Two suites. *Checks*: a case per check, which fails with its critical findings; "the run is complete" is an error if it
is not. *Verdicts*: a case per verdict. Faster, slower, a tie and a small difference are all answers, and pass: which of
them is wanted is for a rule to say. Inconclusive and no-spread are skipped: the question is open, nothing went wrong.
Refused is an error: the comparison could not be made, as in a gate. An answer that a critical finding withholds fails.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree

import orjson

from fairlane import registry
from fairlane.export.base import Content, Format, plain

_NONCHARACTERS = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})
"""All that XML 1.0 forbids and ``clean`` leaves."""

_OPEN = {"inconclusive": "not decided yet", "no-spread": "nothing is known of the spread"}


class Junit(Format):
    stream = "junit.xml"

    def files(self, content: Content) -> dict[str, bytes]:
        root = ElementTree.Element("testsuites")
        about, run = content.provenance, _text(content.provenance["run"])
        for name, cases in (("checks", _checks(content)), ("verdicts", _verdicts(content))):
            suite = ElementTree.SubElement(root, "testsuite", {"name": _text(f"{about['study']}: {name}")})
            _properties(suite, about)
            for case in cases:
                case.set("classname", f"{run}.{name}")
                suite.append(case)
            _count(suite)
        _count(root)
        ElementTree.indent(root)
        text = ElementTree.tostring(root, encoding="unicode")
        return {self.stream: f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()}


def _checks(content: Content) -> Iterable[ElementTree.Element]:
    complete = ElementTree.Element("testcase", {"name": "the run is complete"})
    if not content.provenance["complete"]:
        _outcome(complete, "error", "incomplete", content.provenance["caveats"][-1])
    yield complete
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in content.table("findings").records():
        found[row["check"]].append(row)
    for name in sorted({*registry.names("checks"), *found}):
        case = ElementTree.Element("testcase", {"name": _text(name)})
        critical = [row["message"] for row in found[name] if row["severity"] == "critical"]
        if critical:
            _outcome(case, "failure", "critical", "\n".join(critical))
        if said := [f"{row['severity']}: {row['message']}" for row in found[name] if row["severity"] != "critical"]:
            ElementTree.SubElement(case, "system-out").text = _text("\n".join(said))
        yield case


def _verdicts(content: Content) -> Iterable[ElementTree.Element]:
    for row in content.table("verdicts").records():
        place = f"{row['workload']}/{row['cell']}"
        name = f"{row['lane']} against {row['baseline']}: {row['metric']} [{place}]"
        case = ElementTree.Element("testcase", {"name": _text(name)})
        _properties(case, row)
        word, sentence = row["verdict"], row["sentence"]
        if word == "refused":
            _outcome(case, "error", "refused", sentence)
        elif row["withheld"]:
            _outcome(case, "failure", "withheld", f"{sentence}; a critical finding stands against it")
        elif word in _OPEN:
            ElementTree.SubElement(case, "skipped", {"message": _text(f"{_OPEN[word]}: {sentence}")})
        else:
            ElementTree.SubElement(case, "system-out").text = _text(sentence)
        yield case


def _outcome(case: ElementTree.Element, tag: str, kind: str, message: str) -> None:
    """The first line as the message, which servers show in lists; all of it as the text."""
    about = {"type": kind, "message": _text(message.partition("\n")[0])}
    ElementTree.SubElement(case, tag, about).text = _text(message)


def _properties(parent: ElementTree.Element, values: Mapping[str, Any]) -> None:
    """Name and value of everything that has one; lists and nested values are JSON."""
    part = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        if value not in (None, "", (), {}):
            shown = plain(value)
            text = shown if isinstance(shown, str) else orjson.dumps(shown).decode()
            ElementTree.SubElement(part, "property", {"name": name, "value": _text(text)})


def _count(suite: ElementTree.Element) -> None:
    cases = list(suite.iter("testcase"))
    suite.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))


def _text(text: str) -> str:
    return text.translate(_NONCHARACTERS)


PLUGIN = Junit()
