#include "ledger/keep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "base/file.h"
#include "ledger/files.h"
#include "ledger/piece.h"
#include "ledger/sql.h"
#include "ledger/sums.h"
#include "sql/literal.h"

#define BATCH 1000000u /* InnoDB: maximum rows of one file, whose ids are kept in memory */
#define ASKED 500u     /* ids in one list */

/* An id identifies a row only as long as ids do not begin again. `print` is therefore compared
 * too: a hash of the row's keys, values and time. */
struct known_id {
    uint64_t id, print;
    uint64_t file; /* sequence of the file that the row is in */
    bool claimed;  /* this run has rolled it up */
};

/* Reads ids and prints of the rows that follow a header. */
struct reading_ids {
    const struct ledger *l;
    struct known_id **list;
    size_t *count;
    uint64_t *names; /* hash of each column's name; 0: the column is no key, value or time */
    unsigned columns, id;
    uint64_t file; /* sequence of the file that they are read from */
};

struct ledger_keep {
    struct run *r;
    struct ledger_files files;
    uint64_t file, filed;
    struct ledger_ref last; /* file number `file` */
    uint64_t upto;          /* MEMORY: rows of interrupted files have ids up to this */
    struct known_id *ids;   /* rows of interrupted files that are still in the ledger; by_row() */
    size_t id_count;
    struct known_id *fresh; /* InnoDB: rows of the file being written */
    size_t fresh_count;
    /* The file being written: */
    struct ledger_file_writer *out;
    struct ledger_file now;
    struct buf rows;
    /* All columns of a row as they are written: the list to select, and the header with their
     * names. */
    struct buf whole, header;
    unsigned whole_count;
    /* Used by print_row(): */
    struct buf row;
    struct csv_reader csv;
    struct reading_ids reading;
    struct known_id *printed;
    size_t printed_count;
};

/* For bsearch(). */
static int by_id(const void *a, const void *b)
{
    const struct known_id *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* For qsort() and bsearch(). An id alone is not enough: an updated row is in two files with one id,
 * and ids may begin again. */
static int by_row(const void *a, const void *b)
{
    const struct known_id *x = a, *y = b;
    int order = by_id(a, b);
    return order ? order : (x->print > y->print) - (x->print < y->print);
}

/* Returns NULL if the id is in no interrupted file. */
static struct known_id *keep_find(struct ledger_keep *k, uint64_t id)
{
    struct known_id key = {.id = id};
    return k->id_count ? bsearch(&key, k->ids, k->id_count, sizeof key, by_id) : NULL;
}

/* Returns true if the row is in a file, so that it may be rolled up. */
static bool is_filed(struct ledger_keep *k, uint64_t id)
{
    struct known_id *known = k->r->l->memory ? NULL : keep_find(k, id);
    if (known)
        known->claimed = true;
    return k->r->l->memory || known;
}

/* A piece was rolled back. Rows are read in the order of ids, so only this piece has claimed rows
 * after `after_id`; when it is repeated, a game may have locked some of them. */
static void keep_unclaim(struct ledger_keep *k, uint64_t after_id)
{
    for (size_t i = k->id_count; i-- > 0 && k->ids[i].id > after_id;)
        k->ids[i].claimed = false;
}

/* The caller frees the list. */
static void add_id(struct known_id **list, size_t *count, struct known_id id)
{
    *list = xgrow(*list, *count, sizeof **list);
    (*list)[(*count)++] = id;
}

/* ---- rows in the format of files ---- */

/* Compares column names as the server does. */
static bool keep_is_name(const char *name, const struct csv_field *f)
{
    return strlen(name) == f->len && strncasecmp(f->s, name, f->len) == 0;
}

/* The print is a sum over columns, so it does not depend on their order in the file, which an
 * ALTER may change. */
static int read_id(void *arg, const struct csv_field *fields, unsigned count, struct err *e)
{
    struct reading_ids *r = arg;
    const struct ledger *l = r->l;
    struct known_id is = {.file = r->file};
    bool header = !r->names;
    if (header) {
        r->names = xcalloc(count, sizeof *r->names);
        r->id = r->columns = count;
    }
    for (unsigned i = 0; i < count && header; i++) {
        const char *found = keep_is_name(l->cfg->time, &fields[i]) ? l->cfg->time : NULL;
        for (unsigned k = 0; k < ledger_columns(l); k++)
            if (keep_is_name(ledger_column(l, k)->name, &fields[i]))
                found = ledger_column(l, k)->name;
        r->id = keep_is_name(l->cfg->id, &fields[i]) ? i : r->id;
        r->names[i] = found ? text_hash(TEXT_HASH, found, strlen(found)) | 1 : 0;
    }
    if (header)
        return 0;
    if (count != r->columns || r->id == count ||
        !ledger_parse_id(fields[r->id].s, fields[r->id].len, &is.id))
        return err_set(e, ERR_DAMAGED, 0, "a row has no id");
    for (unsigned i = 0; i < count; i++)
        is.print += r->names[i] ? text_hash(r->names[i], fields[i].s, fields[i].len) : 0;
    add_id(r->list, r->count, is);
    return 0;
}

/* Returns true if the column is written in UTF-8, whatever its character set is. */
static bool is_text(const struct db_column *c)
{
    return c->charset[0] || c->encoding == DB_LATIN1 || c->encoding == DB_UTF8 ||
           c->encoding == DB_INDEX;
}

static bool is_binary(const struct db_column *c)
{
    static const char *const moments[] = {"date", "time", "year", NULL};
    bool moment = false;
    for (const char *const *m = moments; *m; m++)
        moment |= text_starts(c->type, *m);
    return c->encoding == DB_BITS || (c->encoding == DB_BYTES && !is_text(c) && !moment);
}

/* Collects the columns to select and the header with their names. */
static void keep_columns(struct ledger_keep *k)
{
    const struct db_table *t = &k->r->l->table;
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        sql_fill(&k->whole,
                 is_text(c)                 ? ",CONVERT(l.?? USING utf8mb4)"
                 : c->encoding == DB_DOUBLE ? ",CAST(l.?? AS DOUBLE)"
                                            : ",l.??",
                 DB_ARGS(c->name));
        buf_adds(&k->header, k->whole_count++ ? "," : "");
        csv_text(&k->header, c->name, strlen(c->name));
    }
    buf_adds(&k->header, "\r\n");
}

