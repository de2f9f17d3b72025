"""Connections to machines of any platform: scripts, clocks, the device guard."""
