"""Find the JSON documents in fio's output: a file may hold several, with warnings before, between and after them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from fairlane.errors import Garbage

# fio's report begins with this key in every version, and no message before it does
_START = re.compile(r'(?:^|(?<=\}))\{(?=\s*"fio version")', re.MULTILINE)
_FIRST = re.compile(rb'\{\s*"fio version"')
_ANY = re.compile(r"^\{", re.MULTILINE)
_TERSE = re.compile(r"^(?:[345];fio-|2;[^;\n]*;\d+;\d+;\d+;)", re.MULTILINE)
_NORMAL = re.compile(r"^[ \t]*\S.{0,300}: \(groupid=\d{1,9}, jobs=\d{1,9}\): err=", re.MULTILINE)
# C prints a mean of nothing as nan, which is no JSON. Python reads NaN, and offsets stay the same.
_NO_NUMBER = re.compile(r"(:\s*)-?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
_KEPT = 2000
"""Most characters of fio's warnings."""


@dataclass(frozen=True)
class Document:
    """One report of fio."""

    tree: Mapping[str, Any]
    warnings: str
    """fio's messages around it."""


def documents(data: bytes, name: str) -> list[Document]:
    """The reports in ``data``, in their order; at least one. ``name`` of the file is for messages.

    Raises Garbage: no text, no JSON, or a report that is cut off or damaged, with the byte.
    """
    if _FIRST.match(data):
        # Nearly all files are one report and nothing else; of json+ reading it is most of an import, and orjson needs a
        # third of the time. The decoder below reads what it refuses: warnings after the report, NaN, a tab in a text.
        with suppress(orjson.JSONDecodeError):
            return [Document(orjson.loads(data), "")]
    text = _text(data, name)
    try:
        try:
            reports = _split(text)
        except json.JSONDecodeError:
            mended = _NO_NUMBER.sub(lambda match: match[1] + "NaN".rjust(len(match[0]) - len(match[1])), text)
            reports = _split(mended)
    except json.JSONDecodeError as error:
        raise Garbage("cut-off", _where(text, error, name)) from None
    except RecursionError:
        raise Garbage("nested", f"{name} is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise Garbage("cut-off", f"{name} is cut off or not JSON: {str(error)[:100]}") from None
    if not reports:
        raise Garbage("fio-format" if _TERSE.search(text) else "no-report", _none(text, name))
    return reports


def _split(text: str) -> list[Document]:
    """Raises what the JSON decoder raises."""
    decoder = json.JSONDecoder(strict=False)  # a job's description may hold a tab
    reports: list[Document] = []
    position = 0
    while start := _START.search(text, position) or (None if reports else _ANY.search(text)):
        warnings = text[position : start.start()].strip()[:_KEPT]
        tree, position = decoder.raw_decode(text, start.start())
        reports.append(Document(tree, warnings))
    if reports and (rest := text[position:].strip()):
        reports[-1] = Document(reports[-1].tree, f"{reports[-1].warnings}\n{rest}".strip()[:_KEPT])
    return reports


def report_in(head: bytes) -> bool:
    """Whether a report of fio begins in the first bytes of a file."""
    return bool(_FIRST.match(head) or _START.search(head.decode(errors="replace")))


def terse(head: bytes) -> bool:
    """Whether the first bytes of a file are fio's terse output."""
    return bool(_TERSE.search(head.decode(errors="replace")))


def normal(head: bytes) -> bool:
    """Whether the first bytes of a file hold a result of fio's normal output, and no report."""
    return b"(groupid=" in head and not report_in(head) and bool(_NORMAL.search(head.decode(errors="replace")))


def _text(data: bytes, name: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Garbage("not-text", f"{name} is not text (byte {error.start})") from None
    if not text.strip():
        raise Garbage("empty", f"{name} is empty")
    return text


def _none(text: str, name: str) -> str:
    if _TERSE.search(text):
        return f"{name} is in terse format, not in JSON"
    return f"{name} contains no JSON: {text.strip()[:80]!r}"


def _where(text: str, error: json.JSONDecodeError, name: str) -> str:
    byte = len(text[: error.pos].encode())
    open_string = error.msg.startswith("Unterminated string")
    if open_string or not text[error.pos :].strip():
        return f"{name} is cut off: {error.msg} at byte {byte}"
    return f"{name} is cut off or not JSON at byte {byte}: {error.msg}"
