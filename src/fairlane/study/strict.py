"""Base model of every part of a study file, and the errors of its validators."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Unknown keys are errors, values are frozen once read, every field's docstring lands in the JSON Schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class Invalid(ValueError):  # noqa: N818 - reads as what it is
    """A validator's error with a kind of its own; that of any other ValueError is ``value``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
