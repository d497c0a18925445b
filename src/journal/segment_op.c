#include "journal/segment_op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/js.h"
#include "base/line.h"
#include "base/number.h"
#include "binlog/statement_scope.h"
#include "binlog/statement_summary.h"
#include "journal/segment_int.h"
#include "journal/segment_read.h"
#include "store/manifest.h"

#define KEY_MAX 64u
#define COLUMNS_MAX 65536
#define SECONDS_MAX (INT64_C(1) << 32) /* the largest time that an event can have */

/* ---- names ---- */

void segment_name(const char *world, uint64_t number, char out[SEGMENT_NAME_MAX])
{
    snprintf(out, SEGMENT_NAME_MAX, "%.32s-%010" PRIu64 SEGMENT_SUFFIX, world, number);
}

uint64_t segment_number(const char *file, const char *world)
{
    char again[SEGMENT_NAME_MAX];
    size_t w = strlen(world);
    if (strncmp(file, world, w) != 0 || file[w] != '-')
        return 0;
    const char *digits = file + w + 1;
    uint64_t n;
    number_digits(&digits, SEGMENT_NUMBER_MAX, &n);
    /* any other spelling of the number is not ours */
    segment_name(world, n, again);
    return strcmp(again, file) == 0 ? n : 0;
}

void segment_gtid(const struct change_gtid *g, struct db_binlog_pos *p)
{
    if (!g->seq)
        return;
    snprintf(p->gtid, sizeof p->gtid, "%" PRIu32 "-%" PRIu32 "-%" PRIu64, g->domain, g->server,
             g->seq);
    p->gtid_after[0] = '\0'; /* it belonged to another position */
}

/* ---- JSON ---- */

static json_t *place_json(const struct segment_place *p)
{
    json_t *o = manifest_point_json(&p->point);
    if (json_is_object(o)) {
        js_set_int(o, "born", p->created_at);
        js_set_int(o, "at", p->at.ms);
    }
    return o;
}

static void read_place(const json_t *o, struct segment_place *p)
{
    int64_t at = js_number(o, "at", 0);
    *p = (struct segment_place){0};
    if (!json_is_object(o) || js_number(o, "pos", 0) < 0 || at < 0 || at > CLOCK_WALL_MAX)
        return; /* if one value is out of range, the whole position is ignored */
    manifest_read_point(o, &p->point);
    p->created_at = (uint32_t)js_within(o, "born", 0, UINT32_MAX, 0);
    p->at = js_moment(o, "at");
}

json_t *segment_head_json(const struct segment_head *h)
{
    return json_pack("{s:i, s:s, s:s, s:I, s:s, s:o, s:o, s:I, s:b, s:o}", "worldkeeper journal",
                     h->mac ? SEGMENT_FORMAT_MAC : SEGMENT_FORMAT, "world", h->world, "schema",
                     h->schema, "number", (json_int_t)h->number, "server", h->server, "hostname",
                     js_clean(h->hostname), "from", place_json(&h->from), "made",
                     (json_int_t)h->made.ms, "follows", h->follows, "why", js_clean(h->why));
}

bool segment_head_read(const char *text, size_t len, struct segment_head *h)
{
    json_auto_t *o = json_loadb(text, len, 0, NULL);
    *h = (struct segment_head){0};
    int64_t format = js_number(o, "worldkeeper journal", 0);
    h->mac = format == SEGMENT_FORMAT_MAC;
    if (format > SEGMENT_FORMAT_MAC) {
        h->newer = format;
        return false;
    }
    js_copy(o, "world", h->world, sizeof h->world);
    js_copy(o, "schema", h->schema, sizeof h->schema);
    h->number = (uint64_t)js_within(o, "number", 0, INT64_MAX, 0);
    js_copy(o, "server", h->server, sizeof h->server);
    js_copy(o, "hostname", h->hostname, sizeof h->hostname);
    read_place(json_object_get(o, "from"), &h->from);
    h->made = js_moment(o, "made");
    h->follows = js_flag(o, "follows");
    js_copy(o, "why", h->why, sizeof h->why);
    return (h->mac || format == SEGMENT_FORMAT) && h->from.point.file[0];
}

