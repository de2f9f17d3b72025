# Whether a device may be written: docs/safety.md. Follows identity.sh; needs root and util-linux (wipefs), and of all else
# no more than busybox has.
# shellcheck disable=SC2030,SC2031,SC2154 # as in identity.sh, whose functions set variables here
:

# guard DEVICE IDENTITY BYTES[/BLOCK] [DESTROY]: to be called right before every destructive step. Succeeds if DEVICE
# still is the one volume with IDENTITY, has BYTES (and logical blocks of BLOCK bytes; -: not compared), nobody uses it,
# and DESTROY is an identity of it, whatever it holds. Else: one refusal, with what was seen.
guard() (
  _is_meant "$@" || exit
  destroy=${4:-}
  if [ -n "$destroy" ] && [ "$(volumes "$destroy")" != "$name" ]; then
    _refuse destroy-other "destroy names $destroy, which is another volume" \
      "write into destroy: the identity of the lane's own volume"
  fi
  _family
  _used
  if [ -n "$found" ]; then
    used=$found
    _contents
    _refuse "$use" "$used; on it: $found" "end that use, or name another volume; destroy: does not override this"
  fi
  read -r ro < "/sys/block/$name/ro"
  [ "$ro" = 0 ] || _refuse device-read-only "it is read-only" "make it writable (blockdev --setrw, or at the array)"
  if [ -z "$destroy" ]; then
    _contents
    _refuse destroy-missing "Fairlane did not create it, and destroy does not name it; on it: $found" \
      "if its contents may be lost, give the lane destroy: ${identity#*:}"
  fi
  # opens the device exclusively, as mount does, and with --no-act writes nothing
  said=$(timeout 30 wipefs --all --no-act "/dev/$name" 2>&1) || case $said in
    *busy*) _refuse device-exclusive "a program or the kernel holds it exclusively" \
        "find it with: fuser -v /dev/$name, or lsof" ;;
    *) echo "$device cannot be examined: $(printf %s "$said" | tail -n 1)" >&2; exit 1 ;; # no answer is no refusal
  esac
)

# guard_own DEVICE: guard for a device that Fairlane made itself, before a step builds on it.
guard_own() {
  guard "$1" "$(identity "$1")" "$(size_of "$1")" "$(identity "$1")"
}

# handed_out DEVICE: refuses one with a signature, of volumes that a storage class gave to a claim of ours: it may have
# been somebody's before. Old blocks without a signature are what such classes do hand out.
handed_out() (
  device=$1 identity='' readers=''
  _resolve
  kinds=$(timeout 30 wipefs --noheadings --output TYPE "/dev/$name") || exit 1
  [ -n "$kinds" ] || exit 0
  size=$(_size)
  _family
  _contents
  _refuse device-contents "the storage class handed it out with somebody's contents; on it: $found" \
    "wipe the class's volumes, or take another"
)

