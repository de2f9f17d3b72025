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

alive() { # whether the keeper in file $1 lives -> $pid, $who. Of another user it counts if its process is that user's
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  read -r pid when who << END-OF-LINE
$(timeout 2 head -n 1 "$1" 2> /dev/null | cut -c 1-200)
END-OF-LINE
  case $pid$when in '' | *[!0-9]*) return 1 ;; esac
  owner=$(stat -c %u "$1")
  case $owner in
    0 | "$(id -u)") ;;
    *) [ "$(stat -c %u "/proc/$pid" 2> /dev/null)" = "$owner" ] || return 1 ;;
  esac
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
