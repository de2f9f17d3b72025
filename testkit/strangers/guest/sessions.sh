# What the administrator of a host has in use: a LUN, a namespace and a share of storage1, mounted. shellcheck shell=sh
retry() { # COMMAND...: until it works; storage1 may boot later
  i=0
  until "$@"; do
    i=$((i + 1))
    [ $i -lt 200 ] || return 1
    sleep 0.5
  done
}
set -e
retry timeout 5 bash -c 'exec 3<> /dev/tcp/10.20.0.1/3260 4<> /dev/tcp/10.20.0.1/2049'
modprobe -a iscsi_tcp nvme_tcp sd_mod
retry iscsiadm -m discovery -t sendtargets -p 10.20.0.1
retry iscsiadm -m node -T iqn.2010-06.org.site:theirs -p 10.20.0.1:3260 --login
retry nvme connect -t tcp -a 10.20.0.1 -s 4420 -n nqn.2010-06.org.site:theirs
udevadm settle --timeout=60
disk=$(readlink -f /dev/disk/by-path/*iqn.2010-06.org.site:theirs-lun-0)
space=$(find /dev -name 'nvme*n1' -type b)
mkdir -p /mnt/lun /mnt/space /mnt/share
for d in "$disk" "$space"; do
  blkid "$d" > /dev/null || mkfs.ext4 -q "$d"
done
mount "$disk" /mnt/lun
mount "$space" /mnt/space
retry mount -t nfs -o vers=4.2 10.20.0.1:/srv/share /mnt/share
