"""Runs and imports side by side: lanes paired into one joined evidence, which checks, judge and report read as any."""
