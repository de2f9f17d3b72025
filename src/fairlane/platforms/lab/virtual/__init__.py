"""The lab under the virtual clock: one guest whose time is the number of instructions it has executed."""
