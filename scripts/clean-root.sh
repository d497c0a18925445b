#!/usr/bin/env bash
# Tries the project's two commands on a fresh Debian: debootstrap into a directory, a clone of this repository
# inside, below a home that nobody else may enter, then scripts/demo.sh and scripts/test.sh in a chroot.
#
# Everything runs in a mount and process namespace of its own: whatever happens, the mounts and the
# processes of the chroot are gone when this script ends.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=bookworm
root=
tarball=
cache=
mirror=
brought=
commands=()
worktree=no
fresh=no
container=no
boot=no
user=root
where=/root/worldkeeper

usage() {
    cat <<END
Usage: scripts/clean-root.sh [OPTIONS] [COMMAND...]

Tries COMMAND (default: scripts/demo.sh, then scripts/test.sh) from a fresh clone
in a fresh Debian. Needs root; installs debootstrap when it is missing.

  --suite SUITE   bookworm (Debian 12, the default), trixie (Debian 13) or sid: from the mirror that this
                  machine's apt uses, whatever it runs itself
  --dir DIR       where the root file system goes; it stays there afterwards
                  (default: a temporary directory, removed at the end)
  --tar FILE      keep the bare root in FILE, and start from it when it is there
  --cache DIR     keep in DIR what COMMAND downloads and compiles, for the next time: packages, servers
                  (scripts/servers.sh) and ccache's results, of each suite. The root is bare in any case:
                  whatever it needs has to be installed again
  --fresh         throw away what is in DIR and begin again
  --worktree      take the files as they are here, committed or not, in place of a clone; what is no git checkout,
                  such as an unpacked source tarball, is always taken so
  --container     without the capabilities that a container has not: no mounts, no tracing
  --boot          with systemd as its first process (systemd-nspawn): units are started, stopped and restarted as on a
                  machine of its own. It has this machine's network
  --user          as an ordinary user with sudo, in a directory with blanks and other letters in its name
  --bring FILE    put FILE beside the clone, under its name
  --mirror URL    another Debian mirror to make the root from
  --help          this text

Exit status: 0 if all commands succeed, 1 if not, 2 for a wrong option, 3 if the root cannot be made here.
END
}

say() { printf '%s\n' "$*"; }
die() {
    printf 'clean-root: %s\n' "$*" >&2
    exit 1
}
cannot() {
    printf 'clean-root: %s\n' "$*" >&2
    exit 3
}

while [ $# -gt 0 ]; do
    case $1 in
    --dir | --tar | --cache | --mirror | --suite | --bring)
        [ $# -ge 2 ] || die "$1 wants a value"
        case $1 in
        --dir) root=$2 ;;
        --tar) tarball=$2 ;;
        --cache) cache=$2 ;;
        --mirror) mirror=$2 ;;
        --bring) brought=$2 ;;
        --suite) suite=$2 ;;
        esac
        shift
        ;;
    --fresh) fresh=yes ;;
    --worktree) worktree=yes ;;
    --container) container=yes ;;
    --boot) boot=yes ;;
    --user) user=admin where='/home/admin/meine Welten/világőr' ;;
    --help)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *) commands+=("$1") ;;
    esac
    shift
done
[ ${#commands[@]} -gt 0 ] || commands=(scripts/demo.sh scripts/test.sh)
case $suite in
bookworm | trixie | sid) ;;
*) die "--suite is bookworm, trixie or sid, not '$suite'" ;;
esac
[ "$boot" = no ] || [ "$container$user" = noroot ] || die "--boot is for root with all rights: not with --container or --user"
[ "$(id -u)" = 0 ] || cannot "debootstrap and chroot need root"