json_t *segment_sum_json(const struct segment_sum *s)
{
    json_t *marks = json_array();
    size_t n = s->mark_count < SEGMENT_MARKS ? s->mark_count : SEGMENT_MARKS;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            marks,
            json_pack("{s:i, s:I, s:s, s:I, s:o}", "kind", (int)s->marks[i].kind, "at",
                      (json_int_t)s->marks[i].at.ms, "file", s->marks[i].place.file, "pos",
                      (json_int_t)s->marks[i].place.pos, "text", js_clean(s->marks[i].text)));
    return json_pack("{s:o, s:I, s:I, s:o, s:I}", "to", place_json(&s->to), "groups",
                     (json_int_t)s->groups, "changes", (json_int_t)s->changes, "marks", marks,
                     "mark_count", (json_int_t)s->mark_count);
}

bool segment_sum_read(const char *text, size_t len, struct segment_sum *s)
{
    json_t *o = json_loadb(text, len, 0, NULL), *m;
    size_t i;
    *s = (struct segment_sum){0};
    read_place(json_object_get(o, "to"), &s->to);
    s->groups = (uint64_t)js_within(o, "groups", 0, INT64_MAX, 0);
    s->changes = (uint64_t)js_within(o, "changes", 0, INT64_MAX, 0);
    s->mark_count = (size_t)js_within(o, "mark_count", 0, UINT32_MAX, 0);
    json_array_foreach(json_object_get(o, "marks"), i, m)
    {
        if (i == SEGMENT_MARKS)
            break;
        int64_t kind = js_number(m, "kind", -1);
        if (kind < 0 || kind > CHANGE_UNKNOWN_TABLE)
            break;
        s->marks[i].kind = (enum change_kind)kind;
        s->marks[i].at = js_moment(m, "at");
        js_copy(m, "file", s->marks[i].place.file, sizeof s->marks[i].place.file);
        s->marks[i].place.pos = (uint64_t)js_within(m, "pos", 0, INT64_MAX, 0);
        js_copy(m, "text", s->marks[i].text, sizeof s->marks[i].text);
    }
    bool ok =
        json_is_object(o) && s->to.point.file[0] && (s->mark_count <= i || i == SEGMENT_MARKS);
    json_decref(o);
    return ok;
}

json_t *segment_table_json(const struct change_table *t)
{
    json_t *key = json_array();
    for (size_t i = 0; i < t->key_count; i++)
        json_array_append_new(key, json_integer((json_int_t)t->key[i]));
    return json_pack("{s:s, s:s, s:o, s:i}", "name", t->name, "columns", t->columns, "key", key,
                     "counter", t->counter);
}

/* Returns the names of the tables. If a definition changed without changing rows, only their
 * names are known. */
static json_t *names_json(const struct change *c)
{
    json_t *list = json_array();
    for (size_t i = 0; c->scope && i < c->scope->count; i++)
        json_array_append_new(
            list, json_pack("[s, i]", c->scope->tables[i].name, (int)c->scope->tables[i].deed));
    for (size_t i = 0; !c->scope && c->deed && i < c->deed->count && i < STATEMENT_DEED_TABLES; i++)
        json_array_append_new(list,
                              json_pack("[s, i]", c->deed->tables[i]->name, (int)SCOPE_ALTERED));
    return list;
}

/* Returns the statement as it was logged, if it is UTF-8 text and short enough. */
static json_t *sql_json(const char *sql, size_t len)
{
    SCOPED(buf_free) struct buf clean = {0};
    if (len <= SEGMENT_SQL_MAX && text_utf8_valid(sql, len) && !memchr(sql, 0, len))
        return json_stringn(sql, len);
    text_clean_bytes(&clean, sql, len, SEGMENT_SQL_MAX);
    return json_stringn(clean.p, clean.len);
}

json_t *segment_tables_json(const struct change *c)
{
    json_t *o = json_pack("{s:b, s:b, s:o}", "created", c->kind == CHANGE_CREATED, "gone",
                          c->unmissed, "tables", names_json(c));
    if (c->sql_len)
        json_object_set_new(o, "sql", sql_json(c->sql, c->sql_len));
    if (c->create)
        json_object_set_new(o, "create", json_string(c->create));
    if (c->scope && c->scope->may_exist)
        json_object_set_new(o, "may_exist", json_true());
    if (c->scope && c->scope->engine)
        json_object_set_new(o, "engine", json_true());
    return o;
}

