"""Clean text from outside: every name, message and file content passes through here once, in the model."""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

DASH = "\u2013"
"""Text for a missing value."""
MINUS = "\u2212"

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LONGEST = 4000


def clean(text: str, longest: int = _LONGEST) -> str:
    r"""``text`` with every invisible or direction-changing character written out: U+202E becomes ``\u202e``.

    A right-to-left override can make "slower" read as "rewols", an escape character can repaint a terminal. Line feeds
    stay, tabs become spaces. Text longer than ``longest`` characters is cut, with a note.
    """
    if len(text) > longest:
        text = f"{text[:longest]}… [{len(text) - longest} more characters]"
    text = text.replace("\t", "    ")
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == "\n" or unicodedata.category(c) not in _HIDDEN else _escape(c) for c in text)


def _escape(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def scrub(value: T, longest: int = _LONGEST) -> T:
    """``value`` (dataclasses, tuples, mappings, nested at will) with every string in it ``clean``: itself where all of
    them are, else a copy."""
    new: Any = value
    if isinstance(value, str):
        new = clean(value, longest)
    elif isinstance(value, tuple | list | frozenset):
        parts = [scrub(v, longest) for v in value]
        if any(a is not b for a, b in zip(parts, value, strict=True)):
            new = type(value)(parts)
    elif isinstance(value, Mapping):
        new = {scrub(k, longest): scrub(v, longest) for k, v in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(name, scrub(getattr(value, name), longest)) for name in value.__dataclass_fields__]
        if changed := {name: part for name, part in parts if part is not getattr(value, name)}:
            new = dataclasses.replace(value, **changed)
    return new  # type: ignore[no-any-return]


_MARKUP = re.compile(r"([\\`*\[\]~|])|(?<![^\W_])(_)|(_)(?![^\W_])")


def markdown(text: str) -> str:
    """``text`` as literal text in a line or table cell of GitHub-flavoured Markdown; mentions and links stay dead."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKUP.sub(lambda m: f"\\{m[0]}", text)
    text = text.replace("@", "&#64;").replace("://", "&#58;//")
    return " ".join(text.split("\n"))


def fence(text: str) -> str:
    """``text`` as a Markdown code block whose fence is longer than any run of backticks in it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}\n{text.rstrip()}\n{ticks}"


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def plain(value: Any) -> str:
    """A value of a description or fingerprint as one piece of text; the same value gives the same text."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(plain(v) for v in value)
        case _:
            return str(value).strip() or "(empty)"


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings to ``{"a.b.c": text}`` in the order given."""
    flat: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = plain(value)
    return flat


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A GFM table of escaped text; columns whose index is in ``numbers`` are right-aligned."""
    rules = ["---:" if i in numbers else "---" for i in range(len(columns))]
    lines = ([markdown(c) for c in columns], rules, *([markdown(v) for v in row] for row in rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
