# look ASKED: the disk that is meant by a kernel name, a path, a link or an identity, or as a virtual machine's, as lines of
# "key value" on standard output. Follows identity.sh and vm.sh, whose functions are used.
# shellcheck disable=SC2154 # $ids is set there

row() { printf '%s %s\n' "$1" "$2"; }

first() { # FILE: its first line, or nothing
  v=
  { IFS= read -r v < "$1"; } 2> /dev/null || :
  printf %s "$v"
}

wrong() { # KIND TEXT
  row wrong "$1 $2"
  exit 0
}

of_number() { # MAJOR:MINOR -> $sys
  sys=$(readlink -f "/sys/dev/block/$1") || sys=
  [ -e "$sys/size" ] || [ -e "$sys/partition" ] || wrong disk-unknown "no disk has the number $1"
}

of_node() { # /dev/NODE -> $sys
  number=$(stat -L -c '%t %T' "$1")
  of_number $((0x${number% *})):$((0x${number#* }))
}

of_path() { # a file or folder -> $sys
  number=$(findmnt -n -o MAJ:MIN -T "$1" | tail -n 1 | tr -d ' ')
  if [ "${number%%:*}" != 0 ] && [ -e "/sys/dev/block/$number" ]; then
    of_number "$number"
    return
  fi
  source=$(findmnt -n -o SOURCE -T "$1" | tail -n 1)
  source=${source%%\[*}
  [ -b "$source" ] || wrong disk-behind "$1 lies on ${source:-nothing known}, which is not a disk of this machine"
  of_node "$source"
}

of_words() { # a path, a kernel name or an identity -> $sys
  if [ -b "$1" ]; then
    of_node "$1"
  elif [ -b "/dev/$1" ]; then
    of_node "/dev/$1"
  elif [ -e "$1" ]; then
    of_path "$1"
  else
    # shellcheck disable=SC2046 # one word for each disk
    of_identity "$1" $(volumes "$1")
  fi
}

of_identity() { # ASKED DISK...: the only one -> $sys
  [ $# -gt 1 ] || wrong disk-unknown "there is no disk, link, identity, file or folder named $1"
  shift
  [ $# -eq 1 ] || wrong disk-ambiguous "several disks have this identity: $*"
  of_node "/dev/$1"
}

look() {
  row machine "$(uname -n)"
  row kernel "$(uname -r)"
  row cpus "$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 1)"
  row uid "$(id -u)"
  case $1 in
    vm:*) of_vm "${1#vm:}" ;;
    qmp:*) of_qmp "${1#qmp:}" ;;
    *) of_words "$1" ;;
  esac
  if [ -z "$sys" ]; then # a file or network volume, which its hypervisor counts
    row name "$counted"
    row sectors $((bytes / 512))
    return
  fi
  if [ -e "$sys/partition" ]; then sys=$(readlink -f "$sys/.."); fi
  name=${sys##*/}
  _identities "$name"
  row name "$name"
  row number "$(first "$sys/dev")"
  row sectors "$(first "$sys/size")"
  row identity "${ids%% *}"
  row model "$(first "$sys/device/model")"
  row rotational "$(first "$sys/queue/rotational")"
  row scheduler "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$sys/queue/scheduler" 2> /dev/null)"
  row write_cache "$(first "$sys/queue/write_cache")"
  if [ -d "$sys/mq" ]; then row stacked 0; else row stacked 1; fi
  for t in /sys/kernel/tracing /sys/kernel/debug/tracing; do
    if [ -w "$t/instances" ] && [ -e "$t/events/block/block_rq_issue" ]; then row tracefs "$t"; break; fi
  done
  row blktrace "$(command -v blktrace || :)"
  if [ -d /sys/kernel/debug/block ]; then row debugfs 1; fi
  row lockdown "$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/security/lockdown 2> /dev/null)"
}
