"""What five published studies claim, and what Fairlane finds when it asks the same question."""