/* Chooses whether pieces are read with all columns, and starts again from the first piece. */
static void read_whole(struct ledger_keep *k, bool whole)
{
    k->r->whole = whole ? k->whole : (struct buf){0};
    k->r->whole_count = whole ? k->whole_count : 0;
    ledger_next_piece(k->r, NULL);
}

/* Quotes texts and nothing else, so that NULL, numbers and binary data can be distinguished from
 * them. */
static void keep_put_row(struct buf *b, const struct db_table *t, char **row,
                         const unsigned long *len)
{
    unsigned n = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        buf_adds(b, n ? "," : "");
        if (row[n] && is_text(c)) {
            csv_text(b, row[n], len[n]);
        } else if (row[n] && is_binary(c)) {
            buf_reserve(b, 2 * len[n] + 3);
            buf_adds(b, "0x");
            text_hex((const unsigned char *)row[n], len[n], b->p + b->len);
            b->len += 2 * len[n];
        } else if (row[n]) {
            buf_add(b, row[n], len[n]);
        }
        n++;
    }
    buf_adds(b, "\r\n");
}

/* Returns id and print that a file would have for this row of the ledger. */
static int print_row(struct ledger_keep *k, char **row, const unsigned long *len,
                     struct known_id *out, struct err *e)
{
    buf_clear(&k->row);
    if (!k->reading.l) {
        k->reading = (struct reading_ids){k->r->l, &k->printed, &k->printed_count, .names = NULL};
        buf_add(&k->row, k->header.p, k->header.len);
    }
    keep_put_row(&k->row, &k->r->l->table, row, len);
    k->printed_count = 0;
    if (csv_feed(&k->csv, k->row.p, k->row.len, read_id, &k->reading, e) < 0)
        return -1;
    *out = k->printed[0];
    return 0;
}

/* ---- which rows are in files ---- */

