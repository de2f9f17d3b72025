"""The run directory: plan, journal, raw outputs and observations, written so that a killed run can be resumed."""
