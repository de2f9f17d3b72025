"""Probes: measurements beside the load, one file per probe; ``base`` is the contract."""
