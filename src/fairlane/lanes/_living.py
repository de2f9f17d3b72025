"""Steps on machines that belong to somebody (``Site.living``): what they may rely on, and what they leave alone.

Whatever a run changes there has its id in its name. Notes on what was so before lie in ``state``, which a reboot
empties together with what they tell of (sessions, connections, mounts, running daemons). A ``remove`` can run at any
time: before ``apply``, half applied, twice, after a reboot. Not a transport.
"""

from shlex import quote

OWN_MOUNTS = "unshare -m --propagation slave"
"""Command that runs another with mounts of its own. Those of the machine come and go in it as they do outside, so that
a daemon keeps no file system busy that its owner has unmounted."""


FAIL = 'fail() { echo "$1" >&2; exit 1; }\n'
"""Shell that defines ``fail TEXT``."""


def state(run: str) -> str:
    """Folder of a run's notes on a machine, root's; gone after a reboot."""
    return f"/run/fairlane-{run}"


def head(run: str) -> str:
    """Shell that makes the folder ``$L`` of notes, and defines ``fail TEXT``."""
    return f"L={state(run)}\nmkdir -p -m 711 $L\n{FAIL}"


def tail(run: str) -> str:
    """Shell that ends a ``remove``: the folder of notes goes with the last note."""
    return f"rmdir {state(run)} 2> /dev/null || :\n"


def modules(*names: str) -> str:
    """Shell that loads kernel modules and unloads none: nobody knows who uses them meanwhile."""
    return "".join(
        f"modprobe -q {name} || [ -d /sys/module/{name} ] || fail 'the kernel has no module {name}'\n"
        for name in (n.replace("-", "_") for n in names)
    )


GONE = """\
gone() {
  for f; do
    if [ -L "$f" ]; then rm "$f"; elif [ -d "$f" ]; then rmdir "$f"; fi
  done
}
"""
"""Shell function that removes links and folders of configfs, in this order, as far as they are there."""


def configfs(*names: str) -> str:
    """Shell that loads the modules of a kernel target and makes sure of configfs."""
    mounted = "grep -q ' /sys/kernel/config configfs ' /proc/mounts"
    return f"{modules('configfs', *names)}{mounted} || mount -t configfs configfs /sys/kernel/config\n"


def start(daemon: str, units: tuple[str, ...], command: str) -> str:
    """Shell that starts ``daemon`` where it does not run: by systemd (the last of ``units``) where that is in charge,
    otherwise by ``command``. It notes what it started, for ``stop``. Follows ``head``."""
    return f"""\
if ! pidof {daemon} > /dev/null; then
  if [ -d /run/systemd/system ]; then
    for u in {" ".join(units)}; do
      systemctl -q is-active $u || echo $u >> $L/{daemon}.units
    done
    systemctl start {units[-1]}
  else
    : > $L/{daemon}.own
    {command}
  fi
  await 1 'if pidof {daemon} > /dev/null; then echo 1; else echo 0; fi'
fi
"""


def stop(daemon: str, used: str, command: str) -> str:
    """Shell that stops what ``start`` started, unless ``used`` (shell) prints something: then others use it by now, and
    it stays. Follows ``head``."""
    return f"""\
if [ -e $L/{daemon}.units ] || [ -e $L/{daemon}.own ]; then
  if [ -z "$({used})" ]; then
    if [ -e $L/{daemon}.own ]; then
      {command}
      await 0 'pidof {daemon} | wc -w'
      rm -f /run/{daemon}.pid
    else
      for u in $(sort -r $L/{daemon}.units); do systemctl -q stop $u; done
    fi
    rm -f $L/{daemon}.units $L/{daemon}.own
  fi
fi
"""


def port_free(address: str, port: int) -> str:
    """Shell that fails where something listens on ``port`` at ``address`` or at every address. Follows ``head``."""
    octets = [f"{int(part):02X}" for part in reversed(address.split("."))]
    local = f"({''.join(octets)}|00000000):{port:04X}"
    every = f"0{{32}}:{port:04X}"
    pattern = quote(f"^ *[0-9]+: ({local}|{every}) [0-9A-F:]+ 0A ")
    return f"""\
! cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -qE {pattern} ||
  fail 'port {port} at {address} is in use by another program'
"""
