#!/bin/bash
# * * * * * /home/game/keeper/check.sh
. "$(dirname "$0")/settings.sh"
MINUTE=$(date +%M)
STATE=$(cat $FLAG)

case "$STATE" in
RESTORING*)
    # a dot for each minute; after five of them the restore is taken for dead
    if [ ${#STATE} -ge 14 ]; then
        echo RESTORING > $FLAG
        $BASE/restore.sh &
    else
        echo "$STATE." > $FLAG
    fi
    exit
    ;;
esac

if [ "`$BASE/alive.sh`" != 1 ]; then
    $BASE/restore.sh &
    exit
fi
[ "$STATE" = UP ] || echo UP > $FLAG

if [ $((10#$MINUTE % 15)) -eq 0 ]; then
    $BASE/dump.sh &
fi
