"""Transports: how a volume reaches a guest, one file per transport; ``base`` is the contract."""
