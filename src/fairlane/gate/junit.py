"""Outcomes as JUnit XML, for CI servers: a test suite per study, a test case per rule and cell. Pure."""

from collections.abc import Sequence
from xml.etree import ElementTree

from fairlane.gate.decide import Outcome
from fairlane.report.text import clean


def junit(outcomes: Sequence[Outcome], suite: str, run: str) -> str:
    """The document, ending with a newline. ``not met`` and ``not proven`` are failures, told apart by their type;
    ``refused`` is an error: the rule could not be judged. Nothing is skipped: what is not proven does not pass.
    """
    root = ElementTree.Element("testsuites")
    failed = sum(o.word in ("not met", "not proven") for o in outcomes)
    refused = sum(o.word == "refused" for o in outcomes)
    counts = {"tests": len(outcomes), "failures": failed, "errors": refused, "skipped": 0}
    told = {name: str(n) for name, n in counts.items()}
    part = ElementTree.SubElement(root, "testsuite", {"name": _text(suite), **told})
    for o in outcomes:
        name = f"{o.rule} [{o.cell}]" if o.cell else str(o.rule)
        case = ElementTree.SubElement(part, "testcase", {"classname": _text(run), "name": _text(name)})
        if o.word != "met":
            tag = "error" if o.word == "refused" else "failure"
            about = {"type": o.word.replace(" ", "-"), "message": _text(o.reason or o.word)}
            ElementTree.SubElement(case, tag, about).text = _text(f"{o.word}: {o.seen}")
        elif o.seen:
            ElementTree.SubElement(case, "system-out").text = _text(o.seen)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    """What XML 1.0 allows: nothing else may stand in it, not even escaped."""
    allowed = (c if c >= " " and (c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000") else "\ufffd"
               for c in clean(text).replace("\n", " "))  # fmt: skip
    return "".join(allowed)
