# shellcheck shell=bash
# Read by the entry point of MariaDB's image when its data directory is new: the account of worldkeeper. The server gets the
# hash that the password has for mysql_native_password, which no byte of it and no sql_mode can make into other SQL, and
# which is all that its binary log keeps. As worldkeeper does, it takes the first line, and refuses an empty one: everybody
# would know that password.
# shellcheck disable=SC2312
password=$(head -n 1 /run/secrets/worldkeeper | tr -d '\n' | LC_ALL=C sed 's/\r.*//' | od -An -v -tx1 | tr -d ' \n')
if [ -z "$password" ]; then
    echo 'the first line of the secret "worldkeeper" is empty: fill it, remove the new data directory, and start again' >&2
    exit 1
fi
docker_process_sql <<END
SET @password = X'$password';
SET @statement = CONCAT('CREATE USER worldkeeper@localhost IDENTIFIED VIA mysql_native_password USING ''*',
    SHA1(UNHEX(SHA1(@password))), '''');
EXECUTE IMMEDIATE @statement;
GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER, SHOW VIEW, EVENT
    ON game.* TO worldkeeper@localhost;
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO worldkeeper@localhost;
END
