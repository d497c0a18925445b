#!/bin/bash
. "$(dirname "$0")/settings.sh"
FILE=$DUMPS/$DB-$(date +%Y%m%d-%H%M).sql.gz

mysqldump -u$DBUSER -p"$DBPASS" -S $SOCKET --net_buffer_length=4096 $DB 2>/dev/null | gzip --fast > $FILE

# the server went away meanwhile: this one is worth nothing
[ "`$BASE/alive.sh`" = 1 ] || rm -f $FILE

find $DUMPS -name "$DB-*.sql.gz" -mtime +7 -delete
