"""Capture the load of a disk: watch it, count it, fit it, and write it as a workload."""