json_t *segment_mark_json(const struct statement_mark *m)
{
    return json_pack("{s:o, s:o, s:o, s:I}", "dump", js_clean(m->dump), "nonce", js_clean(m->nonce),
                     "file", js_clean(m->upto.file), "pos", (json_int_t)m->upto.pos);
}

/* ---- the summary ---- */

void segment_note(struct segment_sum *s, const struct change *c)
{
    if (s->mark_count < SEGMENT_MARKS) {
        struct segment_mark *m = &s->marks[s->mark_count];
        m->kind = c->kind;
        m->at = c->at;
        m->place.pos = c->pos;
        snprintf(m->place.file, sizeof m->place.file, "%s", c->file ? c->file : "");
        line_set(m->text, sizeof m->text, "%s",
                 c->kind == CHANGE_SWAP  ? c->mark->dump
                 : c->kind == CHANGE_GAP ? c->why
                                         : "");
    }
    s->mark_count++;
}

/* ---- writing ---- */

void segment_put_number(struct buf *b, uint64_t n)
{
    while (n >= 128) {
        buf_addc(b, (char)(n | 128));
        n >>= 7;
    }
    buf_addc(b, (char)n);
}

void segment_put_difference(struct buf *b, int64_t n)
{
    segment_put_number(b, n < 0 ? ((uint64_t)-n << 1) | 1 : (uint64_t)n << 1);
}

void segment_put_text(struct buf *b, const char *s, size_t len)
{
    segment_put_number(b, len);
    buf_add(b, s, len);
}

/* ---- reading ---- */

static uint64_t segment_op_number(struct cursor *in)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t c = *in->at++;
        n |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return n;
    }
    in->broken = true;
    return 0;
}

static uint32_t segment_op_number32(struct cursor *in)
{
    uint64_t n = segment_op_number(in);
    in->broken |= n > UINT32_MAX;
    return (uint32_t)n;
}

static int64_t segment_op_difference(struct cursor *in)
{
    uint64_t n = segment_op_number(in);
    return n & 1 ? -(int64_t)(n >> 1) : (int64_t)(n >> 1);
}

static const char *segment_op_text(struct cursor *in, size_t *len)
{
    uint64_t n = segment_op_number(in);
    const uint8_t *s = cursor_bytes(in, n);
    *len = s ? (size_t)n : 0;
    return s ? (const char *)s : "";
}

static bool is_second(int64_t second)
{
    return second >= 0 && second < SECONDS_MAX;
}

static void put_place(const struct segment_parser *p, struct change *c)
{
    c->file = p->s.place.point.file;
    c->pos = p->s.place.point.pos;
    c->created_at = p->s.place.created_at;
    c->at.ms = p->s.second * 1000;
    c->gtid = p->s.gtid;
}

static int segment_op_read_head(struct segment_parser *p, struct cursor *in)
{
    size_t len;
    const char *s = segment_op_text(in, &len);
    if (in->broken || p->have_head || !segment_head_read(s, len, &p->head) ||
        p->head.from.point.pos > INT64_MAX || !is_second(p->head.from.at.ms / 1000))
        return 0;
    p->have_head = true;
    p->s.place = p->s.sum.to = p->head.from;
    p->s.second = p->head.from.at.ms / 1000;
    return 2;
}

static bool segment_op_read_table(const char *s, size_t len, struct segment_table *t)
{
    json_t *o = json_loadb(s, len, 0, NULL), *key = json_object_get(o, "key"), *k;
    size_t i;
    int64_t counter = js_number(o, "counter", -2);
    bool ok = js_text(o, "name")[0] && json_is_array(key) && json_array_size(key) <= KEY_MAX &&
              counter >= -1 && counter < COLUMNS_MAX;
    t->name = xstrdup(js_text(o, "name"));
    t->pub.name = t->name;
    js_copy(o, "columns", t->pub.columns, sizeof t->pub.columns);
    t->key = xcalloc(json_array_size(key) + 1, sizeof *t->key);
    json_array_foreach(key, i, k)
    {
        json_int_t n = json_is_integer(k) ? json_integer_value(k) : -1;
        ok = ok && n >= 0 && n < COLUMNS_MAX;
        t->key[i] = ok ? (unsigned)n : 0;
    }
    t->pub.key = t->key;
    t->pub.key_count = json_array_size(key);
    t->pub.counter = ok ? (int)counter : -1;
    json_decref(o);
    return ok;
}

