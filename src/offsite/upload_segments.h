/* The journal's segments. Of a segment that is being written, the settled bytes are sent each time
 * it has grown. A sealed segment is sent as a whole, in one object.
 *
 * A store cannot append, and a name is never written twice. So each second's growth is its own
 * object, whose name says its range of bytes. When the segment is sealed, it is sent again as a
 * whole, and then its small parts are deleted. A restore then fetches one object for each
 * segment instead of thousands. */
#ifndef WK_OFFSITE_UPLOAD_SEGMENTS_H
#define WK_OFFSITE_UPLOAD_SEGMENTS_H

#include "offsite/upload.h"

/* Does one thing, as upload_dumps() does. */
enum remote_result upload_segments(struct upload *u, bool *more, struct err *e);
/* Updates the figures while a segment is joined: changes may have been appended since that began.
 * Changes nothing else. */
void upload_segments_figures(struct upload *u);
/* Writes the name of the file in the journal's directory that lists the parts that were sent but
 * not yet read back. While it exists, not everything in the store is proven. */
void upload_doubts_name(const char *world, char out[SEGMENT_NAME_MAX]);

#endif
