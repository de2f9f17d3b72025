"""Rules that a run must meet, decided from intervals: for acceptance tests and CI."""
