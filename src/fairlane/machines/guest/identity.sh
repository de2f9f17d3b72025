# What a device is, by what stays with it: docs/safety.md. Follows lib.sh.
#
# An identity is "kind:value", which stays with a volume whatever the kernel calls it: wwn, serial, nqn (NQN#nsid), dm
# (its UUID; the name of one without), md (UUID), nullb (a null_blk made through configfs), loop (the file behind it), rbd
# (POOL/IMAGE, or POOL/NAMESPACE/IMAGE). A value alone is looked for among all kinds.
# shellcheck disable=SC2030,SC2031 # every function that is called from outside is a subshell with variables of its own
:

# meant DEVICE IDENTITY BYTES[/BLOCK]: the first half of guard, for what only reads: is this the volume that was meant?
meant() (
  verb=used
  _is_meant "$@"
)

# named NAME: the node of the disk that a study names by an identity or by a link in /dev/disk/by-id. Refused: names that
# change from boot to boot, and links whose disk has nothing of their name.
named() (
  device=$1 identity='' verb=used
  case $1 in
    /dev/disk/by-id/*)
      _resolve
      _identities "$name"
      for id in $ids; do
        id=${id#*:}
        id=$(printf %s "${id#naa.}" | tr '[:upper:]' '[:lower:]')
        case $(printf %s "${1##*/}" | tr '[:upper:]' '[:lower:]') in *"$id"*) echo "/dev/$name"; exit 0 ;; esac
      done
      _refuse link-other "the link leads to $name, which has nothing of its name" \
        "$name has $(_joined "$ids"): was the link changed?"
      ;;
    /*)
      _resolve
      _identities "$name"
      _refuse name-unstable "such a name may be another disk's tomorrow" \
        "name it by what stays with it: ${ids:-it has no identity}"
      ;;
  esac
  found=$(volumes "$1")
  # shellcheck disable=SC2086
  set -- $found
  case $# in
    0) _refuse identity-unknown "no disk has this identity" "the disks here: $(_all)" ;;
    1) echo "/dev/$1" ;;
    *) _refuse identity-ambiguous "the identity is ambiguous: $(_joined "$*") have it" \
        "name it by another identity: $(_all)" ;;
  esac
)

# identity DEVICE: the best identity of a block device, one that no other has. Refused if there is none.
identity() (
  device=$1 identity='' verb=used
  _resolve
  _identities "$name"
  [ -n "$ids" ] || _refuse identity-none "it has no serial, WWN or other identity" "give it a serial where it is made"
  for id in $ids; do
    [ "$(volumes "$id")" = "$name" ] && { echo "$id"; exit 0; }
  done
  _refuse identity-ambiguous "its identity is ambiguous: other disks have $(_joined "$ids") too" \
    "give each volume a serial of its own"
)

# identities DEVICE: all identities of a block device, the best first, one a line.
identities() (
  device=$1 identity='' verb=used
  _resolve
  _identities "$name"
  for id in $ids; do echo "$id"; done
)

# size_of DEVICE: BYTES/BLOCK, as guard takes it.
size_of() (
  device=$1 identity='' verb=used
  _resolve
  _size
)

# volumes IDENTITY: kernel names of the disks that have it, one a line.
volumes() (
  wanted=$1
  [ -n "${DISKS:-}" ] || DISKS=$(disks)
  set -f
  while read -r n ids; do
    for id in $ids; do
      if [ "$id" = "$wanted" ] || [ "${id#*:}" = "$wanted" ]; then
        echo "$n"
        break
      fi
    done
  done << END
$DISKS
END
)

# disks: every disk and its identities, "NAME ID ID" a line. In the variable DISKS it serves all guards of one script: with
# fifty disks an emulated machine would take seconds for each. It starts no program.
disks() (
  set +f
  set -- /sys/block/*
  for b; do
    n=${b##*/}
    case $n in ram* | sr* | fd*) continue ;; esac
    case $n in loop*) [ -e "$b/loop" ] || continue ;; esac # nothing behind it
    hidden=0
    if [ -e "$b/hidden" ]; then read -r hidden < "$b/hidden"; fi
    [ "$hidden" = 0 ] || continue # a path of an NVMe device, not a device
    _identities "$n"
    echo "$n $ids"
  done
)

# --- What follows is called in the subshells above and of guard.sh and sets their variables.

# _refuse KIND TEXT HINT: one refusal, the caller's whole output on stderr; machines/device_guard.py reads it.
_refuse() {
  printf '@@REFUSED %s %s is not %s%s: %s\n@@HINT %s\n' \
    "$1" "$device" "${verb:-written}" "${identity:+ ($identity)}" "$2" "$3" >&2
  exit 77
}

# All disks with an identity, for hints.
_all() { disks | sed -n 's/^\([^ ]*\) \(.\)/\1: \2/p' | tr '\n' ';'; }

