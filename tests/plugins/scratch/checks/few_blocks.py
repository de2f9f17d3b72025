"""A run of so few blocks that nobody should build on it."""

from collections.abc import Iterable

from fairlane.checks.base import Check
from fairlane.records import Evidence, Finding


class FewBlocks(Check):
    """Less than five blocks of a cell."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        blocks = {block.index for block in evidence.blocks}
        if 0 < len(blocks) < 5:
            yield self.finding("few", "info", f"{len(blocks)} blocks are few", evidence={"blocks": len(blocks)})


PLUGIN = FewBlocks()
