# What a disk can do: tried, not only read from what the kernel says of it. Follows lib.sh and guard.sh.
# shellcheck disable=SC2030,SC2031 # what is called from outside is a subshell, whose variables the others use
:

# can KEY VALUE EVIDENCE: one line of the answer.
can() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# capabilities DEVICE OURS: lines KEY<TAB>VALUE<TAB>EVIDENCE. OURS 1: the first 4 MiB may be overwritten. 0: only reads.
capabilities() (
  set +e
  d=$(readlink -f "$1") ours=$2
  n=${d##*/} q=/sys/block/${d##*/}/queue b=${d##*/}
  for p in "/sys/block/$n/device/nvme"*/nvme*c*n*; do [ ! -e "$p/mq" ] || b=${p##*/}; done # a path has the queues
  _naming
  _sizes
  _largest
  _flush
  _discard discard discard_max_bytes ''
  _discard write_zeroes write_zeroes_max_bytes -z
  _reservations
  true # a refused reservation is an answer
)

_said() { tail -n 1 /run/fairlane/said | tr '\t' ' '; }

# Counter $1 of the disk since it began (kernel: Documentation/block/stat.rst), or of its NVMe paths together -> $v.
_count() {
  field=$1 v=0
  set -- "/sys/block/$n/device/nvme"*/nvme*c*n*/stat
  [ -e "$1" ] || set -- "/sys/block/$n/stat"
  for p; do
    # shellcheck disable=SC2046
    v=$((v + $(set -- $(cat "$p"); shift $((field - 1)); echo "$1")))
  done
}

# The first line of $q/$1 -> $v; 0 if there is none.
_setting() {
  v=0
  [ ! -e "$q/$1" ] || read -r v < "$q/$1"
}

_naming() {
  links=
  for p in /dev/disk/by-id/*; do
    [ -e "$p" ] && [ "$(readlink -f "$p")" = "$d" ] && links="$links ${p##*/}"
  done
  can naming "/dev/$n" "stable links in /dev/disk/by-id:${links:- none}"
}

_sizes() {
  _setting logical_block_size; logical=$v
  _setting physical_block_size
  can block_size "$logical / $v" "queue/logical_block_size, physical_block_size"
  set -- "/sys/block/$b/mq/"*
  if [ -e "$1" ]; then
    can queues $# "folders in /sys/block/$b/mq"
  else
    can queues none "/sys/block/$b has none: it is no multi-queue device of its own"
  fi
}

_largest() {
  _setting max_hw_sectors_kb; most=$v
  _setting max_sectors_kb; usual=$v
  read -r size < "/sys/block/$n/size"
  kib=$most
  [ "$kib" -le 8192 ] || kib=8192
  [ "$kib" -le $((size / 2)) ] || kib=$((size / 2))
  echo "$kib" > "$q/max_sectors_kb" 2> /dev/null
  _setting max_sectors_kb; allowed=$v
  _count 1; before=$v
  if dd if="$d" of=/dev/null bs="${kib}k" count=1 iflag=direct 2> /run/fairlane/said; then
    _count 1
    sent=$((v - before))
    [ $sent -gt 0 ] || sent=1
    # the largest of them is at least as large as their mean
    can largest_io "at least $((kib / sent)) KiB" \
      "a read of $kib KiB went out as $sent request(s); max_hw_sectors_kb $most, max_sectors_kb $allowed"
  else
    can largest_io no "max_hw_sectors_kb is $most, but a read of $kib KiB failed: $(_said)"
  fi
  echo "$usual" > "$q/max_sectors_kb" 2> /dev/null
}

_flush() {
  _setting fua
  case $v in
    1) can fua yes "queue/fua is 1" ;;
    *) can fua no "queue/fua is 0: a flush goes after a forced write" ;;
  esac
  _setting write_cache; cache=$v
  if [ "$ours" = 0 ]; then
    can flush "not probed" "queue/write_cache: $cache; the volume is not ours"
    return
  fi
  _count 16; before=$v
  if dd if=/dev/zero of="$d" bs=4k count=1 oflag=direct conv=fsync,notrunc 2> /run/fairlane/said; then
    _count 16; sent=$((v - before))
    case $cache in
      *back*) if [ $sent -gt 0 ]; then seen=yes; else seen="not seen"; fi
        can flush "$seen" "queue/write_cache: $cache; a write with fsync sent $sent flushes" ;;
      *) can flush "none needed" "queue/write_cache: $cache, no volatile cache; a write with fsync sent $sent flushes" ;;
    esac
  else
    can flush no "queue/write_cache: $cache; fsync failed: $(_said)"
  fi
}