/* Sets `claimed` for each id whose row is in the ledger as it is in its file. */
static int ask_ids(struct ledger_keep *k, struct known_id *list, size_t count, struct err *e)
{
    struct run *r = k->r;
    const char *id = r->l->cfg->id;
    SCOPED(buf_free) struct buf sql = {0};
    sql_fill(&sql, "SELECT l.??$ FROM $ l " DB_ONLY_TABLE " WHERE l.?? IN (",
             DB_ARGS(id, k->whole.p, r->table.p, id));
    for (size_t i = 0; i < count; i++)
        buf_printf(&sql, "%s%" PRIu64, i ? "," : "", list[i].id);
    buf_addc(&sql, ')');
    struct db_rows *rows = db_select_bytes(r->db, 1 + k->whole_count, sql.p, e);
    int got;
    while ((got = db_next(rows, e)) == 1) {
        const unsigned long *len;
        char **row = db_row(rows, &len);
        struct known_id key, *is;
        if ((got = print_row(k, row + 1, len + 1, &key, e)) < 0)
            break;
        is = bsearch(&key, list, count, sizeof key, by_row);
        if (is)
            is->claimed = true;
    }
    db_rows_end(rows);
    return got;
}

/* Keeps only the ids that are still in the ledger, because a game has locked their rows. */
static int drop_gone(struct ledger_keep *k, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < k->id_count; i++) /* rows that this run has rolled up are gone */
        if (!k->ids[i].claimed)
            k->ids[n++] = k->ids[i];
    for (size_t i = 0; i < n; i += ASKED)
        if (ask_ids(k, k->ids + i, n - i < ASKED ? n - i : ASKED, e) < 0)
            return -1;
    k->id_count = 0;
    for (size_t i = 0; i < n; i++) {
        struct known_id is = k->ids[i];
        if (!is.claimed)
            continue;
        is.claimed = false;
        k->ids[k->id_count++] = is;
    }
    return 0;
}

/* Reads the rows of an interrupted file. A file that no longer exists is not listed, so it
 * contributes no rows. */
static int read_open(struct ledger_keep *k, struct ledger_file *f, struct err *e)
{
    const struct ledger *l = k->r->l;
    struct reading_ids ids = {.l = l, .list = &k->ids, .count = &k->id_count, .file = f->sequence};
    int rc = ledger_file_load(k->r->opt->dirfd, f, e);
    if (rc == 0)
        rc = ledger_file_read(k->r->opt->dirfd, f, read_id, &ids, e);
    free(ids.names);
    if (f->upto > k->upto)
        k->upto = f->upto;
    if (rc < 0) {
        SCOPED(buf_free) struct buf dir = {0};
        buf_shell(&dir, k->r->opt->cfg->dump_dir);
        err_hint(e,
                 "some of its rows are in totals already; rename it: mv %s/%s.csv.gz "
                 "%s/%s.csv.gz.damaged; then run worldkeeper --rollup=%s, which fetches it from "
                 "the store, or writes its remaining rows to a new file",
                 dir.p, f->name, dir.p, f->name, l->cfg->name);
    }
    return rc;
}

/* MEMORY: lowers `upto` to before the first row that differs from its file. That row and all
 * rows after it must be written to a new file. */
static int compare_row(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                       const unsigned long *len, struct err *e)
{
    unsigned before = FIELD_KEY + ledger_columns(r->l) + 1;
    struct known_id is;
    (void)p;
    if (id > r->upto || id <= mark)
        return 0;
    if (print_row(r->keep, row + before, len + before, &is, e) < 0)
        return -1;
    if (!bsearch(&is, r->keep->ids, r->keep->id_count, sizeof is, by_row))
        r->upto = id - 1;
    return 0;
}

/* Finds the id up to which the rows of interrupted files are in the ledger as they were written. */
static int keep_compare_rows(struct ledger_keep *k, struct err *e)
{
    struct run *r = k->r;
    uint64_t upto = r->upto;
    int rc = 0;
    r->upto = k->upto;
    read_whole(k, true);
    for (bool end = false; rc == 0 && !end;) {
        SCOPED(ledger_free_piece) struct piece p = {0};
        rc = ledger_read_piece(r, &p, compare_row, e);
        end = p.end;
        ledger_next_piece(r, &p);
    }
    read_whole(k, false);
    k->upto = r->upto;
    r->upto = upto;
    k->id_count = 0; /* from now on, `upto` is used instead */
    return rc;
}

