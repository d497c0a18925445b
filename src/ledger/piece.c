#include "ledger/piece.h"

#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "ledger/limits.h"
#include "ledger/piece_sql.h"
#include "ledger/request.h"
#include "ledger/sums.h"
#include "mysql/value.h"

#define IGNORED_MAX 500u /* rows up to a rollup position that one piece can ignore */
#define RETRIES 10

int ledger_refuse_row(const struct run *r, uint64_t id, const char *column, const char *why,
                      struct err *e)
{
    err_set(e, ERR_REFUSED, 0,
            "[ledger %s]: column %s of the row with %s %" PRIu64 " in table %s %s", r->l->cfg->name,
            column, r->l->cfg->id, id, r->l->cfg->table, why);
    return err_hint(e, "the row is unchanged; correct it, then worldkeeper --rollup=%s",
                    r->l->cfg->name);
}

static int refuse_null_key(const struct run *r, uint64_t id, unsigned i, struct err *e)
{
    return ledger_refuse_row(r, id, r->l->key[i]->name,
                             "is NULL, which is not allowed in a key of totals", e);
}

/* Refuses a key that no total can have; returns 0 if the key is valid. An ENUM that was given
 * none of its members has number 0. The server shows it as '' and stores it in no other table. */
int ledger_check_key(const struct run *r, uint64_t id, char **key, struct err *e)
{
    for (unsigned i = 0; i < r->l->cfg->key.count; i++) {
        if (!key[i])
            return refuse_null_key(r, id, i, e);
        if (text_starts(r->l->key[i]->type, "enum") && strcmp(key[i], "0") == 0)
            return ledger_refuse_row(
                r, id, r->l->key[i]->name,
                "is not a value of its ENUM, which is not allowed in a key of totals", e);
    }
    return 0;
}

/* Adds a row to the group of its key, which is written as in an INSERT. */
static int piece_add_row(struct run *r, struct piece *p, uint64_t id, char **row,
                         const unsigned long *len, struct err *e)
{
    const struct ledger *l = r->l;
    unsigned value = FIELD_KEY + l->cfg->key.count, time = value + l->cfg->value.count;
    total_t v[CONFIG_LEDGER_COLUMNS];
    SCOPED(buf_free) struct buf key = {0};
    if (ledger_check_key(r, id, row + FIELD_KEY, e) < 0)
        return -1;
    for (unsigned i = FIELD_KEY; i < value; i++) {
        buf_adds(&key, i > FIELD_KEY ? "," : "");
        ledger_put_literal(&key, l->key[i - FIELD_KEY], row[i], len[i], false);
    }
    for (unsigned n = 0, i = value; i < time; n++, i++)
        if (!row[i] || !ledger_value_parse(row[i], len[i], l->scale[n], &v[n]))
            return ledger_refuse_row(r, id, l->value[n]->name,
                                     row[i] ? "is not a number" : "is NULL", e);
    ledger_group_add(r, ledger_group_of(p, &key), id, v, row[time], len[time]);
    p->rows++;
    p->late += row[FIELD_FLAG] && row[FIELD_FLAG][0] == '1';
    if (!l->memory)
        buf_printf(&p->ids, "%s%" PRIu64, p->ids.len ? "," : "", id);
    return 0;
}

/* Leaves a row that is too young, or that is in no file yet. A row up to its key's rollup
 * position was left over by an interrupted run, or was inserted with an old id. Rows with old
 * ids are never deleted, because they are in no total. */
static int piece_take_row(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                          const unsigned long *len, struct err *e)
{
    if (id > r->upto || (r->keep && !r->filed(r->keep, id)))
        return 0;
    if (id > mark)
        return piece_add_row(r, p, id, row, len, e);
    if (r->left_over) {
        p->left_over++;
        return 0;
    }
    if (++p->ignored_count > IGNORED_MAX)
        return err_set(
            e, ERR_REFUSED, 0,
            "[ledger %s]: table %s has many rows with ids that were already rolled up, such as "
            "%s %" PRIu64 ": they are in no total",
            r->l->cfg->name, r->l->cfg->table, r->l->cfg->id, id);
    buf_printf(&p->ignored, "%s%" PRIu64, p->ignored.len ? "," : "", id);
    return 0;
}

/* Returns true if every value of the row has its column's type. */
static bool row_is_valid(const struct run *r, char **row, const unsigned long *len)
{
    for (unsigned i = 0; i < ledger_columns(r->l); i++)
        if (row[FIELD_KEY + i] &&
            !db_value_is(ledger_column(r->l, i)->encoding, row[FIELD_KEY + i], len[FIELD_KEY + i]))
            return false;
    return true;
}

void ledger_next_piece(struct run *r, struct piece *p)
{
    buf_free(&r->after);
    if (!p) {
        r->after_id = 0;
        return;
    }
    r->after = p->next;
    p->next = (struct buf){0};
}

