#!/bin/bash
# The package of 0.2.0 is upgraded to this one over a running world, downgraded, upgraded again, removed and purged. After each
# step the world is up with all its rows, its server is killed and it comes back; config and dumps are what they were. For a
# Debian that may be thrown away, from a clone that has the commit of 0.2.0:
#   scripts/clean-root.sh --boot tests/upgrade.sh
# Without --boot systemd is not process 1: what the packages' scripts ask of it is carried out by a stand-in.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/private-world.sh
. scripts/private-world.sh
before=a31529d # the last commit of 0.2.0
export DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=nocheck
log=/tmp/upgrade.log
dumps=/var/lib/worldkeeper/demo

say() { printf '%s\n' "upgrade: $*"; }
fail() {
    say "FAILED: $*"
    tail -n 30 "$log" /tmp/demo.log 2>/dev/null || true
    journalctl --no-pager -n 30 -u worldkeeper@demo 2>/dev/null || true
    exit 1
}
trap 'pw_finish' EXIT

scripts/deps.sh package demo >"$log" 2>&1
mkdir -p /tmp/old/worldkeeper
git archive "$before" | tar -x -C /tmp/old/worldkeeper
(cd /tmp/old/worldkeeper && dpkg-buildpackage -b -us -uc -Pnocheck "-j$(nproc)") >>"$log" 2>&1 || fail "0.2.0 cannot be built"
make deb >>"$log" 2>&1 || fail "no package"
old=$(echo /tmp/old/worldkeeper_0.2.0*.deb)
new=$(echo "$PWD"/build/package/worldkeeper_*.deb)
apt-get install --yes --no-install-recommends "$old" libisal2 >>"$log" 2>&1 || fail "0.2.0 cannot be installed"
say "$(worldkeeper --version) is installed"

# pid_of_world, started: with systemd its own, else a stand-in's.
if [ "$(cat /proc/1/comm)" = systemd ]; then
    supervise() { systemctl enable --now worldkeeper@demo >>"$log" 2>&1 || fail "systemctl"; }
    pid_of_world() { systemctl show --property MainPID --value worldkeeper@demo; }
    say "systemd runs: the units are its own"
else
    mkdir -p /run/systemd/system
    cat >/usr/local/bin/systemctl <<'END'
#!/bin/sh
case $1 in list-units) [ ! -e /tmp/demo.pid ] || echo 'worldkeeper@demo.service loaded active running' ;; esac
END
    cat >/usr/local/bin/deb-systemd-invoke <<'END'
#!/bin/bash
case "$*" in 'restart worldkeeper@demo.service' | 'stop worldkeeper.target') ;; *) exit 1 ;; esac
if [ -e /tmp/demo.pid ]; then
    pid=$(cat /tmp/demo.pid)
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    rm /tmp/demo.pid
fi
[ "$1" != restart ] || /usr/local/bin/supervise
END
    cat >/usr/local/bin/supervise <<'END'
#!/bin/bash
install -d -o worldkeeper -g worldkeeper /run/worldkeeper /run/worldkeeper/demo
RUNTIME_DIRECTORY=/run/worldkeeper/demo setsid setpriv --reuid=worldkeeper --regid=worldkeeper --clear-groups \
    worldkeeper --world demo --run >>/tmp/demo.log 2>&1 </dev/null &
echo $! >/tmp/demo.pid
END
    chmod 0755 /usr/local/bin/*
    supervise() { /usr/local/bin/supervise; }
    pid_of_world() { cat /tmp/demo.pid 2>/dev/null || echo 0; }
fi

pw_begin
pw_free_port
pw_install_server
pw_start_server
pw_wait_server
pw_make_world
pw_sql -e "RENAME USER worldkeeper@localhost TO worldkeeper@'127.0.0.1'"
install -d -m 0700 -o worldkeeper -g worldkeeper "$dumps"
install -m 0400 -o worldkeeper "$PW_DIR/password" /etc/worldkeeper/demo.password
cat >/etc/worldkeeper/demo.ini <<END
[world]
name = demo
schema = galaxy
[mysql]
host = 127.0.0.1
port = $PW_PORT
user = worldkeeper
password_file = /etc/worldkeeper/demo.password
[dump]
dir = $dumps
END
config=$(sha256sum /etc/worldkeeper/*)
as_service() { setpriv --reuid=worldkeeper --regid=worldkeeper --clear-groups worldkeeper --world demo "$@"; }
is_up() { as_service --status --json 2>/dev/null | grep -q '"state": *"UP"'; }
wait_up() {
    local tries
    for ((tries = 0; tries < 240; tries++)); do
        # Twice: what was up before the kill is no proof.
        if pw_server_answers && is_up && sleep 1.5 && is_up; then return 0; fi
        sleep 0.5
    done
    fail "$1: not UP"
}
sums() { pw_sql galaxy -e 'CHECKSUM TABLE players, planets, fleets, orders'; }

# The world is up under the installed version, which puts it back after a loss; nothing else has changed.
proven() {
    local what=$1 was
    wait_up "$what"
    pw_sql galaxy -e "INSERT INTO orders (fleet, goal, given) VALUES (1, 1, NOW(3)); UPDATE planets SET ore = ore + 1 WHERE id = 7"
    was=$(sums)
    pw_end "$PW_SERVER" KILL
    pw_start_server
    pw_wait_server
    wait_up "$what, after a loss"
    [ "$(sums)" = "$was" ] || fail "$what: other rows after a loss"
    [ "$(sha256sum /etc/worldkeeper/*)" = "$config" ] || fail "$what: the config has changed"
    [ "$(stat -c %U:%a "$dumps")" = worldkeeper:700 ] || fail "$what: another owner or mode of the dumps"
    as_service --verify --quiet || fail "$what: a dump is damaged"
    say "$what: $(worldkeeper --version) supervises; a loss was mended, $(find "$dumps" -name 'demo-*.json' | wc -l) dumps are intact"
}
# Upgrade or downgrade over the running world: the package's script restarts it.
change_to() {
    local package=$1 pid
    pid=$(pid_of_world)
    find "$dumps" -name 'demo-*.sql.gz' | sort >/tmp/dumps.before
    dpkg -i "$package" >>"$log" 2>&1 || fail "dpkg -i $package"
    case $(pid_of_world) in "$pid") fail "the old program goes on" ;; 0) fail "the world was stopped" ;; esac
    while read -r file; do [ -e "$file" ] || fail "$file is gone"; done </tmp/dumps.before
}

as_service --init >>"$log" 2>&1 || fail "--init"
supervise
proven "0.2.0"
change_to "$new"
proven "upgraded"
grep -q '"format": 1' "$dumps/state.json" || fail "state.json has no format"
change_to "$old"
proven "downgraded"
change_to "$new"
proven "upgraded again"

dpkg -r worldkeeper >>"$log" 2>&1 || fail "dpkg -r"
[ "$(pid_of_world)" = 0 ] || fail "the world was not stopped"
[ ! -e /usr/bin/worldkeeper ] || fail "the program is still there"
dpkg -P worldkeeper >/tmp/purge.log 2>&1 || fail "dpkg -P"
for dir in /var/lib/worldkeeper /etc/worldkeeper; do
    grep -q "worldkeeper: $dir is kept" /tmp/purge.log || fail "nothing says that $dir is kept"
done
[ "$(sha256sum /etc/worldkeeper/*)" = "$config" ] || fail "purge: the config has changed"
ls "$dumps"/demo-*.sql.gz >/dev/null || fail "purge: the dumps are gone"
say "removed and purged: config and dumps are kept"
