"""Lint of the words users read: `scripts/words.py` lists each sentence that a tired administrator would read twice.

Texts for users are literals of three words and more in src/ (errors, hints, findings, help, labels), the help texts of
commands, and the templates. Comments and docstrings are for developers; shell scripts are not read either.
Exit code 1: something to rewrite. CONTRIBUTING.md has the rules by which to rewrite.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "fairlane"


@dataclass(frozen=True)
class Rule:
    """A turn of phrase that is refused, and what to write."""

    pattern: re.Pattern[str]
    instead: str


_IS = r"\b(?:is|are|was|were|be|been|being)"
RULES = tuple(
    Rule(re.compile(pattern), instead)
    for pattern, instead in (
        (
            _IS + r" (?:not )?(?:told|said|seen|found|asked)\b",
            "name who does it: active verb",
        ),
        (r"\b(?:told|said|seen)\b", "use the exact verb: printed, stated, measured, listed"),
        (r"\b[Oo]nes? (?:that|which|who|whose)\b", "name the thing"),
        (
            r"\b[Ww]hat (?:is|are|was|were|has|have|had|it|they|he|nobody|somebody|no one|all|others)\b",
            "name the thing",
        ),
        (r"^(?:What|That) (?!if\b|to\b)[^?]*$", "begin with a noun"),
        (r"(?:\d|\}) ?us\b(?!-)", "µs"),
        (r"\b(?:[Nn]obody|[Ss]omebody)\b", "name who: no process, no machine, another user"),
        (r"\bfor want of\b|\bin vain\b|\bof no one\b|\bof which none\b|\bgoing on\b", "say it plainly"),
    )
)
_SCRIPT = re.compile(r"\$[({a-z]|&&|\|\||^\s*(?:set -|if |for |while |case )|\bexec \d|\bfi\b", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """A text for users. ``{}`` stands for a value that is filled in."""

    path: Path
    line: int
    text: str


def python(path: Path) -> Iterator[Text]:
    """The texts for users in a module: literals of three words and more, and the help of its commands."""
    tree = ast.parse(path.read_text())
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
        if isinstance(node, ast.Expr):  # docstrings
            skipped.add(id(node.value))
        if isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(d) for d in node.decorator_list):
            for paragraph in filter(None, (ast.get_docstring(node) or "").split("\n\n")):
                yield Text(path, node.lineno, " ".join(paragraph.split()))
    for node in ast.walk(tree):
        text = None if id(node) in skipped else _literal(node)
        if text and len(re.findall(r"[A-Za-z]{2,}", text)) > 2 and not _SCRIPT.search(text):
            yield Text(path, node.lineno, text)  # type: ignore[attr-defined]


def _literal(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


_NOT_TEXT = re.compile(r"\{#.*?#\}|\{%.*?%\}|<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)


def template(path: Path) -> Iterator[Text]:
    """The lines of a Jinja template that a browser shows."""
    shown = re.sub(r"\{\{.*?\}\}", "{}", path.read_text(), flags=re.DOTALL)
    shown = _NOT_TEXT.sub(lambda cut: re.sub(r"[^\n]", " ", cut.group()), shown)
    for number, line in enumerate(shown.splitlines(), 1):
        if re.search(r"[A-Za-z]{2,}", line):
            yield Text(path, number, line.strip())


def texts(folder: Path = SOURCES) -> Iterator[Text]:
    """All texts for users below ``folder``."""
    for path in sorted(folder.rglob("*.py")):
        yield from python(path)
    for path in sorted(folder.rglob("*.j2")):
        yield from template(path)


def broken(text: Text) -> Iterator[tuple[str, str]]:
    """(words, what to write) for each rule that ``text`` breaks."""
    for rule in RULES:
        if hit := rule.pattern.search(text.text):
            yield hit.group(), rule.instead


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="Print all texts, one a line, and refuse none.")
    wanted = parser.parse_args()
    wrong = 0
    for text in texts():
        place = f"{text.path.relative_to(ROOT)}:{text.line}"
        if wanted.list:
            print(f"{place}\t{' '.join(text.text.split())}")
            continue
        for words, instead in broken(text):
            wrong += 1
            print(f"{place}: {words!r} in {text.text[:160]!r}: {instead}")
    if wrong:
        print(f"{wrong} to rewrite", file=sys.stderr)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