/* An id below 1 is a mistake of the session that inserted it. Anything else that is not an id
 * means that the server's answer is invalid. */
static int invalid_row(const struct run *r, const char *id, struct err *e)
{
    if (id && id[0] == '-') {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: a row of table %s has %s %s: ids must begin with 1", r->l->cfg->name,
                r->l->cfg->table, r->l->cfg->id, id);
        return err_hint(e, "INSERT it again without an id, and DELETE this one");
    }
    return db_invalid(r->db, e, "malformed row with %s %s in table %s", r->l->cfg->id,
                      id ? id : "NULL", r->l->cfg->table);
}

int ledger_read_piece(struct run *r, struct piece *p, row_fn *fn, struct err *e)
{
    unsigned fields = FIELD_KEY + ledger_columns(r->l) + 1 + r->whole_count, n = 0;
    SCOPED(buf_free) struct buf sql = {0};
    int got;
    ledger_sql_select(&sql, r);
    struct db_rows *rows = db_select_bytes(r->db, fields, sql.p, e);
    if (!rows)
        return -1;
    while ((got = db_next(rows, e)) == 1) {
        const unsigned long *len;
        char **row = db_row(rows, &len);
        uint64_t id, mark;
        if (n == r->piece) { /* exceeds our LIMIT: another statement's answer */
            got = db_invalid(r->db, e, "the server sent more rows than LIMIT %u allows", r->piece);
            break;
        }
        if (!ledger_parse_id(row[FIELD_ID], len[FIELD_ID], &id) ||
            !ledger_parse_id(row[FIELD_MARK], len[FIELD_MARK], &mark) ||
            !row_is_valid(r, row, len)) {
            got = invalid_row(r, row[FIELD_ID], e);
            break;
        }
        if (fn(r, p, id, mark, row, len, e) < 0) {
            got = -1;
            break;
        }
        r->after_id = id;
        if (++n < r->piece || !r->l->memory)
            continue;
        /* This is the last row of the piece. It cannot have a NULL key, however young it is,
         * because no comparison finds the rows after a NULL. */
        for (unsigned i = 0; i < r->l->cfg->key.count && got == 1; i++)
            if (!row[FIELD_KEY + i])
                got = refuse_null_key(r, id, i, e);
        if (got < 0)
            break;
        ledger_sql_limit(&p->up_to, r, row + FIELD_KEY, len + FIELD_KEY, id, false, false);
        ledger_sql_limit(&p->next, r, row + FIELD_KEY, len + FIELD_KEY, id, true, id > r->upto);
    }
    /* Fewer rows than requested: there are no more, or a game has locked the others. */
    p->end = n < r->piece;
    db_rows_end(rows);
    return got;
}

/* Stores the request ids of the piece, so that each id is always known in one table or the
 * other. */
static int remember_requests(struct run *r, const struct piece *p, struct err *e)
{
    SCOPED(buf_free) struct buf where = {0};
    if (!r->l->request)
        return 0;
    ledger_sql_rows_of(&where, r, p);
    return ledger_request_add(r->db, r->l, where.p, e);
}

/* A full rollup gets a hint, because it is the only error of this statement that an operator can
 * fix at once. */
static int add_groups(struct run *r, const struct piece *p, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    ledger_sql_add(&sql, r, p);
    if (ledger_may_change(r->l, r->db, e) < 0)
        return -1;
    int rc = db_exec_len(r->db, sql.p, sql.len, e);
    if (rc < 0 && e->num == DB_TABLE_FULL && r->l->rollup.memory)
        err_hint(e,
                 "SET SESSION max_heap_table_size=%" PRIu64
                 "; ALTER TABLE %s ENGINE=MEMORY; and the same size in the server's config file",
                 2 * r->l->rollup.max_data_length, r->rollup.p);
    if (rc < 0)
        err_step(e, "[ledger %s]", r->l->cfg->name);
    return rc;
}

/* No other session may delete rows of the piece, or insert rows with ids that were already
 * rolled up. If one did so meanwhile, the error says which of the two happened. */
static int piece_delete_rows(struct run *r, const struct piece *p, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    uint64_t wanted = p->rows + p->left_over;
    ledger_sql_delete(&sql, r, p);
    if (ledger_may_change(r->l, r->db, e) < 0)
        return -1;
    int rc = db_exec_len(r->db, sql.p, sql.len, e);
    uint64_t gone = rc == 0 ? db_affected(r->db) : wanted;
    if (gone > wanted)
        return err_set(e, ERR_CHANGED, 0,
                       "[ledger %s]: %" PRIu64
                       " rows of table %s were inserted with ids that were already rolled "
                       "up, and were deleted without being in a total",
                       r->l->cfg->name, gone - wanted, r->l->cfg->table);
    if (gone < wanted)
        return err_set(e, ERR_CHANGED, 0,
                       "[ledger %s]: %" PRIu64
                       " rows of table %s were deleted by another session while they were "
                       "rolled up; they are in the totals",
                       r->l->cfg->name, wanted - gone, r->l->cfg->table);
    return rc;
}

