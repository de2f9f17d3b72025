"""Platforms: where virtual machines come from, one file or folder per platform; ``base`` is the contract."""