/* Counts the rows that are in totals, and the rows of interrupted files, which will be in
 * totals. */
static int rolled_up_before(struct ledger_keep *k, uint64_t *out, struct err *e)
{
    int rc =
        ledger_ask(k->r->db, out, e, "SELECT SUM(`rows`) FROM %s " DB_ONLY_TABLE, k->r->rollup.p);
    *out += k->id_count;
    return rc;
}

/* Sets a file aside that a restore undid, or whose run stored no marker row. The file is refused
 * if its rows are in totals: then the marker row is wrong, and setting the file aside would lose
 * it. */
static int keep_undo(struct ledger_keep *k, struct ledger_file *f, struct err *e)
{
    struct run *r = k->r;
    struct err ignored;
    uint64_t now;
    if (ledger_file_load(r->opt->dirfd, f, &ignored) < 0)
        return ledger_file_undo(r->opt->dirfd, f, e);
    if (rolled_up_before(k, &now, e) < 0)
        return -1;
    if (now <= f->before)
        return ledger_file_undo(r->opt->dirfd, f, e);
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: according to row 'file' of table %s_mark (%" PRIu64
            "), %s.csv.gz is not valid, but %" PRIu64
            " rows were added to totals since that file was begun: the row was changed, or rows "
            "were rolled up without keep after a restore",
            r->l->cfg->name, r->l->cfg->name, k->file, f->name, now - f->before);
    uint64_t last = k->files.list[k->files.count - 1].sequence;
    return err_hint(
        e,
        "if the world was not restored since then: INSERT INTO %s VALUES ('file',0,%" PRIu64
        ") ON DUPLICATE KEY UPDATE at=0,id=%" PRIu64
        "; otherwise move the file to another directory",
        r->mark.p, last, last);
}

/* Finds the rows that interrupted runs have already written to files. */
static int read_interrupted(struct ledger_keep *k, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < k->files.count && rc == 0; i++) {
        struct ledger_file *f = &k->files.list[i];
        if (f->sequence > k->filed && f->sequence <= k->file)
            rc = read_open(k, f, e);
    }
    if (rc < 0 || !k->id_count)
        return rc;
    qsort(k->ids, k->id_count, sizeof *k->ids, by_row);
    return k->r->l->memory ? keep_compare_rows(k, e) : drop_gone(k, e);
}

/* Sets files aside only after the interrupted ones were read: keep_undo() counts which of their
 * rows are still in the ledger. */
static int keep_begin(struct ledger_keep *k, struct err *e)
{
    struct run *r = k->r;
    const char *name = r->l->cfg->name;
    int dirfd = r->opt->dirfd, rc = 0;
    struct ledger_filed m;
    if (ledger_files_sweep(dirfd, name, e) < 0 || ledger_filed(r->db, r->l, &m, e) < 0)
        return -1;
    k->file = m.file;
    k->filed = m.filed;
    struct ledger_ref at = k->last = ledger_filed_last(&m);
    if (ledger_files_settle(dirfd, name, true, &at, e) < 0 ||
        ledger_files_list(dirfd, name, &k->files, e) < 0 || read_interrupted(k, e) < 0)
        return -1;
    for (size_t i = 0; i < k->files.count && rc == 0; i++)
        if (k->files.list[i].sequence > k->file)
            rc = keep_undo(k, &k->files.list[i], e);
    return rc;
}

int ledger_filed(struct db *db, const struct ledger *l, struct ledger_filed *out, struct err *e)
{
    SCOPED(buf_free) struct buf mark = {0};
    uint64_t written = 0;
    *out = (struct ledger_filed){0};
    sql_ident2(&mark, l->schema, LEDGER_OWN(l->cfg, "mark"));
    if (ledger_ask(db, &out->file, e, "SELECT id FROM %s " DB_ONLY_TABLE " WHERE what='file'",
                   mark.p) < 0 ||
        ledger_ask(db, &out->filed, e, "SELECT id FROM %s " DB_ONLY_TABLE " WHERE what='filed'",
                   mark.p) < 0 ||
        ledger_ask(db, &written, e,
                   "SELECT CAST(at AS UNSIGNED) FROM %s " DB_ONLY_TABLE " WHERE what='file'",
                   mark.p) < 0)
        return -1;
    out->written.ms = (int64_t)written;
    return 0;
}

