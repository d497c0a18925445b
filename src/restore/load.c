#include "restore/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "db/rows.h"
#include "db/sql.h"

#define COUNTER_FIRST_ROWS 20000u
#define FOLD_BLOCK (1u << 20) /* bytes of changed rows that go to the server at once */

int loader_begin(struct loader *l, struct db *db, const struct job *job, const char *schema,
                 struct plan *plan, _Atomic uint64_t *rows, struct err *e)
{
    *l = (struct loader){.db = db, .job = job, .schema = schema, .plan = plan, .rows = rows};
    l->way = db_bulk_way(db);
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
    buf_free(&l->head);
    buf_free(&l->text);
    buf_free(&l->kept);
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

int loader_takes(const struct plan *plan, const char *table, const char *create, size_t len,
                 struct err *e)
{
    static const char key[] = " FOREIGN KEY ";
    if (plan->into || !memmem(create, len, key, sizeof key - 1))
        return 0;
    err_set(e, ERR_REFUSED, 0, "table %s has foreign keys, which cannot be swapped in", table);
    err_hint(e, "restore it by hand: gunzip -c DUMP | mysql SCHEMA, or use --into");
    return -1;
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
    if (loader_takes(l->plan, t->name, create, len, e) < 0)
        goto out;
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
    uint64_t base = l->heap_default > 0 ? (uint64_t)l->heap_default : 16u << 20, want = base;
    struct db_figures fresh;
    if (set_heap(l, base, e) < 0 || create_once(l, t, create, len, e) < 0)
        return -1;
    t->created = true;
    if (db_figures(l->db, l->schema, loader_place(l, t), &fresh, e) < 0)
        return -1;
    if (t->heap_need > want)
        want = t->heap_need;
    if (fresh.max_data_length > 0 && t->max_data_length > fresh.max_data_length) {
        double scaled = (double)base * (double)t->max_data_length / (double)fresh.max_data_length;
        if (scaled < 1e15 && scaled > (double)want)
            want = (uint64_t)scaled + (64u << 10);
    }
    if (want <= base)
        return 0;
    return drop_place(l, t, e) < 0 || set_heap(l, want, e) < 0 ? -1
                                                               : create_once(l, t, create, len, e);
}

static int alter_counter(struct loader *l, const struct target *t, struct err *e)
{
    struct buf b = {0};
    buf_adds(&b, "ALTER TABLE ");
    sql_ident(&b, loader_place(l, t));
    buf_printf(&b, " AUTO_INCREMENT=%" PRIu64, t->auto_increment);
    int rc = db_exec_len(l->db, b.p, b.len, e);
    buf_free(&b);
    return rc;
}

/* ALTER TABLE copies the table, and takes several times as long as making it even where it is
 * empty. Most counters need none: they stand behind the highest number that was loaded. Only a
 * table that would take long to copy gets it before it is filled. */
static bool counter_first(const struct target *t)
{
    return t->auto_increment > 1 && (!t->memory || t->expected >= COUNTER_FIRST_ROWS);
}

int loader_table(struct loader *l, const char *table, const char *create, size_t len, struct err *e)
{
    l->target = plan_find(l->plan, table);
    buf_clear(&l->head);
    if (!l->target || l->target->skip) {
        l->target = NULL;
        return 0;
    }
    if (l->target->mapped)
        l->target->create = xstrndup(create, len);
    if (create_place(l, l->target, create, len, e) < 0 ||
        (counter_first(l->target) && alter_counter(l, l->target, e) < 0)) {
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
    struct target *t = l->target;
    if (t->mapped && check_mapping(t, e) < 0)
        return -1;
    buf_adds(&l->head, "INSERT INTO ");
    sql_ident(&l->head, loader_place(l, t));
    buf_addc(&l->head, ' ');
    buf_adds(&l->head, columns);
    buf_adds(&l->head, " VALUES\n");
    return 0;
}

static void count_rows(struct loader *l, uint64_t rows)
{
    l->target->rows += rows;
    *l->rows += rows;
}

static int load_failed(const struct loader *l, struct err *e)
{
    if (e && e->num == 1114)
        err_hint(e, "the table is full: raise max_heap_table_size or the memory of the server");
    err_step(e, "loading table %s", l->target->name);
    return -1;
}

static int send_rows(struct loader *l, const char *rows_sql, size_t len, struct err *e)
{
    buf_clear(&l->text);
    buf_add(&l->text, l->head.p, l->head.len);
    buf_add(&l->text, rows_sql, len);
    if (db_exec_len(l->db, l->text.p, l->text.len, e) < 0)
        return load_failed(l, e);
    l->target->warnings += db_warnings(l->db);
    return 0;
}

/* The server takes smaller statements than the dump has: cut between rows. */
static int send_pieces(struct loader *l, const char *s, size_t len, struct err *e)
{
    const char *end = s + len, *from = s;
    size_t room = l->packet_max - l->head.len - 1024;
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

static int insert_rows(struct loader *l, const char *tuples, size_t len, struct err *e)
{
    bool fits = l->head.len + len + 1024 <= l->packet_max;
    return fits ? send_rows(l, tuples, len, e) : send_pieces(l, tuples, len, e);
}

/* The types decide how values travel: those of the live table, or of the one just made. */
static struct db_bulk *open_bulk(struct loader *l, struct err *e)
{
    const struct target *t = l->target;
    struct db_tables made = {0};
    struct db_table place;
    if (!t->live) {
        if (db_table_named(l->db, l->schema, loader_place(l, t), &made, e) < 0)
            return NULL;
        if (made.count == 0) {
            err_set(e, ERR_CHANGED, 0, "table %s disappeared while it was being loaded",
                    loader_place(l, t));
            return NULL;
        }
    }
    place = t->live ? *t->live : made.list[0];
    char *name = xstrdup(loader_place(l, t));
    place.name = name;
    struct db_bulk *b =
        db_bulk_open(l->db, l->way, l->packet_max, &place, t->columns, t->column_count, e);
    free(name);
    db_tables_free(&made);
    return b;
}

static int stopped(const struct loader *l, struct err *e)
{
    return l->stop && *l->stop ? err_set(e, ERR_BUSY, 0, "stopped") : 0;
}

/* Durable tables, and those whose columns changed, go row by row through the server's own literals.
 */
static bool goes_in_bulk(const struct loader *l)
{
    const struct target *t = l->target;
    return l->way != DB_BULK_NONE && t->memory && !t->mapped;
}

/* `columns` as in an INSERT: "(`a`,`b`)". */
static int open_table(struct loader *l, const char *columns, struct err *e)
{
    note_columns(l->target, columns);
    l->open = true;
    if (!goes_in_bulk(l))
        return begin_insert(l, columns, e);
    l->bulk = open_bulk(l, e);
    return l->bulk ? 0 : -1;
}

static int give_rows(struct loader *l, const char *tuples, size_t len, uint64_t rows, uint64_t hash,
                     struct err *e)
{
    if (rows == 0)
        return 0;
    if (l->bulk && db_bulk_rows(l->bulk, tuples, len, e) < 0)
        return load_failed(l, e);
    if (!l->bulk && insert_rows(l, tuples, len, e) < 0)
        return -1;
    l->target->hash += hash;
    count_rows(l, rows);
    return 0;
}

static void add_run(struct buf *b, const char *from, const char *to)
{
    if (from == to)
        return;
    buf_adds(b, b->len ? ",\n" : "");
    buf_add(b, from, (size_t)(to - from));
}

static int misfit(const struct loader *l, struct err *e)
{
    if (e->cls == ERR_DAMAGED)
        e->cls = ERR_GAP;
    err_step(e, "table %s: the journal does not fit the dump", l->target->name);
    return -1;
}

/* Leaves out what went or comes back changed. Whole runs of rows are copied, for most of them stay.
 */
static int give_unchanged(struct loader *l, const struct format_item *item, struct err *e)
{
    const char *s = item->sql, *end = s + item->sql_len, *run = s, *run_end = s;
    uint64_t rows = 0, hash = item->rows_hash;
    buf_clear(&l->kept);
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        int stays = next ? fold_base(l->changes, s, (size_t)(next - s), false, e) : 0;
        if (!next || stays < 0)
            return misfit(l, e);
        rows += stays == 1;
        if (stays) {
            run_end = next;
        } else {
            hash -= sql_tuple_hash(s, (size_t)(next - s));
            add_run(&l->kept, run, run_end);
            run = run_end = next < end ? next + 2 : next;
        }
        s = next < end ? next + 2 : next;
    }
    if (run == item->sql)
        return give_rows(l, run, item->sql_len, rows, hash, e);
    add_run(&l->kept, run, run_end);
    return give_rows(l, l->kept.p, l->kept.len, rows, hash, e);
}

static int give_changed(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    struct loader *l = arg;
    const char *s = tuples, *end = tuples + len;
    uint64_t hash = 0;
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next)
            return err_set(e, ERR_DAMAGED, 0, "a changed row is none");
        hash += sql_tuple_hash(s, (size_t)(next - s));
        s = next < end ? next + 2 : next;
    }
    return give_rows(l, tuples, len, rows, hash, e);
}

