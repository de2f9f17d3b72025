"""Export a run for other programs, one file per format. ``base`` is the contract, ``_gather`` collects the content."""
