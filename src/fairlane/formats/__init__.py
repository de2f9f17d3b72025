"""Pure parsers of file formats that several parts of Fairlane read."""
