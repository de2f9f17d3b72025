# A database server of the run's own on a lane's volume: what every server needs. Set before: $device, $name, $filesystem,
# $here (folder of the outputs), $work (of sockets and mounts), $sock; of the server $title, $owner (its user where Fairlane
# is root), and functions: find_server, initialise, configure, start, create_database, plain (standard input: its log),
# failure (the line of its log that says why it ended), keep_template, rest, settings, counters.
# shellcheck disable=SC2034,SC2154
fail() { printf '%s\n' "$1" >&2; exit 1; }

as() { # runs a command as the server's user: never root
  if [ "$(id -u)" != 0 ]; then (cd / && "$@"); return; fi
  (cd / && setpriv --reuid "$owner" --regid "$(id -gn "$owner")" --init-groups env HOME=/ TMPDIR=/tmp "$@")
}

place() { # the folder for data on the lane's volume -> $root, with the file system mounted
  if [ "$(id -u)" = 0 ]; then
    id "$owner" > /dev/null 2>&1 ||
      fail "$title runs as user $owner where Fairlane is root, and this machine has no such user (useradd --system $owner)"
  fi
  real=$(readlink -f "$device")
  if [ -b "$real" ]; then root=$work/$name; else root=$real.db; fi
  data=$root/data mounted=0
  printf '%s\n' "$root" > "$work/$name.root"
  # the title is known to the keeper, which undoes it at once where the program was killed. The key does not end as the
  # lane's name does: a file NUMBER-KEY.new is one that is being written
  undo_later "db.$name.made" << END || exit 1
# make a database for $name
root=\$(cat '$work/$name.root')
end_in "\$root"
if grep -qs " $work/$name " /proc/mounts; then umount "$work/$name"; fi
if [ "\$root" = '$work/$name' ]; then rmdir "\$root" 2> /dev/null || :; else rm -rf "\$root"; fi
rm -rf '$work/$name.sock'
END
  end_in "$root" || exit 1
  if [ -b "$real" ]; then
    mkdir -p "$root"
    label=fl-${FAIRLANE_RUN:-lab} label=$(printf %.12s "$label")
    if ! grep -qs " $root " /proc/mounts; then
      # another lane's device may lead to the same medium: what this one's cache still holds may be old
      blockdev --flushbufs "$real" 2> /dev/null || :
      if [ "$(blkid -p -o value -s LABEL "$real" 2> /dev/null)" != "$label" ]; then
        [ "${1:-}" = make ] || fail "the file system of this run is gone from $device"
        case $filesystem in
          xfs) mkfs.xfs -q -f -K -L "$label" "$real" > "$here/mkfs.out" 2>&1 ;;
          # nothing is written later, in trials
          *) mkfs.ext4 -q -F -L "$label" -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$real" \
            > "$here/mkfs.out" 2>&1 ;;
        esac || fail "mkfs.$filesystem failed: $(tail -n 1 "$here/mkfs.out")"
      fi
      mount -o noatime "$real" "$root" 2> "$here/mount.out" ||
        fail "the volume cannot be mounted: $(tail -n 1 "$here/mount.out")"
    fi
    mounted=1
  else
    [ ! -L "$root" ] || fail "$root is a link, which no run made"
    mkdir -p "$root" || exit 1
    # the room of the lane's own file is the database's
    fallocate -p -o 0 -l "$(stat -c %s "$real")" "$real" 2> /dev/null || :
  fi
  chmod 755 "$root"
  rm -rf "$data" "$root/new"
  mkdir -p "$sock" "$root/new"
  if [ "$(id -u)" = 0 ]; then chown "$owner" "$sock" "$root/new"; fi
  chmod 700 "$sock" "$root/new"
  as test -w "$root/new" ||
    fail "user $owner cannot reach $root: a folder above it is closed to other users (chmod o+x)"
  rmdir "$root/new"
}

leave() { # stops the server and leaves the volume
  end_in "$root"
  rm -rf "$data" "$sock"
  if [ "$mounted" = 1 ]; then
    i=0
    until umount "$root" 2> /dev/null; do
      i=$((i + 1))
      [ $i -lt 40 ] || { echo "the volume cannot be unmounted from $root" >&2; return 1; }
      sleep 0.05
    done
    rmdir "$root" || :
    undo_done "db.$name.made" # what is on the lane's own device goes with it, or stays for the next trial
  fi
}

conclude() { # at the end of a script, however it ended
  code=$?
  trap - EXIT
  [ -n "${root:-}" ] || exit $code
  if [ $code != 0 ] && [ -s "$sock/log" ]; then
    cp "$sock/log" "$here/server.log"
    complain
  fi
  leave || code=1
  exit $code
}

complain() { # why the server failed; a full disk is the whole message, whatever else it led to
  # error 1114: a table cannot grow
  full=$(grep -hiE 'no space left on device|returned error 1114' "$here/server.log" "$here"/load.* 2> /dev/null |
    plain | head -n 1)
  if [ -n "$full" ]; then
    : > "$here/oltp.err"
    printf '%s\n' "the volume is full: $(printf %.200s "$full")" >&2
  elif [ "${started:-0}" = 1 ]; then
    failure
  fi
}

make_owned() { # FOLDER...: for the server's user alone
  mkdir -p "$@" || fail "the volume cannot be written"
  if [ "$(id -u)" = 0 ]; then chown "$owner" "$@"; fi
  chmod 700 "$@"
}

keep_data() { # the stopped server's data as $template
  cp "$sock/log" server.log
  mv "$data" "$template" && touch "$template/made" || exit 1
  sync -f "$template/made" 2> /dev/null || sync
}

copy_template() {
  [ -e "$template/made" ] || fail "the database made before the first trial is gone from $root"
  cp -a "$template" "$data" 2> copy.out ||
    fail "the volume is full: no room for a copy of the database ($(tail -n 1 copy.out))"
  rm -f "$data/made"
}

settle() { # the copy is on the disk, and both leave the page cache: every trial begins with as little in memory
  sync -f "$data" 2> /dev/null || sync
  if [ "$mounted" = 1 ]; then # all of a file system leaves the cache with it
    umount "$root" && mount -o noatime "$real" "$root" || fail "the volume cannot be mounted again"
    return
  fi
  # tables, indexes and WAL; a thousand small files of catalogues would take seconds
  find "$data" "$template" -type f -size +128k -exec dd if={} iflag=nocache count=0 status=none \; 2> /dev/null || :
}

volume() { # WHEN -> volume.WHEN: the disk behind the volume, and its counters
  d=$(stat -c %d "$root")
  s=$(readlink -f "/sys/dev/block/$((d >> 8 & 4095)):$((d & 255 | d >> 12 & 1048320))")
  [ ! -e "$s/partition" ] || s=${s%/*} # partitions count no flushes
  [ ! -r "$s/stat" ] || echo "${s##*/} $(cat "$s/stat")" > "volume.$1"
}
