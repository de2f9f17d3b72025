# What the administrator of storage1 has set up: LIO and nvmet, each with two portals, and an NFS export. shellcheck shell=sh
set -e
modprobe -a target_core_mod target_core_iblock iscsi_target_mod nvmet nvmet_tcp nfsd
modprobe null_blk nr_devices=0
. /etc/storage
mkdir -p /etc/target

disk() { # SERIAL -> path of the disk
  for d in /sys/block/vd*; do
    [ "$(cat "$d/serial")" != "$1" ] || echo "/dev/${d##*/}"
  done
}

memory() { # NAME: a disk of 64 MiB in memory
  n=/sys/kernel/config/nullb/$1
  mkdir "$n"
  echo 1 > "$n/memory_backed"
  echo 64 > "$n/size"
  echo 1 > "$n/power"
}

T=/sys/kernel/config/target
lun() { # NUMBER NAME DISK: a target with a portal group for each network, and an ALUA group for each portal
  core=$T/core/iblock_$1/$2
  mkdir -p "$core"
  echo "udev_path=$3" > "$core/control"
  echo "SITE$1$2" > "$core/wwn/vpd_unit_serial"
  echo 1 > "$core/enable"
  for p in 0 1; do
    g=$core/alua/portal$p
    mkdir "$g"
    echo $((p + 1)) > "$g/tg_pt_gp_id"
    echo 1 > "$g/alua_access_type"
    t=$T/iscsi/iqn.2010-06.org.site:$2/tpgt_$((p + 1))
    mkdir -p "$t/np/10.20.$p.1:3260" "$t/lun/lun_0"
    ln -s "$core" "$t/lun/lun_0/medium"
    echo "portal$p" > "$t/lun/lun_0/alua_tg_pt_gp"
    echo 1 > "$t/attrib/generate_node_acls"
    echo 0 > "$t/attrib/demo_mode_write_protect"
    echo 0 > "$t/attrib/authentication"
    if [ -n "$CHAP_USER" ] && [ "$2" = data ]; then
      echo 1 > "$t/attrib/authentication"
      printf %s "$CHAP_USER" > "$t/auth/userid"
      printf %s "$CHAP_SECRET" > "$t/auth/password"
    fi
    echo 1 > "$t/enable"
  done
}

N=/sys/kernel/config/nvmet
namespace() { # NUMBER NAME DISK: a subsystem on both ports
  s=$N/subsystems/nqn.2010-06.org.site:$2
  mkdir -p "$s/namespaces/1"
  printf 'SITE%s' "$1" > "$s/attr_serial"
  if [ -n "$DHCHAP_KEY" ] && [ "$2" = data ]; then
    for h in $DHCHAP_HOSTS; do
      mkdir -p "$N/hosts/$h"
      printf %s "$DHCHAP_KEY" > "$N/hosts/$h/dhchap_key"
      ln -s "$N/hosts/$h" "$s/allowed_hosts/$h"
    done
  else
    echo 1 > "$s/attr_allow_any_host"
  fi
  printf %s "$3" > "$s/namespaces/1/device_path"
  echo 1 > "$s/namespaces/1/enable"
  for p in 1 2; do
    ln -s "$s" "$N/ports/$p/subsystems/nqn.2010-06.org.site:$2"
  done
}

for p in 0 1; do
  q=$N/ports/$((p + 1))
  mkdir "$q"
  echo tcp > "$q/addr_trtype"
  echo ipv4 > "$q/addr_adrfam"
  echo "10.20.$p.1" > "$q/addr_traddr"
  echo 4420 > "$q/addr_trsvcid"
done
memory lun-theirs
memory ns-theirs
lun 0 data "$(disk lun-data)"
lun 1 theirs /dev/lun-theirs
namespace 0 data "$(disk ns-data)"
namespace 1 theirs /dev/ns-theirs

mkdir -p /srv/share /srv/theirs
chmod 1777 /srv/share
[ -e /srv/theirs/file ] || echo theirs > /srv/theirs/file
rpcbind -w
mount -t nfsd nfsd /proc/fs/nfsd
rpc.nfsd --grace-time 10 --lease-time 10 4
echo Y > /proc/fs/nfsd/v4_end_grace
rpc.mountd --port 20048
exportfs -a
