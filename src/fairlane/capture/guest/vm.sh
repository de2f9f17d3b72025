# Disks of virtual machines on this host. of_vm NAME[,TARGET] asks libvirt, of_qmp SOCKET[,DEVICE] a QEMU without libvirt:
# a disk of the host becomes $sys, anything else $counted, with its size in $bytes. counters $counted: a line as in
# /sys/class/block/NAME/stat. QEMU counts a flush by itself, the kernel also as an empty write, and so does this line; its
# time with I/O in flight is the sum of all I/Os' times, as QEMU does not count it.
# shellcheck disable=SC2034 # $sys and $bytes are read by look

choose() { # ASKED WANTED DISK...: WANTED, or the only one if WANTED is empty -> $disk
  asked=$1 wanted=$2
  shift 2
  [ $# -gt 0 ] || wrong disk-unknown "$asked has no disk"
  for disk in "$@"; do
    [ "$disk" != "$wanted" ] || return 0
  done
  [ -z "$wanted" ] || wrong disk-unknown "${asked%,*} has no disk $wanted, but $*"
  [ $# -eq 1 ] || wrong disk-ambiguous "$asked has several disks; name one, such as $asked,$2 (there are $*)"
}

libvirt() {
  virsh -r -q -c "${LIBVIRT_DEFAULT_URI:-qemu:///system}" "$@"
}

of_vm() { # NAME[,TARGET]
  vm=${1%%,*} wanted=
  case $1 in *,*) wanted=${1#*,} ;; esac
  command -v virsh > /dev/null || wrong vm-unknown "virsh is not installed on $(uname -n)"
  state=$(libvirt domstate --domain "$vm" 2>&1) || wrong vm-unknown "libvirt: $(printf %s "$state" | tr '\n' ' ')"
  [ "$state" = running ] || wrong vm-off "the virtual machine $vm is not running, but $state"
  list=$(libvirt domblklist --details --domain "$vm" | sed -n 's/^ *\([a-z]*\)  *disk  *\([^ ]*\)  */\2 \1 /p')
  # shellcheck disable=SC2046 # one word for each disk
  choose "vm:$1" "$wanted" $(printf '%s\n' "$list" | sed 's/ .*//')
  source=$(printf '%s\n' "$list" | sed -n "s/^$disk [a-z]* //p")
  case $list in
    *"$disk block "*) of_node "$source" ;;
    *)
      sys='' counted=vm:$vm,$disk
      bytes=$(libvirt domstats --block "$vm" | awk -F= -v disk="$disk" '
        /\.name=/ { mine = $2 == disk }
        mine && /\.capacity=/ { print $2 }')
      bytes=${bytes:-0}
      ;;
  esac
}

hmp() { # SOCKET COMMAND: the answer of QEMU's monitor
  {
    printf '{"execute":"qmp_capabilities"}\n'
    printf '{"execute":"human-monitor-command","arguments":{"command-line":"%s"}}\n' "$2"
    sleep 0.2
  } | socat -t 0.5 - "UNIX-CONNECT:$1" | sed -n 's/.*"return": "\(.*\)".*/\1/p' | sed 's/\\r\\n/\n/g'
}

of_qmp() { # SOCKET[,DEVICE]
  socket=${1%%,*} wanted=
  case $1 in *,*) wanted=${1#*,} ;; esac
  command -v socat > /dev/null || wrong vm-unknown "socat is not installed on $(uname -n)"
  [ -S "$socket" ] || wrong vm-unknown "$socket is no socket"
  stats=$(hmp "$socket" 'info blockstats')
  [ -n "$stats" ] || wrong vm-unknown "no QEMU answers on $socket; another program may be connected to it"
  # shellcheck disable=SC2046 # one word for each device
  choose "qmp:$1" "$wanted" $(printf '%s\n' "$stats" | sed -n 's/^\([^ ]*\): rd_bytes=.*/\1/p')
  sys='' counted=qmp:$socket,$disk
  bytes=$(hmp "$socket" 'info block -v' | awk -v disk="$disk" '
    index($0, disk " ") == 1 || index($0, disk ":") == 1 { mine = 1 }
    mine && /^virtual size:/ { sub(/.*\(/, ""); print $1; exit }')
  bytes=${bytes:-0}
}

counters() { # vm:NAME,TARGET|qmp:SOCKET,DEVICE
  of=${1#*:}
  case $1 in
    vm:*)
      libvirt domstats --block "${of%,*}" | awk -F= -v disk="${of##*,}" '
        /\.name=/ { mine = $2 == disk }
        mine { sub(/^ *block\.[0-9]*\./, "", $1); print $1, $2 }'
      ;;
    qmp:*)
      hmp "${of%,*}" 'info blockstats' | sed -n "s|^${of##*,}: ||p" | tr ' ' '\n' | sed '
        s/_bytes=/.bytes /; s/_operations=/.reqs /; s/_total_time_ns=/.times /; s/^flush/fl/'
      ;;
  esac | awk '
    { n[$1] = $2 }
    END {
      if (!("rd.reqs" in n)) exit 1
      read = n["rd.times"] / 1e6; write = n["wr.times"] / 1e6; flush = n["fl.times"] / 1e6
      printf "%.0f 0 %.0f %.0f ", n["rd.reqs"], n["rd.bytes"] / 512, read
      printf "%.0f 0 %.0f %.0f ", n["wr.reqs"] + n["fl.reqs"], n["wr.bytes"] / 512, write + flush
      printf "0 %.0f %.0f 0 0 0 0 %.0f %.0f\n", read + write, read + write + 2 * flush, n["fl.reqs"], flush
    }'
}
