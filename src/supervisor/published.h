/* How long published files are valid. */
#ifndef WK_SUPERVISOR_PUBLISHED_H
#define WK_SUPERVISOR_PUBLISHED_H

#define STATUS_VALID_MS 15000 /* until status.json expires */

#endif
