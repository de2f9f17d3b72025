"""What tests share, and one of them may end: machines and servers."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Shared(Protocol):
    """The value of a fixture that is looked at before each test, and made anew when it is dead (tests/conftest.py)."""

    def dead(self) -> str:
        """Why no further test can use it; empty: it is alive."""
        ...
