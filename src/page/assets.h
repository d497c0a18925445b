/* The files of this folder that are part of the program, as text. */
#ifndef WK_PAGE_ASSETS_H
#define WK_PAGE_ASSETS_H

extern const char asset_status_html[], asset_status_js[], asset_players_html[], asset_players_js[],
    asset_page_css[], asset_badge_svg[], asset_feed_xml[];

#endif
