/* Private to src/offsite: shared by uploads of dumps and of segments. */
#ifndef WK_OFFSITE_UPLOAD_INT_H
#define WK_OFFSITE_UPLOAD_INT_H

#include "offsite/upload.h"
#include "store/lives.h"

/* Connects, and from time to time lists the dumps there and who owns them. */
enum remote_result upload_ready(struct upload *u, int64_t look_ms, struct err *e);
/* Returns true if the store was listed just now. Otherwise the next step lists it before anything
 * is stored or deleted. */
bool upload_fresh(struct upload *u);
/* Returns true if the manifest must be read. One that was damaged twice and has not changed since
 * then counts as bad unread, unless nothing would be reported. */
bool upload_unread(const struct upload *u, struct copy_dump *d);
enum remote_result upload_read(struct upload *u, struct copy_dump *d, struct err *e);
/* Returns true if the record abandons the dump. A list does not show where a dump ends, so a later
 * dump of an ancestor counts as abandoned even if its successor contains all of it. Pure. */
bool upload_abandoned(const struct lives *l, const struct copy_dump *d, const char *world);
/* Remembers what was read, so that it need not be read again. */
void upload_remember(struct upload *u);
/* Asks whose the world is. Called right before each write or deletion, because the list that was
 * judged may be seconds old. */
enum remote_result upload_ours(struct upload *u, struct err *e);
/* Stores bytes `from` to `to` of `fd` as `name`, reads them back and compares. out->size is 0 if
 * the store did not accept them. */
enum remote_result upload_file(struct upload *u, const char *name, int fd, uint64_t from,
                               uint64_t to, struct transfer_stored *out, struct err *e);
/* Stores a text as `name`, not encrypted, and reads it back. */
enum remote_result upload_text(struct upload *u, const char *name, const char *text, struct err *e);
enum remote_result upload_delete(struct upload *u, const char *name, struct err *e);
/* Removes remains of interrupted uploads in this folder. A store may refuse that; uploads
 * continue. */
void upload_sweep(struct upload *u, const char *folder);
#define TIDY_MS 3600000
/* Returns true if it is time to look for deletable items: at most once an hour, and after something
 * was stored. */
bool upload_tidy_due(const struct upload *u);
void upload_skip(struct upload *u, const struct err *why);

#endif
