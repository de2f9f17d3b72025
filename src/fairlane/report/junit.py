"""JUnit XML for CI servers: suites of cases, counted, with every text made harmless. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from fairlane.report.text import clean

_NONCHARACTERS = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})
"""All that XML 1.0 forbids and ``clean`` leaves."""
_LONGEST = 100_000

Result = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class Case:
    name: str
    result: Result = "passed"
    kind: str = ""
    """Kind of a failure or error: ``refused``."""
    message: str = ""
    """Short text of a case that did not pass, shown in lists."""
    details: str = ""
    """Full text of a case that did not pass."""
    output: str = ""
    """Output of a case, whatever its result."""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    classname: str
    """Class name of every case."""
    cases: Sequence[Case]
    properties: Mapping[str, str] = field(default_factory=dict)


def junit(suites: Sequence[Suite]) -> str:
    """The document, ending with a newline."""
    root = Element("testsuites", _counts([case for suite in suites for case in suite.cases]))
    for suite in suites:
        part = SubElement(root, "testsuite", {"name": _line(suite.name), **_counts(suite.cases)})
        _properties(part, suite.properties)
        for case in suite.cases:
            _case(part, suite.classname, case)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": str(len(cases))} | {
        name: str(sum(case.result == result for case in cases)) for name, result in counted.items()
    }


def _case(suite: Element, classname: str, case: Case) -> None:
    part = SubElement(suite, "testcase", {"classname": _line(classname), "name": _line(case.name)})
    _properties(part, case.properties)
    if case.result != "passed":
        attributes = {"type": case.kind} if case.kind else {}
        SubElement(part, case.result, attributes | {"message": _line(case.message)}).text = _text(case.details)
    if case.output:
        SubElement(part, "system-out").text = _text(case.output)


def _properties(parent: Element, values: Mapping[str, str]) -> None:
    if values:
        part = SubElement(parent, "properties")
        for name, value in values.items():
            SubElement(part, "property", {"name": _line(name), "value": _line(value)})


def _text(text: str) -> str:
    return clean(text, _LONGEST).translate(_NONCHARACTERS)


def _line(text: str) -> str:
    """For an attribute, in which a parser reads a line feed as a space."""
    return _text(text).replace("\n", " ")