/* A table that was empty in the dump has no list of columns there. */
static int open_for_changes(struct loader *l, struct err *e)
{
    struct buf columns = {0};
    struct db_tables made;
    if (db_table_named(l->db, l->schema, loader_place(l, l->target), &made, e) < 0)
        return -1;
    int rc = made.count
                 ? 0
                 : err_set(e, ERR_CHANGED, 0, "table %s disappeared while it was being loaded",
                           loader_place(l, l->target));
    if (rc == 0) {
        buf_addc(&columns, '(');
        db_column_list(&columns, &made.list[0]);
        buf_addc(&columns, ')');
        rc = open_table(l, columns.p, e);
    }
    buf_free(&columns);
    db_tables_free(&made);
    return rc;
}

static int finish_changes(struct loader *l, struct err *e)
{
    struct err why = {0};
    if (!l->open && open_for_changes(l, e) < 0)
        return -1;
    if (fold_finish(l->changes, false, FOLD_BLOCK, give_changed, l, &why) == 0)
        return 0;
    *e = why;
    return why.cls == ERR_DAMAGED ? misfit(l, e) : -1;
}

static int finish_bulk(struct loader *l, struct err *e)
{
    struct target *t = l->target;
    if (db_bulk_finish(l->bulk, e) < 0)
        return load_failed(l, e);
    t->warnings += db_bulk_warnings(l->bulk);
    if (db_bulk_taken(l->bulk) == t->rows)
        return 0;
    return err_set(e, ERR_QUERY, 0, "table %s: the server took %" PRIu64 " of %" PRIu64 " rows",
                   t->name, db_bulk_taken(l->bulk), t->rows);
}