int ledger_lacks_files(const struct ledger_filed *m, const char *ledger, int dirfd, uint64_t *from,
                       struct err *e)
{
    SCOPED(names_free) struct names found = {0};
    struct ledger_file f;
    struct ledger_ref at = ledger_filed_last(m);
    uint64_t here = 0, aside = UINT64_MAX;
    if (ledger_files_settle(dirfd, ledger, true, &at, e) < 0 ||
        file_list(dirfd, "cannot list the dump directory", &found, e) < 0)
        return -1;
    for (size_t i = 0; i < found.count; i++) {
        if (ledger_file_named(found.list[i], LEDGER_FILES_GZIP, ledger, &f))
            here += f.sequence > m->filed && f.sequence <= at.sequence;
        else if (ledger_file_named(found.list[i], LEDGER_FILES_MANIFEST LEDGER_FILES_UNDONE, ledger,
                                   &f) &&
                 f.sequence < at.sequence && f.sequence < aside)
            aside = f.sequence;
    }
    bool open = at.sequence > m->filed && (at.known || here < at.sequence - m->filed);
    *from = open ? m->filed + 1 : aside;
    return open ? LEDGER_LACKS_OPEN : at.known && aside != UINT64_MAX ? LEDGER_LACKS_ASIDE : 0;
}

/* ---- writing ---- */

/* Refuses a row that no total can have before anything is written, because the row will differ
 * once it is corrected. */
static int keep_write_row(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                          const unsigned long *len, struct err *e)
{
    struct ledger_keep *k = r->keep;
    const struct ledger *l = r->l;
    unsigned before = FIELD_KEY + ledger_columns(l) + 1;
    (void)p;
    if (id > r->upto || id <= mark || (!l->memory && keep_find(k, id)))
        return 0;
    if (ledger_check_key(r, id, row + FIELD_KEY, e) < 0)
        return -1;
    for (unsigned i = l->cfg->key.count; i < ledger_columns(l); i++)
        if (!row[FIELD_KEY + i])
            return ledger_refuse_row(r, id, ledger_column(l, i)->name, "is NULL", e);
    keep_put_row(&k->rows, &l->table, row + before, len + before);
    if (k->now.rows++ == 0 || id < k->now.first)
        k->now.first = id;
    if (id > k->now.last)
        k->now.last = id;
    if (l->memory)
        return 0;
    struct known_id is;
    if (print_row(k, row + before, len + before, &is, e) < 0)
        return -1;
    add_id(&k->fresh, &k->fresh_count, is);
    return 0;
}

/* Creates the file with its first rows, so that a run without rows leaves no file. */
static int write_piece(struct ledger_keep *k, struct err *e)
{
    struct run *r = k->r;
    if (!k->rows.len)
        return 0;
    if (!k->out) {
        k->now.sequence = (k->files.highest > k->file ? k->files.highest : k->file) + 1;
        k->now.previous = k->last;
        if (rolled_up_before(k, &k->now.before, e) < 0)
            return -1;
        k->out = ledger_file_begin(r->opt->dirfd, r->l->cfg->name, k->now.sequence,
                                   r->opt->cfg->dump_level, &k->header, e);
    }
    int rc = k->out ? ledger_file_write(k->out, &k->rows, e) : -1;
    buf_clear(&k->rows);
    return rc;
}

/* Makes the file valid: the marker row is stored in the world before the first of the file's
 * rows is deleted. */
