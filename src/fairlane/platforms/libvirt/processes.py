"""The processes and threads of running domains, as QEMU tells them (QMP), for the probes of their hypervisor."""

import json
from collections.abc import Sequence
from shlex import quote

from fairlane.machines.base import Guest

_TIMEOUT = 60.0
_ASKED = {"cpus": "query-cpus-fast", "io": "query-iothreads"}


async def variables(hypervisor: Guest, virsh: str, domains: Sequence[str]) -> str:
    """Shell that sets ``$MACHINES``, ``$VCPUS`` and ``$IO_THREADS`` (``Probe.place``). ``virsh``: beginning of every
    command. Raises RunFailed."""
    text = "".join(
        f"{virsh} qemu-monitor-command {quote(domain)} {quote(json.dumps({'execute': command}))} > {name}-{number}\n"
        for number, domain in enumerate(domains)
        for name, command in _ASKED.items()
    )
    answers = await hypervisor.ask(text, _TIMEOUT)
    threads = {
        name: [
            str(int(thread["thread-id"]))
            for number in range(len(domains))
            for thread in json.loads(answers[f"{name}-{number}"])["return"]
        ]
        for name in _ASKED
    }
    cpus, io = " ".join(threads["cpus"]), " ".join(threads["io"])
    # a thread's folder in /proc names its process
    machines = f"for t in {cpus}; do sed -n 's/^Tgid:[^0-9]*//p' /proc/$t/status; done | sort -u"
    return f"VCPUS='{cpus}' IO_THREADS='{io}' MACHINES=$(echo $({machines}))\n"