# What a command runs in: the namespace's init ends everything below it when it ends.
if [ -z "${CLEAN_ROOT_INSIDE:-}" ]; then
    args=(--suite "$suite")
    if [ -n "$tarball" ]; then
        mkdir -p "$(dirname "$tarball")"
        args+=(--tar "$(realpath "$tarball")")
    fi
    if [ -n "$cache" ]; then
        mkdir -p "$cache"
        args+=(--cache "$(realpath "$cache")")
    fi
    [ -z "$mirror" ] || args+=(--mirror "$mirror")
    [ -z "$brought" ] || args+=(--bring "$(realpath "$brought")")
    [ "$worktree" = no ] || args+=(--worktree)
    [ "$fresh" = no ] || args+=(--fresh)
    [ "$container" = no ] || args+=(--container)
    [ "$boot" = no ] || args+=(--boot)
    [ "$user" = root ] || args+=(--user)
    temporary=
    if [ -z "$root" ]; then
        # Inside it is everybody's "/"; from outside only we may enter. Debian 13 mounts /tmp without devices.
        temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
        root=$temporary/root
    fi
    mkdir -p "$root"
    # shellcheck disable=SC2064 # the name is known now
    [ -z "$temporary" ] || trap "rm -rf --one-file-system '$temporary'" EXIT
    command -v debootstrap >/dev/null || "$here/scripts/deps.sh" clean-root || cannot "there is no debootstrap"
    [ "$boot" = no ] || command -v systemd-nspawn >/dev/null || "$here/scripts/deps.sh" clean-root-boot ||
        cannot "there is no systemd-nspawn"
    # A container may have root and no right to mount.
    unshare --mount --pid --fork --kill-child mount -t proc proc /proc 2>/dev/null ||
        cannot "this machine allows no mounts: no root can be made"
    rc=0
    CLEAN_ROOT_INSIDE=yes unshare --mount --pid --fork --kill-child \
        "$0" --dir "$(realpath "$root")" "${args[@]}" "${commands[@]}" || rc=$?
    exit "$rc"
fi

work=$(mktemp -d)
made=no
trap 'rm -rf "$work"; [ "$made" = yes ] || exit 3' EXIT

# The Debian sources of this machine's apt, as "URI SUITE COMPONENT" lines with the suite that is asked for: where apt
# does not know it, from where this machine's own release comes. sid has neither updates nor a security suite.
debian_sources() {
    local own known
    own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016 # apt fills these in
    known=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u)
    [ -n "$(awk -v s="$suite" '$2 == s' <<<"$known")" ] || known=$(awk -v own="$own" -v s="$suite" \
        'own != "" && ($2 == own || index($2, own "-") == 1) { $2 = s substr($2, length(own) + 1); print }' <<<"$known")
    awk -v s="$suite" '$2 == s || (s != "sid" && ($2 == s "-updates" || $2 == s "-security"))' <<<"$known"
}

# Proxies and the like, whatever file they are configured in.
apt_settings() {
    apt-config dump | grep -E \
        '^Acquire::(https?|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])\b.*"[^"]' || true
}

