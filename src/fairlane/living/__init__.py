"""Machines that belong to somebody: reach them, keep a list of every change, and undo it, also after a kill."""
