#!/bin/bash
. "$(dirname "$0")/settings.sh"
WAS=$(cat $FLAG)
MINUTE=$(date +%M)
NEWEST=$(ls -t $DUMPS/$DB-*.sql.gz | head -1)

echo RESTORING > $FLAG
[ "$WAS" = WAITING ] || echo "restoring $NEWEST" | mail -s "$DB: RESTORING" $ADMIN
gunzip -c $NEWEST | mysql -u$DBUSER -p"$DBPASS" -S $SOCKET $DB 2>/dev/null

if [ "`$BASE/alive.sh`" = 1 ]; then
    echo UP > $FLAG
    echo "restored from $NEWEST" | mail -s "$DB: UP" $ADMIN
else
    echo WAITING > $FLAG
    if [ "$WAS" != WAITING ] || [ $((10#$MINUTE % 15)) -eq 0 ]; then
        echo "could not restore from $NEWEST" | mail -s "$DB: WAITING" $ADMIN
    fi
fi