# debootstrap downloads with wget, which knows neither apt's proxies nor its logins: hand them over
# by environment and file, not on a command line.
run_debootstrap() {
    local proxy file
    proxy=$(apt-config dump | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
    if [ -n "$proxy" ]; then export http_proxy=$proxy https_proxy=$proxy; fi
    (
        umask 077
        for file in /etc/apt/auth.conf /etc/apt/auth.conf.d/*.conf; do
            # wget reads plain host names only
            if [ -f "$file" ]; then sed -E 's#^(\s*machine\s+)(https?://)?([^/ ]+)\S*#\1\3#' "$file"; fi
        done >"$work/.netrc"
    )
    HOME=$work debootstrap --variant=minbase --include=ca-certificates,git \
        "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
        tail -n 20 "$work/debootstrap.log" >&2
        die "debootstrap failed; its log ends as above"
    }
}

use_mirror() { printf 'deb %s %s main\n' "$mirror" "$suite" >"$root/etc/apt/sources.list"; }

# A root from a file or of an earlier run may be another Debian.
check_suite() {
    awk -v s="$suite" '$1 == "deb" && $3 == s { found = 1 } END { exit !found }' "$root/etc/apt/sources.list" ||
        die "$1 is no $suite, see its /etc/apt/sources.list: name another file or directory"
}

configure_apt() {
    debian_sources | awk '
        { n[$1 " " $2] = n[$1 " " $2] " " $3 }
        END { for (k in n) print "deb " k n[k] }' | sort >"$root/etc/apt/sources.list"
    [ -s "$root/etc/apt/sources.list" ] || use_mirror
    apt_settings >"$root/etc/apt/apt.conf.d/90clean-root"
    # It is thrown away: dpkg need not wait for the disk.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/clean-root"
    if [ -f /etc/apt/auth.conf ]; then cp -p /etc/apt/auth.conf "$root/etc/apt/"; fi
    cp -pr /etc/apt/auth.conf.d "$root/etc/apt/" 2>/dev/null || true
}

make_root() {
    if [ "$fresh" = yes ]; then find "$root" -mindepth 1 -xdev -delete; fi
    if [ -n "$(ls -A "$root")" ]; then
        [ -x "$root/usr/bin/apt-get" ] || die "$root is neither empty nor a Debian root"
        check_suite "$root"
        say "root     $root, as it is"
    elif [ -n "$tarball" ] && [ -s "$tarball" ]; then
        tar -xpf "$tarball" -C "$root" --numeric-owner
        check_suite "$tarball"
        say "root     $root, from $tarball"
    else
        [ -n "$mirror" ] || mirror=$(debian_sources | awk -v s="$suite" '$2 == s { print $1; exit }')
        [ -n "$mirror" ] || die "apt here knows no $suite: name a mirror with --mirror"
        say "root     $root, debootstrap $suite"
        run_debootstrap
        use_mirror
        if [ -n "$tarball" ]; then
            tar -cpf "$tarball.part" -C "$root" --numeric-owner --one-file-system .
            mv "$tarball.part" "$tarball"
        fi
    fi
    configure_apt
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    printf '127.0.0.1 localhost %s\n::1 localhost\n' "$(hostname)" >"$root/etc/hosts"
}

# What a cache keeps, and where the root has it.
caches=(archives:/var/cache/apt/archives servers:/var/cache/worldkeeper/servers ccache:/var/cache/ccache)
mount_cache() {
    [ -n "$cache" ] || return 0
    local each
    for each in "${caches[@]}"; do
        mkdir -p "$cache/$suite/${each%%:*}" "$root${each#*:}"
        mount --bind "$cache/$suite/${each%%:*}" "$root${each#*:}"
    done
}

mount_root() {
    # Only where "/" is a mount can a process inside have mounts of its own (unshare --mount).
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o nosuid,mode=755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs "$root/dev/shm"
    local node
    for node in null zero full random urandom tty; do
        : >"$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s /proc/self/fd/0 "$root/dev/stdin"
    ln -s /proc/self/fd/1 "$root/dev/stdout"
    ln -s /proc/self/fd/2 "$root/dev/stderr"
}

# A user whose home is closed to others, as root's is.
make_user() {
    [ "$user" != root ] || return 0
    chroot "$root" /bin/bash -ec "export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update && apt-get -qq install --yes --no-install-recommends sudo
        id $user || useradd --create-home --shell /bin/bash $user
        chmod 0700 /home/$user
        echo '$user ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$user" >"$work/user.log" 2>&1 </dev/null || {
        tail -n 20 "$work/user.log" >&2
        die "user $user could not be made; the output ends as above"
    }
}

copy_tree() {
    local to=$root$where
    rm -rf "$to"
    mkdir -p "${to%/*}"
    # The checkout may be another user's, as where CI made it.
    printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
    export GIT_CONFIG_GLOBAL=$work/gitconfig
    if [ ! -e "$here/.git" ]; then
        mkdir "$to"
        tar -c -C "$here" --exclude=./build --exclude=__pycache__ --owner=0 --group=0 . | tar -x -C "$to"
        say "tree     the files in $here, which is no git checkout"
    elif [ "$worktree" = yes ]; then
        mkdir "$to"
        (cd "$here" && git ls-files -z --cached --others --exclude-standard |
            while IFS= read -rd '' file; do
                if [ -e "$file" ]; then printf '%s\0' "$file"; fi
            done | tar -c --null -T - --owner=0 --group=0) | tar -x -C "$to"
        say "tree     the files as they are in $here"
    else
        git clone -q --no-hardlinks "$here" "$to"
        say "tree     clone of $(git -C "$to" log -1 --format='%h %s')"
    fi
}

# systemd wants to see control groups of one hierarchy, whatever this machine has. `leader` becomes its process.
boot_root() {
    local nspawn=(systemd-nspawn --quiet --register=no --keep-unit --directory="$root" --resolv-conf=off) each
    mount --make-rprivate /
    mount -t proc proc /proc
    umount --lazy --recursive /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup || cannot "this machine has no control groups that systemd can use"
    if [ -n "$cache" ]; then
        for each in "${caches[@]}"; do
            mkdir -p "$cache/$suite/${each%%:*}" "$root${each#*:}"
            nspawn+=(--bind="$cache/$suite/$each")
        done
    fi
    "${nspawn[@]}" --as-pid2 /bin/bash -ec 'export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq install --yes --no-install-recommends systemd systemd-sysv dbus' >"$work/boot.log" 2>&1 </dev/null || {
        tail -n 20 "$work/boot.log" >&2
        cannot "no systemd in the root; the output ends as above"
    }
    rm -f "$root/etc/machine-id"
    "${nspawn[@]}" --boot >"$work/boot.log" 2>&1 </dev/null &
    nspawned=$!
    for ((i = 0; i < 600; i++)); do
        leader=$(pgrep -P "$nspawned" -x 'systemd|init' || true)
        if [ -n "$leader" ] && nsenter -t "$leader" --all systemctl is-system-running 2>/dev/null |
            grep -qE '^(running|degraded)$'; then return; fi
        kill -0 "$nspawned" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$work/boot.log" >&2
    cannot "systemd does not come up in the root; its output ends as above"
}

make_root
[ "$boot" = yes ] || mount_root
[ "$boot" = yes ] || mount_cache
make_user
copy_tree
[ -z "$brought" ] || cp "$brought" "$root${where%/*}/"
[ "$boot" = no ] || boot_root
[ "$user" = root ] || chroot "$root" chown -R "$user:" "/home/$user"
made=yes

# A login's environment and nothing of ours. What a container runtime usually leaves is Docker's default.
enter=(chroot "$root")
[ "$boot" = no ] || enter=(nsenter -t "$leader" --all)
kept=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
[ "$container" = no ] || enter+=(setpriv --bounding-set="-all,+${kept//,/,+}" --inh-caps=-all)
if [ "$user" = root ]; then
    enter+=(/usr/bin/env -i HOME=/root USER=root LOGNAME=root SHELL=/bin/bash)
else
    enter+=(setpriv --reuid="$user" --regid="$user" --init-groups /usr/bin/env -i "HOME=/home/$user" "USER=$user"
        "LOGNAME=$user" SHELL=/bin/bash)
fi
[ -z "$cache" ] || enter+=(CCACHE_DIR=/var/cache/ccache)
enter+=(TERM="${TERM:-dumb}" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)

failed=0
for command in "${commands[@]}"; do
    say
    say "--- $command"
    start=$SECONDS
    rc=0
    # shellcheck disable=SC2016 # the inner shell's
    "${enter[@]}" /bin/bash -c 'cd "$0" && eval "$1"' "$where" "$command" </dev/null || rc=$?
    say "--- $command: exit $rc after $((SECONDS - start)) s"
    [ "$rc" = 0 ] || failed=1
done
exit "$failed"
