#!/bin/bash
# What etc/container/Containerfile says, done in this Debian as an engine would do it; then its entry point as its user, without
# any capability, beside a server whose account etc/container/account.sh makes. For a Debian that may be thrown away:
#   scripts/clean-root.sh tests/container.sh
set -euo pipefail
cd "$(dirname "$0")/.."
recipe=etc/container/Containerfile
export DEBIAN_FRONTEND=noninteractive

# What follows a word of the recipe, each on one line; and the words of a list such as ["a", "b"].
said() { sed -e ':join;/\\$/{N;s/\\\n//;b join}' "$recipe" | sed -n "s/^$1 //p"; }
words() { said "$1" | tr -d '[]",'; }
say() { printf '%s\n' "container: $*"; }
until_true() {
    local what=$1 i
    shift
    for ((i = 0; i < 240; i++)); do
        if "$@"; then return; fi
        sleep 0.5
    done
    say "FAILED: $what"
    exit 1
}

# The recipe's first image has no git.
! command -v git >/dev/null || mv "$(command -v git)" /tmp/
mapfile -t steps < <(said RUN)
[ ${#steps[@]} = 2 ]
bash -ec "${steps[0]}" >/tmp/build.log 2>&1 || { tail -n 30 /tmp/build.log; exit 1; }
cp build/package/worldkeeper_*.deb /tmp/
bash -ec "${steps[1]}" >/tmp/install.log 2>&1 || { tail -n 30 /tmp/install.log; exit 1; }
say "built and installed by the recipe: $(worldkeeper --version)"

scripts/servers.sh fetch mariadb >/dev/null
secret=$(od -An -N20 -tx1 /dev/urandom | tr -d ' \n')
install -d /run/secrets /run/credentials /run/mysqld
printf '%s\n' "$secret" >/run/secrets/worldkeeper
install -m 0400 -o 10001 -g 10001 /run/secrets/worldkeeper /run/credentials/mysql
install -D -m 0644 etc/container/world.ini /etc/worldkeeper/world.ini
server() { scripts/servers.sh start mariadb /run/server --log-bin=binlog --binlog-format=ROW --server-id=1 >/dev/null; }
docker_process_sql() { mariadb --socket=/run/server/socket --user=root --skip-column-names "$@"; }
server
chmod go+x /run/server # as the volume that both containers have
ln -s /run/server/socket /run/mysqld/mysqld.sock
docker_process_sql <<'END'
CREATE DATABASE game;
CREATE TABLE game.player (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE=MEMORY;
INSERT INTO game.player VALUES (1, 'ann'), (2, 'ben');
END
# shellcheck source=etc/container/account.sh
. etc/container/account.sh

user=$(words USER)
mapfile -t entry < <(words ENTRYPOINT | tr ' ' '\n')
inside() {
    setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
        env -i "PATH=$PATH" "$(said ENV)" "$@"
}
healthy() { inside sh -c "$(said HEALTHCHECK | sed 's/.*CMD //')" >/dev/null 2>&1; }
rows() { docker_process_sql --execute='SELECT COUNT(*) FROM game.player' 2>/dev/null | grep -qx 2; }
dumped() { ls /var/lib/worldkeeper/world/*.sql.gz >/dev/null 2>&1; }

inside "${entry[@]}" --init
mapfile -t run < <(words CMD | tr ' ' '\n')
inside "${entry[@]}" "${run[@]}" >/tmp/run.log 2>&1 &
until_true "healthy, and a dump" eval "healthy && dumped"
say "--init, ${run[*]}: healthy, without root"
kill -9 "$(cat /run/server/pid)"
until_true "the health check sees that the server is gone" eval "! healthy"
server
until_true "healthy again" eval "healthy && rows"
say "the server was killed: the world is back, and healthy"
kill "$(pgrep -u "${user%:*}" -o worldkeeper)"
wait $!
say "ended in order"
scripts/servers.sh stop mariadb /run/server >/dev/null
