#!/bin/sh
# Installs what is missing on this machine: distribution packages, uv, and the Python environment in .venv.
#
#   scripts/setup.sh demo     what `make demo` needs
#   scripts/setup.sh ceph     that, and what lanes on Ceph need
#   scripts/setup.sh test     all that, and what `make test` needs
#   scripts/setup.sh cluster  all that, and what builds the servers of the cluster tests (cluster-servers.sh)
#
# When everything is there it installs nothing, asks nothing and takes a tenth of a second. Root is used for
# distribution packages only. If the machine has no uv, one is put into $FAIRLANE_CACHE (default ~/.cache/fairlane).
set -eu

# What is looked for (a command, or a file's name), the package that brings it on Debian and Ubuntu, the one on Fedora, and
# who needs it: everybody, only a user who is not root, lanes on Ceph (and the tests), only the tests, only that build, or
# the tests of pages, which are skipped where there is no such package: Ubuntu has Chromium as a snap only.
NEEDS='
qemu-system-x86_64  qemu-system-x86  qemu-system-x86-core  all
mmdebstrap          mmdebstrap       mmdebstrap            all
/usr/share/keyrings/debian-archive-keyring.*  debian-archive-keyring  debian-keyring  all
setpriv             util-linux       util-linux            all
qemu-img            qemu-utils       qemu-img              all
ssh                 openssh-client   openssh-clients       all
mke2fs              e2fsprogs        e2fsprogs             all
python3             python3          python3               all
newuidmap           uidmap           shadow-utils          user
make                make             make                  test
fio                 fio              fio                   test
shellcheck          shellcheck       ShellCheck            test
openssl             openssl          openssl               test
/usr/lib/postgresql/*/bin/initdb|/usr/bin/initdb  postgresql  postgresql-server  test
/usr/lib/postgresql/*/bin/pgbench|/usr/bin/pgbench  postgresql  postgresql-contrib  test
mariadbd|/usr/sbin/mariadbd|/usr/libexec/mariadbd  mariadb-server-core  mariadb-server  test
mariadb             mariadb-client-core  mariadb           test
sysbench            sysbench         sysbench              test
blktrace            blktrace         blktrace              test
socat               socat            socat                 test
libvirtd|/usr/sbin/libvirtd  libvirt-daemon  libvirt-daemon-driver-qemu  test
/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so|/usr/lib64/libvirt/connection-driver/libvirt_driver_qemu.so  libvirt-daemon-driver-qemu  libvirt-daemon-driver-qemu  test
virsh               libvirt-clients  libvirt-client        test
nbdkit              nbdkit           nbdkit                test
nbdfuse             libnbd-bin       nbdfuse               test
mkfs.xfs|/usr/sbin/mkfs.xfs|/sbin/mkfs.xfs  xfsprogs  xfsprogs  test
mkfs.btrfs|/usr/sbin/mkfs.btrfs|/sbin/mkfs.btrfs  btrfs-progs  btrfs-progs  test
ip|/usr/sbin/ip|/sbin/ip  iproute2  iproute            test
chromium|chromium-browser|google-chrome  chromium  chromium  browser
go                  golang-go        golang-bin            cluster
/etc/ssl/certs/ca-certificates.crt|/etc/pki/tls/certs/ca-bundle.crt  ca-certificates  ca-certificates  cluster
/usr/lib/*/qemu/block-rbd.so|/usr/lib64/qemu/block-rbd.so  qemu-block-extra  qemu-block-rbd  ceph
ceph-mon            ceph-mon         ceph-mon              ceph
ceph-osd            ceph-osd         ceph-osd              ceph
ceph-mgr            ceph-mgr         ceph-mgr              ceph
ceph-mds            ceph-mds         ceph-mds              ceph
rbd                 ceph-common      ceph-common           ceph
ceph-fuse           ceph-fuse        ceph-fuse             ceph
'

say() { printf '%s\n' "$*" >&2; }

die() { # MESSAGE [HINT]
    say "Error: $1"
    [ $# -lt 2 ] || say "Hint: $2"
    exit 1
}

present() { # COMMAND|/FILE|..., files with wildcards: one of them is enough
    # shellcheck disable=SC2086 # the wildcards are meant: .gpg, or .pgp in newer releases
    (
        IFS='|'
        for one in $1; do
            case $one in
                /*) [ ! -e "$one" ] || exit 0 ;;
                *) ! command -v "$one" >/dev/null 2>&1 || exit 0 ;;
            esac
        done
        exit 1
    )
}

ubuntu() {
    # shellcheck source=/dev/null
    (ID= && [ -r "$OS_RELEASE" ] && . "$OS_RELEASE" && [ "$ID" = ubuntu ])
}

family() { # debian, fedora, or what the machine calls itself
    # shellcheck source=/dev/null
    (
        ID=unknown ID_LIKE=
        [ ! -r "$OS_RELEASE" ] || . "$OS_RELEASE"
        case " $ID $ID_LIKE " in
            *" debian "* | *" ubuntu "*) echo debian ;;
            *" fedora "*) echo fedora ;;
            *) echo "$ID" ;;
        esac
    )
}

find_uv() { # sets $uv; asking for the version tells a working uv from a version manager's empty shim
    for uv in uv "$CACHE/uv/bin/uv"; do
        ! "$uv" --version >/dev/null 2>&1 || return 0
    done
    return 1
}

missing() { # prints the packages that this machine lacks, one a line
    printf '%s' "$NEEDS" | while read -r what debian fedora who; do
        case $who in
            "") continue ;;
            user) [ "$(id -u)" -ne 0 ] || continue ;;
            ceph) [ "$WANT" != demo ] || continue ;;
            test) [ "$WANT" = test ] || [ "$WANT" = cluster ] || continue ;;
            cluster) [ "$WANT" = cluster ] || continue ;;
            browser) [ "$WANT" = test ] || continue; ! ubuntu || continue ;;
        esac
        present "$what" && continue
        case $FAMILY in
            debian) echo "$debian" ;;
            fedora) echo "$fedora" ;;
            *) echo "$what" ;;
        esac
    done
    find_uv && return
    case $FAMILY in
        debian) python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv ;;
        fedora) echo uv ;;
    esac
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

install_packages() { # PACKAGE...; mirrors flake and lists go stale, so the whole of it is tried three times
    for pause in 5 15 0; do
        case $FAMILY in
            debian)
                # An unreachable list of somebody else's must not stop us: the install says what is really missing.
                apt update || say "apt-get update failed; trying with the lists that are here"
                ! apt install -y --no-install-recommends "$@" || return 0
                ;;
            fedora)
                ! as_root dnf install -y --setopt=install_weak_deps=False "$@" </dev/null >&2 || return 0
                ;;
        esac
        [ "$pause" -eq 0 ] || say "That failed; once more in $pause s"
        sleep "$pause"
    done
    return 1
}

no_cluster() { # PostgreSQL comes without a server that runs: tests start their own
    conf=/etc/postgresql-common/createcluster.conf
    [ ! -e "$conf" ] || return 0
    install_packages postgresql-common && [ -e "$conf" ] || return 0
    as_root sed -i 's/^#* *create_main_cluster *=.*/create_main_cluster = false/' "$conf"
}

