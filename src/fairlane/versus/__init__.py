"""Compare existing paths: from a command line to a study, the display while it runs, and the final output."""
