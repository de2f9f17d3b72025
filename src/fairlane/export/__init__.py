"""A run for other programs: one file per format, found by name. ``base`` is the contract, ``_gather`` the content."""
