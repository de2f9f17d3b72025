"""NVMe over fabrics on machines that belong to somebody: whose connection is it, and whose name. Not a transport.

A subsystem has one set of controllers per host, so that a second connection to it is no second volume: where somebody
is connected already, a lane is refused. Controllers of the run are noted as they come; its undo ends these alone.
"""

import json
from typing import TYPE_CHECKING

from fairlane.lanes import _living as living
from fairlane.lanes._external import without_argv
from fairlane.lanes._multipath import nvme_controllers
from fairlane.lanes.base import Site

if TYPE_CHECKING:
    from fairlane.lanes._nvmet import Subsystem

CONFIG = "/sys/kernel/config/nvmet"
MULTIPATH = "/sys/module/nvme_core/parameters/multipath"


def begin(run: str, to: "Subsystem", title: str, fabric: str, *, several: bool) -> str:
    """Shell before the first ``nvme connect``: modules, and nobody else's connection. ``several``: there may be several
    paths."""
    card = "[ -n \"$(ls /sys/class/infiniband 2> /dev/null)\" ] || fail 'the machine has no RDMA device'\n"
    native = f"""\
[ "$(cat {MULTIPATH} 2> /dev/null)" != N ] || fail 'the kernel has no native NVMe multipath (nvme_core.multipath=N): \
give one address and remove multipath, or boot with nvme_core.multipath=Y'
"""
    return f"""\
{living.head(run)}{living.modules("nvme_fabrics", f"nvme_{fabric}")}{card if fabric == "rdma" else ""}\
{native if several else ""}[ -z "$({nvme_controllers(to.nqn)})" ] || fail '{to.nqn} is already connected outside this \
lane: use its device (transport: device), or disconnect it'
: > $L/connecting-{title}
{_host(to)}{_key(to, title) if to.secret else ""}{_portals(to, fabric)}"""


def _host(to: "Subsystem") -> str:
    """Shell that sets ``$host``, options of ``nvme connect``: none where the name is the machine's own, to which the
    kernel knows another id. ``$n`` and ``$id`` are the name and the id in force."""
    own = "n=$(cat /etc/nvme/hostnqn 2> /dev/null || :) id=$(cat /etc/nvme/hostid 2> /dev/null || :) host=\n"
    name, number = to.host
    return (
        f"{own}[ \"$n\" = {name} ] || n={name} id={number} host='--hostnqn {name} --hostid {number}'\n" if name else own
    )


def _key(to: "Subsystem", title: str) -> str:
    """Shell that stores the DH-HMAC-CHAP key in nvme-cli's file during the step: arguments of a process are public."""
    known = json.dumps([{"hostnqn": "@NQN@", "hostid": "@ID@", "dhchap_key": to.secret}])
    return f"""\
[ -n "$n" ] || fail 'the machine has no host NQN (/etc/nvme/hostnqn) for the key: set external.host'
trap 'rm -f $L/key-{title}' EXIT
u=$(umask)
umask 077
{without_argv(known, f"cat > $L/key-{title}")}sed -i "s|@NQN@|$n|; s|@ID@|$id|" $L/key-{title}
umask $u
host="$host --config $L/key-{title}"
"""


def _portals(to: "Subsystem", fabric: str) -> str:
    """Shell that sets ``$found`` to the subsystem's portals, ``address port`` a line."""
    if not to.discovery:
        return "found='{}'\n".format("\n".join(f"{address} {to.port}" for address in to.addresses))
    where = f"{to.addresses[0]}:{to.discovery}"
    return f"""\
found=$(nvme discover -t {fabric} -a {to.addresses[0]} -s {to.discovery} $host | awk -v nqn={to.nqn} '
  function tell() {{ if (type == "{fabric}" && name == nqn && address ~ /^[0-9.]+$/) print address, port }}
  /^=====/ {{ tell(); type = "" }}
  $1 == "trtype:" {{ type = $2 }} $1 == "traddr:" {{ address = $2 }} $1 == "trsvcid:" {{ port = $2 }}
  $1 == "subnqn:" {{ name = $2 }}
  END {{ tell() }}' | sort -u)
[ -n "$found" ] || fail '{where} does not list subsystem {to.nqn} over {fabric} for this host'
"""


