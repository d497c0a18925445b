/* Kinds of changes as tests print and expect them. */
#ifndef WK_TESTS_CHANGE_NAMES_H
#define WK_TESTS_CHANGE_NAMES_H

#include "binlog/change.h"

static const char *const change_names[] = {
    [CHANGE_BEGIN] = "begin",       [CHANGE_TABLE] = "table",
    [CHANGE_INSERT] = "insert",     [CHANGE_DELETE] = "delete",
    [CHANGE_UPDATE] = "update",     [CHANGE_REPLACE] = "replace",
    [CHANGE_TRUNCATE] = "truncate", [CHANGE_END] = "end",
    [CHANGE_CUT] = "cut",           [CHANGE_LOST] = "lost",
    [CHANGE_SWAP] = "swap",         [CHANGE_GAP] = "gap",
    [CHANGE_MARKER] = "marker",     [CHANGE_UNKNOWN_TABLE] = "unknown table",
    [CHANGE_EXISTS] = "exists",     [CHANGE_DEFINED] = "defined",
    [CHANGE_CREATED] = "created",   [CHANGE_UNREAD] = "unread",
};

#endif
