/* How long what the supervisor publishes may be believed. */
#ifndef WK_SUPERVISOR_PUBLISHED_H
#define WK_SUPERVISOR_PUBLISHED_H

#define STATUS_VALID_MS 15000 /* until status.json expires */

#endif
