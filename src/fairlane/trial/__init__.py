"""Run a study: blocks, interim analyses, progress."""
