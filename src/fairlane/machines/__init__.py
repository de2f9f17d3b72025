"""How Fairlane talks to a machine, whatever platform it comes from: connections, scripts, clocks, the device guard."""
