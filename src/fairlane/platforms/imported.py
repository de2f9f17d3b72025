"""Results that other tools made, or that were published: a study of them can be evaluated but not run."""

from collections.abc import Mapping
from typing import Any, Literal

from fairlane.errors import FairlaneError
from fairlane.platforms.base import Platform
from fairlane.study.base import PlatformSpec


class ImportedSpec(PlatformSpec):
    """Results of other tools; ``fairlane import`` writes such studies."""

    kind: Literal["imported"]
    """Nothing is run: the figures come from files."""
    tools: tuple[str, ...] = ()
    """Importers that read the files."""
    transports = ("imported",)
    least_lanes = 1
    measured_here = False

    def known(self) -> Mapping[str, Any]:
        return {}  # where the machines came from, the import map may say


class Imported(Platform):
    """Has no machines: ``problems`` prevents ``open`` and ``run_block``."""

    Spec = ImportedSpec

    def problems(self) -> list[FairlaneError]:
        return [
            FairlaneError(
                "imported", "imported results cannot be run again", hint="use fairlane report RUN or fairlane compare"
            )
        ]

    async def open(self, notify):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002
        raise self.problems()[0]

    def run_block(self, block):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG002
        raise self.problems()[0]


PLUGIN = Imported
