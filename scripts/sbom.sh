#!/usr/bin/env bash
# Writes the software bill of materials of a package, in the Debian that has just built it.
set -euo pipefail

usage() {
    cat <<'END'
Usage: scripts/sbom.sh PACKAGE.deb

Prints the software bill of materials of a package that was built in this Debian, as CycloneDX 1.5 JSON: the packages that it
depends on (scope required), those that it recommends (optional), and all others that it was built with (excluded),
which its .buildinfo beside it names. Versions and sources are those that dpkg has installed here; a package
that is not installed here has no version.
END
}

die() {
    printf 'sbom: %s\n' "$*" >&2
    exit 1
}

case ${1:-} in
--help)
    usage
    exit 0
    ;;
-* | '')
    usage >&2
    exit 2
    ;;
esac
[ -r "$1" ] || die "cannot read $1"
deb=$1
buildinfo=${deb%.deb}.buildinfo
[ -r "$buildinfo" ] || die "cannot read $buildinfo, which dpkg-buildpackage writes beside the package"

field() { dpkg-deb -f "$deb" "$1"; }
# The names in a list of dependencies, the first of each alternative, with SCOPE before them.
names() { tr ',' '\n' <<<"$2" | sed -n 's/^ *\([a-z0-9][a-z0-9+.-]*\).*/'"$1"'\t\1/p'; }
distro=$(sed -n 's/^ID=//p; s/^VERSION_ID="\(.*\)"/-\1/p' /etc/os-release | sort -r | tr -d '\n')

# Nothing in these names, versions and fields needs an escape in JSON: Debian's policy has no such characters in them.
{
    names required "$(field Depends)"
    names optional "$(field Recommends)"
    names excluded "$(sed -n '/^Installed-Build-Depends:/,/^[A-Z].*:/{/^ /p}' "$buildinfo")"
    # shellcheck disable=SC2016 # dpkg-query fills these in
    dpkg-query -W -f 'is\t${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${db:Status-Abbrev}\n'
} | LC_ALL=C awk -F '\t' -v distro="$distro" -v name="$(field Package)" -v version="$(field Version)" \
    -v arch="$(field Architecture)" -v sum="$(sha256sum "$deb" | cut -d' ' -f1)" \
    -v at="$(date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$deb")}" +%Y-%m-%dT%H:%M:%SZ)" '
    $1 == "is" { if ($7 ~ /^ii/) { v[$2] = $3; a[$2] = $4; source[$2] = $5 " " $6 } next }
    !($2 in scope) { scope[$2] = $1; order[++n] = $2 }
    function escape(text) { gsub(/\+/, "%2B", text); gsub(/:/, "%3A", text); return text }
    function purl(package, version, arch) {
        return "pkg:deb/debian/" escape(package) (version == "" ? "" : "@" escape(version)) "?" \
            (arch == "" ? "" : "arch=" arch "&") "distro=" distro
    }
    END {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && order[j - 1] > order[j]; j--) { t = order[j]; order[j] = order[j - 1]; order[j - 1] = t }
        own = purl(name, version, arch)
        printf "{\n \"bomFormat\": \"CycloneDX\",\n \"specVersion\": \"1.5\",\n \"version\": 1,\n"
        printf " \"metadata\": {\n  \"timestamp\": \"%s\",\n", at
        printf "  \"component\": {\"type\": \"application\", \"bom-ref\": \"%s\", \"name\": \"%s\", \"version\": \"%s\", ", own, name, version
        printf "\"purl\": \"%s\", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"%s\"}], ", own, sum
        printf "\"licenses\": [{\"license\": {\"id\": \"MIT\"}}]}\n },\n \"components\": ["
        for (i = 1; i <= n; i++) {
            p = order[i]
            ref = purl(p, v[p], a[p])
            printf "%s\n  {\"type\": \"library\", \"bom-ref\": \"%s\", \"name\": \"%s\", ", (i > 1 ? "," : ""), ref, p
            if (p in v) printf "\"version\": \"%s\", ", v[p]
            printf "\"scope\": \"%s\", \"purl\": \"%s\"", scope[p], ref
            if (p in v) printf ", \"properties\": [{\"name\": \"debian:source\", \"value\": \"%s\"}]", source[p]
            printf "}"
            if (scope[p] != "excluded") needs = needs (needs == "" ? "" : ", ") "\"" ref "\""
        }
        printf "\n ],\n \"dependencies\": [{\"ref\": \"%s\", \"dependsOn\": [%s]}]\n}\n", own, needs
    }'
