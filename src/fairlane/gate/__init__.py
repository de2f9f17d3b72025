"""Acceptance rules for a run, decided from intervals: for acceptance tests and CI."""
