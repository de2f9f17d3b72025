# Lives on a machine as long as the program that started it is connected, then ends the run's loads and removes the files
# that it made in users' directories. Standard input is the connection: its end is the program's end, killed or not.
# Arguments: the run's folder, the run's id, 1 to refuse a machine that another run uses, the name to show for this run.
# Behind alive.sh.
folder=$1 run=$2 alone=$3 name=$4
pid='' who='' # alive sets them
trap '' HUP INT TERM PIPE

ended "$folder" || { echo "busy $pid $who"; exit 1; } # the run's own, of a program that was killed just now
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
# all is undone: nothing of the run stays here. Renamed first: who goes on with the run finds a folder with a keeper, or
# none, and never one that is half removed
if rmdir "$folder/undo" 2> /dev/null && mv "$folder" "${folder%/*}/.ended-${folder##*/}"; then
  rm -rf "${folder%/*}/.ended-${folder##*/}"
else
  rm -f "$folder/keeper" "$folder/ending"
fi