static void segment_op_free_table(struct segment_table *t)
{
    free(t->name);
    free(t->key);
    free(t);
}

/* Reads the definition of a table. It is stored in the transaction that uses the table first. */
static int read_define(struct segment_parser *p, struct cursor *in, struct change *c)
{
    size_t len;
    const char *s = segment_op_text(in, &len);
    if (in->broken || !p->s.open)
        return 0;
    struct segment_table *t = xcalloc(1, sizeof *t);
    if (!segment_op_read_table(s, len, t)) {
        segment_op_free_table(t);
        return 0;
    }
    p->tables = xgrow(p->tables, p->count, sizeof(struct segment_table *));
    p->tables[p->count++] = t;
    c->kind = CHANGE_TABLE;
    c->table = &t->pub;
    return 1;
}

static bool is_in(const struct segment_place *p, const char *file, size_t len, uint32_t created_at)
{
    return p->created_at == created_at && strlen(p->point.file) == len &&
           memcmp(p->point.file, file, len) == 0;
}

/* Reads the name of the next log file. It must differ from the current one; otherwise positions
 * in it could go backwards. */
static int segment_op_read_file(struct segment_parser *p, struct cursor *in)
{
    struct segment_place *at = &p->s.place;
    size_t len;
    uint32_t created_at = segment_op_number32(in);
    const char *s = segment_op_text(in, &len);
    if (in->broken || len == 0 || len >= sizeof at->point.file || memchr(s, 0, len) ||
        !text_utf8_valid(s, len) || is_in(at, s, len, created_at) ||
        is_in(&p->s.sum.to, s, len, created_at))
        return 0;
    snprintf(at->point.file, sizeof at->point.file, "%.*s", (int)len, s);
    at->point.pos = 0;
    at->created_at = created_at;
    p->s.moved = true;
    return 2;
}

/* Advances the position. Returns false if it would exceed the range of any log. */
static bool move_place(struct segment_place *p, uint64_t by)
{
    if (by > INT64_MAX - p->point.pos)
        return false;
    p->point.pos += by;
    return true;
}

static int read_begin(struct segment_parser *p, struct cursor *in, struct change *c)
{
    const struct change_gtid *last = &p->s.last_gtid;
    struct change_gtid g = {0};
    uint64_t flags = segment_op_number(in);
    int64_t at = segment_op_difference(in);
    uint64_t distance = flags & SEGMENT_BEHIND ? segment_op_number(in) : 0;
    if (flags & SEGMENT_NEXT) {
        g = (struct change_gtid){last->domain, last->server, last->seq + 1};
    } else if (flags & SEGMENT_GTID) {
        g.domain = segment_op_number32(in);
        g.server = segment_op_number32(in);
        g.seq = segment_op_number(in);
    }
    if (in->broken || p->s.open || flags >= 2 * SEGMENT_BEHIND ||
        (flags & SEGMENT_GTID && flags & SEGMENT_NEXT) || at > SECONDS_MAX || at < -SECONDS_MAX ||
        !is_second(p->s.second + at) || !move_place(&p->s.place, distance))
        return 0;
    p->s.open = true;
    p->s.second += at;
    p->s.gtid = g;
    if (g.seq)
        p->s.last_gtid = g;
    c->kind = CHANGE_BEGIN;
    return 1;
}

const struct segment_sum *segment_parser_sum(struct segment_parser *p)
{
    segment_gtid(&p->s.to_gtid, &p->s.sum.to.point);
    return &p->s.sum;
}

/* Reads the end of a transaction. This is called millions of times, so the file's name is copied
 * only when it changes, and the GTID's text is made on request (segment_parser_sum()). */
