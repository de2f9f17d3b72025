"""Checks of a run, one file per check; ``base`` is the contract."""
