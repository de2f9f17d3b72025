"""Connections to machines of any platform: scripts, the device guard, folders that a kill cannot leave behind."""