static int finish_table(struct loader *l, struct err *e)
{
    if (l->changes && finish_changes(l, e) < 0)
        return -1;
    return l->bulk ? finish_bulk(l, e) : 0;
}

static int take_item(struct loader *l, const struct format_item *item, struct err *e)
{
    if (item->type == FORMAT_CREATE) {
        if (loader_table(l, item->table, item->sql, item->sql_len, e) < 0)
            return -1;
        l->changes = l->fold && l->target ? fold_find(l->fold, item->table) : NULL;
        fault_point("restore.shadows_created");
        return 0;
    }
    if (item->type != FORMAT_ROWS || !l->target)
        return 0;
    if (!l->open && open_table(l, item->columns, e) < 0)
        return -1;
    return l->changes ? give_unchanged(l, item, e)
                      : give_rows(l, item->sql, item->sql_len, item->rows, item->rows_hash, e);
}

int loader_part(struct loader *l, struct verify_part *part, struct err *e)
{
    struct format_item item = {0};
    int rc;
    l->open = false;
    l->changes = NULL;
    do {
        rc = verify_part_next(part, &item, e);
        if (rc == 0)
            rc = take_item(l, &item, e);
        if (rc == 0)
            rc = stopped(l, e);
    } while (rc == 0 && item.type != FORMAT_END);
    if (rc == 0 && l->target)
        rc = finish_table(l, e);
    db_bulk_close(l->bulk);
    l->bulk = NULL;
    return rc;
}

