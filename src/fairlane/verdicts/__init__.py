"""Verdicts summarised for scorecards. Pure."""
