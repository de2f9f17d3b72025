"""The study file: its model, its checks, its schedule and its plan."""
