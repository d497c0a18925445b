/* Follows the server's binary log while the world lives, so that what a restore will need of it is
 * known to be there now and not found missing after the loss: that the log can be read at all, that
 * every change of the world is in it as rows, and how far behind the reader is. With [journal] mode
 * = follow the changes are also written into segments (archive.h), which go on where they ended
 * last time, if the log still reaches back to there.
 *
 * A worker of the supervisor. Each second it writes a number (the beat) into the sentinel's row and
 * waits for it to come back through the log, and to be on the disk where segments are written. It
 * tells, one JSON object a second and at once for what is news:
 *   {"state":"following", "proven_ms": when the last beat that came was written, by
 *    clock_mono(), "changes": rows changed since it began, "file", "pos"}
 *   {"gap": "why", "file", "pos"}  something that row changes cannot follow: only a dump of a
 * moment behind that place ends it
 *   {"unable": "why", "hint"} the server or the account does not allow it; the worker ends
 *   {"error": {…}, "files": the segments' disk is the trouble}  the connection is lost, …; the
 *    worker ends
 * and is told {"dump": true} when a dump was stored: the segment is sealed, and what no dump needs
 * any more is deleted. SIGTERM ends it in order: what it has read is on the disk then. */
#ifndef WK_JOURNAL_FOLLOW_H
#define WK_JOURNAL_FOLLOW_H

#include "config/config.h"
#include "db/query.h"

struct follow_args {
    const struct config *cfg;
    struct db_params db;  /* without a default schema */
    int dump_dirfd;       /* what dumps there are says which segments are needed */
    struct db_point from; /* of the newest dump: what came after it must be in the log; file "":
                             from now on, wherever segments end */
    bool anew;            /* the log does not lead on from where segments end */
};
int follow_worker(int fd, void *arg /* struct follow_args */);

#endif
