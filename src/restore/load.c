#include "restore/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/rows.h"
#include "db/sql.h"

int loader_begin(struct loader *l, struct db *db, const struct job *job, const char *schema,
                 struct plan *plan, struct err *e)
{
    *l = (struct loader){.db = db, .job = job, .schema = schema, .plan = plan};
    int64_t packet = db_variable_number(db, "max_allowed_packet");
    l->heap_default = db_variable_number(db, "max_heap_table_size");
    l->packet_max = packet > 0 ? (uint64_t)packet : 1u << 20;
    /* A rounded decimal is only a note, and still another value. */
    if (db_exec(db, "SET SESSION sql_notes=1", e) < 0)
        return -1;
    /* MariaDB only; MySQL checks constraints always, and dumped rows passed them once. */
    if (db_is_mariadb(db))
        return db_exec(db, "SET SESSION check_constraint_checks=0", e);
    return 0;
}

void loader_end(struct loader *l)
{
    buf_free(&l->insert);
    buf_free(&l->statement);
}

const char *loader_place(const struct loader *l, const struct target *t)
{
    return l->plan->into ? t->name : t->shadow;
}

static int set_heap(struct loader *l, uint64_t bytes, struct err *e)
{
    return db_execf(l->db, e, "SET SESSION max_heap_table_size=%" PRIu64, bytes);
}

static int create_like(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "CREATE TABLE ");
    sql_ident(&b, t->shadow);
    buf_adds(&b, " LIKE ");
    sql_ident(&b, t->name);
    int rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

/* CREATE TABLE `name` (…): the same text with our name in it. */
static int create_from_text(struct loader *l, const struct target *t, const char *create,
                            size_t len, struct err *e)
{
    static const char prefix[] = "CREATE TABLE ";
    struct buf name = {0}, sql = {0};
    const char *rest = NULL;
    int rc = -1;
    if (len > sizeof prefix && memcmp(create, prefix, sizeof prefix - 1) == 0)
        rest = sql_read_ident(create + sizeof prefix - 1, create + len, &name);
    if (!rest || strcmp(name.p, t->name) != 0) {
        err_set(e, ERR_DAMAGED, 0, "the definition of table %s is not one", t->name);
        goto out;
    }
    buf_adds(&sql, prefix);
    sql_ident(&sql, loader_place(l, t));
    buf_add(&sql, rest, (size_t)(create + len - rest));
    if (!l->plan->into && strstr(sql.p, " FOREIGN KEY ")) {
        err_set(e, ERR_REFUSED, 0, "table %s has foreign keys, which cannot be swapped in",
                t->name);
        err_hint(e, "restore it by hand: gunzip -c DUMP | mysql SCHEMA, or use --into");
        goto out;
    }
    rc = db_exec(l->db, "SET NAMES utf8mb4", e);
    if (rc == 0)
        rc = db_exec_len(l->db, sql.p, sql.len, e);
    struct err ignored;
    if (db_exec(l->db, "SET NAMES binary", rc < 0 ? &ignored : e) < 0)
        rc = -1;
out:
    buf_free(&name);
    buf_free(&sql);
    return rc;
}

static int drop_place(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "DROP TABLE ");
    sql_ident(&b, loader_place(l, t));
    int rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

static int create_once(struct loader *l, struct target *t, const char *create, size_t len,
                       struct err *e)
{
    bool copy_live = t->live && t->live->memory && !l->plan->into;
    return copy_live ? create_like(l, t, e) : create_from_text(l, t, create, len, e);
}

/* A MEMORY table keeps the size limit of the session that made it. It gets at least the server's
 * default, room for twice what the dump held, and what its predecessor had when it was dumped. */
static int create_place(struct loader *l, struct target *t, const char *create, size_t len,
                        struct err *e)
{
    uint64_t base = l->heap_default > 0 ? (uint64_t)l->heap_default : 16u << 20, want = base,
             fresh = 0;
    if (set_heap(l, base, e) < 0 || create_once(l, t, create, len, e) < 0)
        return -1;
    t->created = true;
    if (db_table_limit(l->db, l->schema, loader_place(l, t), &fresh, e) < 0)
        return -1;
    if (t->heap_need > want)
        want = t->heap_need;
    if (fresh > 0 && t->max_data_length > fresh) {
        double scaled = (double)base * (double)t->max_data_length / (double)fresh;
        if (scaled < 1e15 && scaled > (double)want)
            want = (uint64_t)scaled + (64u << 10);
    }
    if (want <= base)
        return 0;
    return drop_place(l, t, e) < 0 || set_heap(l, want, e) < 0 ? -1
                                                               : create_once(l, t, create, len, e);
}

