"""The guard: parameters that must match for a comparison, their known values, and accepted mismatches."""
