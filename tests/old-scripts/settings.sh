# Read by the three scripts and by alive.sh.
BASE=/home/game/keeper
DB=galaxy
DBUSER=keeper
DBPASS='old secret'
SOCKET=/run/mysqld/mysqld.sock
SENTINEL=up_sentinel
FLAG=/var/www/status/index.html
DUMPS=$BASE/dumps
ADMIN=admin@example.com
