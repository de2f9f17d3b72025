"""Verdicts in fewer words: what scorecards count. Pure."""
