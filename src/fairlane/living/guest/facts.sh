# What a machine is, as rows. No root needed; what cannot be read is left out.
say() { [ -z "$2" ] || row "$1" "$2"; }
first() { v=; { IFS= read -r v < "$2"; } 2> /dev/null || :; say "$1" "$v"; }
first hostname /proc/sys/kernel/hostname
say kernel "$(uname -r)"
say architecture "$(uname -m)"
say system "$( (. /etc/os-release && echo "$PRETTY_NAME") 2> /dev/null)"
first boot /proc/sys/kernel/random/boot_id
say cpus "$(grep -c '^processor' /proc/cpuinfo)"
say cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)"
say memory "$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)"
say virtualization "$(systemd-detect-virt 2> /dev/null | grep -v '^none$')"
! grep -q 'QEMU TCG' /proc/cpuinfo || row emulated yes
say user "$(id -un)"
say bash "$(bash -c 'echo $BASH_VERSION' 2> /dev/null)"
say fio "$(fio --version 2> /dev/null)"
newest=
for p in /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres /usr/local/pgsql/bin/postgres; do
  [ ! -x "$p" ] || newest="$newest $("$p" -V | awk '{ print $3 }')"
done
say postgresql "$(printf '%s\n' $newest | sort -V | tail -n 1)"
for p in "$(command -v mariadbd)" /usr/sbin/mariadbd /usr/libexec/mariadbd; do
  if [ -x "$p" ]; then
    say mariadb "$("$p" --no-defaults --version 2> /dev/null | sed -n 's/.* Ver \([0-9.]*\)-MariaDB.*/\1/p')"
    break
  fi
done
engines=
if command -v fio > /dev/null; then
  for e in io_uring libaio; do
    fio --name=t --ioengine=$e --rw=read --bs=4k --size=4k --filename="$FRAMES/engine" --output=/dev/null \
      > /dev/null 2>&1 && engines="$engines $e"
  done
  rm -f "$FRAMES/engine"
fi
say engines "${engines# }"
first governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
set -- /sys/devices/system/node/node[0-9]*
[ ! -e "$1" ] || row numa $#
for n in /sys/class/net/*; do
  [ -e "$n/device" ] || continue
  speed=; { read -r speed < "$n/speed"; } 2> /dev/null || :
  { read -r mtu < "$n/mtu"; read -r state < "$n/operstate"; } 2> /dev/null || continue
  case $speed in '' | -*) speed=unknown ;; esac
  row "nic.${n##*/}" "$state $speed Mbit/s mtu $mtu $(basename "$(readlink "$n/device/driver")" 2> /dev/null)"
done
