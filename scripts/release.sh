#!/usr/bin/env bash
# Makes a release of the commit that is checked out: everything in it can be made again, to the byte, from the commit and the
# same Debian packages.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$here/build/dist
roots=()
suites=(bookworm trixie)

usage() {
    cat <<'END'
Usage: scripts/release.sh [OPTIONS]

Makes a release of the commit that is checked out, into build/dist: the source tarball; from it the packages for
Debian 12 and 13, each built in a bare Debian of its own (scripts/build-deb.sh), with their debug symbols and their
software bills of materials; SHA256SUMS of all of them. Needs root, for these Debians.

  --source-only   the tarball and its checksum only; needs no root
  --out DIR       in place of build/dist
  --cache DIR     keep there what is downloaded, for the next time (scripts/clean-root.sh)
  --help          this text

Exit status: 0 if all is made, 1 if not, 2 for a wrong option, 3 if no Debian can be made here.
END
}

die() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --out | --cache)
        [ $# -ge 2 ] || die "$1 needs a value"
        if [ "$1" = --out ]; then out=$2; else roots=("$(realpath -m "$2")"); fi
        shift
        ;;
    --source-only) suites=() ;;
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

# A checkout may belong to another user than root, who builds.
own_git() { git -c safe.directory='*' "$@"; }
[ -e .git ] || die "a release is made of a commit: this is no git checkout"
changed=$(own_git status --porcelain)
[ -z "$changed" ] || die "a release is made of a commit; commit or remove first: $(head -n 5 <<<"$changed" | tr '\n' ' ')"
version=$(sed -n 's/^VERSION := //p' Makefile)
grep -qx "## $version" CHANGELOG.md || die "CHANGELOG.md has no heading '## $version'"
[ "$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)" = "$version" ] || die "debian/changelog is not of $version: see its first line"

name=worldkeeper-$version
rm -rf "$out"
mkdir -p "$out"
# git writes the files in the order of their names, with the time of the commit.
own_git -c tar.umask=0022 archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
for suite in "${suites[@]}"; do
    printf '%s: building the package\n' "$suite"
    kept=()
    [ ${#roots[@]} = 0 ] || kept=(--tar "${roots[0]}/$suite.tar" --cache "${roots[0]}")
    rm -rf "${work:?}/$name"
    tar -xzf "$out/$name.tar.gz" -C "$work"
    "$work/$name/scripts/build-deb.sh" --suite "$suite" --release --out "$work/$suite" "${kept[@]}" >"$work/log" || {
        rc=$?
        cat "$work/log" >&2
        exit "$rc"
    }
    # .changes and .buildinfo are of an upload to Debian.
    cp "$work/$suite"/*.deb "$work/$suite"/*.cdx.json "$out/"
done
(cd "$out" && LC_ALL=C && sha256sum -- * >"$work/sums" && cp "$work/sums" SHA256SUMS)
chown -R --reference="$here" "$out"
printf '\n%s:\n' "$out"
cat "$out/SHA256SUMS"
