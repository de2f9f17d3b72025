"""The lanes and cells that a finding concerns, as every page and terminal words them. Pure."""

import re
from collections.abc import Mapping

from fairlane.records import Finding


def where(finding: Finding, names: Mapping[str, str], label: Mapping[str, str]) -> str:
    """Lanes and cells that the message does not name: ``local: 4k randread qd16, 64k randread qd16``."""
    known = set(finding.cells)
    cells = [name for key, name in names.items() if key in known] + [c for c in finding.cells if c not in names]
    if all(_mentions(finding.message, cell) for cell in cells):
        cells = []
    listed = ", ".join(cells) if len(cells) <= 6 else f"{', '.join(cells[:5])} and {len(cells) - 5} more cells"
    if known.issuperset(names) and len(names) > 1:
        listed = f"all {len(names)} cells"
    named = [
        label.get(n, n) for n in finding.lanes if not any(_mentions(finding.message, x) for x in (n, label.get(n, n)))
    ]
    return ": ".join(x for x in (", ".join(named), listed) if x)


def _mentions(message: str, name: str) -> bool:
    """Whether ``message`` contains ``name`` as a whole: "64k randread qd16" does not contain "4k randread qd1"."""
    return re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w/-])", message) is not None
