# What scripts in a lab guest may call. The host writes the scripts; nothing talks to the guest while it runs.
# Results go out as frames over the second serial port: a line "@@FAIRLANE name size sha256", then a gzipped tar.

RESULTS=/dev/ttyS1

# busybox's shell prefers its own applets (ip, tc) to the programs of the image.
while read -r p; do eval "$p() { /usr/sbin/$p \"\$@\"; }"; done < /fairlane/programs

# send NAME DIR: one frame with the files of DIR.
send() {
  tar -C "$2" -cf - . | gzip -1 > /run/frame
  set -- "$1" "$(sha256sum /run/frame)" "$(stat -c %s /run/frame)"
  { printf '\n@@FAIRLANE %s %s %s\n' "$1" "$3" "${2%% *}"; cat /run/frame; } > $RESULTS
}

# mark NAME: an empty frame, so that the host sees when a phase begins.
mark() {
  printf '\n@@FAIRLANE %s 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n' "$1" > $RESULTS
}

# row KEY VALUE: one line of a description.
row() { printf '%s\t%s\n' "$1" "$2"; }

# await COUNT COMMAND: until COMMAND prints COUNT; fails after 10 s.
await() {
  i=0
  until [ "$(eval "$2")" -eq "$1" ]; do
    i=$((i + 1))
    [ $i -lt 200 ] || { echo "waited 10 s for $1 from: $2" >&2; return 1; }
    sleep 0.05
  done
}

# controller NQN: the sysfs folder of the NVMe controller of a subsystem.
controller() {
  for c in /sys/class/nvme/nvme*; do
    [ "$(cat "$c/subsysnqn")" = "$1" ] && { echo "$c"; return; }
  done
  echo "no NVMe controller of $1" >&2
  return 1
}
