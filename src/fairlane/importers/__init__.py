"""Import other tools' results: one file per tool turns its outputs into records."""
