#!/usr/bin/env bash
# In place of cron for figures and tests: runs check.sh of the given directory each time that the
# minute begins, until it is ended. A `mail` beside the scripts stands in for the mail program.
set -u
dir=$1
export PATH=$dir/bin:$PATH
trap 'exit 0' TERM INT
while :; do
    # Sleeps to the next full minute, as cron does.
    sleep "$(awk -v now="$EPOCHREALTIME" 'BEGIN { printf "%.3f", 60 - now % 60 }')" &
    wait $!
    "$dir/check.sh"
done