static int read_end(struct segment_parser *p, struct cursor *in, struct change *c)
{
    struct segment_place *at = &p->s.place, *to = &p->s.sum.to;
    uint64_t by = segment_op_number(in);
    if (in->broken || !p->s.open || !move_place(at, by))
        return 0;
    p->s.open = false;
    at->at.ms = p->s.second * 1000;
    to->point.pos = at->point.pos;
    to->at = at->at;
    p->s.to_gtid = p->s.last_gtid;
    if (p->s.moved) {
        memcpy(to->point.file, at->point.file, sizeof to->point.file);
        to->created_at = at->created_at;
        p->s.moved = false;
    }
    p->s.sum.groups++;
    c->kind = CHANGE_END;
    return 1;
}

static int segment_op_read_row(struct segment_parser *p, enum segment_op op, struct cursor *in,
                               struct change *c)
{
    uint64_t n = segment_op_number(in);
    if (op != SEGMENT_TRUNCATE)
        c->tuple = segment_op_text(in, &c->len);
    if (in->broken || !p->s.open || n >= p->count)
        return 0;
    c->kind = op == SEGMENT_INSERT    ? CHANGE_INSERT
              : op == SEGMENT_DELETE  ? CHANGE_DELETE
              : op == SEGMENT_REPLACE ? CHANGE_REPLACE
                                      : CHANGE_TRUNCATE;
    c->table = &p->tables[n]->pub;
    p->s.sum.changes++;
    return 1;
}

/* LOST, SWAP and GAP, which may also be between transactions. */
/* Reads tables into p->scope and the texts of the change. Returns false if this is not the
 * output of segment_tables_json(). */
static bool segment_op_read_tables(struct segment_parser *p, const char *s, size_t len,
                                   struct change *c)
{
    const json_t *list, *name;
    size_t i;
    json_decref(p->scope_texts);
    p->scope_texts = json_loadb(s, len, 0, NULL);
    p->scope = (struct statement_scope){0};
    list = json_object_get(p->scope_texts, "tables");
    json_array_foreach(list, i, name)
    {
        const char *text = json_string_value(json_array_get(name, 0));
        json_int_t deed = json_integer_value(json_array_get(name, 1));
        if (i == STATEMENT_SCOPE_TABLES || !text || !text[0] ||
            strlen(text) >= sizeof p->scope.tables[0].name || deed < SCOPE_ALTERED ||
            deed > SCOPE_ARRIVED)
            return false;
        snprintf(p->scope.tables[i].name, sizeof p->scope.tables[i].name, "%s", text);
        p->scope.tables[i].deed = (enum scope_deed)deed;
        p->scope.count++;
    }
    p->scope.may_exist = js_flag(p->scope_texts, "may_exist");
    p->scope.engine = js_flag(p->scope_texts, "engine");
    c->scope = &p->scope;
    c->sql = json_string_value(json_object_get(p->scope_texts, "sql"));
    c->sql_len = c->sql ? strlen(c->sql) : 0;
    if (!c->sql_len)
        c->sql = NULL;
    c->create = json_string_value(json_object_get(p->scope_texts, "create"));
    return p->scope.count > 0;
}

/* Reads a changed definition. A search for a time does not use this event. */
static int segment_op_read_definition(struct segment_parser *p, struct cursor *in, struct change *c)
{
    uint64_t second = segment_op_number(in);
    size_t len;
    const char *s = segment_op_text(in, &len);
    if (in->broken || second >= (uint64_t)SECONDS_MAX || !segment_op_read_tables(p, s, len, c))
        return 0;
    bool created = js_flag(p->scope_texts, "created");
    if (created && p->scope.count != 1)
        return 0;
    c->at.ms = (int64_t)second * 1000;
    c->unmissed = js_flag(p->scope_texts, "gone");
    c->kind = created ? CHANGE_CREATED : c->unmissed ? CHANGE_GAP : CHANGE_DEFINED;
    c->why = created ? "it was created again" : "it was dropped";
    return 1;
}

