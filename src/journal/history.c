#include "journal/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "db/gtid.h"
#include "db/sql.h"

/* A session may jump (gtid_seq_no), and so does a replica that leaves groups out. The server then
 * reads its file up to the place, which takes its time, and tells what was written before it. */
static bool same_numbers(const struct db_params *p, const struct db_point *point)
{
    struct err ignored;
    struct buf sql = {0};
    struct db *db = db_open(p, &ignored);
    buf_adds(&sql, "SELECT BINLOG_GTID_POS(");
    sql_string(&sql, point->file, strlen(point->file));
    buf_printf(&sql, ",%" PRIu64 ")", point->pos);
    char *told = db ? db_one(db, sql.p, &ignored) : NULL;
    bool same = told && !point->gtid_after[0] && strcmp(told, point->gtid) == 0;
    free(told);
    buf_free(&sql);
    db_close(db);
    return same;
}

int history_goes_on(const struct db_params *p, const struct db_point *point,
                    const struct change_gtid *first, struct err *e)
{
    struct db_gtid_range had = db_gtid_range(point, first->domain);
    if (!first->seq || had.most == 0 || (first->seq > had.least && first->seq <= had.most + 1) ||
        (first->seq > had.most && same_numbers(p, point)))
        return 0;
    return err_set(e, ERR_GAP, 0,
                   "the binary log is another one than before: it goes on with number %" PRIu64
                   " behind %" PRIu64,
                   first->seq, had.most);
}
