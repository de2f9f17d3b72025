"""Child processes that end with us, however we end."""

WITH_US = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = "$0" ] && exec "$@"')
"""Before our pid and a command: runs it and kills it when we end; also if we ended before that was asked for."""
