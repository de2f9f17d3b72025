# Lives on a machine as long as the program that started it is connected, then ends the run's loads and removes the files
# that it made in users' directories. Standard input is the connection: its end is the program's end, killed or not.
# Arguments: the run's folder, the run's id, 1 to refuse a machine that another run uses, the name to show for this run.
folder=$1 run=$2 alone=$3 name=$4
trap '' HUP INT TERM PIPE

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

i=0
while alive "$folder/keeper"; do # the run's own, of a program that was killed just now
  i=$((i + 1))
  [ $i -lt 100 ] || { echo "busy $pid $who"; exit 1; }
  sleep 0.1
done
echo "$$ $(begun $$) $name" > "$folder/keeper"
for other in /var/tmp/fairlane-*/keeper; do
  [ "$other" != "$folder/keeper" ] && [ "$alone" = 1 ] && alive "$other" || continue
  rm -f "$folder/keeper"
  echo "busy $pid $who"
  exit 1
done
rm -f "$folder/starting" "$folder/ending"
echo ready

cat > /dev/null
touch "$folder/ending" 2> /dev/null # a disk that is full is no reason to stop here

marked() { # processes with the mark $1 of the run in their environment
  grep -lazs "^$1=$run\$" /proc/[0-9]*/environ | tr -dc '0-9\n'
}

# loads, then fills, tries and the shells of the run; daemons that a step started have the same mark, and stay
for signal in TERM KILL; do
  pids=$(marked FAIRLANE_LOAD)
  # shellcheck disable=SC2086
  [ -z "$pids" ] || kill -$signal $pids 2> /dev/null
  [ -z "$pids" ] || sleep 0.5
done
for pid in $(marked FAIRLANE_RUN); do
  read -r comm 2> /dev/null < "/proc/$pid/comm" || continue
  case $comm in fio | sh | bash | dash | ash | busybox | cat | sleep | timeout) kill -KILL "$pid" 2> /dev/null ;; esac
done
rm -f "$folder"/undo/*.new # of a step that was not begun
for f in "$folder"/undo/*; do
  [ -e "$f" ] || continue
  read -r title < "$f"
  case $title in "# make a file for "* | "# make a database for "*) sh -c ". $folder/lib.sh; . $f" > /dev/null 2>&1 && rm -f "$f" ;; esac
done
rm -f "$folder/keeper" "$folder/ending"
# all is undone: nothing of the run stays here
if rmdir "$folder/undo" 2> /dev/null; then rm -rf "$folder"; fi
