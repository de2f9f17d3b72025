"""dm-multipath on machines that belong to somebody. Not a transport.

Where multipathd runs, its configuration gets one file of the lane's own beside the user's, for the volume's WWID alone.
Where it does not, it is started with a configuration of our own in a mount namespace: the user's, which nobody asked to
take effect, is not read, and after a reboot nothing is left. Maps are known by WWID: the user may have named them.

multipath-tools 0.8 and 0.9: multipath.conf(5), multipathd(8).
"""

from shlex import quote

from fairlane.lanes import _living as living
from fairlane.lanes._multipath import CONFIGURATION, IscsiMultipath, seconds
from fairlane.lanes.base import Site, Step

_FOLDER = "/etc/multipath"
_KNOWN = f"{_FOLDER}/wwids"


def _configured(key: str) -> str:
    """Shell that prints a setting of the running multipathd."""
    return f'multipathd show config local 2> /dev/null | sed -n \'s/^[[:space:]]*{key} *"*\\([^"]*\\)"*$/\\1/p\''


_CONF_D = f"""\
conf_d() {{
  if [ -e $L/multipathd.own ]; then
    echo $L/multipath/conf.d
  else
    d=$({_configured("config_dir")})
    echo "${{d:-{_FOLDER}/conf.d}}"
  fi
}}
"""
"""Shell function that prints multipathd's folder of further configuration."""


_FLUSH = """\
multipathd disablequeueing map "$m" > /dev/null 2>&1 || :
dmsetup message "$m" 0 fail_if_no_path 2> /dev/null || :
multipath -f "$m" > /dev/null 2>&1 || dmsetup remove --noudevsync "$m" 2> /dev/null || :
"""
"""Shell that removes the map ``$m`` if nobody uses it. With queueing, programs that look at it would wait."""


_OWN = f"""\
{{ [ -e /etc/multipath.conf ] && [ -d {_FOLDER} ]; }} ||
  mount -t overlay -o lowerdir=/etc,upperdir="$0/over",workdir="$0/work" overlay /etc || exit
mount --bind "$0/multipath" {_FOLDER} && mount --bind "$0/multipath.conf" /etc/multipath.conf && exec multipathd"""
"""Shell that starts multipathd with mounts of its own. Where there is no multipath.conf, RHEL's ignores every device:
one is laid over /etc."""


def multipathd(site: Site) -> Step:
    """multipathd, once per machine, shared by lanes."""
    used = "dmsetup ls --target multipath 2> /dev/null | grep -v '^No ' || :"
    return Step(
        name="start multipathd",
        place="initiator",
        apply=f"""
{living.head(site.run)}{living.modules("dm_multipath", "dm_round_robin", "dm_queue_length", "dm_service_time")}\
modprobe -q scsi_dh_alua || :
if ! pidof multipathd > /dev/null; then
  command -v multipathd > /dev/null ||
    fail 'multipathd is not installed (package multipath-tools; on RHEL device-mapper-multipath)'
  if [ -d /run/systemd/system ] && systemctl -q is-active multipathd.socket; then
    echo multipathd.service > $L/multipathd.units
    systemctl start multipathd.service
  else
    : > $L/multipathd.own
    [ -d {_FOLDER} ] || : > $L/multipath.made
    mkdir -p $L/multipath/conf.d $L/over/multipath $L/work
    : > $L/multipath.conf
    : > $L/over/multipath.conf
    cat > $L/multipath/conf.d/a.conf <<'END'
{CONFIGURATION}END
    modprobe -q overlay || :
    {living.OWN_MOUNTS} sh -c {quote(_OWN)} $L
  fi
fi
await 1 'if multipathd show status > /dev/null 2>&1; then echo 1; else echo 0; fi'
""",
        describe=f"""
if [ -e {living.state(site.run)}/multipathd.own ]; then
  row multipathd.configuration "Fairlane's own"
else
  row multipathd.configuration "the machine's, and a file for the lane's volume"
fi
row multipathd.polling_interval "$({_configured("polling_interval")})"
""",
        remove=f"""
{living.head(site.run)}{living.stop("multipathd", used, "multipathd shutdown > /dev/null || :")}\
if [ ! -e $L/multipathd.own ]; then
  rm -rf $L/multipath $L/multipath.conf $L/over $L/work
  if [ -e $L/multipath.made ]; then # by programs of multipath-tools, which note nothing there
    for f in {_FOLDER}/wwids {_FOLDER}/bindings; do
      grep -qsv '^#' $f || rm -f $f
    done
    rmdir {_FOLDER} 2> /dev/null || :
    rm -f $L/multipath.made
  fi
fi
{living.tail(site.run)}""",
    )


