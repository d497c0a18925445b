# shellcheck shell=bash
# Read by the entry point of MariaDB's image when its data directory is new: the account of worldkeeper.
# shellcheck disable=SC2312
docker_process_sql <<END
CREATE USER worldkeeper@localhost IDENTIFIED BY '$(cat /run/secrets/worldkeeper)';
GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER, SHOW VIEW, EVENT
    ON game.* TO worldkeeper@localhost;
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO worldkeeper@localhost;
END