# $1: key, $2: limit in sysfs, $3: option of blkdiscard. A MiB of noise at 1 MiB, then it is discarded and read.
_discard() {
  _setting "$2"
  if [ "$v" = 0 ]; then
    can "$1" no "queue/$2 is 0"
    return
  fi
  read -r size < "/sys/block/$n/size"
  _setting discard_granularity; grain=$v
  _setting "$2"
  if [ "$ours" = 0 ] || [ "$size" -lt 8192 ] || [ "$grain" -gt 1048576 ]; then
    can "$1" "not probed" "queue/$2 is $v; the volume is not ours, or too small for its granularity $grain"
    return
  fi
  dd if=/dev/urandom of="$d" bs=1M count=1 seek=1 oflag=direct conv=notrunc 2> /dev/null
  _left; kept=$left
  # shellcheck disable=SC2086
  if ! blkdiscard -f $3 -o 1048576 -l 1048576 "$d" 2> /run/fairlane/said; then
    can "$1" no "queue/$2 is $v, but it failed: $(_said)"
    return
  fi
  _left
  if [ "$kept" = 0 ]; then
    can "$1" accepted "queue/$2 is $v; done, but the medium keeps nothing, so that no effect can be seen"
  elif [ "$left" = 0 ]; then
    can "$1" yes "queue/$2 is $v; 1 MiB of noise was there and reads as zeros afterwards"
  else
    can "$1" "accepted, no effect" "queue/$2 is $v; done, and of 1 MiB of noise $left bytes are not zero afterwards"
  fi
}

# Bytes of the second MiB that are not zero -> $left.
_left() { left=$(dd if="$d" bs=1M count=1 skip=1 iflag=direct 2> /dev/null | tr -d '\000' | wc -c); }

# What came of a command that failed: it is not there, or something else is wrong.
_unable() {
  case $(_said) in
    *nvalid*opcode* | *nvalid*Opcode* | *Illegal\ request* | *not\ supported*) can reservations no "$1: $(_said)" ;;
    *) can reservations failed "$1: $(_said)" ;;
  esac
}

# Registers a key, reserves, reads it back, releases, unregisters.
_reservations() {
  key=0xfa1
  case $n-$ours in
    *-0) can reservations "not probed" "the volume is not ours" ;;
    sd*)
      if sg_persist -n -o -G -S $key "$d" > /run/fairlane/said 2>&1 &&
        sg_persist -n -o -R -K $key -T 1 "$d" > /run/fairlane/said 2>&1; then
        held=$(sg_persist -n -i -r "$d" 2>&1 | tr -s ' \n' ' ')
        sg_persist -n -o -L -K $key -T 1 "$d" > /run/fairlane/said 2>&1
        sg_persist -n -o -G -K $key -S 0 "$d" > /run/fairlane/said 2>&1 || held="$held; the key stays: $(_said)"
        case $held in
          *0x*) can reservations yes "sg_persist: registered, reserved ($held), released" ;;
          *) can reservations no "sg_persist: no reservation is there after reserving: $held" ;;
        esac
      else
        _unable sg_persist
        sg_persist -n -o -G -K $key -S 0 "$d" > /dev/null 2>&1
      fi
      ;;
    nvme*)
      if nvme resv-register "$d" --nrkey=$key --rrega=0 > /run/fairlane/said 2>&1 &&
        nvme resv-acquire "$d" --crkey=$key --rtype=1 --racqa=0 > /run/fairlane/said 2>&1; then
        held=$(nvme resv-report "$d" 2>&1 | tr -s ' \n' ' ')
        nvme resv-release "$d" --crkey=$key --rtype=1 --rrela=0 > /run/fairlane/said 2>&1
        nvme resv-register "$d" --crkey=$key --rrega=1 > /run/fairlane/said 2>&1 || held="$held; the key stays: $(_said)"
        can reservations yes "nvme: registered, acquired (resv-report: $held), released"
      else
        _unable nvme
      fi
      ;;
    vd*) can reservations no "virtio-blk has no such command" ;;
    dm-*) can reservations "not probed" "device mapper: a matter of its paths (mpathpersist)" ;;
    *) can reservations no "a device of kind ${n%%[0-9]*} has no such command" ;;
  esac
}
