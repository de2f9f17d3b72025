"""The numbers in a text: what a test holds against the truth, whatever the words around them are."""

import re

_NUMBER = re.compile(r"(?<![\w.-])[\u2212+-]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")


def figures(text: str) -> list[str]:
    """The numbers in their order, as they are written, without those that are part of a name (``4k``, ``qd16``)."""
    return _NUMBER.findall(text)