_joined() ( # words, with commas
  set -f
  # shellcheck disable=SC2086
  set -- $1
  IFS=,
  echo "$*"
)

# $device -> $name, the kernel's name by device number: what a node or a link is called does not matter.
_resolve() {
  if [ ! -e "$device" ]; then
    [ -L "$device" ] && _refuse link-broken "the link leads to $(readlink "$device"), which does not exist" \
      "was the disk unplugged?"
    _refuse device-missing "it does not exist" "was the disk unplugged?"
  fi
  real=$(readlink -f "$device")
  [ ! -f "$real" ] || _refuse not-a-disk "$real is a regular file" "name a block device by its serial, WWN or by-id link"
  [ -b "$real" ] || _refuse not-a-disk "$real is no block device" "name a block device by its serial, WWN or by-id link"
  number=$(stat -c '%t %T' "$real")
  number=$((0x${number% *})):$((0x${number#* }))
  [ -e "/sys/dev/block/$number" ] || _refuse device-gone "no disk has its number $number" \
    "the node is left over: was it unplugged?"
  name=$(readlink -f "/sys/dev/block/$number")
  [ ! -e "$name/partition" ] || _refuse device-partition "it is a partition, ${name##*/}" "name the whole disk"
  name=${name##*/}
  [ -b "/dev/$name" ] || _refuse device-missing "/dev/$name does not exist" "is udev running?"
}

_size() {
  read -r sectors < "/sys/block/$name/size"
  read -r block < "/sys/block/$name/queue/logical_block_size"
  echo $((sectors * 512))/"$block"
}

_is_meant() {
  device=$1 identity=$2
  _resolve
  found=$(volumes "$identity")
  if [ "$found" != "$name" ]; then
    # shellcheck disable=SC2086
    set -- "$3" $found
    case $# in
      1) _refuse identity-gone "no disk has this identity now; the device leads to $name" \
          "was the disk unplugged or replaced?" ;;
      2) _refuse identity-moved "this identity is now that of $2, but the device leads to $name" \
          "was the link changed, or the disk?" ;;
    esac
    shift
    _refuse identity-ambiguous "the identity is ambiguous: $(_joined "$*") have it" "give each volume a serial of its own"
  fi
  size=$(_size)
  case $3 in
    - | "$size" | "${size%/*}") ;;
    "${size%/*}"/*) _refuse device-block-size "its logical blocks have ${size#*/} bytes, expected ${3#*/}" \
        "it was replaced or reformatted" ;;
    *) _refuse device-size "it has ${size%/*} bytes, expected ${3%/*}" \
        "it was replaced or resized since the run was planned" ;;
  esac
}

# The words of $v joined by _ -> $v. Leaves globbing off: a serial may be a star.
_words() {
  set -f
  IFS=' 	'
  # shellcheck disable=SC2086
  set -- $v
  IFS=_
  v="$*"
  IFS=' 	
'
}

# The words of a file's first line -> $v.
_line() {
  v=
  { IFS= read -r v < "$1"; } 2> /dev/null || :
  _words
}

# Disk $1 -> $ids, its identities in words, the best first.
_identities() {
  ids=
  _b=/sys/block/$1
  for pair in dm:dm/uuid dm:dm/name md:md/uuid wwn:wwid wwn:device/wwid serial:serial serial:device/serial \
    loop:loop/backing_file; do
    [ -r "$_b/${pair#*:}" ] || continue
    _line "$_b/${pair#*:}"
    case "$pair $ids" in "dm:dm/name "*dm:*) continue ;; esac
    [ -z "$v" ] || ids="$ids ${pair%%:*}:$v"
  done
  if [ -r "$_b/device/vpd_pg80" ]; then
    # SCSI (SPC-4, 7.7.18): 0, 0x80, 0, length, serial. The shell drops zeros; a length of 10 looks like a line's end
    v='' w=''
    { IFS= read -r v && IFS= read -r w; } 2> /dev/null < "$_b/device/vpd_pg80" || :
    v=${w:-${v#??}}
    _words
    [ -z "$v" ] || ids="$ids serial:$v"
  fi
  if [ -r "$_b/nsid" ] && [ -r "$_b/device/subsysnqn" ]; then
    _line "$_b/device/subsysnqn"
    read -r nsid < "$_b/nsid"
    [ -z "$v" ] || ids="$ids nqn:$v#$nsid"
  fi
  if [ -r "$_b/device/image_id" ] && [ -r "$_b/device/pool" ]; then
    rbd=
    for part in pool pool_ns name; do
      _line "$_b/device/$part"
      [ -z "$v" ] || rbd="$rbd/$v"
    done
    ids="$ids rbd:${rbd#/}"
  fi
  [ ! -e "/sys/kernel/config/nullb/$1/power" ] || ids="$ids nullb:$1"
  ids=${ids# }
}
