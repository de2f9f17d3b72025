"""Workloads: what loads the volumes, one file per workload; ``base`` is the contract."""
