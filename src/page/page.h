/* The web pages, as text: pure. A template contains {{key}}, which is replaced by the value as text
 * (escaped), and {{#key}}…{{/key}}, which is repeated for each object of an array. For any other
 * value it appears once or not at all: once for a non-empty text, a number and `true`. */
#ifndef WK_PAGE_PAGE_H
#define WK_PAGE_PAGE_H

#include <jansson.h>

#include "base/text.h"
#include "config/config.h"

void page_fill(struct buf *out, const char *template_text, const json_t *values);

/* Returns the values for status.html, players.html and the feed, from status.json and
 * history.json. */
json_t *page_status_values(const struct config *c, const json_t *status, const json_t *history);
json_t *page_players_values(const struct config *c, const json_t *status, wall_t now);
/* Returns players.json: the same for its script, without anything that helps an attacker. */
json_t *page_players_json(const json_t *values, const json_t *status);
void page_feed(struct buf *out, const struct config *c, const json_t *status,
               const json_t *history);
void page_badge(struct buf *out, const struct config *c, const json_t *status);

/* assets.c: the files beside it, as they were when the program was built. */
extern const char asset_status_html[], asset_status_js[], asset_players_html[], asset_players_js[],
    asset_page_css[], asset_badge_svg[], asset_feed_xml[];

#endif