def alone(scan: str, run: str) -> str:
    """Shell that fails where a volume of ``scan`` is on the machine already, by a way that is not the run's: multipathd
    would make the lane's paths further ones to a device in use. Follows ``living.head``."""
    return f"""\
own=" $(echo $({scan})) "
for d in $own; do
  w=$(cat /sys/block/${{d#/dev/}}/device/wwid 2> /dev/null || :)
  for b in /sys/block/sd*; do
    case $own in *" /dev/${{b##*/}} "*) continue ;; esac
    [ -n "$w" ] && [ "$(cat $b/device/wwid 2> /dev/null)" = "$w" ] || continue
    s=$(readlink -f $b/device) s=${{s%%/target*}}
    case $(cat /sys/class/iscsi_session/${{s##*/}}/ifacename 2> /dev/null) in fairlane-{run}-*) continue ;; esac
    fail "${{b##*/}} of this machine is the same volume ($w): use that device (transport: device)"
  done
done
"""


def unclaimed(scan: str) -> str:
    """Shell that fails where multipathd has taken a device printed by ``scan``. Follows ``living.head``."""
    return f"""\
udevadm settle --timeout=30 || :
for d in $({scan}); do
  for h in /sys/block/${{d#/dev/}}/holders/*; do
    [ -e "$h" ] || continue
    fail "multipathd has claimed $d ($(cat $h/dm/name)): set multipath: {{}} in the lane, \
or blacklist $(cat /sys/block/${{d#/dev/}}/device/wwid)"
  done
done
"""


def _map(title: str) -> str:
    """Shell that sets ``$wwid``, and ``$m`` to the name of the volume's map; empty: there is none."""
    return f"""\
wwid=$(cat $L/wwid-{title} 2> /dev/null || :) m=
for d in /sys/block/dm-*; do
  if [ -n "$wwid" ] && [ "$(cat $d/dm/uuid 2> /dev/null)" = "mpath-$wwid" ]; then m=$(cat $d/dm/name); fi
done
"""


