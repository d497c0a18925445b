/* The text of the metrics, from the status. Pure. */
#ifndef WK_SUPERVISOR_METRICS_H
#define WK_SUPERVISOR_METRICS_H

#include <jansson.h>

#include "base/text.h"

/* Appends a sample for each value of `status` that the table names. A null or missing value has no
 * sample; a metric without a sample is omitted. */
void metrics_text(const char *world, const json_t *status, struct buf *out);

#endif
