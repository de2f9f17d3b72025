"""Fairlane: which storage path should virtual machines use, with evidence that survives a hostile reviewer."""

__version__ = "0.1.0"
