#!/bin/sh
# Builds the two servers that the cluster tests talk to, kube-apiserver and etcd, from their published Go modules:
# neither is packaged. They go into $FAIRLANE_CACHE (default ~/.cache/fairlane), outside the checkout.
#
#   scripts/cluster-servers.sh         builds them unless they are there, and prints their folder
#   scripts/cluster-servers.sh where   only prints the folder
#
# What is built is pinned: versions in go.mod, the content of every module in go.sum. The first build takes some ten
# minutes and 2 GB of memory; afterwards nothing is done. A machine without a recent Go gets one for this build alone.
set -eu

KUBERNETES=1.35.4
GO=1.26.8  # fetched where the machine has none
GO_MINOR=25 # the oldest 1.x that go.mod of either server accepts
FLAGS='-trimpath -buildvcs=false -tags netgo,osusergo -ldflags'
STRIP='-s -w'
STAMP="-X k8s.io/component-base/version.gitVersion=v$KUBERNETES"

say() { printf '%s\n' "$*" >&2; }

die() { # MESSAGE [HINT]
    say "Error: $1"
    [ $# -lt 2 ] || say "Hint: $2"
    exit 1
}

key() { # of what decides the binaries
    {
        printf '%s\n' "$FLAGS $STRIP $STAMP"
        cat "$SOURCE"/*/go.mod "$SOURCE"/*/go.sum "$SOURCE"/*/*.go
    } | sha256sum | cut -c 1-16
}

patiently() { # COMMAND...; registries flake, so it is tried three times
    for pause in 5 15 0; do
        ! "$@" || return 0
        [ "$pause" -eq 0 ] || say "That failed; once more in $pause s"
        sleep "$pause"
    done
    return 1
}

recent() { # GO
    version=$("$1" env GOVERSION 2>/dev/null) || return 1
    minor=${version#go1.}
    minor=${minor%%[!0-9]*}
    [ -n "$minor" ] && [ "$minor" -ge "$GO_MINOR" ]
}

find_go() { # sets $go
    for go in go /usr/local/go/bin/go "$CACHE/go/bin/go"; do
        ! recent "$go" || return 0
    done
    return 1
}

# Go distributes its releases as modules, too, and any go checks them against the public checksum database: so the
# distribution's go, whose archive is signed, brings a newer one without trust in anybody else. The archive of a module has
# no file modes; programs get theirs here, as the go command does it when it switches by itself (from 1.21 on).
ensure_go() {
    ! find_go || return 0
    sh scripts/setup.sh cluster
    ! find_go || return 0
    arch=$(go env GOARCH)
    module=golang.org/toolchain@v0.0.1-go$GO.linux-$arch
    say "Fetching Go $GO"
    (cd / && GOFLAGS='' GO111MODULE=on patiently go mod download "$module") ||
        die "could not fetch Go $GO" "the reason is above; any Go 1.$GO_MINOR or newer on the PATH will do"
    go=$(go env GOMODCACHE)/$module/bin/go
    chmod +x "${go%/go}"/* "${go%/bin/go}"/pkg/tool/*/*
    recent "$go" || die "the Go that was fetched does not work: $go" "any Go 1.$GO_MINOR or newer on the PATH will do"
}

build() { # SERVER PACKAGE LDFLAGS PROGRAM
    say "$4: fetching its modules"
    # shellcheck disable=SC2086 # the flags are several words
    (
        cd "$SOURCE/$1"
        patiently "$go" list -deps ${FLAGS% *} "$2" >/dev/null || die "could not fetch the modules of $4" "the reason is above"
        say "$4: building"
        "$go" build -p 2 $FLAGS "$3" -o "$new/$4" "$2" || die "could not build $4" "the reason is above"
    )
}

case ${1:-} in
    "" | where) ;;
    *) die "what for? scripts/cluster-servers.sh [where]" ;;
esac
cd -P -- "$(dirname -- "$0")/.." >/dev/null
if [ -z "${HOME:-}" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
    export HOME
fi
CACHE=${FAIRLANE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fairlane}
SOURCE=$PWD/testkit/servers
folder=$CACHE/servers/$(key)
if [ "${1:-}" = where ] || [ -e "$folder" ]; then
    printf '%s\n' "$folder"
    exit
fi

mkdir -p "$CACHE/servers" || die "cannot create $CACHE/servers" "set FAIRLANE_CACHE to a folder that you may write to"
exec 9>"$CACHE/servers/lock"
flock -n 9 || { say "Another build is running; waiting for it" && flock 9; }
if [ ! -e "$folder" ]; then
    # What somebody's environment says about other builds is not meant for this one. Without cgo no C compiler is needed.
    export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOWORK=off
    ensure_go
    say "Building kube-apiserver $KUBERNETES and etcd with $("$go" env GOVERSION): some ten minutes, only this once"
    new=$CACHE/servers/new
    rm -rf "$new"
    mkdir "$new"
    build etcd . "$STRIP" etcd
    build apiserver k8s.io/kubernetes/cmd/kube-apiserver "$STRIP $STAMP" kube-apiserver
    mv "$new" "$folder" # whole or not at all
fi
printf '%s\n' "$folder"
