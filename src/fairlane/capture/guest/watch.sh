# watch NAME NUMBER SECONDS SOURCE EVENTS TRACEFS: the counters of a disk every second on standard error, and its trace on
# standard output. SOURCE: events (pages of the kernel's trace buffers), blktrace (its stream) or none. It ends after
# SECONDS, or when its standard input is closed, which it also is where the caller dies. It writes to no disk. Follows
# vm.sh, which counts where NAME is a virtual machine's disk.

say() { echo "$*" >&2; }

sample() {
  now=$(date +%s.%N)
  ms=${now#*.}
  ms=$((${now%.*} * 1000 + 1${ms%??????} - 1000)) # the 1 keeps 089 from being octal
  case $name in
    *:*) line=$(counters "$name") || return 0 ;;
    *) read -r line < "/sys/class/block/$name/stat" || return 0 ;;
  esac
  say "stat $now $line"
}

# --- events: a trace instance of our own, so that nobody else's tracing is touched

drop() { # INSTANCE
  [ -d "$1" ] || return 0
  echo 0 > "$1/events/enable"
  rmdir "$1" 2> /dev/null || { sleep 0.2; rmdir "$1"; } || say "note the trace instance $1 is left"
}

begin_events() {
  for old in "$tracefs"/instances/fairlane-capture-*; do # of a capture that was killed
    [ -d "/proc/${old##*-}" ] || drop "$old"
  done
  instance=$tracefs/instances/fairlane-capture-$$
  mkdir "$instance" || return 1
  page=$(($(sed -n 's/.*char data;.*offset:\([0-9]*\);.*size:\([0-9]*\);.*/\1+\2/p' "$tracefs/events/header_page")))
  say "page $page"
  cpus=0
  for c in "$instance"/per_cpu/cpu*; do cpus=$((cpus + 1)); done
  kb=$((262144 / cpus)) # of all processors together 256 MiB at most
  [ "$kb" -le 32768 ] || kb=32768
  echo mono > "$instance/trace_clock" || return 1
  echo "$kb" > "$instance/buffer_size_kb" || return 1
  echo 0 > "$instance/tracing_on" || return 1
  for e in $events; do
    say format
    cat "$instance/events/block/$e/format" >&2 || return 1
    say end
    echo "dev == $((${number%:*} << 20 | ${number#*:}))" > "$instance/events/block/$e/filter" || return 1
  done
  for e in $events; do echo 1 > "$instance/events/block/$e/enable" || return 1; done
  # all events begin at one time: an I/O that was issued while only issues are traced would be in flight for ever
  echo 1 > "$instance/tracing_on"
}

# of each processor at most one whole buffer, so that a fast writer does not keep the others waiting; then an empty page,
# which no processor has: all of them were read
poll_events() {
  for c in "$instance"/per_cpu/cpu*; do
    dd if="$c/trace_pipe_raw" iflag=nonblock bs="$page" count=$((kb * 1024 / page)) 2> /dev/null || :
  done
  dd if=/dev/zero bs="$page" count=1 2> /dev/null
}

end_events() {
  echo 0 > "$instance/tracing_on"
  poll_events
  drop "$instance"
}

# --- blktrace: its own buffers in debugfs

begin_blktrace() {
  # shellcheck disable=SC2086 # one word per mask
  blktrace -d "/dev/$name" $events -b 1024 -n 8 -w "$((seconds + 5))" -o - < /dev/null &
  tracer=$!
  sleep 0.5
  [ -d "/proc/$tracer" ] && grep -q '^State:.[^Z]' "/proc/$tracer/status"
}

poll_blktrace() {
  read -r dropped < "/sys/kernel/debug/block/$name/dropped" && say "dropped $dropped"
}

end_blktrace() {
  poll_blktrace
  kill -TERM "$tracer" 2> /dev/null
  for _ in 1 2 3 4 5 6 7 8 9 10; do # one that could not open its buffers may not end by itself
    grep -q '^State:.[^Z]' "/proc/$tracer/status" 2> /dev/null || break
    sleep 0.2
  done
  kill -KILL "$tracer" 2> /dev/null
  wait "$tracer"
}

begin_none() { :; }
poll_none() { :; }
end_none() { :; }

watch() {
  name=$1 number=$2 seconds=$3 source=$4 events=$5 tracefs=$6 stopped=0
  trap 'stopped=1' TERM INT HUP
  trap '' PIPE # a caller that died leaves us to tidy up
  exec 3<&0
  (
    cat
    kill -TERM $$
  ) <&3 > /dev/null 2>&1 &
  keeper=$!
  if "begin_$source"; then say started; else stopped=1; fi
  sample
  until=$((ms + seconds * 1000))
  while [ "$stopped" = 0 ]; do
    sleep 0.5
    "poll_$source"
    sleep 0.5
    "poll_$source"
    sample
    [ "$ms" -lt "$until" ] || break
  done
  "end_$source"
  kill "$keeper" 2> /dev/null
  say times
  times >&2
}
