"""Tests claims of five published studies against Fairlane's own measurements."""
