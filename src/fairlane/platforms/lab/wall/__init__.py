"""The lab under the wall clock: guests and an array as ordinary virtual machines on this machine."""