# file_guard FILE FOLDER BYTES: as guard, for a file of BYTES (-: not compared) in a share mounted at FOLDER.
file_guard() (
  device=$1 identity="file in $2"
  [ -e "$1" ] || _refuse file-missing "it does not exist" "was the share unmounted since the run began?"
  real=$(readlink -f "$1") folder=$(readlink -f "$2")
  [ -f "$real" ] || _refuse not-a-file "it is no regular file" "name a file in the share"
  case $real in
    "$folder"/*) ;;
    *) _refuse outside-share "it lies outside $folder, at $real" "name a file in the share" ;;
  esac
  while read -r _ at type _; do
    [ "$at" = "$folder" ] && found=$type
  done < /proc/mounts
  case ${found:-} in
    nfs* | ceph* | fuse*) ;;
    *) _refuse share-missing "$folder is no mounted share (${found:-nothing is mounted there})" "mount the share again" ;;
  esac
  size=$(stat -c %s "$real")
  [ "$3" = - ] || [ "$size" = "$3" ] || _refuse device-size "it has $size bytes, expected $3" \
    "it was replaced since it was made"
)

# safe_folder DIRECTORY: refuses, for root, one that other users could exchange or fill with links: fio opens files by path,
# and root's writes would go where they lead. $SUDO_UID is the user who became root.
safe_folder() (
  device=$1 identity=''
  [ "$(id -u)" = 0 ] || exit 0
  at=$(readlink -f "$1")
  while :; do
    # shellcheck disable=SC2046 # three words
    set -- $(stat -c '%u %g %f' "$at")
    mode=$((0x$3))
    case $1 in
      0 | "${SUDO_UID:-0}") ;;
      *) _refuse directory-foreign "$at belongs to user $1, who could lead root's writes to other files" \
          "run as that user, name a directory of root's, or allow it: foreign: true" ;;
    esac
    if [ $((mode & 01000)) = 0 ] && { [ $((mode & 02)) != 0 ] || { [ $((mode & 020)) != 0 ] && [ "$2" != 0 ]; }; }; then
      _refuse directory-foreign "other users may write to $at, and could lead root's writes to other files" \
        "run as an ordinary user, take that right away (chmod go-w), or allow it: foreign: true"
    fi
    [ "$at" != / ] || exit 0
    at=$(dirname "$at")
  done
)

# made_guard FILE DEVICE:INODE BYTES: as guard, for a file of BYTES that the run made in a directory. Needs no root.
made_guard() (
  real=$(readlink "$1") || real=$1
  device=$real identity='a file of this run' verb='used any more'
  [ -d "${real%/*}" ] || _refuse file-missing "its directory is gone" "was ${real%/*} removed, or its file system unmounted?"
  [ -f "$real" ] || _refuse file-missing "it does not exist" "was it removed, or its file system unmounted?"
  [ ! -L "$real" ] || _refuse file-other "$real is a link, which no run made" "was it replaced?"
  [ "$(stat -c %d:%i "$real")" = "$2" ] || _refuse file-other "$real is another file now" "was it replaced?"
  size=$(stat -c %s "$real")
  [ "$size" = "$3" ] || _refuse device-size "it has $size bytes, expected $3" "it was replaced since it was made"
)

# kept_guard FILE DEVICE:INODE BYTES: is this still the file that was there when the run began? For what only reads.
kept_guard() (
  # shellcheck disable=SC2034 # _refuse prints it
  device=$1 identity='an existing file' verb=used
  real=$(readlink -f "$1")
  [ -f "$real" ] || _refuse file-missing "it does not exist" "was it removed, or its file system unmounted?"
  [ "$(stat -c %d:%i "$real")" = "$2" ] || _refuse file-other "$real is another file now" "was it replaced?"
  size=$(stat -c %s "$real")
  [ "$size" = "$3" ] || _refuse device-size "it has $size bytes, expected $3" "it was changed since the run began"
)

# opened: who has a block device open, "MAJOR:MINOR w NAME PID" a line (r: for reading only), of every process. In the
# variable OPENED it serves all guards of one script.
opened() (
  set +f
  [ "$(id -u)" = 0 ] || { echo "only root sees who has a device open" >&2; exit 1; }
  # a process that ends meanwhile is no failure
  fds=$(timeout 60 find -L /proc/[0-9]*/fd -maxdepth 1 -type b 2> /dev/null) || [ $? -lt 124 ] ||
    { echo "/proc did not tell within 60 s who has which device open" >&2; exit 1; }
  for fd in $fds; do
    pid=${fd#/proc/} pid=${pid%%/*} comm='' flags=''
    number=$(stat -L -c '%t %T' "$fd" 2> /dev/null) || continue # closed meanwhile
    while read -r key value; do
      [ "$key" != flags: ] || flags=$value
    done 2> /dev/null < "/proc/$pid/fdinfo/${fd##*/}" || continue
    { read -r comm < "/proc/$pid/comm"; } 2> /dev/null || :
    case $flags in *[1256]) mode=w ;; *) mode=r ;; esac # octal: O_WRONLY is 1, O_RDWR is 2
    echo "$((0x${number% *})):$((0x${number#* })) $mode $comm $pid"
  done
)

# --- What follows is called in the subshells above and sets their variables.

# $name -> $family: it, its partitions and all that is built on them; $parts: its partitions.
_family() {
  set +f
  family=" $name" parts='' todo=$name
  while [ -n "$todo" ]; do
    # shellcheck disable=SC2086
    set -- $todo
    todo=
    for one; do
      for p in "/sys/class/block/$one/$one"*/partition; do
        [ -e "$p" ] || continue
        p=${p%/partition} p=${p##*/}
        [ "$one" != "$name" ] || parts="$parts $p"
        case "$family " in *" $p "*) ;; *) family="$family $p" todo="$todo $p" ;; esac
      done
      for p in "/sys/class/block/$one/holders/"*; do
        [ -e "$p" ] || continue
        p=${p##*/}
        case "$family " in *" $p "*) ;; *) family="$family $p" todo="$todo $p" ;; esac
      done
    done
  done
}

# Adds a sentence to $found.
_found() { found="${found:+$found; }$1"; }

# Adds a use of the kind $1 to $found; $use: the kind of the first.
_in_use() { use=${use:-device-$1} && _found "$2"; }

# Who uses it -> $found, $use.
_used() {
  found='' use=''
  _mounted
  _held
  _openers
  [ -z "$writers" ] || _in_use open "it is open for writing by$writers"
}

# Where it, or what is built on it, is mounted or swapped to, in any mount namespace of a process.
_mounted() {
  numbers='' sources=''
  for one in $family; do
    read -r number < "/sys/class/block/$one/dev"
    numbers="$numbers|$number" sources="$sources|/dev/$one"
    [ ! -e "/sys/class/block/$one/dm/name" ] || read -r mapped < "/sys/class/block/$one/dm/name"
    [ ! -e "/sys/class/block/$one/dm/name" ] || sources="$sources|/dev/mapper/$mapped"
  done
  # btrfs has a number of its own: there the source tells
  at=$(grep -hE "^[0-9]+ [0-9]+ (${numbers#|}) | - [^ ]+ (${sources#|}) " /proc/[0-9]*/mountinfo 2> /dev/null | head -n 1)
  if [ -n "$at" ]; then
    set -f
    # shellcheck disable=SC2086
    set -- $at
    set +f
    _in_use mounted "it is mounted at $5"
  fi
  while read -r at _; do
    [ -b "$at" ] || continue
    at=$(readlink -f "$at")
    case "$family " in *" ${at##*/} "*) _in_use swap "it is in use as swap (${at##*/})" ;; esac
  done < /proc/swaps
}

