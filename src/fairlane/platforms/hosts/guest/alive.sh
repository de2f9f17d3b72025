# Functions about keepers: a keeper's file holds its pid, when it began and the name of its run.

begun() { # when process $1 began, in ticks since boot
  read -r s 2> /dev/null < "/proc/$1/stat" || return 1
  set -f
  # shellcheck disable=SC2086
  set -- ${s##*) }
  set +f
  [ "$1" != Z ] || return 1 # it has ended, and nobody has waited for it
  echo "${20}"
}

alive() { # whether the keeper in file $1 lives -> $pid, $who. Anybody may have put a file there: a fifo would block
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  case $(stat -c %u "$1") in 0 | "$(id -u)") ;; *) return 1 ;; esac
  read -r pid when who 2> /dev/null < "$1" || return 1
  case $pid$when in '' | *[!0-9]*) return 1 ;; esac
  who=$(printf %s "$who" | tr -cd ' -~')
  [ "$(begun "$pid")" = "$when" ]
}

# Waits for the keeper in folder $1 to end, ten seconds at most; what it is about to remove must not be used again.
ended() {
  i=0
  while alive "$1/keeper"; do
    i=$((i + 1))
    [ $i -lt 100 ] || return 1
    sleep 0.1
  done
}
