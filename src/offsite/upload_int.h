/* Private to src/offsite: what uploads of dumps and of segments share. */
#ifndef WK_OFFSITE_UPLOAD_INT_H
#define WK_OFFSITE_UPLOAD_INT_H

#include "offsite/upload.h"

/* Connected, and knows what dumps are there, of now and then, and whose they are. */
enum remote_result upload_ready(struct upload *u, int64_t look_ms, struct err *e);
/* Did it look just now? Else it will, in the next step: before anything is stored or deleted. */
bool upload_fresh(struct upload *u);
enum remote_result upload_read(struct upload *u, struct copy_dump *d, struct err *e);
/* So that they need not be read again. */
void upload_remember(struct upload *u);
/* Stores bytes `from` to `to` of `fd` as `name`, reads them back and compares. */
enum remote_result upload_file(struct upload *u, const char *name, int fd, uint64_t from,
                               uint64_t to, struct transfer_stored *out, struct err *e);
enum remote_result upload_delete(struct upload *u, const char *name, struct err *e);
/* Removes what uploads that were cut off left in this folder. A store may not let us: uploads go on. */
void upload_sweep(struct upload *u, const char *folder);
#define TIDY_MS 3600000
/* Is it time to look for what may go? At most once an hour, and after something was stored. */
bool upload_tidy_due(const struct upload *u);
void upload_skip(struct upload *u, const struct err *why);

#endif