# What holds it: device mapper, RAID, bcache, a loop device, an export through nvmet.
_held() {
  for one in $name $parts; do
    for p in "/sys/class/block/$one/holders/"*; do
      [ -e "$p" ] || continue
      what=${p##*/}
      [ ! -e "$p/dm/uuid" ] || read -r what < "$p/dm/uuid"
      _in_use held "it is held by ${p##*/} ($what)"
    done
  done
  for p in /sys/block/loop*/loop/backing_file; do
    [ -e "$p" ] || continue
    IFS= read -r at < "$p"
    at=$(readlink -f "$at")
    case "$family " in
      *" ${at##*/} "*)
        p=${p#/sys/block/}
        [ ! -b "$at" ] || _in_use loop "it is held by ${p%%/*}, a loop device on it"
        ;;
    esac
  done
  for p in /sys/kernel/config/nvmet/subsystems/*/namespaces/*; do
    [ -e "$p/enable" ] || continue
    read -r on < "$p/enable"
    [ "$on" = 1 ] || continue
    at=
    IFS= read -r at < "$p/device_path" || :
    at=$(readlink -f "$at")
    case "$family " in *" ${at##*/} "*) _in_use exported "it is exported through nvmet (${p#*/subsystems/})" ;; esac
  done
}

# Processes that have it open, or what is built on it, or what it is built of -> $writers, $readers.
_openers() {
  writers='' readers='' kin=' '
  _below
  for one in $family $below; do
    read -r number < "/sys/class/block/$one/dev"
    kin="$kin$number "
  done
  [ -n "${OPENED+set}" ] || OPENED=$(opened) || exit 1
  while read -r number mode who; do
    case $kin in *" $number "*) ;; *) continue ;; esac
    who=" ${who% *} (${who##* })"
    case $mode in
      w) ! _listed "$writers" || writers=$list ;;
      *) ! _listed "$readers" || readers=$list ;;
    esac
  done << END
$OPENED
END
}

# $1 and $who -> $list; some are enough to know. Fails where there is nothing to add.
_listed() {
  case $1 in *"$who"* | *"and others") return 1 ;; esac
  list="${1:+$1,}$who"
  [ ${#1} -lt 300 ] || list="$1 and others"
}

# $name -> $below: all that it is built of, and the disks of partitions among that.
_below() {
  below='' todo=$name
  while [ -n "$todo" ]; do
    # shellcheck disable=SC2086
    set -- $todo
    todo=
    for one; do
      set -- "/sys/class/block/$one/slaves/"*
      [ ! -e "/sys/class/block/$one/partition" ] || set -- "$@" "$(readlink -f "/sys/class/block/$one/..")"
      for p; do
        [ -e "$p" ] || continue
        p=${p##*/}
        case "$below " in *" $p "*) ;; *) below="$below $p" todo="$todo $p" ;; esac
      done
    done
  done
}

# What is on it, as far as reading tells -> $found.
_contents() {
  found=
  if kinds=$(timeout 30 wipefs --noheadings --output TYPE "/dev/$name" 2> /dev/null); then
    [ -z "$kinds" ] || _found "signature: $(_joined "$(printf '%s\n' "$kinds" | sort -u)")"
  else
    _found "its signatures cannot be read"
  fi
  [ -z "$parts" ] || _found "partitions:$parts"
  _samples
  [ -z "$readers" ] || _found "open for reading by$readers"
}

# Reads the first, the middle and the last block of 4 KiB, and one at a random place of each part between.
_samples() {
  blocks=$((${size%/*} / 4096)) at=0 hits=0 seed=1
  of=$((blocks < 64 ? blocks : 64))
  [ $of -gt 0 ] || return 0
  zeros=$(dd if=/dev/zero bs=4096 count=1 2> /dev/null | sha256sum) nothing=$(sha256sum < /dev/null)
  part=$((blocks / of))
  while [ $at -lt $of ]; do
    seed=$(((seed * 1103515245 + 12345) % 2147483648)) random=$((seed / 256)) # below 2^23
    case $at in
      0) block=0 ;;
      $((of / 2))) block=$((blocks / 2)) ;;
      $((of - 1))) block=$((blocks - 1)) ;;
      *) block=$((at * part + random * part / 8388608)) ;;
    esac
    case $(timeout 10 dd if="/dev/$name" bs=4096 skip=$block count=1 2> /dev/null | sha256sum) in
      "$nothing") _found "it cannot be read at byte $((block * 4096))"; return 0 ;;
      "$zeros") ;;
      *) hits=$((hits + 1)) ;;
    esac
    at=$((at + 1))
  done
  _found "data in $hits of $of samples of 4 KiB ($((100 * hits / of)) %)"
}
