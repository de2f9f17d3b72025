"""The folders that scripts use on a machine: the lab's and a cluster's machines are Fairlane's own, others are not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Folders:
    """Folders on a machine. The defaults are for machines that belong to the run and let it write everywhere."""

    lanes: str = "/dev/lane"
    """Links to the lanes' devices and files, by the volume's name."""
    run: str = "/run"
    """Fifos and notes of running scripts."""

    def device(self, name: str) -> str:
        """Path of the volume ``name`` in scripts: a link, made after the device was identified."""
        return f"{self.lanes}/{name}"


OWN = Folders()
"""Of machines that belong to the run."""
