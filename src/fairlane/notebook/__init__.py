"""Runs as plain records and figures, for notebooks and scripts: ``run = fairlane.open("runs/demo")``."""

from fairlane.compare.scorecard import Score
from fairlane.compare.view import DeltaRow
from fairlane.export._records import (
    FindingRow,
    LaneRow,
    ParameterRow,
    PercentileRow,
    Row,
    TrialRow,
    VerdictRow,
)
from fairlane.notebook.comparison import Comparison
from fairlane.notebook.picture import Picture
from fairlane.notebook.records import Records
from fairlane.notebook.run import Histogram, Run
from fairlane.records import Finding

__all__ = [
    "Comparison",
    "DeltaRow",
    "Finding",
    "FindingRow",
    "Histogram",
    "LaneRow",
    "ParameterRow",
    "PercentileRow",
    "Picture",
    "Records",
    "Row",
    "Run",
    "Score",
    "TrialRow",
    "VerdictRow",
]
