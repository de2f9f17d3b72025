"""Field types for paths in a study file."""

import re
from typing import Annotated

from pydantic import AfterValidator


def _absolute(value: str) -> str:
    if not re.fullmatch(r"/[^\0-\x1f\x7f]{0,200}", value) or ".." in value.split("/"):
        raise ValueError("expected an absolute path without .., at most 200 characters")
    return value


AbsolutePath = Annotated[str, AfterValidator(_absolute)]
"""An absolute path on a machine."""
