#!/usr/bin/env bash
# Builds the Debian package from the files as they are here. Two builds of the same files with the same Debian packages give
# identical bytes, in whatever directories: all times are those of the commit, and paths do not get into the program.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=
out=$here/build/package
native=no
release=no
install=no
roots=()

usage() {
    cat <<'END'
Usage: scripts/build-deb.sh [OPTIONS]

Builds the Debian package in a temporary, bare Debian, which is removed afterwards: this machine gets no compiler, only
debootstrap. Ends with the path of the package and the command that installs it, or has that done. Needs root.

  --install       install the package when it is built, without a question
  --here          build on this machine, as any user, with what scripts/deps.sh package has installed (make deb)
  --suite SUITE   bookworm or trixie (default: the release that this machine runs)
  --out DIR       where the package goes (default: build/package)
  --release       append the Debian release to the package's version (+deb12), and write its software bill of
                  materials beside it (scripts/sbom.sh)
  --tar FILE, --cache DIR
                  what scripts/clean-root.sh keeps for the next time
  --help          this text

The times of all files are SOURCE_DATE_EPOCH, by default the time of the commit; in an unpacked source tarball, and without
git, that of debian/changelog. Unit tests run where libcmocka-dev is installed and DEB_BUILD_OPTIONS has no nocheck.
Exit status: 0 if the package is built (and installed), 1 if not, 2 for a wrong option, 3 if no Debian can be made here.
END
}

die() {
    printf 'build-deb: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --suite | --out | --tar | --cache)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --suite) suite=$2 ;;
        --out) out=$2 ;;
        *) roots+=("$1" "$(realpath -m "$2")") ;;
        esac
        shift
        ;;
    --here) native=yes ;;
    --release) release=yes ;;
    --install) install=yes ;;
    --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
out=$(realpath -m "$out")
cd "$here"
[ "$install" = no ] || [ "$(id -u)" = 0 ] || die "--install needs root: sudo scripts/build-deb.sh --install"
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[ "$install" = no ] || [ "${suite:-$own}" = "$own" ] || die "--install: a package for $suite is not for this machine, which has $own"

# A checkout may belong to another user than root, who builds. A bare Debian, such as the image that a container is built in,
# has no git.
epoch() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    elif [ -e .git ] && command -v git >/dev/null; then
        git -c safe.directory='*' log -1 --format=%ct
    else
        stat -c %Y debian/changelog
    fi
}
SOURCE_DATE_EPOCH=$(epoch)
export SOURCE_DATE_EPOCH

build_here() {
    local version dir options=(-b -us -uc "-j$(nproc)") deb
    version=$(sed -n 's/^VERSION := //p' Makefile)
    dir=build/package/worldkeeper-$version
    rm -rf build/package
    mkdir -p "$dir"
    tar -c --exclude=./build --exclude=./.git --exclude=__pycache__ --mtime="@$SOURCE_DATE_EPOCH" . | tar -x -C "$dir"
    if [ "$release" = yes ]; then
        # Both packages of a release are in one place, and the one of the newer Debian replaces the other one in an upgrade.
        sed -i "1s/)/+deb$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release))/" "$dir/debian/changelog"
        touch -d "@$SOURCE_DATE_EPOCH" "$dir/debian/changelog"
    fi
    if ! dpkg-query -W -f '${db:Status-Abbrev}' libcmocka-dev 2>/dev/null | grep -q '^ii'; then
        printf 'build-deb: the unit tests are not run: libcmocka-dev is not installed\n' >&2
        options+=(-Pnocheck)
        export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} nocheck"
    fi
    (cd "$dir" && umask 022 && dpkg-buildpackage "${options[@]}")
    rm -rf "$dir"
    deb=$(echo build/package/worldkeeper_*.deb)
    if [ "$release" = yes ]; then scripts/sbom.sh "$deb" >"${deb%.deb}.cdx.json"; fi
    if [ "$out" != "$here/build/package" ]; then
        mkdir -p "$out"
        cp build/package/* "$out/"
    fi
}

# What the root made is copied; nothing else of it stays.
build_in_root() {
    local work rc=0 options=() name
    [ -n "$suite" ] || suite=$own
    [ "$release" = no ] || options+=(--release)
    work=$(mktemp -d -p "${TMPDIR:-/var/tmp}") # Debian 13 mounts /tmp without devices
    printf 'build-deb: building in a temporary Debian (%s), which takes some minutes; its log: %s/log\n' "$suite" "$work" >&2
    # shellcheck disable=SC2064 # the name is known now
    trap "rm -rf --one-file-system '$work'" EXIT
    scripts/clean-root.sh --suite "$suite" --worktree --dir "$work/root" "${roots[@]}" \
        "scripts/deps.sh package && SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH scripts/build-deb.sh --here ${options[*]} >build.log 2>&1 ||
            { tail -n 40 build.log; false; }" >"$work/log" 2>&1 || rc=$?
    if [ "$rc" != 0 ]; then
        tail -n 60 "$work/log" >&2
        [ "$rc" != 3 ] || printf 'build-deb: with a compiler on this machine: sudo scripts/deps.sh package && make deb\n' >&2
        exit "$rc"
    fi
    # Of an earlier build nothing is installed by mistake.
    if [ "$out" = "$here/build/package" ]; then rm -rf "$out"; fi
    mkdir -p "$out"
    for name in "$work"/root/root/worldkeeper/build/package/worldkeeper*; do
        cp --no-preserve=ownership "$name" "$out/"
        built+=("$out/${name##*/}")
    done
    # The checkout's owner can remove them again.
    chown -R --reference="$here" "$out"
}

built=()
if [ "$native" = yes ]; then
    build_here
    built=("$out"/worldkeeper_*.deb)
else
    build_in_root
fi
for file in "${built[@]}"; do
    case $file in
    */worldkeeper_*.deb)
        name=$file
        [ "${file#"$PWD/"}" = "$file" ] || name=./${file#"$PWD/"}
        if [ "$install" = no ]; then
            printf '\n%s\nsudo apt install %q\n' "$file" "$name"
        else
            printf '\n%s\n' "$file"
            apt-get -qq update
            DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --reinstall --allow-downgrades "$name"
        fi
        ;;
    esac
done
