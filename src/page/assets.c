#include "page/page.h"

/* Embeds a file by assembler, because string literals have a maximum length. The paths are relative
 * to make's directory. */
#define ASSET(name, path)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " name "\n" name ":\n"                                                        \
            ".incbin \"src/page/" path "\"\n"                                                      \
            ".byte 0\n"                                                                            \
            ".popsection\n")

ASSET("asset_status_html", "status.html");
ASSET("asset_status_js", "status.js");
ASSET("asset_players_html", "players.html");
ASSET("asset_players_js", "players.js");
ASSET("asset_page_css", "page.css");
ASSET("asset_badge_svg", "badge.svg");
ASSET("asset_feed_xml", "incidents.atom");
