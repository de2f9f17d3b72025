"""Strangers' machines: hosts and an array that nobody prepared for Fairlane, reached as users reach theirs, by ssh."""

from testkit.strangers.stand import HOSTS, Stand, available
from testkit.strangers.wishes import Array, Host

__all__ = ["HOSTS", "Array", "Host", "Stand", "available"]
