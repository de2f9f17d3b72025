"""Fairlane compares storage paths for virtual machines, with evidence that survives a hostile reviewer."""

__version__ = "0.1.0"
