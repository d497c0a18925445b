/* The follower's writing side: a world's segments, one after the other, as they are begun, brought
 * to the disk, sealed and deleted. For one thread of the one process that writes the directory. */
#ifndef WK_JOURNAL_KEEP_H
#define WK_JOURNAL_KEEP_H

#include "journal/archive.h"

struct keep;

/* Seals what a killed writer left. `server` is what the log is read from. Damage that was found is
 * told in `damage` ("" for none): what the segments hold ends there. */
struct keep *keep_open(const struct config *c, int dump_dirfd, const struct server_id *server,
                       const char *schema, char damage[512], struct err *e);
/* Where the segments end, in the log of this server; NULL: nowhere. */
const struct segment_place *keep_end(const struct keep *k);
/* Is everything in them from this place to their end? Also where it is behind their end. */
bool keep_reaches(const struct keep *k, const struct db_point *from);
/* Reading begins here; `why` it is not at keep_end(), NULL: it is. */
void keep_begin(struct keep *k, const struct segment_place *from, const char *why);
int keep_put(struct keep *k, const struct change *c, struct err *e);
/* When it is time, what was put is brought to the disk, as far as groups are whole. 1: it is there;
 * 0: it is too early, or there was nothing; -1. */
int keep_sync(struct keep *k, struct err *e);
/* A dump was stored: a new segment begins, and needless ones go. */
int keep_dumped(struct keep *k, struct err *e);
/* Seals. NULL is allowed. After an error of the above what is on the disk stays as it is. */
int keep_close(struct keep *k, struct err *e);

#endif