def one_portal(to: "Subsystem") -> str:
    """Shell that refuses several discovered portals. Follows ``begin``."""
    if not to.discovery:
        return ""
    text = "the subsystem has several portals ($(echo $found)): set multipath"
    return f'[ "$(echo "$found" | wc -l)" -eq 1 ] || fail "{text}"\n'


def connect(command: str, title: str, nqn: str) -> str:
    """Shell that connects to every portal, and notes the lane's controllers. ``command``: ``nvme connect`` without the
    portal."""
    return f"""\
while read -r a p; do
  {command} -a $a -s $p $host
done <<END
$found
END
{{ {nvme_controllers(nqn)}; }} > $L/connected-{title}
await "$(echo "$found" | wc -l)" 'wc -l < $L/connected-{title}'
"""


def part(run: str, title: str, nqn: str) -> str:
    """Shell that ends the lane's connections: those noted, or all if it was interrupted while it made them."""
    return f"""
{living.head(run)}if [ -e $L/connecting-{title} ]; then
  [ -s $L/connected-{title} ] || {{ {nvme_controllers(nqn)}; }} > $L/connected-{title}
  while read -r c; do
    if [ -e $c/subsysnqn ] && [ "$(cat $c/subsysnqn)" = {nqn} ]; then nvme disconnect -d ${{c##*/}} > /dev/null; fi
  done < $L/connected-{title}
fi
rm -f $L/connecting-{title} $L/connected-{title} $L/key-{title}
{living.tail(run)}"""


def rows(run: str, title: str) -> str:
    """Shell that describes the host and the portals, with the first controller's folder in ``$c``."""
    return f"""\
row initiator.name "$(cat $c/hostnqn)"
row portals "$(echo $(for p in $(cat {living.state(run)}/connected-{title}); do cat $p/address; done))"
"""


def port(run: str, title: str, path: int) -> str:
    """Folder of the nvmet port of a path, as shell."""
    return f"{CONFIG}/ports/$(sed -n {path + 1}p {living.state(run)}/ports-{title})"


def export(site: Site, title: str, name: str, host: str, listen: tuple[str, int]) -> str:
    """Shell that exports the medium as subsystem ``name`` to ``host`` beside other subsystems, through nvmet ports of
    its own with free ids; each has one ANA group. ``listen``: fabric and port."""
    fabric, number = listen
    made = "".join(f"""\
{living.port_free(address, number) if fabric == "tcp" else ""}i={number}
while [ -e $N/ports/$i ]; do i=$((i + 1)); done
echo $i >> $L/ports-{title}
mkdir $N/ports/$i && cd $N/ports/$i
echo {fabric} > addr_trtype
echo ipv4 > addr_adrfam
echo {address} > addr_traddr
echo {number} > addr_trsvcid
ln -s $N/subsystems/{name} subsystems/{name}
""" for address in site.portals)  # fmt: skip
    return f"""
{living.head(site.run)}{living.configfs("nvmet", f"nvmet_{fabric}")}N={CONFIG}
mkdir -p $N/hosts/{host} $N/subsystems/{name}/namespaces/1 && cd $N/subsystems/{name}
echo 0 > attr_allow_any_host
ln -s $N/hosts/{host} allowed_hosts/{host}
echo {site.run}-{site.index:02d} > attr_serial
printf %s {site.medium} > namespaces/1/device_path
echo 1 > namespaces/1/enable
{made}"""


def unexport(site: Site, title: str, name: str, host: str) -> str:
    """Shell that undoes ``export``, as far as it was done."""
    return f"""
{living.head(site.run)}{living.GONE}N={CONFIG}
for i in $(cat $L/ports-{title} 2> /dev/null); do
  gone $N/ports/$i/subsystems/{name}
  if [ -d $N/ports/$i ] && [ -z "$(ls $N/ports/$i/subsystems)" ]; then rmdir $N/ports/$i; fi
done
rm -f $L/ports-{title}
if [ -d $N/subsystems/{name}/namespaces/1 ]; then echo 0 > $N/subsystems/{name}/namespaces/1/enable; fi
gone $N/subsystems/{name}/allowed_hosts/{host} $N/subsystems/{name}/namespaces/1 $N/subsystems/{name}
rmdir $N/hosts/{host} 2> /dev/null || : # another lane's, too
{living.tail(site.run)}"""
