#!/bin/bash
# Prints 1 when the sentinel still has its row: a restart of the server empties MEMORY tables.
. "$(dirname "$0")/settings.sh"
mysql -u$DBUSER -p"$DBPASS" -S $SOCKET -N -e "SELECT COUNT(*) FROM $SENTINEL WHERE v=1" $DB 2>/dev/null
