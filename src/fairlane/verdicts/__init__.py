"""Verdicts in fewer words, as scorecards count them. Pure."""
