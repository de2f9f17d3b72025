"""Pure readers of file formats that more than one part of Fairlane meets."""
