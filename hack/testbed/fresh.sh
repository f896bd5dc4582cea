#!/usr/bin/env bash
# Runs commands of the README the way a fresh machine does: in a root of its own with a bare Debian, the checkout as it is
# committed, Go, and nothing else: no packages, no caches, no home. Says at the end how long each step took. Needs root; the
# commands share this machine's network, so no cluster of `make cluster` may be up outside.
#
#   hack/testbed/fresh.sh ['make demo' 'make demo-cluster' 'make test' …]

set -euo pipefail
checkout=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
[ $# -gt 0 ] || set -- 'make demo' 'make demo-cluster' 'make test'
[ "$(id -u)" = 0 ] || { echo "Only root can make a root of its own: sudo make fresh" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -qqy --no-install-recommends debootstrap >&2
mkdir -p "$checkout/build"
log=$checkout/build/fresh.log
home=srv
exec {lock}> /var/lock/trainshed-fresh
flock --nonblock "$lock" || { echo "Another make fresh runs." >&2; exit 1; }
rm -rf /var/tmp/fresh-* # What a killed run left fills the disk.
root=$(mktemp -d /var/tmp/fresh-XXXXXX)
trap 'rm -rf "$root"' EXIT
: > "$log"

# What stands behind a colon and ends with seconds is a step that took so long.
table() {
    printf '\n%-86s %8s\n' step seconds
    sed -nE 's/^(.+): ([0-9]+) s$/\2 \1/p' "$log" | awk '$1 >= 5 { s = $1; $1 = ""; printf "%-86.86s %8d\n", substr($0, 2), s }'
}

timed() {
    local began=$SECONDS outcome=0
    "${@:2}" > >(tee -a "$log") 2>&1 || outcome=$?
    echo "$1: $((SECONDS - began)) s" | tee -a "$log"
    return "$outcome"
}

system() {
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep debian | grep -vm1 security)
    debootstrap --variant=minbase --include=python3,python3-venv,make,git,ca-certificates bookworm "$root" "$mirror" > /dev/null
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    git clone --quiet --no-hardlinks "$checkout" "$root/$home/trainshed"
    mkdir -p "$root/usr/local/go" "$root/old"
}

# A new tree of processes and mounts, which ends with the command.
inside() {
    unshare --mount --pid --fork --kill-child --propagation private bash -euo pipefail -c '
        root=$1
        mount --bind "$root" "$root"
        mount --bind "$(go env GOROOT)" "$root/usr/local/go"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/run"
        mount -t proc proc "$root/proc"
        cd "$root"
        pivot_root . old
        exec chroot . /usr/bin/env -i HOME="/$3" LANG=C.UTF-8 PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin "${@:4}" \
            bash -c "umount -l /old; cd /$3/trainshed; $2"
    ' inside "$root" "$1" "$home" "${settings[@]}"
}

# How this machine reaches its package indexes is not part of what is tried.
mapfile -t settings < <(env | grep -E '^(PIP_|GOPROXY=|GOSUMDB=|HTTPS?_PROXY=|NO_PROXY=)' | grep -v '^PIP_FIND_LINKS=' || true)
timed "a Debian with Python, make and git" system
outcome=0
commands=""
for command in "$@"; do
    commands+="began=\$SECONDS; $command; echo \"$command: \$((SECONDS - began)) s\"; "
done
timed "all commands" inside "set -e; trap 'make cluster-down' EXIT; $commands" || outcome=$?
table
exit "$outcome"
