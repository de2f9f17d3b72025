"""The read-only viewer: runs as pages on this machine, and the state of a study that is still running."""
