"""JUnit XML: read back by ElementTree."""

import dataclasses
from xml.etree import ElementTree

from fairlane import registry
from fairlane.export import _gather
from fairlane.records import Finding
from fairlane.verdicts.judged import Judged


def suites(known):
    ((name, data),) = known.files("junit").items()
    assert name == "junit.xml"
    root = ElementTree.fromstring(data)  # noqa: S314 - our own
    assert root.tag == "testsuites"
    checks, verdicts = root
    for part in (root, checks, verdicts):
        cases = list(part.iter("testcase"))
        told = {"tests": len(cases)}
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            told[count] = sum(case.find(tag) is not None for case in cases)
        assert {name: int(part.get(name, -1)) for name in told} == told
    return checks, verdicts


def properties(element):
    return {p.get("name"): p.get("value") for p in element.find("properties")}


def outcome(case):
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


def test_a_case_per_verdict(hostile):
    _, cases = suites(hostile)
    cases = cases.findall("testcase")
    assert len(cases) == len(hostile.verdicts)
    means = {"refused": "error", "inconclusive": "skipped", "no-spread": "skipped"}
    seen = set()
    for case, verdict in zip(cases, hostile.verdicts, strict=True):
        told = properties(case)
        assert told["verdict"] == verdict.verdict
        assert told["lane"] == verdict.lane
        for name in ("ratio", "low", "high", "margin", "level"):
            number = getattr(verdict, name)
            assert told.get(name) == (None if number is None else repr(number))
        assert outcome(case) == means.get(verdict.verdict, "passed")
        seen.add(outcome(case))
    assert seen == {"error", "skipped", "passed"}
    assert len({case.get("name") for case in cases}) == len(cases)


def test_a_case_per_check_which_fails_with_critical_findings(hostile):
    cases = {case.get("name"): case for case in suites(hostile)[0].findall("testcase")}
    assert set(registry.names("checks")) < set(cases)
    assert len(set(cases) - set(registry.names("checks"))) == 1  # whether the run is complete
    critical = {f.check: f.message for f in hostile.findings if f.severity == "critical"}
    assert critical
    assert {name for name, case in cases.items() if outcome(case) == "failure"} == set(critical)
    for check, message in critical.items():
        allowed = message.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")  # XML has no such characters
        assert allowed in cases[check].find("failure").text
    milder = next(f for f in hostile.findings if f.severity != "critical")
    assert milder.message in cases[milder.check].find("system-out").text


def test_a_withheld_answer_fails_and_a_run_that_is_not_complete_is_an_error(hostile):
    grave = Finding("spread", "critical", "one\ntwo \x1b[31m")
    withheld = next(v for v in hostile.verdicts if v.headline)
    verdicts = (dataclasses.replace(withheld, headline=False),)
    evidence = dataclasses.replace(hostile.evidence, complete=False)
    content = _gather.gather(_gather.Tables(Judged(evidence, verdicts, (grave,))))
    checks, (case,) = (list(s.iter("testcase")) for s in suites(dataclasses.replace(hostile, content=content)))
    assert outcome(case) == "failure"
    assert case.find("failure").get("type") == "withheld"
    named = {c.get("name"): c for c in checks}
    assert [case.find("error").get("type") for case in checks if outcome(case) == "error"] == ["incomplete"]
    failure = named["spread"].find("failure")
    assert (failure.get("message"), failure.text) == ("one", "one\ntwo \\x1b[31m")


def test_the_suites_say_what_the_figures_are_of(hostile):
    for suite in suites(hostile):
        told = properties(suite)
        assert (told["figures"], told["modelled"], told["emulated"]) == ("invented", "false", "false")
        assert told["question"] == "=cmd|' /C calc'!A0 \\u202e</script>"
        assert suite.findall("testcase")[0].get("classname").startswith("=done.")