static int set_auto_increment(struct loader *l, const struct target *t, struct err *e)
{
    if (t->auto_increment == 0)
        return 0;
    struct buf b = {0};
    buf_adds(&b, "ALTER TABLE ");
    sql_ident(&b, loader_place(l, t));
    buf_printf(&b, " AUTO_INCREMENT=%" PRIu64, t->auto_increment);
    int rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

int loader_table(struct loader *l, const char *table, const char *create, size_t len, struct err *e)
{
    l->target = plan_find(l->plan, table);
    buf_clear(&l->insert);
    if (!l->target || l->target->skip) {
        l->target = NULL;
        return 0;
    }
    progress_table(l->job->progress, table);
    if (l->target->mapped)
        l->target->create = xstrndup(create, len);
    if (create_place(l, l->target, create, len, e) < 0 || set_auto_increment(l, l->target, e) < 0) {
        err_step(e, "making room for table %s", table);
        return -1;
    }
    return 0;
}

static void note_columns(struct target *t, const char *columns)
{
    const char *s = columns, *end = columns + strlen(columns);
    struct buf name = {0};
    while (s && s < end && *s != ')') {
        buf_clear(&name);
        s = sql_read_ident(s + 1, end, &name);
        if (!s)
            break;
        t->columns = xrealloc(t->columns, (t->column_count + 1) * sizeof *t->columns);
        t->columns[t->column_count++] = xstrdup(name.p);
    }
    buf_free(&name);
}

static const struct db_column *find_column(const struct db_table *t, const char *name)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

/* The type of a column in a CREATE TABLE as the server prints it: a line "  `name` type …". */
static const char *type_in(const char *create, const char *column)
{
    struct buf line = {0};
    buf_adds(&line, "\n  ");
    sql_ident(&line, column);
    buf_addc(&line, ' ');
    const char *at = strstr(create, line.p);
    const char *type = at ? at + line.len : NULL;
    buf_free(&line);
    return type;
}

/* ENUM and SET values travel by number: the old list must be the beginning of the new one. */
static bool index_fits(const char *was, const struct db_column *now)
{
    size_t n = 0;
    bool quoted = false;
    if (!was)
        return false;
    for (; was[n] && (quoted || was[n] != ')'); n++)
        if (was[n] == '\'')
            quoted = !quoted;
    return was[n] == ')' && strncmp(was, now->type, n) == 0 &&
           (now->type[n] == ')' || now->type[n] == ',');
}

static int check_column(const struct target *t, const char *name, struct err *e)
{
    const struct db_column *c = find_column(t->live, name);
    const char *was = t->create ? type_in(t->create, name) : NULL;
    if (!c || c->generated) {
        err_set(e, ERR_REFUSED, 0, "table %s has no column %s any more; its values would be lost",
                t->name, name);
    } else {
        bool was_index = was && (text_starts(was, "enum(") || text_starts(was, "set("));
        bool is_index = c->encoding == DB_INDEX;
        if (!was_index && !is_index)
            return 0;
        if (was_index && is_index && index_fits(was, c))
            return 0;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s is %s now, which would give its values another meaning",
                name, t->name, c->type);
    }
    err_hint(
        e, "change the table back, or restore with --into another schema and copy what is needed");
    return -1;
}

/* Rows of a table whose columns changed go by name, where nothing is lost by that. */
static int check_mapping(const struct target *t, struct err *e)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (check_column(t, t->columns[i], e) < 0)
            return -1;
    for (size_t i = 0; i < t->live->column_count; i++) {
        const struct db_column *c = &t->live->columns[i];
        bool given = c->generated || c->has_default;
        for (size_t k = 0; k < t->column_count && !given; k++)
            given = strcasecmp(t->columns[k], c->name) == 0;
        if (!given)
            return err_set(e, ERR_REFUSED, 0, "table %s has a new column %s without a default",
                           t->name, c->name);
    }
    return 0;
}

static int begin_insert(struct loader *l, const char *columns, struct err *e)
{
    note_columns(l->target, columns);
    if (l->target->mapped && check_mapping(l->target, e) < 0)
        return -1;
    buf_adds(&l->insert, "INSERT INTO ");
    sql_ident(&l->insert, loader_place(l, l->target));
    buf_printf(&l->insert, " %s VALUES\n", columns);
    return 0;
}

static int send_rows(struct loader *l, const char *rows_sql, size_t len, struct err *e)
{
    buf_clear(&l->statement);
    buf_add(&l->statement, l->insert.p, l->insert.len);
    buf_add(&l->statement, rows_sql, len);
    if (db_exec_len(l->db, l->statement.p, l->statement.len, e) < 0) {
        if (e && e->num == 1114)
            err_hint(e, "the table is full: raise max_heap_table_size or the memory of the server");
        err_step(e, "loading table %s", l->target->name);
        return -1;
    }
    l->target->warnings += db_warnings(l->db);
    return 0;
}