int loader_insert_raw(struct loader *l, const char *behind_name, size_t len, struct err *e)
{
    if (!l->target)
        return 0;
    buf_clear(&l->text);
    buf_adds(&l->text, "INSERT INTO ");
    sql_ident(&l->text, loader_place(l, l->target));
    buf_add(&l->text, behind_name, len);
    if (db_exec_len(l->db, l->text.p, l->text.len, e) < 0)
        return load_failed(l, e);
    l->target->raw = true;
    l->target->warnings += db_warnings(l->db);
    count_rows(l, db_affected(l->db));
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
    uint64_t hash = 0, rows = 0;
    if (t->column_count == 0)
        return 0; /* no row, so no column list was seen */
    if (db_table_named(l->db, l->schema, loader_place(l, t), &own, e) < 0)
        return -1;
    picked.columns = xcalloc(t->column_count, sizeof *picked.columns);
    for (size_t i = 0; own.count && i < t->column_count; i++) {
        const struct db_column *c = find_column(&own.list[0], t->columns[i]);
        if (c)
            picked.columns[picked.column_count++] = *c;
    }
    struct buf from = {0};
    sql_ident(&from, loader_place(l, t));
    int rc = db_read_rows(l->db, &picked, from.p, add_hash, &hash, &rows, e);
    if (rc == 0 && (rows != t->rows || hash != t->hash || picked.column_count != t->column_count))
        rc = err_set(e, ERR_QUERY, 0,
                     "table %s: what the server stored is not what was loaded (%" PRIu64
                     " warnings)",
                     t->name, t->warnings);
    buf_free(&from);
    free(picked.columns);
    db_tables_free(&own);
    return rc;
}

/* The counter of a table whose last rows were deleted stands higher than its rows tell. */
static int check_counter(struct loader *l, const struct target *t, struct err *e)
{
    struct db_figures now;
    if (t->auto_increment == 0 || !t->memory)
        return 0;
    if (db_figures(l->db, l->schema, loader_place(l, t), &now, e) < 0)
        return -1;
    return now.auto_increment == t->auto_increment ? 0 : alter_counter(l, t, e);
}

int loader_check(struct loader *l, const struct target *t, bool content, struct err *e)
{
    uint64_t rows = 0;
    if (t->skip || !t->created)
        return 0;
    if (check_counter(l, t, e) < 0 || db_count(l->db, l->schema, loader_place(l, t), &rows, e) < 0)
        return -1;
    if (rows != t->rows)
        return err_set(e, ERR_QUERY, 0,
                       "table %s: %" PRIu64 " rows arrived, %" PRIu64 " were loaded", t->name, rows,
                       t->rows);
    if (t->mapped && t->warnings) {
        err_set(e, ERR_REFUSED, 0,
                "table %s changed since the dump and its rows no longer fit (%" PRIu64 " warnings)",
                t->name, t->warnings);
        err_hint(e, "change the table back, or restore with --into another schema and copy "
                    "what is needed");
        return -1;
    }
    bool compare = !t->raw && !t->mapped && (content || t->warnings);
    return compare ? compare_content(l, t, e) : 0;
}