static int segment_op_read_event(struct segment_parser *p, enum segment_op op, struct cursor *in,
                                 struct change *c)
{
    uint64_t second = segment_op_number(in);
    size_t len = 0;
    const char *s = op == SEGMENT_LOST ? "" : segment_op_text(in, &len);
    if (in->broken || second >= (uint64_t)SECONDS_MAX)
        return 0;
    c->at.ms = (int64_t)second * 1000;
    c->kind = op == SEGMENT_LOST ? CHANGE_LOST : op == SEGMENT_SWAP ? CHANGE_SWAP : CHANGE_GAP;
    c->mark = &p->mark;
    const char *lf = op == SEGMENT_GAP ? memchr(s, '\n', len) : NULL;
    if (lf && !segment_op_read_tables(p, lf + 1, len - (size_t)(lf + 1 - s), c))
        return 0;
    len = lf ? (size_t)(lf - s) : len;
    snprintf(p->text, sizeof p->text, "%.*s", (int)(len < sizeof p->text ? len : 0), s);
    c->why = p->text;
    if (op == SEGMENT_SWAP) {
        json_auto_t *o = json_loadb(s, len, 0, NULL);
        bool good = json_is_object(o);
        p->mark = (struct statement_mark){0};
        js_copy(o, "dump", p->mark.dump, sizeof p->mark.dump);
        js_copy(o, "nonce", p->mark.nonce, sizeof p->mark.nonce);
        js_copy(o, "file", p->mark.upto.file, sizeof p->mark.upto.file);
        p->mark.upto.pos = (uint64_t)js_within(o, "pos", 0, INT64_MAX, 0);
        if (!good)
            return 0;
    }
    segment_note(&p->s.sum, c);
    return 1;
}

static int read_summary(struct segment_parser *p, struct cursor *in)
{
    struct segment_sum sum;
    const struct segment_sum *was = &p->s.sum;
    size_t len;
    const char *s = segment_op_text(in, &len);
    if (in->broken || p->s.open || !segment_sum_read(s, len, &sum))
        return 0;
    if (sum.groups != was->groups || sum.changes != was->changes ||
        sum.mark_count != was->mark_count || sum.to.created_at != was->to.created_at ||
        sum.to.point.pos != was->to.point.pos || strcmp(sum.to.point.file, was->to.point.file) != 0)
        return 0; /* the summary differs from what was read */
    p->finalized = true;
    return 2;
}

int segment_parse(struct segment_parser *p, const char **at, const char *end, struct change *c)
{
    struct cursor in = {(const uint8_t *)*at, (const uint8_t *)end, false};
    int rc = 0;
    *c = (struct change){0};
    enum segment_op op = (enum segment_op) * in.at++;
    if (p->finalized || (!p->have_head && op != SEGMENT_HEAD))
        return 0;
    put_place(p, c);
    switch (op) {
    case SEGMENT_HEAD:
        rc = segment_op_read_head(p, &in);
        break;
    case SEGMENT_DEFINE:
        rc = read_define(p, &in, c);
        break;
    case SEGMENT_FILE:
        rc = segment_op_read_file(p, &in);
        break;
    case SEGMENT_BEGIN:
        rc = read_begin(p, &in, c);
        break;
    case SEGMENT_END:
        rc = read_end(p, &in, c);
        break;
    case SEGMENT_INSERT:
    case SEGMENT_DELETE:
    case SEGMENT_REPLACE:
    case SEGMENT_TRUNCATE:
        rc = segment_op_read_row(p, op, &in, c);
        break;
    case SEGMENT_LOST:
    case SEGMENT_SWAP:
    case SEGMENT_GAP:
        rc = segment_op_read_event(p, op, &in, c);
        break;
    case SEGMENT_TABLES:
        rc = segment_op_read_definition(p, &in, c);
        break;
    case SEGMENT_SUMMARY:
        rc = read_summary(p, &in);
        break;
    case SEGMENT_MAC: /* stripped by segment_frame_read() */
        break;
    }
    /* these two changed the position */
    if (rc == 1 && (c->kind == CHANGE_BEGIN || c->kind == CHANGE_END))
        put_place(p, c);
    *at = (const char *)in.at;
    return in.broken ? 0 : rc;
}

void segment_parser_free(struct segment_parser *p)
{
    for (size_t i = 0; i < p->count; i++)
        segment_op_free_table(p->tables[i]);
    free(p->tables);
    json_decref(p->scope_texts);
    *p = (struct segment_parser){0};
}
