"""Accept parameters that do not match: the guard's refusal becomes a caveat with a printed reason."""

from collections.abc import Mapping
from dataclasses import replace

from fairlane.errors import FairlaneError, nearest
from fairlane.guard.conditions import conditions
from fairlane.guard.parameters import PARAMETERS, is_meaningful
from fairlane.records import Evidence


def accepting(evidence: Evidence, reasons: Mapping[str, str]) -> Evidence:
    """``evidence`` with ``reasons`` (parameter -> why it may differ or be unknown) added to its study's ``accept``.

    A reason given here overrides the study's. Raises FairlaneError for a name that is neither in the registry nor a
    parameter of any lane, and for a reason without a word in it.
    """
    if not reasons:
        return evidence
    known = {*PARAMETERS, *(name for values in conditions(evidence).values() for name in values)}
    for name, reason in reasons.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"parameters: {', '.join(PARAMETERS)}"
            raise FairlaneError("parameter-unknown", f"cannot accept {name!r}: there is no such parameter", hint=hint)
        if not is_meaningful(reason):
            raise FairlaneError(
                "reason-missing",
                f"no reason given for accepting {name}",
                hint=f'give the reason, which reports print: --accept {name}="why it does not matter"',
            )
    design = evidence.study.design
    accept = {**design.accept, **{name: reason.strip() for name, reason in reasons.items()}}
    study = evidence.study.model_copy(update={"design": design.model_copy(update={"accept": accept})})
    return replace(evidence, study=study)