static int keep_commit(struct ledger_keep *k, struct err *e)
{
    struct run *r = k->r;
    struct ledger_file_writer *w = k->out;
    k->out = NULL;
    k->now.upto = r->upto;
    if (ledger_file_commit(w, &k->now, e) < 0 ||
        ledger_mark_write(r, "file", k->now.written, k->now.sequence, e) < 0)
        return -1;
    fault_point("ledger.filed");
    k->file = k->files.highest = k->now.sequence; /* no number is used twice */
    k->last = (struct ledger_ref){.known = true, .sequence = k->file, .written = k->now.written};
    r->out->kept += k->now.rows;
    for (size_t i = 0; i < k->fresh_count; i++) {
        k->fresh[i].file = k->file;
        add_id(&k->ids, &k->id_count, k->fresh[i]);
    }
    if (k->id_count)
        qsort(k->ids, k->id_count, sizeof *k->ids, by_row);
    return 0;
}

/* Writes the rows that are to be rolled up to a file. *more is true if rows are left. */
static int keep_write_rows(struct ledger_keep *k, bool *more, struct err *e)
{
    struct run *r = k->r;
    unsigned batch = fault_limit("ledger.batch", BATCH);
    int rc = 0;
    *more = false;
    k->now = (struct ledger_file){0};
    k->fresh_count = 0;
    read_whole(k, true);
    for (bool end = false; rc == 0 && !end && !*more;) {
        SCOPED(ledger_free_piece) struct piece p = {0};
        rc = ledger_read_piece(r, &p, keep_write_row, e);
        if (rc == 0)
            rc = write_piece(k, e);
        if (rc == 0 && r->opt->stop && r->opt->stop(r->opt->stop_arg))
            rc = err_set(e, ERR_ABORTED, 0, "[ledger %s]: stopped; nothing was rolled up",
                         r->l->cfg->name);
        end = p.end;
        *more = !end && k->fresh_count >= batch;
        ledger_next_piece(r, &p);
    }
    if (rc == 0 && k->out)
        rc = keep_commit(k, e);
    ledger_file_abort(k->out); /* NULL after keep_commit() */
    k->out = NULL;
    buf_clear(&k->rows);
    read_whole(k, false);
    if (rc < 0)
        err_step(e, "cannot write the rows to be rolled up to a file");
    return rc;
}

/* ---- a run ---- */

/* Stores as `filed` the last file up to which all rows are in totals. A row that a game has locked
 * delays its file and those after it. */
static int note_filed(struct ledger_keep *k, struct err *e)
{
    uint64_t filed = k->file;
    if (drop_gone(k, e) < 0)
        return -1;
    for (size_t i = 0; i < k->id_count; i++) /* all these files come after the previous `filed` */
        if (k->ids[i].file <= filed)
            filed = k->ids[i].file - 1;
    if (filed == k->filed)
        return 0;
    k->filed = filed;
    return ledger_mark_write(k->r, "filed", clock_wall(), k->filed, e);
}

static int keep_expire(struct ledger_keep *k, struct err *e)
{
    const struct ledger_filed m = {.filed = k->filed, .file = k->file};
    return ledger_files_expire(k->r->opt->dirfd, k->r->opt->cfg, k->r->l->cfg, &m, e);
}

int ledger_keep_run(struct run *r, struct err *e)
{
    struct ledger_keep k = {.r = r};
    bool more = true;
    r->keep = &k;
    r->filed = is_filed;
    r->unclaim = keep_unclaim;
    keep_columns(&k);
    int rc = keep_begin(&k, e);
    if (rc == 0 && r->l->memory && k.file != k.filed) { /* rows of an interrupted file */
        uint64_t upto = r->upto;
        r->upto = k.upto;
        rc = ledger_all_pieces(r, e);
        r->upto = upto;
        ledger_next_piece(r, NULL);
    }
    if (rc == 0)
        rc = note_filed(&k, e);
    /* Writes a file and rolls up its rows alternately, so that at most one batch of rows waits
     * in a file. */
    while (rc == 0 && more) {
        rc = keep_write_rows(&k, &more, e);
        if (rc == 0)
            rc = ledger_all_pieces(r, e);
        if (rc == 0)
            rc = note_filed(&k, e);
    }
    if (rc == 0)
        rc = keep_expire(&k, e);
    r->keep = NULL;
    ledger_files_free(&k.files);
    buf_free(&k.rows);
    buf_free(&k.row);
    buf_free(&k.whole);
    buf_free(&k.header);
    csv_free(&k.csv);
    free(k.reading.names);
    free(k.printed);
    free(k.ids);
    free(k.fresh);
    return rc;
}