/* There is no transaction. After a crash at any step, the next run recognizes the state by the
 * marker row 'open', and a reader of the view counts nothing twice. */
static int memory_effects(struct run *r, struct piece *p, struct err *e)
{
    if (p->rows == 0 && p->left_over == 0)
        return 0;
    if (ledger_limits_check(r, p, e) < 0)
        return -1;
    if (p->left_over > r->left_over_max)
        return err_set(
            e, ERR_REFUSED, 0,
            "[ledger %s]: more rows of table %s have ids that were already rolled up than "
            "the interrupted run can have left",
            r->l->cfg->name, r->l->cfg->table);
    p->open = true;
    if (p->rows && ledger_mark_write(r, "open", clock_wall(), p->rows + r->left_over_max, e) < 0)
        return -1;
    fault_point("ledger.marked");
    if (remember_requests(r, p, e) < 0)
        return -1;
    fault_point("ledger.requests");
    if (p->rows && add_groups(r, p, e) < 0)
        return -1;
    fault_point("ledger.added");
    if (piece_delete_rows(r, p, e) < 0)
        return -1;
    r->left_over_max -= p->left_over; /* only now: the rows existed until here */
    fault_point("ledger.deleted");
    if (r->left_over) /* The marker row stays until all rows that were left over have been seen. */
        return 0;
    /* Deleted now, not at the end of the run: after a kill, rows that break the rules would
     * otherwise be taken for left over. */
    int rc = ledger_mark_closed(r, e);
    fault_point("ledger.closed");
    return rc;
}

/* Uses one transaction, so that the piece is applied completely or not at all. */
static int innodb_effects(struct run *r, struct piece *p, struct err *e)
{
    if (p->rows == 0)
        return db_exec(r->db, "ROLLBACK", e);
    ledger_merge_groups(r, p);
    if (ledger_limits_check(r, p, e) < 0 || remember_requests(r, p, e) < 0)
        return -1;
    fault_point("ledger.requests");
    if (add_groups(r, p, e) < 0)
        return -1;
    fault_point("ledger.added");
    if (piece_delete_rows(r, p, e) < 0)
        return -1;
    fault_point("ledger.deleted");
    int rc = ledger_may_change(r->l, r->db, e) < 0 ? -1 : db_exec(r->db, "COMMIT", e);
    fault_point("ledger.closed");
    return rc;
}

/* Prepares a retry. Nothing of an InnoDB piece has happened; of a MEMORY piece, possibly
 * everything except the deletion. */
static void prepare_retry(struct run *r, const struct piece *p, uint64_t after_id)
{
    struct err ignored;
    if (p->open) { /* if it was added, its rows are up to the rollup positions */
        r->left_over = true;
        r->left_over_max += p->rows;
    }
    if (r->l->memory)
        return;
    r->after_id = after_id;
    if (r->keep)
        r->unclaim(r->keep, after_id);
    db_exec(r->db, "ROLLBACK", &ignored);
}

/* Returns 1 if there is more, 0 after the last piece, -1 on error. */
static int one_piece(struct run *r, struct err *e)
{
    SCOPED(ledger_free_piece) struct piece p = {0};
    uint64_t after_id = r->after_id;
    bool memory = r->l->memory;
    int rc = memory ? 0 : db_exec(r->db, "START TRANSACTION", e);
    if (rc == 0)
        rc = ledger_read_piece(r, &p, piece_take_row, e);
    fault_point("ledger.read");
    if (rc == 0 && !r->opt->dry_run)
        rc = (memory ? memory_effects : innodb_effects)(r, &p, e);
    else if (rc == 0 && !memory)
        rc = db_exec(r->db, "ROLLBACK", e);
    if (rc < 0 && db_lock_busy(e))
        prepare_retry(r, &p, after_id);
    if (rc == 0) {
        r->out->rolled_up += p.rows;
        r->out->late += p.late;
        r->out->ignored += p.ignored_count;
        r->out->pieces++;
        rc = !p.end;
        ledger_next_piece(r, &p);
    }
    return rc;
}

/* Retries a piece that failed on a lock or a deadlock: the game will release its lock, and a
 * deadlock is already over. */
int ledger_all_pieces(struct run *r, struct err *e)
{
    int rc = 1;
    for (unsigned failed = 0; rc == 1;) {
        if (r->opt->stop && r->opt->stop(r->opt->stop_arg))
            return err_set(e, ERR_ABORTED, 0, "[ledger %s]: stopped; the next run continues",
                           r->l->cfg->name);
        rc = one_piece(r, e);
        if (rc < 0 && db_lock_busy(e) && ++failed < RETRIES)
            rc = 1;
        else if (rc >= 0)
            failed = 0;
    }
    return rc;
}
