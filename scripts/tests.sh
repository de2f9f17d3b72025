#!/bin/sh
# All tests, as `make test` runs them. Those that need a cluster wait most of their time and do not mind company: they run
# beside those that need no machine. What boots machines of the lab for figures has the cores to itself, at the end.
set -u
cd -P -- "$(dirname -- "$0")/.." >/dev/null || exit 1

if [ $# -gt 0 ]; then
    exec .venv/bin/pytest "$@"
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'kill "$cluster" 2>/dev/null; exit 130' INT TERM

.venv/bin/pytest -m cluster -p no:cacheprovider >"$log" 2>&1 &
cluster=$!
failed=0
echo "== tests that need no machine (those of a cluster run beside them)"
.venv/bin/pytest -m "not lab and not cluster" || failed=1
wait "$cluster" || failed=1
echo "== tests against a real API server"
cat "$log"
echo "== tests that boot machines of the lab"
.venv/bin/pytest -m "lab and not cluster" || failed=1
exit $failed
