#include "setup/survey.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "mysql/objects.h"
#include "mysql/schema.h"

/* Returns true for the helper schemas of worlds, which are not worlds themselves: the scratch
 * schema of a drill and the copy of a standby. */
static bool survey_is_ours(const char *schema)
{
    return text_starts(schema, "worldkeeper_drill_") || text_starts(schema, "worldkeeper_warm_");
}

/* Returns false for a name with a control character. Any account that may create schemas chooses
 * their names, and a newline in one would add lines to a config and to the list. */
static bool is_fit(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f)
            return false;
    return true;
}

static int count_objects(struct db *db, const char *schema, enum definition_kind kind,
                         unsigned *out, struct err *e)
{
    SCOPED(names_free) struct names n = {0};
    if (db_names(db, schema, kind, &n, e) < 0)
        return -1;
    *out = (unsigned)n.count;
    return 0;
}

static void survey_add_table(struct survey_schema *s, const struct db_table *t)
{
    if (!t->memory) {
        s->durable++;
        return;
    }
    s->tables++;
    s->rows += t->rows;
    uint64_t bytes = db_table_bytes(t);
    s->bytes = number_sum(s->bytes, bytes);
    if (bytes > s->most_bytes)
        s->most_bytes = bytes;
    s->keyless += !t->has_key;
    if (!s->largest || t->data_length > s->largest_bytes) {
        free(s->largest);
        s->largest = xstrdup(t->name);
        s->largest_bytes = t->data_length;
        s->largest_room = t->max_data_length;
    }
}

static int survey_look(struct db *db, struct survey_schema *s, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables tables = {0};
    if (db_tables(db, s->name, true, &tables, e) < 0 ||
        count_objects(db, s->name, DEFINITION_VIEW, &s->views, e) < 0 ||
        count_objects(db, s->name, DEFINITION_TRIGGER, &s->triggers, e) < 0 ||
        count_objects(db, s->name, DEFINITION_FUNCTION, &s->functions, e) < 0)
        return -1;
    for (size_t i = 0; i < tables.count; i++)
        survey_add_table(s, &tables.list[i]);
    return 0;
}

int survey_read(struct db *db, struct survey *out, struct err *e)
{
    SCOPED(names_free) struct names names = {0};
    *out = (struct survey){0};
    if (db_names_select(db,
                        "SELECT DISTINCT TABLE_SCHEMA FROM information_schema.TABLES WHERE "
                        "ENGINE='MEMORY' AND TABLE_TYPE='BASE TABLE' AND TABLE_SCHEMA NOT IN "
                        "('mysql','information_schema','performance_schema','sys') ORDER BY "
                        "TABLE_SCHEMA",
                        DB_ARGS(NULL), &names, e) < 0)
        return -1;
    for (size_t i = 0; i < names.count; i++) {
        bool fit = is_fit(names.list[i]);
        out->unfit += !fit;
        if (!fit || survey_is_ours(names.list[i]))
            continue;
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count] = (struct survey_schema){.name = xstrdup(names.list[i])};
        if (survey_look(db, &out->list[out->count++], e) < 0)
            return -1;
    }
    return 0;
}

/* Appends a line with the schema's other objects, if it has any. */
static void show_besides(const struct survey_schema *s, struct buf *out)
{
    const struct {
        unsigned count;
        const char *what;
    } others[] = {{s->durable, "durable table"},
                  {s->views, "view"},
                  {s->triggers, "trigger"},
                  {s->functions, "function"}};
    bool any = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        unsigned count = others[i].count;
        if (!count)
            continue;
        buf_printf(out, "%s%u %s%s", any ? ", " : "     besides: ", count, others[i].what,
                   count == 1 ? "" : "s");
        any = true;
    }
    buf_adds(out, any ? "\n" : "");
}

void survey_show(const struct survey_schema *s, struct buf *out)
{
    char rows[TEXT_SHORT], size[TEXT_SHORT], largest[TEXT_SHORT], room[TEXT_SHORT];
    buf_printf(out, "%s: %u MEMORY table%s, %s rows, %s\n", s->name, s->tables,
               s->tables == 1 ? "" : "s", text_count(s->rows, rows), text_size(s->bytes, size));
    show_besides(s, out);
    if (s->largest && s->largest_room) {
        buf_adds(out, "     largest: ");
        text_clean(out, s->largest, strlen(s->largest));
        buf_printf(out, ", %s of the %s that it may take\n", text_size(s->largest_bytes, largest),
                   text_size(s->largest_room, room));
    }
    if (s->keyless)
        buf_printf(out,
                   "     without a primary key: %u table%s (the journal follows them by "
                   "whole rows)\n",
                   s->keyless, s->keyless == 1 ? "" : "s");
}

void survey_free(struct survey *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->list[i].name);
        free(s->list[i].largest);
    }
    free(s->list);
    *s = (struct survey){0};
}
