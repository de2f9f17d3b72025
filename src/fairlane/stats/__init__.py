"""Statistics of a run: effects, intervals, interim analyses, verdicts, curves."""
