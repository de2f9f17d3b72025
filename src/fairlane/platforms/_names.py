"""Names that belong to other systems, validated when the study is read. Not a platform."""

import re
from typing import Annotated

from pydantic import AfterValidator

_DNS = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


def _dns_label(value: str) -> str:
    if len(value) > 63 or not re.fullmatch(_DNS, value):
        raise ValueError("expected a Kubernetes name: at most 63 lower-case letters, digits and dashes")
    return value


Label = Annotated[str, AfterValidator(_dns_label)]
"""RFC 1123 label: a namespace."""
