/* Publishes the flag, status.json and the metrics. */
#ifndef WK_SUPERVISOR_PUBLISHER_H
#define WK_SUPERVISOR_PUBLISHER_H

#include <jansson.h>
#include <stdint.h>

struct config;
struct part;
struct world;

extern const struct part publisher_part;

json_t *publish_status_json(struct world *w);
void publish_status(struct world *w);
/* Records that a round of the loop ended that many ms late. */
void publish_late(int64_t ms);
/* For a reload: files that `next` no longer publishes get their final content, as at a clean exit;
 * those of the page are removed. */
void publish_leave(struct world *w, const struct config *next);

#endif
