"""Arrays that ask for a secret: it is in no file of a run, and in no process's arguments."""

from base64 import b64encode

import pytest

from tests.platforms.hosts import strangers_bench as b
from tests.platforms.hosts.strangers_bench import Room, clean, iscsi, nvme, study
from tests.platforms.hosts.test_strangers_stand import KEY, key
from tests.words import kinds

pytestmark = [pytest.mark.lab, pytest.mark.slow]

CHAP = "not4everybody-16"
SEEN = "word-that-must-be-seen"
"""An argument of a process of the test's, to show that the watch sees arguments."""
_WATCH = """
echo {words} | base64 -d > /run/words
printf %s '
while [ -e /run/words ]; do
  grep -aFs -f /run/words /proc/[0-9]*/cmdline >> /run/hits
  sleep 0.05
done
rm /run/watch' > /run/watch
setsid sh /run/watch < /dev/null > /dev/null 2>&1 &
sh -c 'until [ -s /run/hits ]; do sleep 0.1; done' {seen}
"""
_HITS = """
rm /run/words
while [ -e /run/watch ]; do sleep 0.1; done
tr '\\0' ' ' < /run/hits
rm /run/hits
"""


def asked(room: Room) -> None:
    """The array wants CHAP of the target, and a DH-HMAC-CHAP key of alpha."""
    room.stand.sh("storage1", f"""
for t in /sys/kernel/config/target/iscsi/{b.IQN}/tpgt_*; do
  echo 1 > $t/attrib/authentication
  printf %s someone > $t/auth/userid
  printf %s '{CHAP}' > $t/auth/password
done
cd /sys/kernel/config/nvmet
h=$(echo nqn.2014-08.org.nvmexpress:uuid:{b"alpha".hex()[:8]}-0000-4000-8000-000000000057)
mkdir hosts/$h
printf %s '{KEY}' > hosts/$h/dhchap_key
for p in 1 2; do rm ports/$p/subsystems/{b.NQN}; done
echo 0 > subsystems/{b.NQN}/attr_allow_any_host
ln -s /sys/kernel/config/nvmet/hosts/$h subsystems/{b.NQN}/allowed_hosts/$h
for p in 1 2; do ln -s /sys/kernel/config/nvmet/subsystems/{b.NQN} ports/$p/subsystems/{b.NQN}; done
""")  # fmt: skip


def test_secrets_stay_where_they_are_needed(room: Room) -> None:
    asked(room)
    lanes = {
        "i": iscsi(external={"user": "someone", "secret": {"env": "CHAP_SECRET"}}),
        "n": nvme(external={"secret": {"env": "NVME_KEY"}}),
    }
    room.bench.environment |= {"CHAP_SECRET": CHAP, "NVME_KEY": KEY}
    with room.unchanged("alpha", "storage1"):
        words = b64encode(f"{CHAP}\n{KEY}\n{SEEN}\n".encode()).decode()  # the watch's own arguments do not count
        room.stand.sh("alpha", _WATCH.format(words=words, seen=SEEN))
        done = room.start(study(lanes))
        clean(done)
        hits = room.stand.sh("alpha", _HITS).splitlines()
    assert hits
    assert all(SEEN in hit for hit in hits), hits
    texts = room.texts() + done.stdout.encode() + done.stderr.encode()
    assert CHAP.encode() not in texts
    assert KEY.encode() not in texts


@pytest.mark.parametrize("lane", ["iscsi", "nvme"])
def test_a_wrong_secret_is_one_clear_error(room: Room, lane: str) -> None:
    asked(room)
    one, secret = {
        "iscsi": (iscsi(external={"user": "someone", "secret": {"env": "SECRET"}}), "wrong-wrong-wrong"),
        "nvme": (nvme(external={"secret": {"env": "SECRET"}}), key(bytes(range(1, 33)))),
    }[lane]
    room.bench.environment |= {"SECRET": secret}
    with room.unchanged("alpha", "storage1"):
        refused = room.start(study({"a": b.directory(), "x": one}))
    assert (refused.returncode, kinds(refused.stderr)) == (3, ["script-failed"]), refused.stderr
    assert secret.encode() not in room.texts() + refused.stdout.encode() + refused.stderr.encode()
