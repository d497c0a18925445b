/* The journal's segments. Of a segment that is being written, the settled bytes are sent each time
 * it has grown. A sealed segment is sent in pieces of 4 MiB, which is the most that one step sends.
 *
 * A restore can use the journal only as far as it is complete from the restored dump on. So the
 * segments that the newest dump needs are sent oldest first. They take turns with the segments
 * before them, and with joining and deleting, so that neither waits for the other while the game
 * writes without a pause.
 *
 * A store cannot append, and a name is never written twice. So each second's growth is its own
 * object, whose name says its range of bytes. When the segment is sealed, it is sent again in
 * pieces of 4 MiB, and then its small parts are deleted. A restore then fetches few objects for
 * each segment instead of thousands. */
#ifndef WK_OFFSITE_UPLOAD_SEGMENTS_H
#define WK_OFFSITE_UPLOAD_SEGMENTS_H

#include "offsite/upload.h"

/* Does one thing, as upload_dumps() does. */
enum remote_result upload_segments(struct upload *u, bool *more, struct err *e);
/* Updates the figures while a segment is joined: changes may have been appended since that began.
 * Changes nothing else. */
void upload_segments_figures(struct upload *u);
#endif
