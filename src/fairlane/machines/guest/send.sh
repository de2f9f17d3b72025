# As lib.sh's send, and several scripts may run on one machine at once. FRAMES: a folder, /run if not set.
send() {
  frame=${FRAMES:-/run}/frame.$$
  tar -C "$2" -cf - . | gzip -1 > "$frame"
  set -- "$1" "$(sha256sum "$frame")" "$(stat -c %s "$frame")"
  { printf '\n@@FAIRLANE %s %s %s\n' "$1" "$3" "${2%% *}"; cat "$frame"; } > "$RESULTS"
  rm -f "$frame"
}
