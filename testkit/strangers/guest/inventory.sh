# What is on the machine, sorted, a fact per line: equal before and after, if whoever was here has left nothing.
# Left out: what changes by itself, and kernel modules, which nobody unloads. shellcheck shell=sh
{
  cd /sys/class/iscsi_session 2> /dev/null && for s in session*; do
    [ -e "$s/targetname" ] || continue
    for c in "$s"/device/connection*/iscsi_connection/connection*; do
      echo "iscsi $(cat "$s/targetname") $(cat "$c/persistent_address"):$(cat "$c/persistent_port") $(cat "$s/state") $(cat "$s/initiatorname")"
    done
  done
  cd /sys/class/nvme 2> /dev/null && for c in nvme*; do
    [ -e "$c/subsysnqn" ] || continue
    echo "nvme $(cat "$c/subsysnqn") $(cat "$c/transport") $(tr , '\n' < "$c/address" | grep -E '^tr(addr|svcid)=' | tr '\n' ' ')$(cat "$c/state") $(cat "$c/hostnqn")"
  done
  sed 's/^/mount /' /proc/mounts
  tail -n +2 /proc/swaps | sed 's/^/swap /'
  [ ! -d /sys/module/dm_mod ] || dmsetup info -c --noheadings -o name,uuid,segments 2> /dev/null | grep -v '^No devices' | sed 's/^/dm /'
  losetup -l -n -O NAME,BACK-FILE 2> /dev/null | sed 's/^/loop /'
  grep -s '^md' /proc/mdstat | sed 's/^/md /'
  lsblk -rndo TYPE,TRAN,SIZE,SERIAL,WWN | grep -v '^loop  0B' | sed 's/^/disk /' # names of SCSI disks change
  grep -H . /sys/block/vd*/queue/scheduler /sys/block/vd*/queue/nr_requests /sys/block/vd*/queue/read_ahead_kb |
    sed 's/^/queue /'
  cd /sys/kernel/config && for f in target nvmet nullb; do
    [ ! -d $f ] || find $f -mindepth 2 \( -path target/core/alua -o -path target/iscsi/discovery_auth \
      -o -path 'target/*/statistics' -o -path 'target/*/fabric_statistics' -o -path 'nvmet/discovery_nqn' \) -prune -o \
      \( -type d -o -type l \) -printf 'target %p %l\n'
  done
  cd /sys/kernel/config && grep -sH . nvmet/subsystems/*/attr_allow_any_host nvmet/subsystems/*/namespaces/*/enable \
    nvmet/ports/*/addr_traddr nvmet/ports/*/ana_groups/*/ana_state target/iscsi/*/tpgt_*/enable \
    target/core/*/*/enable target/core/*/*/alua/*/alua_access_state | sed 's/^/target /'
  [ ! -e /proc/fs/nfsd/threads ] || echo "nfsd $(cat /proc/fs/nfsd/threads)"
  exportfs -s 2> /dev/null | sed 's/^/export /'
  # comm of those that are no kernel threads and not of this script's session; sshd's connections and udev's helpers are not counted
  own=$(ps -o sid= -p $$ | tr -d ' ')
  ps -eo pid=,ppid=,sid=,user:20=,comm= |
    awk -v own="$own" '$1 != 2 && $2 != 2 && $3 != own { print "process", $4, $5 }' | sort | uniq -c |
    awk '$4 == "sshd" { if ($3 == "root") print $2, $3, $4; next } $4 != "(udev-worker)" { print $2, $3, $4, $1 }'
  for f in /etc /home /opt /root /srv /tmp /usr/local /var/tmp /var/lib /dev/shm /run /dev/disk/by-id /dev/mapper; do
    [ -d $f ] && find $f -xdev \( -path /run/udev -o -path /run/sudo -o -path /run/mount -o -path /var/lib/sudo \
      -o -path /var/lib/nfs/rmtab -o -path /run/utmp -o -path /run/lock/lvm -o -path /etc/mtab -o -path /etc/ssl \
      -o -path /var/lib/dpkg -o -path /run/booted -o -path /dev/mapper/control \) -prune -o ! -path /dev/mapper -printf 'file %p %y %M %u:%g %l\n'
  done
  find /etc/iscsi /etc/multipath /etc/multipath.conf /etc/nvme /etc/exports /etc/fstab /etc/lvm /etc/ssh /etc/sudoers.d \
    /home /root /var/tmp /tmp /var/lib/iscsi -xdev -type f -size -1024k -exec sha256sum {} + 2> /dev/null |
    awk '{ print "content", $2, $1 }'
  ss -Hltun | awk '{ print "listens", $1, $5 }'
  ip -4 -br addr | awk '{ $1 = $1; print "address", $0 }'
  ip -o link | awk '{ for (i = 1; i < NF; i++) if ($i == "mtu" || $i == "qdisc") print "link", $2, $i, $(i + 1) }'
  ip route | sed 's/ *$//; s/^/route /'
  grep -H . /proc/sys/vm/nr_hugepages /proc/sys/vm/swappiness /proc/sys/vm/dirty_ratio | sed 's/^/sysctl /'
} | LC_ALL=C sort
