"""The interface of a kind of target: from a command line to a composed study."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairlane.errors import FairlaneError
from fairlane.versus.composed import Composed
from fairlane.versus.given import lane_names
from fairlane.versus.loads import Load
from fairlane.versus.plan import Wanted


@dataclass(frozen=True)
class Request:
    """A command line."""

    texts: Sequence[str]
    """The targets as they were typed, the baseline first."""
    load: Load
    wanted: Wanted
    options: Mapping[str, Any]
    """Options by their names: those of every kind of target (``seed``, ``buffered``, ``accepts``), and those of one."""
    command: str
    """The command line itself, for the study's first line."""
    notify: Callable[[str], None] = lambda _: None
    """Shows one line of progress."""


class Target(ABC):
    """A kind of target. ``TARGET`` of each file here is one."""

    article: ClassVar[str]
    """``a storage class``."""
    plural: ClassVar[str]
    """``storage classes``."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Options of the command line that are for this kind alone."""

    @abstractmethod
    def compose(self, request: Request) -> Composed:
        """Looks at the targets and makes a study of them; nothing stays behind. Raises FairlaneError."""


@dataclass(frozen=True)
class Named:
    """A target that a prefix names."""

    lane: str
    """Name of its lane, unique."""
    label: str
    """Its name in reports."""
    name: str
    """What follows the prefix."""


def named(texts: Sequence[str], prefix: str, plural: str) -> tuple[Named, ...]:
    """``PREFIX:NAME`` and ``LABEL=PREFIX:NAME`` of a command line. Raises FairlaneError for fewer than two, for an
    empty name, and for a label that is used twice."""
    example = f"fairlane versus old={prefix}:NAME new={prefix}:NAME"
    if len(texts) < 2:
        raise FairlaneError(
            "one-path", f"too few {plural}: a comparison needs two",
            hint=f"fairlane versus {prefix}:ONE {prefix}:OTHER; the first is the baseline",
        )  # fmt: skip
    parts = [_parts(text, prefix) for text in texts]
    for text, (label, name) in zip(texts, parts, strict=True):
        if not name or not label.strip() or not label.isprintable():
            raise FairlaneError("target-unnamed", f"{text!r} has no name", hint=example)
    labels = [label for label, _ in parts]
    if twice := next((label for n, label in enumerate(labels) if label in labels[:n]), ""):
        raise FairlaneError("name-twice", f"two {plural} have the name {twice}", hint=f"give each a name: {example}")
    lanes = lane_names(labels)
    return tuple(Named(lane, label, name) for lane, (label, name) in zip(lanes, parts, strict=True))


def _parts(text: str, prefix: str) -> tuple[str, str]:
    """(label, name)."""
    before, _, name = text.partition(f"{prefix}:")
    return (before.removesuffix("=") if before else name), name
