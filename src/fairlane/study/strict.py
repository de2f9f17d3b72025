"""Base model of every part of a study file."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Unknown keys are errors, values are frozen once read. Every field's docstring lands in the JSON Schema, see
    ``study.schema``: pydantic's own ``use_attribute_docstrings`` reads the sources whenever a model is imported, a
    sixth of the start-up of most commands."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