server_user() { # root runs MariaDB as mysql, whom the package of the programs alone does not bring
    [ "$(id -u)" -eq 0 ] && { [ "$WANT" = test ] || [ "$WANT" = cluster ]; } || return 0
    getent passwd mysql >/dev/null || useradd --system --no-create-home --shell /usr/sbin/nologin mysql ||
        die "could not add the system user mysql" "the reason is above"
}

ensure_packages() { # makes sure that every distribution package is there
    lack=$(missing | tr '\n' ' ')
    [ -n "$lack" ] || return 0
    case $FAMILY in
        debian) by_hand="apt-get update && apt-get install --no-install-recommends $lack" ;;
        fedora) by_hand="dnf install --setopt=install_weak_deps=False $lack" ;;
        *) die "this machine ($FAMILY) lacks: $lack" \
            "Fairlane knows the packages of Debian, Ubuntu and Fedora; install these with your own tools, then try again" ;;
    esac
    if [ "$(id -u)" -ne 0 ]; then
        present sudo || die "these packages are missing, and there is no sudo: $lack" "as root: $by_hand"
        sudo -n true 2>/dev/null || [ -t 0 ] ||
            die "these packages are missing, and sudo would ask for a password: $lack" "sudo sh -c '$by_hand'"
    fi
    say "Installing: $lack"
    case "$FAMILY $lack" in *"debian "*"postgresql "*) no_cluster ;; esac
    # shellcheck disable=SC2086 # one word per package
    install_packages $lack || die "could not install: $lack" "the reason is above; by hand, as root: $by_hand"
    lack=$(missing | tr '\n' ' ')
    [ -z "$lack" ] || die "still missing after the installation: $lack"
}

ensure_uv() { # makes sure that there is a uv; sets $uv
    ! find_uv || return 0
    say "Installing uv into $CACHE/uv"
    mkdir -p "$CACHE" || die "cannot create $CACHE" "set FAIRLANE_CACHE to a folder that you may write to"
    if python3 -m venv --clear "$CACHE/uv" >&2 && "$CACHE/uv/bin/python" -m pip install -q uv >&2; then
        ! find_uv || return 0
    fi
    die "could not install uv" "the reason is above; any other way of installing uv will do"
}

ensure_environment() { # brings .venv in line with uv.lock
    [ -w . ] || die "$PWD is not writable for $(id -un)" "the Python environment goes into .venv there: clone as this user"
    case $WANT in
        demo | ceph) set -- --no-dev --inexact ;; # without the developers' tools, but leave them if they are there
    esac
    for pause in 5 15 0; do
        ! "$uv" sync --frozen --quiet "$@" || return 0
        "$uv" python find --quiet '>=3.11' >/dev/null 2>&1 ||
            die "Fairlane needs Python 3.11 or newer; the newest here is $(python3 --version 2>&1)" \
                "install one beside it: from your distribution (python3.11, python3.12), or with: $uv python install 3.12"
        [ "$pause" -eq 0 ] || say "That failed; once more in $pause s"
        sleep "$pause"
    done
    die "could not make the Python environment in .venv" "the reason is above"
}

WANT=${1:-}
case $WANT in
    demo | ceph | test | cluster) ;;
    *) die "what for? scripts/setup.sh demo | ceph | test | cluster" ;;
esac
cd -P -- "$(dirname -- "$0")/.." >/dev/null
if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    export HOME
fi
CACHE=${FAIRLANE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlane}
OS_RELEASE=${OS_RELEASE:-/etc/os-release}
FAMILY=$(family)
unset VIRTUAL_ENV                    # somebody's active environment is not ours
export UV_PROJECT_ENVIRONMENT=.venv  # and this is where the Makefile looks
export UV_PYTHON_DOWNLOADS=manual    # never fetch a Python unasked

ensure_packages
server_user
ensure_uv
ensure_environment
