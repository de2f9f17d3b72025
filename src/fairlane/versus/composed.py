"""A study made of a command line, with its plan for the user: one shape for every kind of target."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlane.errors import FairlaneError
from fairlane.study.forecast import about
from fairlane.study.spec import Study
from fairlane.versus.loads import Load
from fairlane.versus.plan import Sizes

if TYPE_CHECKING:
    from fairlane.platforms.base import Platform

Row = tuple[str, str]
"""Head and text of a line of the plan."""


@dataclass(frozen=True, kw_only=True)
class Composed(ABC):
    """Derived classes say what the targets are, what is written or made, and what their user is warned of. Pure."""

    labels: tuple[str, ...]
    """Names of the targets, the baseline first."""
    study: Study
    text: str
    """The study file."""
    sizes: Sizes
    load: Load
    problems: tuple[FairlaneError, ...] = ()
    """Problems that prevent the run; the plan can be printed all the same."""

    @property
    def head(self) -> str:
        """The first line: ``a against b and c: about 3 min at most``."""
        first, *others = self.labels
        return f"{first} against {' and '.join(others)}: about {about(self.sizes.seconds)} at most"

    @property
    def cached(self) -> bool:
        """Whether the load goes through a page cache."""
        return self.load.cached

    @property
    def lost(self) -> Sequence[Row]:
        """Label and identity of existing disks that are overwritten."""
        return ()

    @abstractmethod
    def targets(self) -> Iterator[Row]:
        """A row per target, the baseline first."""

    @abstractmethod
    def costs(self) -> Iterator[Row]:
        """Rows of what is made and written, and what that needs."""

    @abstractmethod
    def warnings(self) -> Iterator[Row]:
        """(severity, sentence)."""

    @abstractmethod
    def as_json(self) -> Mapping[str, Any]:
        """What of it concerns this kind of target, for programs."""

    def equip(self, platform: "Platform") -> None:  # noqa: B027 - most kinds have nothing to hand over
        """Hands over to ``platform`` what the composer has looked up already."""
