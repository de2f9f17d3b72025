"""Compare runs and imports: their lanes become one joined evidence for checks, judge and report."""
