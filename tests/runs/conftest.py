"""Small runs, as in tests of carrying them out."""

from tests.trial.conftest import new_run

__all__ = ["new_run"]
