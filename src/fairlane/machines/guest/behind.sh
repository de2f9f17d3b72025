# What lies behind a path: raw facts for machines/behind, which reads them. Follows identity.sh. Needs no root, and works
# with busybox; where a program or a right is missing, its facts are.
:

# behind_machine: files in the current folder: mountinfo, swaps, blocks, identities, and what pools tell.
behind_machine() {
  cat /proc/self/mountinfo > mountinfo
  cat /proc/swaps > swaps 2> /dev/null || :
  _behind_blocks > blocks
  disks > identities 2> /dev/null || :
  for _d in /sys/fs/btrfs/*/devices/*; do
    [ -e "$_d" ] || continue
    _u=${_d#/sys/fs/btrfs/}
    printf '%s\t%s\n' "${_u%%/*}" "${_d##*/}"
  done > btrfs
  if command -v dmsetup > /dev/null; then
    timeout 10 dmsetup table > dm.table 2> /dev/null || :
    timeout 10 dmsetup status > dm.status 2> /dev/null || :
  fi
  if command -v zpool > /dev/null; then
    timeout 20 zpool list -vpPH > zpool 2> /dev/null || :
    timeout 20 zfs get -Hp -t filesystem,volume -o name,property,value \
      sync,primarycache,recordsize,compression,dedup,volsize,refreservation,used > zfs 2> /dev/null || :
    for _d in /dev/zvol/*/* /dev/zvol/*/*/* /dev/zvol/*/*/*/*; do
      [ ! -b "$_d" ] || printf '%s\t%s\n' "${_d#/dev/zvol/}" "$(readlink -f "$_d")"
    done > zvol
  fi
}

# behind_path PATH [try]: rows of facts. try: also whether it takes direct I/O, with a file of 4 KiB in a directory.
behind_path() {
  if [ ! -e "$1" ]; then
    if [ -L "$1" ]; then row missing "is a link to $(readlink "$1"), which does not exist"; else row missing ""; fi
    return 0
  fi
  _p=$(readlink -f "$1")
  row real "$_p"
  if [ -d "$_p" ]; then row kind directory
  elif [ -b "$_p" ]; then row kind device
  elif [ -f "$_p" ]; then row kind file
  else row kind other; fi
  # device, inode, and of a node its own number (hexadecimal); bytes, blocks allocated and their size
  row stat "$(stat -c '%d %i %t %T %s %b %B %u %a' "$_p")"
  [ -b "$_p" ] || row statfs "$(stat -f -c '%S %b %f %a %c %d' "$_p" 2> /dev/null || :)"
  if [ -r "$_p" ]; then row readable 1; else row readable 0; fi
  if [ -w "$_p" ]; then row writable 1; else row writable 0; fi
  [ -z "${2:-}" ] || _behind_direct
}

# Tries direct I/O in blocks of 512 bytes, then 4096 -> row direct: the smaller that works, or no; none where it cannot be
# tried.
_behind_direct() {
  _own=
  if [ -d "$_p" ]; then
    [ -w "$_p" ] || return 0
    # a new file of a name that nobody knows before: nothing there is ever overwritten. Not noclobber: dash follows a
    # link to a disk with it
    _f=$(mktemp "$_p/${LOOK_NAME:-.fairlane-look}.XXXXXX" 2> /dev/null) || { row create no; return 0; }
    _own=$_f
  else
    if [ ! -f "$_p" ] && [ ! -b "$_p" ]; then return 0; fi
    # a container's cgroup may forbid what the mode allows
    ( : < "$_p" ) 2> /dev/null || { row readable 0; return 0; }
    _f=$_p
  fi
  _answer=no
  for _b in 512 4096; do
    if [ -n "$_own" ]; then
      if [ ! -f "$_f" ] || [ -L "$_f" ]; then break; fi # somebody put another one there
      dd if=/dev/zero of="$_f" bs=$_b count=1 oflag=direct,nofollow conv=notrunc,nocreat > /dev/null 2> direct.err ||
        continue
    fi
    if dd if="$_f" of=/dev/null bs=$_b count=1 iflag=direct > /dev/null 2> direct.err; then
      _answer=$_b
      break
    fi
  done
  _error=$(head -n 1 direct.err 2> /dev/null || :)
  rm -f direct.err
  [ -z "$_own" ] || rm -f "$_own"
  # busybox has no such flags, and then nothing was tried; nor was it where there is no space for 512 bytes
  case $_error in *"'iflag'"* | *"'oflag'"* | *"'conv'"* | *"No space left"* | *"quota exceeded"*) _answer='' ;; esac
  if [ "$_answer" = no ]; then row direct.error "$_error"; fi
  row direct "$_answer"
}

# Facts of all block devices, "NAME<tab>KEY<tab>VALUE" a line. Starts no program: there may be thousands.
_behind_blocks() (
  set +f
  for b in /sys/class/block/*; do
    [ -e "$b/dev" ] || [ -e "$b/hidden" ] || continue
    n=${b##*/}
    case $n in loop*) [ -e "$b/loop" ] || [ -e "$b/partition" ] || continue ;; esac
    at=$(cd -P "$b" && pwd -P) || continue
    printf '%s\tat\t%s\n' "$n" "$at"
    for k in dev size ro removable hidden partition dm/name dm/uuid md/level md/array_state \
      loop/backing_file loop/dio loop/offset nsid \
      queue/rotational queue/write_cache queue/fua queue/scheduler queue/logical_block_size \
      queue/physical_block_size device/model device/vendor device/transport device/state device/address \
      device/pool device/name device/subsysnqn bcache/cache_mode backend; do
      [ ! -r "$b/$k" ] || _behind_line "$n" "$k" "$b/$k"
    done
    for s in "$b"/slaves/*; do
      [ ! -e "$s" ] || printf '%s\tslave\t%s\n' "$n" "${s##*/}"
    done
    for s in "$b"/device/scsi_disk/*; do
      for k in cache_type FUA thin_provisioning; do
        [ ! -r "$s/$k" ] || _behind_line "$n" "scsi/$k" "$s/$k"
      done
    done
    while [ "$at" != /sys ] && [ -n "$at" ]; do
      if [ -r "$at/numa_node" ]; then
        _behind_line "$n" numa_node "$at/numa_node"
        break
      fi
      at=${at%/*}
    done
  done
  for c in /sys/class/nvme/*; do
    for k in transport address state model subsysnqn numa_node; do
      [ ! -r "$c/$k" ] || _behind_line "${c##*/}" "controller/$k" "$c/$k"
    done
  done
)

_behind_line() {
  l=
  { IFS= read -r l < "$3"; } 2> /dev/null || :
  printf '%s\t%s\t%s\n' "$1" "$2" "$l"
}

# behind_counters WHEN: the counters of all disks, network file systems, interfaces, and ZFS's cache, as files WHEN.*
behind_counters() {
  cat /proc/diskstats > "$1.diskstats"
  cat /proc/self/mountstats > "$1.mountstats" 2> /dev/null || :
  cat /proc/net/dev > "$1.netdev" 2> /dev/null || :
  [ ! -r /proc/spl/kstat/zfs/arcstats ] || cat /proc/spl/kstat/zfs/arcstats > "$1.arcstats"
}

# behind_load WAY OPTION...: fio with counters around it. Where libaio is missing each I/O is waited for.
behind_load() {
  _way=$1
  shift
  behind_counters "$_way.before"
  fio --ioengine=libaio "$@" 2> "$_way.err" || fio --ioengine=psync "$@" 2> "$_way.err" || :
  behind_counters "$_way.after"
}