/* The server takes smaller statements than the dump has: cut between rows. */
static int send_pieces(struct loader *l, const char *s, size_t len, struct err *e)
{
    const char *end = s + len, *from = s;
    size_t room = l->packet_max - l->insert.len - 1024;
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next || (size_t)(next - s) > room)
            return err_set(e, ERR_QUERY, 0,
                           "a row of table %s takes %zu bytes, max_allowed_packet is %" PRIu64,
                           l->target->name, next ? (size_t)(next - s) : len, l->packet_max);
        if ((size_t)(next - from) > room) {
            if (send_rows(l, from, (size_t)(s - 2 - from), e) < 0)
                return -1;
            from = s;
        }
        s = next < end ? next + 2 : next;
    }
    return send_rows(l, from, (size_t)(end - from), e);
}

int loader_rows(struct loader *l, const char *columns, const char *rows_sql, size_t len,
                uint64_t rows, uint64_t hash, struct err *e)
{
    if (!l->target)
        return 0;
    if (l->insert.len == 0 && begin_insert(l, columns, e) < 0)
        return -1;
    bool fits = l->insert.len + len + 1024 <= l->packet_max;
    if ((fits ? send_rows(l, rows_sql, len, e) : send_pieces(l, rows_sql, len, e)) < 0)
        return -1;
    l->target->rows += rows;
    l->target->hash += hash;
    l->rows += rows;
    return 0;
}

int loader_insert_raw(struct loader *l, const char *behind_name, size_t len, struct err *e)
{
    if (!l->target)
        return 0;
    buf_clear(&l->statement);
    buf_adds(&l->statement, "INSERT INTO ");
    sql_ident(&l->statement, loader_place(l, l->target));
    buf_add(&l->statement, behind_name, len);
    if (db_exec_len(l->db, l->statement.p, l->statement.len, e) < 0) {
        err_step(e, "loading table %s", l->target->name);
        return -1;
    }
    uint64_t rows = db_affected(l->db);
    l->target->raw = true;
    l->target->warnings += db_warnings(l->db);
    l->target->rows += rows;
    l->rows += rows;
    return 0;
}

static int add_hash(void *arg, const char *tuple, size_t len, struct err *e)
{
    (void)e;
    *(uint64_t *)arg += sql_tuple_hash(tuple, len);
    return 0;
}

/* Reads back the columns that were loaded, as the dump would write them. */
static int compare_content(struct loader *l, const struct target *t, struct err *e)
{
    struct db_tables own;
    struct db_table picked = {0};
    int rc = -1;
    if (l->plan->into ? db_tables(l->db, l->schema, true, &own, e) < 0
                      : db_own_tables(l->db, l->schema, &own, e) < 0)
        return -1;
    const struct db_table *place = db_table_find(&own, loader_place(l, t));
    picked.columns = xcalloc(t->column_count, sizeof *picked.columns);
    for (size_t i = 0; place && i < t->column_count; i++) {
        const struct db_column *c = find_column(place, t->columns[i]);
        if (c)
            picked.columns[picked.column_count++] = *c;
    }
    uint64_t hash = 0, rows;
    struct buf from = {0};
    sql_ident(&from, loader_place(l, t));
    if (t->column_count == 0)
        rc = 0; /* no row, so no column list was seen */
    else if (db_read_rows(l->db, &picked, from.p, add_hash, &hash, &rows, e) == 0)
        rc = rows == t->rows && hash == t->hash && picked.column_count == t->column_count ? 0 : 1;
    if (rc == 1)
        rc = err_set(e, ERR_QUERY, 0,
                     "table %s: what the server stored is not what was loaded (%" PRIu64
                     " warnings)",
                     t->name, t->warnings);
    buf_free(&from);
    free(picked.columns);
    db_tables_free(&own);
    return rc;
}

int loader_check(struct loader *l, bool content, struct err *e)
{
    for (size_t i = 0; i < l->plan->count; i++) {
        const struct target *t = &l->plan->list[i];
        uint64_t rows = 0;
        if (t->skip || !t->created)
            continue;
        progress_table(l->job->progress, t->name);
        if (db_count(l->db, l->schema, loader_place(l, t), &rows, e) < 0)
            return -1;
        if (rows != t->rows)
            return err_set(e, ERR_QUERY, 0,
                           "table %s: %" PRIu64 " rows arrived, %" PRIu64 " were loaded", t->name,
                           rows, t->rows);
        if (t->mapped && t->warnings) {
            err_set(e, ERR_REFUSED, 0,
                    "table %s changed since the dump and its rows no longer fit (%" PRIu64
                    " warnings)",
                    t->name, t->warnings);
            err_hint(e, "change the table back, or restore with --into another schema and copy "
                        "what is needed");
            return -1;
        }
        if (!t->raw && !t->mapped && (content || t->warnings) && compare_content(l, t, e) < 0)
            return -1;
    }
    return 0;
}
