"""The lab under the virtual clock: one guest, whose time is the instructions that it executes."""