def join(title: str, multipath: IscsiMultipath, scan: str, count: str, sessions: str) -> str:
    """Shell that gives multipathd the ``count`` devices printed by ``scan``, as one map. ``sessions``: shell that
    prints the lane's session ids. Follows ``living.head``."""
    # with the user's find_multipaths a new WWID may not be enough: multipath -a makes it known
    return f"""\
udevadm settle --timeout=30 || :
wwid=$(for d in $({scan}); do
  w=$(udevadm info --query=property --name=$d | sed -n 's/^ID_SERIAL=//p')
  [ -n "$w" ] || w=$(/lib/udev/scsi_id -g -u -d $d)
  echo "$w"
done | sort -u)
[ "$(echo "$wwid" | wc -w)" -eq 1 ] || fail "the paths lead to different volumes: $wwid"
{_CONF_D}c=$(conf_d)
[ -d $c ] || {{ mkdir $c; : > $L/conf_d.made; }}
[ -e {_KNOWN} ] || : > $L/wwids.made
grep -qxF "/$wwid/" {_KNOWN} 2> /dev/null || [ -e $L/multipathd.own ] || : > $L/new-{title}
echo $wwid > $L/wwid-{title}
cat > $c/fairlane-{title}.conf <<END
# made by a run of Fairlane, which removes it
blacklist_exceptions {{
  wwid "$wwid"
}}
multipaths {{
  multipath {{
    wwid "$wwid"
    alias "fairlane-{title}"
    path_grouping_policy "group_by_prio"
    path_selector "{multipath.policy} 0"
    failback "immediate"
    rr_min_io_rq 1
    no_path_retry "{multipath.no_path_retry}"
  }}
}}
END
for d in $({scan}); do
  [ -e $L/multipathd.own ] || multipath -a $d > /dev/null 2>&1 || :
done
multipathd reconfigure > /dev/null
live() {{ [ -z "$m" ] || dmsetup status "$m" 2> /dev/null | grep -o '[0-9]*:[0-9]* A' | wc -l; }}
i=0
while {_map(title)}[ "$(live)" != "$(({count}))" ]; do
  i=$((i + 1))
  [ $i -lt 150 ] || fail "multipathd does not join $(echo $({scan})), WWID $wwid: \
$(multipath -d -v 3 2>&1 | grep -e "$wwid" -e blacklist | tail -n 5)"
  sleep 0.2
done
for s in $({sessions}); do # multipathd sets its own for all
  echo {seconds(multipath.replacement_timeout)} > /sys/class/iscsi_session/session$s/recovery_tmo
done
"""


def part(title: str) -> str:
    """Shell that removes the map before the lane's sessions end; queued I/O fails. Follows ``living.head``."""
    return f"""\
{_map(title)}if [ -n "$m" ]; then
{_FLUSH}fi
"""


def forget(title: str) -> str:
    """Shell that removes the map and what multipathd was told of it, after the sessions have ended."""
    # after a reboot notes are gone, and the file alone is left
    return f"""\
{_map(title)}i=0
while [ -n "$m" ]; do
{_FLUSH}{_map(title)}  i=$((i + 1))
  [ -z "$m" ] || [ $i -lt 50 ] || fail "the map $m is in use"
  [ -z "$m" ] || sleep 0.2
done
{_CONF_D}gone=
for c in {_FOLDER}/conf.d $(conf_d); do
  f=$c/fairlane-{title}.conf
  [ -e $f ] || continue
  [ -n "$wwid" ] || {{ wwid=$(sed -n 's/^  wwid "\\(.*\\)"$/\\1/p' $f); : > $L/new-{title}; }}
  rm $f
  gone=1
  [ ! -e $L/conf_d.made ] || ! rmdir $c 2> /dev/null || rm -f $L/conf_d.made
done
if [ -e $L/new-{title} ] && [ -e {_KNOWN} ] && [ -n "$wwid" ]; then
  sed -i "\\|^/$wwid/\\$|d" {_KNOWN}
fi
rm -f $L/new-{title} $L/wwid-{title}
if [ -e $L/wwids.made ]; then
  grep -qsv '^#' {_KNOWN} || rm -f $L/wwids.made {_KNOWN}
  ls $L/wwid-* > /dev/null 2>&1 || rm -f $L/wwids.made # until then another lane of the run may have the last line
fi
if [ -n "$gone" ] && pidof multipathd > /dev/null; then multipathd reconfigure > /dev/null; fi
"""


def map_rows(title: str) -> str:
    """Shell that describes the map, and leaves its name in ``$m``. Follows ``L=``."""
    return f"""\
{_map(title)}row multipath.map "$m"
row multipath.wwid "$wwid"
"""


def find(title: str, run: str) -> str:
    """Shell that prints the map's device."""
    return (
        f"wwid=$(cat {living.state(run)}/wwid-{title}); for d in /sys/block/dm-*; do "
        '[ "$(cat $d/dm/uuid 2> /dev/null)" = "mpath-$wwid" ] && echo /dev/${d##*/}; done; true'
    )
