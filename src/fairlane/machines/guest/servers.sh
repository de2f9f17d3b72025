# Programs that a load leaves running on a machine, and the list of what undoes a step after a kill. $NOTES is its folder;
# without one (machines that go away with the run) nothing is written down.
:

# end_in DIRECTORY: ends every process whose working directory lies in it, first with SIGQUIT, then with SIGKILL.
end_in() {
  for signal in QUIT KILL; do
    waited=0
    while _in "$1"; do
      [ $waited -gt 0 ] || kill -$signal $pids 2> /dev/null || :
      [ $waited -lt 100 ] || break
      waited=$((waited + 1))
      sleep 0.05
    done
    [ -n "$pids" ] || return 0
  done
  echo "processes in $1 cannot be ended: $pids" >&2
  return 1
}

_in() { # processes in directory $1 -> $pids; fails if there is none
  pids=''
  for p in /proc/[0-9]*; do
    at=$(readlink "$p/cwd" 2> /dev/null) || continue
    case $at in "$1" | "$1"/*) ;; *) continue ;; esac
    # one that has ended, and nobody has waited for, has no command line
    [ -z "$(tr -d '\0' < "$p/cmdline" 2> /dev/null)" ] || pids="$pids ${p#/proc/}"
  done
  [ -n "$pids" ]
}

# undo_later KEY: writes its standard input, shell whose first line is a comment that names the step, into the list as the
# newest step; what KEY had there goes.
undo_later() {
  [ -n "${NOTES:-}" ] || { cat > /dev/null; return 0; }
  undo_done "$1"
  last=0
  for f in "$NOTES"/*; do
    f=${f##*/} f=${f%%-*}
    while [ "$f" != "${f#0}" ]; do f=${f#0}; done
    case $f in '' | *[!0-9]*) continue ;; esac
    [ "$f" -lt $last ] || last=$((f + 1))
  done
  last="$NOTES/$(printf %06d $last)-$1"
  { cat > "$last.new" && { sync "$last.new" 2> /dev/null || sync; } && mv "$last.new" "$last"; } ||
    { echo "the removal of a step cannot be written down in $NOTES" >&2; return 1; }
}

# undo_done KEY: the step is undone.
undo_done() {
  [ -z "${NOTES:-}" ] || rm -f "$NOTES"/*-"$1"
}
