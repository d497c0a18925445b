/* journal/delta: what changes come to, and that base and changes which do not fit are told. Tuples
 * are given as copies on the heap with nothing behind them, so that a look too far is seen by the
 * sanitizers. WK_SEED=number adds walks of another seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "dice_kit.h"
#include "journal/delta.h"
#include "journal/delta_base.h"
#include "sql/literal.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- kit ---- */

static char *exact(const char *s, size_t len)
{
    char *p = malloc(len ? len : 1);
    assert_non_null(p);
    memcpy(p, s, len);
    return p;
}

static struct delta *delta;

static struct delta_table *begin(size_t keys)
{
    static const unsigned key[] = {0, 1, 2};
    delta_free(delta);
    delta = delta_new();
    return delta_table(delta, "t", key, keys);
}

static int halt(void **state)
{
    (void)state;
    delta_free(delta);
    delta = NULL;
    return 0;
}

enum op { INSERT, DELETE, UPDATE, REPLACE };

static int give_len(struct delta_table *t, enum op op, const char *a, size_t a_len, const char *b,
                    struct err *e)
{
    size_t b_len = b ? strlen(b) : 0;
    char *row = exact(a, a_len), *after = exact(b ? b : "", b_len);
    err_clear(e);
    int rc = op == INSERT    ? delta_change(t, DELTA_INSERT, row, a_len, e)
             : op == DELETE  ? delta_change(t, DELTA_DELETE, row, a_len, e)
             : op == REPLACE ? delta_change(t, DELTA_REPLACE, row, a_len, e)
                             : delta_update(t, row, a_len, after, b_len, e);
    free(row);
    free(after);
    return rc;
}

static void give(struct delta_table *t, enum op op, const char *a, const char *b)
{
    struct err e;
    if (give_len(t, op, a, strlen(a), b, &e) < 0)
        fail_msg("%d %s %s: %s", op, a, b ? b : "", e.text);
}

static void ins(struct delta_table *t, const char *row)
{
    give(t, INSERT, row, NULL);
}

static void del(struct delta_table *t, const char *row)
{
    give(t, DELETE, row, NULL);
}

static void upd(struct delta_table *t, const char *before, const char *after)
{
    give(t, UPDATE, before, after);
}

/* The row with this key became this one. */
static void rep(struct delta_table *t, const char *row)
{
    give(t, REPLACE, row, NULL);
}

/* The change is refused, and changes nothing. */
static void refused(struct delta_table *t, enum op op, const char *a, const char *b,
                    const char *text)
{
    struct err e;
    struct delta_figures was, is;
    delta_figures(t, &was);
    assert_int_equal(give_len(t, op, a, strlen(a), b, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_string_equal(e.text, text);
    delta_figures(t, &is);
    assert_int_equal(is.rows, was.rows);
    assert_int_equal(is.bytes, was.bytes);
}

static int base_row(struct delta_table *t, const char *row, bool loose, struct err *e)
{
    size_t len = strlen(row);
    char *copy = exact(row, len);
    err_clear(e);
    int rc = delta_base(t, copy, len, loose, e);
    free(copy);
    return rc;
}

static void stays(struct delta_table *t, const char *row)
{
    struct err e;
    if (base_row(t, row, false, &e) != 1)
        fail_msg("%s does not stay: %s", row, e.text);
}

static void dropped(struct delta_table *t, const char *row)
{
    struct err e;
    if (base_row(t, row, false, &e) != 0)
        fail_msg("%s is not dropped: %s", row, e.text);
}

static void base_refused(struct delta_table *t, const char *row, const char *text)
{
    struct err e;
    assert_int_equal(base_row(t, row, false, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_string_equal(e.text, text);
}

struct collected {
    struct buf text; /* blocks, with '|' behind each */
    uint64_t rows, blocks;
    uint64_t fail_at; /* this block */
};

static int collect(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    struct collected *c = arg;
    assert_true(rows > 0);
    if (++c->blocks == c->fail_at)
        return err_set(e, ERR_ABORTED, 0, "enough");
    buf_add(&c->text, tuples, len);
    buf_addc(&c->text, '|');
    c->rows += rows;
    return 0;
}

static void finish(struct delta_table *t, bool loose, size_t block, const char *want)
{
    struct err e = {0};
    struct collected c = {0};
    struct delta_figures f;
    buf_adds(&c.text, "");
    if (delta_finish(t, loose, block, collect, &c, &e) < 0)
        fail_msg("%s", e.text);
    assert_string_equal(c.text.p, want);
    delta_figures(t, &f);
    assert_int_equal(f.rows, c.rows);
    buf_free(&c.text);
}

static void comes_to(struct delta_table *t, const char *want)
{
    finish(t, false, 1000, want);
}

static void finish_refused(struct delta_table *t, bool loose, enum err_class cls, const char *text)
{
    struct err e = {0};
    struct collected c = {0};
    assert_int_equal(delta_finish(t, loose, 1000, collect, &c, &e), -1);
    assert_int_equal(e.cls, cls);
    assert_string_equal(e.text, text);
    assert_int_equal(c.blocks, 0);
}

/* ---- what is to be done to a table that holds the base ---- */

static void part(const struct delta_table *t, enum delta_part what, const char *want)
{
    struct err e = {0};
    struct collected c = {0};
    buf_adds(&c.text, "");
    assert_int_equal(delta_part(t, what, 1000, collect, &c, &e), 0);
    assert_string_equal(c.text.p, want);
    buf_free(&c.text);
}

static void test_parts(void **state)
{
    (void)state;
    static const unsigned apart[] = {2, 0};
    const unsigned *key;
    struct delta_table *t = begin(1);
    assert_int_equal(delta_key(t, &key), 1);
    rep(t, "(1,'a')");
    del(t, "(2,'b')");
    ins(t, "(3,'c')");
    ins(t, "(4,'d')");
    del(t, "(4,'d')");
    del(t, "(5,'e')");
    ins(t, "(5,'E')");
    upd(t, "(6,'f')", "(7,'f')");
    part(t, DELTA_GONE, "(2),\n(6)|");
    part(t, DELTA_CHANGED, "(1,'a'),\n(5,'E')|");
    part(t, DELTA_NEW, "(3,'c'),\n(7,'f')|");
    part(t, DELTA_KEYS, "(1),\n(2),\n(3),\n(4),\n(5),\n(6),\n(7)|");
    finish(t, true, 1000, "(1,'a'),\n(3,'c'),\n(5,'E'),\n(7,'f')|");
    t = delta_table(delta, "apart", apart, 2);
    assert_int_equal(delta_key(t, &key), 2);
    assert_int_equal(key[0], 0);
    assert_int_equal(key[1], 2);
    rep(t, "(1,'x','a')");
    del(t, "(2,'x','b')");
    part(t, DELTA_GONE, "(2,'b')|");
    part(t, DELTA_CHANGED, "(1,'x','a')|");
    part(t, DELTA_KEYS, "(1,'a'),\n(2,'b')|");
    t = delta_table(delta, "none", NULL, 0);
    assert_int_equal(delta_key(t, &key), 0);
    ins(t, "(1)");
    part(t, DELTA_KEYS, "");
}

/* ---- with a primary key ---- */

static void test_last_one_wins(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    upd(t, "(1,'a')", "(1,'b')");
    upd(t, "(1,'b')", "(1,'a much longer one')");
    ins(t, "(3,'new')");
    upd(t, "(1,'a much longer one')", "(1,'c')");
    del(t, "(2,'gone')");
    del(t, "(12,'gone too')");
    ins(t, "(12,'came back')");
    upd(t, "(3,'new')", "(3,NULL)");
    dropped(t, "(1,'a')");
    dropped(t, "(2,'gone')");
    stays(t, "(11,'not the key 1')");
    stays(t, "(0,'never changed')");
    dropped(t, "(12,'gone too')");
    comes_to(t, "(1,'c'),\n(3,NULL),\n(12,'came back')|");
    struct delta_figures f;
    delta_figures(t, &f);
    assert_int_equal(f.rows, 3);
    assert_false(f.truncated);
}

/* What it was before is not said, and does not matter. */
static void test_replace(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    struct delta_figures f;
    rep(t, "(1,'b')");
    rep(t, "(1,'a much longer one')");
    rep(t, "(1,'c')");
    ins(t, "(3,'new')");
    rep(t, "(3,NULL)");
    upd(t, "(4,'x')", "(5,'x')");
    rep(t, "(5,'y')");
    rep(t, "(6,'z')");
    del(t, "(6,'z')");
    del(t, "(7,'gone')");
    ins(t, "(7,'came back')");
    rep(t, "(7,'and changed')");
    static const char went[] = "table t: row 6 was deleted or updated but does not exist";
    refused(t, REPLACE, "(6,'z')", NULL, went);
    refused(t, REPLACE, "(4,'x')", NULL,
            "table t: row 4 was deleted or updated but does not exist");
    base_refused(t, "(3,'new')", "table t: row 3 is in the base, but was inserted later");
    finish_refused(t, false, ERR_DAMAGED,
                   "table t: row 1 was deleted or updated but is not in the base");
    dropped(t, "(1,'a')");
    base_refused(t, "(1,'a')", "table t: row 1 is in the base twice");
    dropped(t, "(4,'x')");
    dropped(t, "(6,'what it was')");
    dropped(t, "(7,'gone')");
    stays(t, "(10,'not the key 1')");
    comes_to(t, "(1,'c'),\n(3,NULL),\n(5,'y'),\n(7,'and changed')|");
    delta_figures(t, &f);
    assert_int_equal(f.rows, 4);
}

static void test_replace_of_other_forms(void **state)
{
    (void)state;
    struct err e;
    struct delta_table *t = begin(0);
    refused(t, REPLACE, "(1,'a')", NULL, "table t: a row without key was replaced");
    ins(t, "(1,'a')");
    refused(t, REPLACE, "(1,'a')", NULL, "table t: a row without key was replaced");
    assert_int_equal(give_len(t, REPLACE, "(1,'a'", 6, NULL, &e), -1);
    assert_string_equal(e.text, "table t: (1,'a' does not fit the table's columns");
    comes_to(t, "(1,'a')|");

    t = delta_table(delta, "apart", (const unsigned[]){3, 1}, 2);
    rep(t, "('v',1,NULL,'x')");
    rep(t, "('longer than it was',1,'(2),(','x')");
    rep(t, "('w',1,NULL,'y')");
    rep(t, "('s',1,NULL,'y')");
    refused(t, REPLACE, "('w',1,NULL)", NULL,
            "table apart: ('w',1,NULL) does not fit the table's columns");
    refused(t, REPLACE, "('w',NULL,NULL,'y')", NULL,
            "table apart: ('w',NULL,NULL,'y') does not fit the table's columns");
    stays(t, "('v',2,NULL,'x')");
    dropped(t, "('anything',1,0,'x')");
    dropped(t, "('anything',1,0,'y')");
    comes_to(t, "('longer than it was',1,'(2),(','x'),\n('s',1,NULL,'y')|");
}

static void test_replace_and_truncate(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    rep(t, "(1,'a')");
    delta_truncate(t);
    static const char went[] = "table t: row 1 was deleted or updated but does not exist";
    refused(t, REPLACE, "(1,'a')", NULL, went);
    ins(t, "(1,'b')");
    rep(t, "(1,'c')");
    ins(t, "(2,'d')");
    rep(t, "(2,'e')");
    del(t, "(2,'e')");
    refused(t, REPLACE, "(2,'f')", NULL,
            "table t: row 2 was deleted or updated but does not exist");
    dropped(t, "(1,'whatever')");
    comes_to(t, "(1,'c')|");
}

/* Of a base that is of no single moment. */
static void test_replace_loosely(void **state)
{
    (void)state;
    struct err e;
    struct delta_table *t = begin(1);
    rep(t, "(1,'a')");
    rep(t, "(2,'b')");
    ins(t, "(3,'c')");
    rep(t, "(3,'d')");
    assert_int_equal(base_row(t, "(1,'a')", true, &e), 0);
    assert_int_equal(base_row(t, "(1,'older')", true, &e), 0);
    assert_int_equal(base_row(t, "(3,'c')", true, &e), 0);
    assert_int_equal(base_row(t, "(4,'e')", true, &e), 1);
    finish(t, true, 1000, "(1,'a'),\n(2,'b'),\n(3,'d')|");
}

static void test_came_and_went(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    ins(t, "(7,'x')");
    upd(t, "(7,'x')", "(7,'y')");
    del(t, "(7,'y')");
    stays(t, "(70,'x')");
    base_refused(t, "(7,'x')", "table t: row 7 is in the base, but was inserted later");
    comes_to(t, "");
    struct err e;
    assert_int_equal(base_row(t, "(7,'x')", true, &e), 0);
    finish(t, true, 1000, "");
}

static void test_key_changes(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    upd(t, "(1,'a')", "(2,'a')"); /* of the base */
    upd(t, "(2,'a')", "(3,'b')");
    upd(t, "(9,'z')", "(10,'z')"); /* a row of keys moves up */
    upd(t, "(8,'y')", "(9,'y')");
    ins(t, "(1,'again')");
    base_refused(t, "(3,'b')", "table t: row 3 is in the base, but was inserted later");
    base_refused(t, "(2,'a')", "table t: row 2 is in the base, but was inserted later");
    dropped(t, "(1,'a')");
    dropped(t, "(9,'z')");
    dropped(t, "(8,'y')");
    comes_to(t, "(1,'again'),\n(3,'b'),\n(9,'y'),\n(10,'z')|");
}

/* A collation makes one of the two, the bytes do not. */
static void test_keys_are_bytes(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    del(t, "('a',1)");
    ins(t, "('A',2)");
    upd(t, "('b',1)", "('B',1)");
    upd(t, "('c ',1)", "('c',1)");
    upd(t, "(-0e0,1)", "(0,1)");
    dropped(t, "('a',1)");
    dropped(t, "('b',1)");
    dropped(t, "('c ',1)");
    dropped(t, "(-0e0,1)");
    base_refused(t, "('A',2)", "table t: row 'A' is in the base, but was inserted later");
    comes_to(t, "('A',2),\n('B',1),\n('c',1),\n(0,1)|");
}

static void test_keys_of_columns(void **state)
{
    (void)state;
    struct delta_table *t = begin(2);
    ins(t, "(1,'2,3',0)");
    ins(t, "(1,'2',3)");
    ins(t, "('1,\\'2','3',0)");
    ins(t, "(1,')',0)");
    ins(t, "(1,'(',0)");
    ins(t, "(1,'\\\\',0)");
    ins(t, "(1,'\\'',0)");
    refused(t, INSERT, "(1,'2',4)", NULL, "table t: row 1,'2' was inserted but exists already");
    upd(t, "(1,'2',3)", "(1,'2',4)");
    stays(t, "(2,'2',3)");
    comes_to(t, "(1,'2,3',0),\n(1,'2',4),\n('1,\\'2','3',0),\n(1,')',0),\n(1,'(',0),\n"
                "(1,'\\\\',0),\n(1,'\\'',0)|");
}

/* Key columns that are not the first ones, in any order. */
static void test_keys_apart(void **state)
{
    (void)state;
    begin(0);
    struct delta_table *t = delta_table(delta, "apart", (const unsigned[]){3, 1}, 2);
    ins(t, "('v',1,NULL,'x')");
    ins(t, "('w',1,NULL,'y')");
    upd(t, "('v',1,NULL,'x')", "('longer than it was',1,'(2),(','x')");
    upd(t, "('w',1,NULL,'y')", "('w',2,NULL,'y')");
    del(t, "('b',5,0,'x')");
    del(t, "('b',6,0,'x')");
    ins(t, "(NULL,6,NULL,'x')");
    refused(t, DELETE, "('w',1,NULL,'y')", NULL,
            "table apart: row 1,'y' was deleted or updated but does not exist");
    stays(t, "('v',2,NULL,'x')");
    dropped(t, "('b',5,0,'x')");
    finish_refused(t, false, ERR_DAMAGED,
                   "table apart: row 6,'x' was deleted or updated but is not in the base");
    dropped(t, "('b',6,0,'x')");
    comes_to(t, "('longer than it was',1,'(2),(','x'),\n('w',2,NULL,'y'),\n(NULL,6,NULL,'x')|");
    t = delta_table(delta, "last", (const unsigned[]){1}, 1);
    upd(t, "(1,2)", "(3,2)");
    dropped(t, "(1,2)");
    comes_to(t, "(3,2)|");
}

/* Each key begins all those before it. So many that some of them look alike in their hashes. */
static void test_keys_begin_alike(void **state)
{
    (void)state;
    enum { LONGEST = 1500 };
    char row[LONGEST + 8];
    struct delta_figures f;
    struct delta_table *t = begin(1);
    for (int len = LONGEST; len > 0; len--) {
        memset(row, '1', sizeof row);
        row[0] = '(';
        memcpy(row + 1 + len, ",NULL)", 7);
        ins(t, row);
    }
    delta_figures(t, &f);
    assert_int_equal(f.rows, LONGEST);
}

static void test_changes_contradict(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    ins(t, "(1,'a')");
    del(t, "(2,'b')");
    upd(t, "(3,'c')", "(3,'d')");
    refused(t, INSERT, "(1,'x')", NULL, "table t: row 1 was inserted but exists already");
    refused(t, INSERT, "(3,'x')", NULL, "table t: row 3 was inserted but exists already");
    static const char went[] = "table t: row 2 was deleted or updated but does not exist";
    refused(t, DELETE, "(2,'b')", NULL, went);
    refused(t, UPDATE, "(2,'b')", "(2,'c')", went);
    refused(t, UPDATE, "(2,'b')", "(4,'c')", went);
    refused(t, UPDATE, "(3,'d')", "(1,'d')", "table t: row 1 was inserted but exists already");
    refused(t, UPDATE, "(9,'d')", "(1,'d')", "table t: row 1 was inserted but exists already");
    del(t, "(3,'d')");
    refused(t, DELETE, "(3,'d')", NULL, "table t: row 3 was deleted or updated but does not exist");
    dropped(t, "(2,'b')");
    dropped(t, "(3,'c')");
    comes_to(t, "(1,'a')|");
}

static void test_base_contradicts(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    del(t, "(1,'a')");
    ins(t, "(2,'b')");
    upd(t, "(3,'c')", "(3,'d')");
    base_refused(t, "(2,'b')", "table t: row 2 is in the base, but was inserted later");
    finish_refused(t, false, ERR_DAMAGED,
                   "table t: row 1 was deleted or updated but is not in the base");
    dropped(t, "(1,'a')");
    base_refused(t, "(1,'a')", "table t: row 1 is in the base twice");
    finish_refused(t, false, ERR_DAMAGED,
                   "table t: row 3 was deleted or updated but is not in the base");
    dropped(t, "(3,'c')");
    comes_to(t, "(2,'b'),\n(3,'d')|");
}

static void test_loose(void **state)
{
    (void)state;
    struct err e;
    struct delta_table *t = begin(1);
    del(t, "(1,'a')");
    ins(t, "(2,'b')");
    upd(t, "(3,'c')", "(3,'d')");
    ins(t, "(4,'e')");
    del(t, "(4,'e')");
    upd(t, "(5,'f')", "(6,'f')");
    assert_int_equal(base_row(t, "(2,'b')", true, &e), 0);
    assert_int_equal(base_row(t, "(3,'d')", true, &e), 0);
    assert_int_equal(base_row(t, "(3,'d')", true, &e), 0);
    assert_int_equal(base_row(t, "(4,'e')", true, &e), 0);
    assert_int_equal(base_row(t, "(5,'f')", true, &e), 0);
    assert_int_equal(base_row(t, "(6,'f')", true, &e), 0);
    assert_int_equal(base_row(t, "(7,'g')", true, &e), 1);
    assert_int_equal(base_row(t, "(7,", true, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    finish(t, true, 1000, "(2,'b'),\n(3,'d'),\n(6,'f')|");
}

static void test_truncate(void **state)
{
    (void)state;
    struct err e;
    struct delta_figures f;
    struct delta_table *t = begin(1);
    ins(t, "(1,'a')");
    del(t, "(2,'b')");
    delta_truncate(t);
    finish(t, false, 1000, "");
    ins(t, "(1,'c')");
    ins(t, "(3,'d')");
    ins(t, "(4,'e')");
    del(t, "(4,'e')");
    upd(t, "(3,'d')", "(5,'f')");
    static const char text[] = "table t: row 2 was deleted or updated but does not exist";
    refused(t, DELETE, "(2,'b')", NULL, text);
    refused(t, UPDATE, "(2,'b')", "(2,'c')", text);
    refused(t, UPDATE, "(2,'b')", "(8,'c')", text);
    dropped(t, "(1,'a')");
    dropped(t, "(1,'a')");
    dropped(t, "(3,'x')");
    dropped(t, "(9,'x')");
    assert_int_equal(base_row(t, "(10,'x')", true, &e), 0);
    comes_to(t, "(1,'c'),\n(5,'f')|");
    delta_figures(t, &f);
    assert_true(f.truncated);
    assert_int_equal(f.rows, 2);
    delta_truncate(t);
    delta_figures(t, &f);
    assert_int_equal(f.rows, 0);
    assert_int_equal(f.bytes, 0);
    comes_to(t, "");
}

/* ---- without one ---- */

static void test_no_key(void **state)
{
    (void)state;
    struct delta_table *t = begin(0);
    ins(t, "(1,'a')");
    ins(t, "(1,'a')");
    ins(t, "(2,'b')");
    del(t, "(2,'b')"); /* nothing remains of it */
    del(t, "(3,'c')");
    del(t, "(3,'c')");
    upd(t, "(3,'c')", "(4,NULL)");
    upd(t, "(5,'e')", "(5,'e')");
    upd(t, "(1,'a')", "(1,'A')");
    finish_refused(t, false, ERR_DAMAGED,
                   "table t: row (3,'c') was deleted or updated but is not in the base");
    stays(t, "(1,'a')");
    stays(t, "(2,'b')");
    dropped(t, "(3,'c')");
    stays(t, "(3,'d')");
    dropped(t, "(3,'c')");
    dropped(t, "(3,'c')");
    stays(t, "(3,'c')");
    stays(t, "(5,'e')");
    comes_to(t, "(1,'a'),\n(4,NULL),\n(1,'A')|");
    ins(t, "(1,'a')");
    comes_to(t, "(1,'a'),\n(1,'a'),\n(4,NULL),\n(1,'A')|");
    struct delta_figures f;
    delta_figures(t, &f);
    assert_int_equal(f.rows, 4);
}

/* A table that is loaded twice: the second reading of its base comes to the same as one alone. */
static void test_base_again(void **state)
{
    (void)state;
    struct delta_table *t = begin(0);
    ins(t, "(1,'a')");
    del(t, "(3,'c')");
    del(t, "(3,'c')");
    del(t, "(5,'e')");
    for (int i = 0; i < 3; i++) {
        dropped(t, "(3,'c')");
        dropped(t, "(5,'e')");
        dropped(t, "(3,'c')");
        stays(t, "(3,'c')");
        delta_base_again(t);
    }
    finish_refused(t, false, ERR_DAMAGED,
                   "table t: row (3,'c') was deleted or updated but is not in the base");
    dropped(t, "(3,'c')");
    dropped(t, "(3,'c')");
    dropped(t, "(5,'e')");
    comes_to(t, "(1,'a')|");
    t = begin(1);
    upd(t, "(1,'a')", "(1,'A')");
    del(t, "(2,'b')");
    dropped(t, "(1,'a')");
    base_refused(t, "(1,'a')", "table t: row 1 is in the base twice");
    delta_base_again(t);
    dropped(t, "(1,'a')");
    dropped(t, "(2,'b')");
    comes_to(t, "(1,'A')|");
}

static void test_no_key_loose(void **state)
{
    (void)state;
    struct err e;
    struct delta_table *t = begin(0);
    static const char text[] =
        "table t has no primary key: its changes can only be applied to a consistent snapshot";
    ins(t, "(1)");
    assert_int_equal(base_row(t, "(2)", true, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_string_equal(e.text, text);
    finish_refused(t, true, ERR_REFUSED, text);
    /* Nothing of the base stays: it does not matter what that was. */
    delta_truncate(t);
    ins(t, "(3)");
    assert_int_equal(base_row(t, "(2)", true, &e), 0);
    finish(t, true, 1000, "(3)|");
}

static void test_no_key_truncate(void **state)
{
    (void)state;
    struct delta_table *t = begin(0);
    del(t, "(1)");
    ins(t, "(2)");
    delta_truncate(t);
    static const char text[] = "table t: row (1) was deleted or updated but does not exist";
    refused(t, DELETE, "(1)", NULL, text);
    refused(t, UPDATE, "(1)", "(2)", text);
    refused(t, UPDATE, "(1)", "(1)", text);
    ins(t, "(1)");
    upd(t, "(1)", "(1)");
    ins(t, "(1)");
    del(t, "(1)");
    del(t, "(1)");
    refused(t, DELETE, "(1)", NULL, text);
    ins(t, "(4)");
    dropped(t, "(1)");
    dropped(t, "(9)");
    comes_to(t, "(4)|");
}

/* ---- blocks, tables, errors ---- */

static void test_blocks(void **state)
{
    (void)state;
    struct delta_table *t = begin(1);
    ins(t, "(1)");
    ins(t, "(2)");
    ins(t, "(300000)");
    ins(t, "(4)");
    ins(t, "(5)");
    finish(t, false, 8, "(1),\n(2)|(300000)|(4),\n(5)|");
    finish(t, false, 7, "(1)|(2)|(300000)|(4)|(5)|");
    finish(t, false, 0, "(1)|(2)|(300000)|(4)|(5)|");
    finish(t, false, 18, "(1),\n(2),\n(300000)|(4),\n(5)|");
    finish(t, false, 17, "(1),\n(2)|(300000),\n(4)|(5)|");
    for (uint64_t at = 1; at <= 3; at++) {
        struct err e = {0};
        struct collected c = {.fail_at = at};
        assert_int_equal(delta_finish(t, false, 8, collect, &c, &e), -1);
        assert_int_equal(e.cls, ERR_ABORTED);
        assert_int_equal(c.blocks, at);
        buf_free(&c.text);
    }
    t = begin(0);
    for (int i = 0; i < 3; i++)
        ins(t, "(1)");
    finish(t, false, 8, "(1),\n(1)|(1)|");
}

static void test_tables(void **state)
{
    (void)state;
    char name[32];
    begin(1);
    assert_null(delta_find(delta, "T"));
    assert_null(delta_find(delta, "table 0"));
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "table %u", i);
        ins(delta_table(delta, name, &(unsigned){0}, 1), "(1)");
    }
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "table %u", i);
        struct delta_table *t = delta_find(delta, name);
        assert_non_null(t);
        assert_ptr_equal(delta_table(delta, name, NULL, 0), t);
        comes_to(t, "(1)|");
    }
    delta_free(NULL);
}

/* Nobody has to take an error, and long rows are shown cut. */
static void test_errors(void **state)
{
    (void)state;
    struct err e;
    struct buf row = {0};
    struct delta_table *t = begin(1);
    buf_adds(&row, "('");
    for (int i = 0; i < 50; i++)
        buf_adds(&row, "%s%n");
    buf_adds(&row, "',1)");
    ins(t, row.p);
    assert_int_equal(delta_change(t, DELTA_INSERT, row.p, row.len, NULL), -1);
    assert_int_equal(give_len(t, INSERT, row.p, row.len, NULL, &e), -1);
    assert_non_null(strstr(e.text, "%s%n%s%... was inserted but"));
    assert_int_equal(give_len(t, INSERT, row.p, row.len - 1, NULL, &e), -1);
    assert_non_null(strstr(e.text, "%s%n%s... does not fit"));
    assert_true(strlen(e.text) < 300);
    buf_free(&row);
}

/* ---- tuples ---- */

static const char *const tuples[] = {
    "(1)",
    "(0)",
    "(-17,18446744073709551615,-9223372036854775808,007)",
    "(12.50,-0.5,-0e0,1e15,-1.5e-17,123456789.123456789e123)",
    "(12345678,123456789012345,1234567890123456)",
    "(0x00,0xdeadbeef,0x0123456789abcdef)",
    "(1,NULL,NULL)",
    "('','a','1234567','12345678','123456789')",
    "('it\\'s','\\\\','\\\"','\\0\\n\\r\\Z','),(','tab\there','\\\\\\'')",
    "('\x01\x02\x1f\x7f\x80\xff\xc3\xa4','plain')",
    "(_latin1'10.0.0.1',_utf8mb4'{\\\"a\\\": 1}',_latin1'')",
    "('2024-02-30 00:00:00','-838:59:59.000000')",
};

static void is_row(const char *s, size_t len, bool want)
{
    struct err e;
    for (size_t keys = 0; keys < 2; keys++) {
        struct delta_table *t = begin(keys);
        if ((give_len(t, INSERT, s, len, NULL, &e) == 0) != want)
            fail_msg("%.*s is %sa row", (int)len, s, want ? "not " : "");
        assert_int_equal(e.cls, want ? ERR_NONE : ERR_DAMAGED);
    }
}

static void test_cut_tuples(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tuples); i++) {
        is_row(tuples[i], strlen(tuples[i]), true);
        for (size_t cut = 0; cut < strlen(tuples[i]); cut++)
            is_row(tuples[i], cut, false);
    }
}

/* What a server would read, but this program does not write, is as bad as what nobody reads. */
static void test_no_tuples(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1",        "()",           "(1,)",          "(,1)",      "((1))",      "(1),(2)",
        "(1) ",     " (1)",         "( 1)",          "(1 )",      "(1;2)",      "[1]",
        "(+1)",     "(.5)",         "(5.)",          "(-)",       "(--1)",      "(1.2.3)",
        "(1E5)",    "(1e+5)",       "(1e)",          "(1e-)",     "(e5)",       "(-.5)",
        "(0X00)",   "(0x)",         "(0x0)",         "(0xAB)",    "(0xabc)",    "(-0x00)",
        "(0x0g)",   "(null)",       "(NUL)",         "(NULLS)",   "(N)",        "(DEFAULT)",
        "(NOW())",  "(x'00')",      "(b'1')",        "(\"a\")",   "(`a`)",      "('a''b')",
        "('a\"b')", "('a\nb')",     "('a\rb')",      "('a\032')", "('a\\x')",   "('a\\b')",
        "('a\\%')", "(_binary'a')", "(_latin1 'a')", "(_latin1)", "(_utf8'a')", "(_utf8mb40x00)",
        "('a'1)",   "('a' 'b')",    "(1'a')",        "(1-1)",     "(true)",     "(12345678x)",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        is_row(texts[i], strlen(texts[i]), false);
    is_row("('a\0b')", 7, false);
    is_row("(1)\0", 4, false);
    is_row("", 0, false);
}

/* Each byte at each place of a string, as words of eight bytes may hide it. */
static void test_bytes_of_strings(void **state)
{
    (void)state;
    static const char never[] = "\0\n\r\032\"";
    for (size_t len = 1; len < 20; len++)
        for (size_t at = 0; at < len; at++)
            for (int c = 0; c < 256; c++) {
                char row[32];
                memset(row, c % 2 ? '\x7f' : '\x81', sizeof row);
                memcpy(row, "('", 2);
                memcpy(row + len + 2, "')", 2);
                row[at + 2] = (char)c;
                if (c == '\\' || c == '\'')
                    continue;
                is_row(row, len + 4, !memchr(never, c, sizeof never - 1));
            }
}

static void test_other_columns(void **state)
{
    (void)state;
    struct err e;
    struct delta_table *t = begin(2);
    assert_int_equal(give_len(t, INSERT, "(1)", 3, NULL, &e), -1);
    assert_int_equal(give_len(t, INSERT, "(NULL,1,1)", 10, NULL, &e), -1);
    assert_int_equal(give_len(t, INSERT, "(1,NULL,1)", 10, NULL, &e), -1);
    ins(t, "(1,1,NULL)");
    assert_int_equal(give_len(t, INSERT, "(1,2)", 5, NULL, &e), -1);
    assert_int_equal(give_len(t, INSERT, "(1,2,3,4)", 9, NULL, &e), -1);
    assert_int_equal(give_len(t, UPDATE, "(1,2,3)", 7, "(1,2)", &e), -1);
    assert_string_equal(e.text, "table t: (1,2) does not fit the table's columns");
    assert_int_equal(base_row(t, "(1,2,3,4)", false, &e), -1);
    stays(t, "(1,2,3)");
    comes_to(t, "(1,1,NULL)|");
}

/* ---- memory ---- */

static uint64_t bytes_of(const struct delta_table *t)
{
    struct delta_figures f;
    delta_figures(t, &f);
    return f.bytes;
}

/* Rows that grow, shrink, go and come back leave no garbage behind. */
static void test_space_is_used_again(void **state)
{
    (void)state;
    struct buf was = {0}, is = {0}, want = {0};
    struct delta_table *t = begin(1);
    unsigned width = 0, rows = 2000;
    for (unsigned i = 0; i < rows; i++) {
        buf_clear(&is);
        buf_printf(&is, "(%u,'%0*d')", i, 0, 1);
        ins(t, is.p);
    }
    for (unsigned round = 1; round <= 60; round++) {
        unsigned next = round * 37 % 101;
        for (unsigned i = 0; i < rows; i++) {
            buf_clear(&was);
            buf_clear(&is);
            buf_printf(&was, "(%u,'%0*d')", i, (int)width, 1);
            buf_printf(&is, "(%u,'%0*d')", i, (int)next, 1);
            if ((i + round) % 3) {
                upd(t, was.p, is.p);
            } else {
                del(t, was.p);
                ins(t, is.p);
            }
        }
        width = next;
        assert_true(bytes_of(t) < rows * (56 + 2 * (width + 16)) + 131072);
    }
    for (unsigned i = 0; i < rows; i++)
        buf_printf(&want, "%s(%u,'%0*d')", i ? ",\n" : "", i, (int)width, 1);
    buf_addc(&want, '|');
    finish(t, false, SIZE_MAX, want.p);
    buf_free(&was);
    buf_free(&is);
    buf_free(&want);
}

/* Rows that come and go for ever, where nothing must be remembered of them. */
static void test_queue(void **state)
{
    (void)state;
    char row[64], old[64];
    for (size_t keys = 0; keys < 2; keys++) {
        struct delta_table *t = begin(keys);
        delta_truncate(t);
        ins(t, "(1000000,'goes')");
        ins(t, "(1000001,'stays')");
        del(t, "(1000000,'goes')");
        for (unsigned i = 0; i < 100000; i++) {
            snprintf(row, sizeof row, "(%u,'text')", i);
            snprintf(old, sizeof old, "(%u,'text')", i - 10);
            ins(t, row);
            if (i >= 10)
                del(t, old);
        }
        assert_true(bytes_of(t) < 512 << 10);
        for (unsigned i = 99990; i < 99999; i++) {
            snprintf(row, sizeof row, "(%u,'text')", i);
            del(t, row);
        }
        upd(t, "(1000001,'stays')", "(1000001,'stays, but not where it was')");
        comes_to(t, keys ? "(1000001,'stays, but not where it was'),\n(99999,'text')|"
                         : "(99999,'text'),\n(1000001,'stays, but not where it was')|");
    }
}

/* ---- walks: any sequence of changes against a list of rows ---- */

/* ---- some at a time: the same as one at a time ---- */

#define IDS 3000u
#define BATCHES_STEPS 30000u

struct pair {
    struct delta *one, *some;
    struct delta_table *t[2];
    unsigned form; /* 0: the key is first, 1: apart, 2: none */
    bool seldom;   /* more changes than one batch holds between two turns */
    bool copied;   /* tuples do not stay in place */
    bool base[IDS], there[IDS];
    unsigned version[IDS];
    char **late; /* tuples that must stay until delta_drain(), or the second delta_rotate() */
    size_t late_count, before; /* of them from before the last turn */
};

static char *tuple_of(const struct pair *p, unsigned id, unsigned version)
{
    return p->form == 1
               ? xasprintf("('v%u',%u,'x\\'%s',%u)", version, id, version % 7 ? "" : "long", id % 5)
               : xasprintf("(%u,'v%u')", id, version);
}

static void keep_late(struct pair *p, char *tuple)
{
    p->late = xrealloc(p->late, (p->late_count + 1) * sizeof *p->late);
    p->late[p->late_count++] = tuple;
}

static void forget_late(struct pair *p)
{
    while (p->late_count)
        free(p->late[--p->late_count]);
    p->before = 0;
    free(p->late);
    p->late = NULL;
}

static void turn(struct pair *p)
{
    struct err e;
    assert_int_equal(delta_rotate(p->some, &e), 0);
    for (size_t i = 0; i < p->before; i++)
        free(p->late[i]);
    p->late_count -= p->before;
    memmove(p->late, p->late + p->before, p->late_count * sizeof *p->late);
    p->before = p->late_count;
}

/* Submits a tuple that does not stay in place. */
static void submit_passing(struct delta *f, struct delta_table *t, enum delta_op op,
                           const char *tuple, size_t len)
{
    struct err e;
    char *passing = xstrndup(tuple, len);
    assert_int_equal(delta_submit_copy(f, t, op, passing, len, &e), 0);
    memset(passing, 'x', len);
    free(passing);
}

static void later(struct pair *p, enum delta_op op, char *tuple)
{
    struct err e;
    assert_int_equal(delta_change(p->t[0], op, tuple, strlen(tuple), &e), 0);
    if (p->copied)
        submit_passing(p->some, p->t[1], op, tuple, strlen(tuple));
    else
        assert_int_equal(delta_submit(p->some, p->t[1], op, tuple, strlen(tuple), &e), 0);
    keep_late(p, tuple);
    if (dice(3000) == 0) {
        assert_int_equal(delta_drain(p->some, &e), 0);
        forget_late(p);
    } else if (dice(p->seldom ? 10000 : 50) == 0) {
        turn(p);
    }
}

static void step_pair(struct pair *p)
{
    unsigned id = dice(IDS);
    if (!p->there[id]) {
        p->version[id]++;
        later(p, DELTA_INSERT, tuple_of(p, id, p->version[id]));
        p->there[id] = true;
    } else if (dice(3) == 0 || p->form == 2) {
        later(p, DELTA_DELETE, tuple_of(p, id, p->version[id]));
        p->there[id] = false;
    } else {
        p->version[id]++;
        later(p, DELTA_REPLACE, tuple_of(p, id, p->version[id]));
    }
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All rows that are written in the end, sorted. */
static void sorted_rows(struct buf *b)
{
    size_t n = 0;
    char **rows = xcalloc(2 * IDS, sizeof *rows), *save = NULL;
    for (char *r = strtok_r(b->p, "\n|", &save); r; r = strtok_r(NULL, "\n|", &save)) {
        size_t len = strlen(r);
        r[r[len - 1] == ',' ? len - 1 : len] = '\0';
        rows[n++] = r;
    }
    qsort(rows, n, sizeof *rows, by_bytes);
    struct buf out = {0};
    for (size_t i = 0; i < n; i++)
        buf_printf(&out, "%s\n", rows[i]);
    free(rows);
    buf_free(b);
    *b = out;
}

static void base_of_one(struct pair *p, struct collected *c)
{
    struct err e;
    for (unsigned id = 0; id < IDS; id++) {
        if (!p->base[id])
            continue;
        char *row = tuple_of(p, id, 0);
        int rc = delta_base(p->t[0], row, strlen(row), false, &e);
        assert_true(rc >= 0);
        if (rc)
            buf_printf(&c->text, "%s\n", row);
        free(row);
    }
    assert_int_equal(delta_finish(p->t[0], false, 500, collect, c, &e), 0);
}

static void some_bases(struct pair *p, struct collected *c, const struct delta_span *rows, size_t n)
{
    struct delta_span now[DELTA_SPANS];
    struct err e;
    size_t len;
    for (size_t i = 0; i < n; i++) { /* with something behind it */
        char *more = xasprintf("%.*s,\n(7", (int)rows[i].len, rows[i].p);
        keep_late(p, more);
        assert_int_equal(delta_base_take(p->t[1], more, strlen(more), &len, &e), 0);
        assert_int_equal(len, rows[i].len);
    }
    assert_int_equal(delta_bases(p->t[1], now, &e), 0);
    for (size_t i = 0; i < n; i++)
        if (now[i].p)
            buf_printf(&c->text, "%.*s\n", (int)now[i].len, now[i].p);
}

static void base_of_some(struct pair *p, struct collected *c)
{
    struct delta_span rows[DELTA_SPANS];
    struct err e;
    size_t n = 0;
    for (unsigned id = 0; id <= IDS; id++) {
        if (n == DELTA_SPANS || (n && (id == IDS || dice(40) == 0))) {
            some_bases(p, c, rows, n);
            forget_late(p);
            n = 0;
        }
        if (id == IDS || !p->base[id])
            continue;
        char *row = tuple_of(p, id, 0);
        keep_late(p, row);
        rows[n++] = (struct delta_span){row, strlen(row)};
    }
    assert_int_equal(delta_finish(p->t[1], false, 500, collect, c, &e), 0);
}

static void test_some_at_a_time(void **state)
{
    static const unsigned keys[3][1] = {{0}, {1}, {0}};
    (void)state;
    dice_seed = 88172645463325252u;
    for (unsigned i = 0; i < 12; i++) {
        unsigned form = i % 3;
        struct pair p = {.one = delta_new(),
                         .some = delta_new(),
                         .form = form,
                         .seldom = i % 6 >= 3,
                         .copied = i >= 6};
        struct collected a = {0}, b = {0};
        struct err e;
        p.t[0] = delta_table(p.one, "t", keys[form], form < 2);
        p.t[1] = delta_table(p.some, "t", keys[form], form < 2);
        for (unsigned id = 0; id < IDS; id++)
            p.base[id] = p.there[id] = dice(2);
        for (unsigned step = 0; step < BATCHES_STEPS; step++)
            step_pair(&p);
        assert_int_equal(delta_drain(p.some, &e), 0);
        forget_late(&p);
        base_of_one(&p, &a);
        base_of_some(&p, &b);
        sorted_rows(&a.text);
        sorted_rows(&b.text);
        assert_string_equal(a.text.p, b.text.p);
        buf_free(&a.text);
        buf_free(&b.text);
        delta_free(p.one);
        delta_free(p.some);
    }
}

/* Copies of tuples of all lengths, also of more than a batch has room for. */
static void test_long_copies(void **state)
{
    static const size_t lengths[] = {1, 100000, 524200, 2, 700000, 524279, 3, 300000, 1000000, 4};
    struct collected got = {0};
    struct buf tuple = {0}, want = {0};
    struct err e;
    unsigned key = 0;
    (void)state;
    struct delta *f = delta_new();
    struct delta_table *t = delta_table(f, "t", &key, 1);
    for (unsigned i = 0; i < 40; i++) {
        size_t len = lengths[i % (sizeof lengths / sizeof *lengths)];
        buf_clear(&tuple);
        buf_printf(&tuple, "(%u,'", i);
        for (size_t n = 0; n < len; n++)
            buf_addc(&tuple, (char)('a' + (i + n) % 26));
        buf_adds(&tuple, "')");
        submit_passing(f, t, DELTA_INSERT, tuple.p, tuple.len);
        buf_printf(&want, "%s|", tuple.p);
    }
    assert_int_equal(delta_drain(f, &e), 0);
    assert_int_equal(delta_finish(t, false, 1, collect, &got, &e), 0);
    assert_string_equal(got.text.p, want.p);
    buf_free(&got.text);
    buf_free(&tuple);
    buf_free(&want);
    delta_free(f);
}

static struct delta_table *row_that_comes_twice(void)
{
    struct err e;
    unsigned key = 0;
    delta = delta_new();
    struct delta_table *t = delta_table(delta, "t", &key, 1);
    assert_int_equal(delta_submit(delta, t, DELTA_INSERT, "(1,'a')", 7, &e), 0);
    assert_int_equal(delta_submit(delta, t, DELTA_INSERT, "(1,'b')", 7, &e), 0);
    return t;
}

/* A contradiction is told, if late. */
static void test_late_contradiction(void **state)
{
    struct err e;
    (void)state;
    struct delta_table *t = row_that_comes_twice();
    assert_int_equal(delta_drain(delta, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_int_equal(delta_submit(delta, t, DELTA_INSERT, "(2", 2, &e), -1);
}

/* It is told at the turn behind the one at which it was begun, and what came behind it is not done.
 */
static void test_contradiction_behind_a_turn(void **state)
{
    struct err e;
    struct delta_figures got;
    (void)state;
    struct delta_table *t = row_that_comes_twice();
    assert_int_equal(delta_rotate(delta, &e), 0);
    assert_int_equal(delta_submit(delta, t, DELTA_INSERT, "(2,'c')", 7, &e), 0);
    assert_int_equal(delta_rotate(delta, &e), -1);
    assert_int_equal(e.cls, ERR_DAMAGED);
    assert_int_equal(delta_drain(delta, &e), 0);
    delta_figures(t, &got);
}

/* A delta that is thrown away in the middle. */
static void test_work_not_waited_for(void **state)
{
    struct err e;
    (void)state;
    struct delta *f = delta_new();
    unsigned key = 0;
    struct delta_table *t = delta_table(f, "t", &key, 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(delta_submit(f, t, i % 2 ? DELTA_DELETE : DELTA_INSERT, "(1,'a')", 7, &e),
                         0);
        assert_int_equal(delta_rotate(f, &e), 0);
    }
    delta_free(f);
}

#define COLUMNS 4u
#define ROWS_MAX 40u

/* Where the key's columns are. */
static const struct shape {
    unsigned key[3];
    size_t keys;
} shapes[] = {
    {{0}, 1}, {{0, 1}, 2}, {{1, 0, 2}, 3}, {{3}, 1}, {{2, 0}, 2}, {{3, 1}, 2}, {{0}, 0},
};

/* A value of few, so that they meet; with what could end it too early. */
static void put_value(struct buf *b, bool null)
{
    static const char odd[] = "ab',()\\\"\n%`0";
    char text[12];
    size_t len = dice(4) ? dice(3) : dice(sizeof text);
    switch (dice(null ? 6 : 5)) {
    case 0:
        buf_printf(b, "%d", (int)dice(120) - 20);
        return;
    case 1:
        buf_printf(b, "%u.%ue-%u", dice(3), dice(3), dice(20));
        return;
    case 2:
        buf_printf(b, "0x%02x", dice(4));
        return;
    case 5:
        buf_adds(b, "NULL");
        return;
    default:
        for (size_t i = 0; i < len; i++)
            text[i] = odd[dice(sizeof odd - 1)];
        if (dice(4) == 0)
            buf_adds(b, "_latin1");
        sql_string(b, text, len);
    }
}

/* A row that exists, existed or may come to exist: one for each key, and without a key one for each
 * tuple. `first`: what the changes since the last truncate did to it first. */
struct model_row {
    struct buf key[COLUMNS]; /* of the columns in the key */
    struct buf now, base;    /* tuples; without text while it is not there */
    unsigned copies, base_copies;
    enum { UNTOUCHED, CAME, WENT } first;
};

struct model {
    const struct shape *shape;
    struct model_row rows[ROWS_MAX];
    size_t count;
    bool truncated;
    struct delta *delta, *twin; /* the same, with another secret */
    struct delta_table *t, *twin_t;
};

static bool in_key(const struct model *m, unsigned column)
{
    for (size_t i = 0; i < m->shape->keys; i++)
        if (m->shape->key[i] == column)
            return true;
    return false;
}

static bool same_text(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

static void make_tuple(const struct model *m, const struct model_row *r, struct buf *out)
{
    buf_clear(out);
    for (unsigned c = 0; c < COLUMNS; c++) {
        buf_addc(out, c ? ',' : '(');
        if (m->shape->keys == 0 || in_key(m, c))
            buf_add(out, r->key[c].p, r->key[c].len);
        else
            put_value(out, true);
    }
    buf_addc(out, ')');
}

static bool known(const struct model *m, const struct model_row *r)
{
    for (size_t i = 0; i < m->count; i++) {
        bool same = true;
        for (unsigned c = 0; c < COLUMNS; c++)
            same = same && same_text(&m->rows[i].key[c], &r->key[c]);
        if (same)
            return true;
    }
    return false;
}

static void model_free_row(struct model_row *r)
{
    for (unsigned c = 0; c < COLUMNS; c++)
        buf_free(&r->key[c]);
    buf_free(&r->now);
    buf_free(&r->base);
}

static void model_begin(struct model *m, const struct shape *shape)
{
    *m = (struct model){.shape = shape, .delta = delta_new(), .twin = delta_new()};
    m->t = delta_table(m->delta, "walk", shape->key, shape->keys);
    m->twin_t = delta_table(m->twin, "walk", shape->key, shape->keys);
    size_t want = 2 + dice(ROWS_MAX - 2);
    while (m->count < want) {
        struct model_row r = {.copies = 0};
        for (unsigned c = 0; c < COLUMNS; c++)
            if (shape->keys == 0 || in_key(m, c))
                put_value(&r.key[c], shape->keys == 0);
        if (known(m, &r)) {
            model_free_row(&r);
            continue;
        }
        if (dice(2)) {
            make_tuple(m, &r, &r.now);
            buf_add(&r.base, r.now.p, r.now.len);
            r.copies = r.base_copies = shape->keys ? 1 : 1 + dice(3);
        }
        m->rows[m->count++] = r;
    }
}

static void model_free(struct model *m)
{
    for (size_t i = 0; i < m->count; i++)
        model_free_row(&m->rows[i]);
    delta_free(m->delta);
    delta_free(m->twin);
}

static void model_give(struct model *m, enum op op, const struct buf *a, const struct buf *b)
{
    give(m->t, op, a->p, b ? b->p : NULL);
    give(m->twin_t, op, a->p, b ? b->p : NULL);
}

/* An update that leaves the key as it is comes from a segment without what was before. */
static void model_update(struct model *m, const struct buf *a, const struct buf *b, bool same)
{
    bool short_one = same && m->shape->keys && dice(2);
    give(m->t, short_one ? REPLACE : UPDATE, short_one ? b->p : a->p, short_one ? NULL : b->p);
    give(m->twin_t, UPDATE, a->p, b->p);
}

static struct model_row *any_row(struct model *m, bool there)
{
    size_t from = dice((unsigned)m->count);
    for (size_t i = 0; i < m->count; i++) {
        struct model_row *r = &m->rows[(from + i) % m->count];
        if ((r->copies > 0) == there)
            return r;
    }
    return NULL;
}

static void row_comes(struct model_row *r, const struct buf *tuple)
{
    if (r->first == UNTOUCHED)
        r->first = CAME;
    r->copies++;
    buf_clear(&r->now);
    buf_add(&r->now, tuple->p, tuple->len);
}

static void row_goes(struct model_row *r)
{
    if (r->first == UNTOUCHED)
        r->first = WENT;
    r->copies--;
}

static void step_insert(struct model *m)
{
    struct model_row *r = m->shape->keys ? any_row(m, false) : &m->rows[dice((unsigned)m->count)];
    struct buf tuple = {0};
    if (!r)
        return;
    make_tuple(m, r, &tuple);
    model_give(m, INSERT, &tuple, NULL);
    row_comes(r, &tuple);
    buf_free(&tuple);
}

static void step_delete(struct model *m)
{
    struct model_row *r = any_row(m, true);
    if (!r)
        return;
    model_give(m, DELETE, &r->now, NULL);
    row_goes(r);
}

static void step_update(struct model *m)
{
    struct model_row *r = any_row(m, true), *to = r;
    struct buf tuple = {0};
    if (r && dice(4) == 0)
        to = m->shape->keys ? any_row(m, false) : &m->rows[dice((unsigned)m->count)];
    if (!r || !to)
        return;
    make_tuple(m, to, &tuple);
    model_update(m, &r->now, &tuple, r == to);
    row_goes(r);
    row_comes(to, &tuple);
    buf_free(&tuple);
}

static void step_truncate(struct model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        m->rows[i].copies = 0;
        m->rows[i].first = UNTOUCHED;
    }
    m->truncated = true;
    delta_truncate(m->t);
    delta_truncate(m->twin_t);
}

static void step(struct model *m, bool truncates)
{
    unsigned n = dice(100);
    if (n < 30)
        step_insert(m);
    else if (n < 60)
        step_delete(m);
    else if (n < 98)
        step_update(m);
    else if (truncates && dice(4) == 0)
        step_truncate(m);
}

/* ---- walks: what they come to ---- */

struct texts {
    char **list;
    size_t count;
};

static void add_text(struct texts *t, const char *s, size_t len)
{
    t->list = xrealloc(t->list, (t->count + 1) * sizeof(char *));
    t->list[t->count++] = xstrndup(s, len);
}

static void free_texts(struct texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->list[i]);
    free(t->list);
    *t = (struct texts){0};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_texts(struct texts *t)
{
    if (t->count)
        qsort(t->list, t->count, sizeof *t->list, by_text);
}

/* Tuples of a block, as the scanner of sql.h finds them. */
static int take_block(void *arg, const char *text, size_t len, uint64_t rows, struct err *e)
{
    (void)e;
    struct texts *t = arg;
    const char *s = text, *end = s + len;
    for (uint64_t i = 0; i < rows; i++) {
        unsigned fields;
        if (i) {
            assert_true(end - s > 2 && s[0] == ',' && s[1] == '\n');
            s += 2;
        }
        const char *behind = sql_read_tuple(s, end, &fields);
        assert_non_null(behind);
        assert_int_equal(fields, COLUMNS);
        add_text(t, s, (size_t)(behind - s));
        s = behind;
    }
    assert_ptr_equal(s, end);
    return 0;
}

static void shuffle(struct texts *t)
{
    for (size_t i = t->count; i > 1; i--) {
        size_t other = dice((unsigned)i);
        char *swap = t->list[i - 1];
        t->list[i - 1] = t->list[other];
        t->list[other] = swap;
    }
}

static void base_of(const struct model *m, struct texts *out)
{
    for (size_t i = 0; i < m->count; i++)
        for (unsigned n = 0; n < m->rows[i].base_copies; n++)
            add_text(out, m->rows[i].base.p, m->rows[i].base.len);
    shuffle(out);
}

static size_t kept_rows; /* of the last base */

/* The base's rows that stay, and behind them those that are written. -1 as the delta says it. */
static int delta_up(struct delta_table *t, const struct texts *base, bool loose, struct texts *out,
                    struct err *e)
{
    kept_rows = 0;
    for (size_t i = 0; i < base->count; i++) {
        int kept = base_row(t, base->list[i], loose, e);
        if (kept < 0)
            return -1;
        kept_rows += kept > 0;
        if (kept)
            add_text(out, base->list[i], strlen(base->list[i]));
    }
    return delta_finish(t, loose, dice(2) ? dice(300) : SIZE_MAX, take_block, out, e);
}

static void check_result(const struct model *m, struct texts *got)
{
    struct texts want = {0};
    for (size_t i = 0; i < m->count; i++)
        for (unsigned n = 0; n < m->rows[i].copies; n++)
            add_text(&want, m->rows[i].now.p, m->rows[i].now.len);
    sort_texts(&want);
    sort_texts(got);
    assert_int_equal(got->count, want.count);
    for (size_t i = 0; i < want.count; i++)
        assert_string_equal(got->list[i], want.list[i]);
    free_texts(&want);
}

/* Merged twice: the same rows come in the same order, whatever the secret is. */
static void check_exact(struct model *m)
{
    struct err e = {0};
    struct texts base = {0}, got = {0}, again = {0};
    base_of(m, &base);
    if (delta_up(m->t, &base, false, &got, &e) < 0 ||
        delta_up(m->twin_t, &base, false, &again, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(got.count, again.count);
    for (size_t i = 0; i < got.count; i++)
        assert_string_equal(got.list[i], again.list[i]);
    check_result(m, &got);
    struct delta_figures f;
    delta_figures(m->t, &f);
    assert_int_equal(kept_rows + f.rows, got.count);
    free_texts(&base);
    free_texts(&got);
    free_texts(&again);
}

static void walk_exactly(const struct shape *shape, bool truncates)
{
    struct model m;
    model_begin(&m, shape);
    for (unsigned n = dice(200); n; n--)
        step(&m, truncates);
    check_exact(&m);
    model_free(&m);
}

/* A scan that has no single moment: it passes each row at some time between the changes. */
static void walk_loosely(const struct shape *shape)
{
    struct model m;
    struct err e = {0};
    struct texts base = {0}, got = {0};
    model_begin(&m, shape);
    for (size_t at = 0; at < m.count;) {
        step(&m, true);
        for (; at < m.count && dice(3); at++)
            if (m.rows[at].copies)
                add_text(&base, m.rows[at].now.p, m.rows[at].now.len);
    }
    for (unsigned n = dice(20); n; n--)
        step(&m, true);
    if (delta_up(m.t, &base, true, &got, &e) < 0)
        fail_msg("%s", e.text);
    check_result(&m, &got);
    free_texts(&base);
    free_texts(&got);
    model_free(&m);
}

/* ---- walks: what does not fit ---- */

/* One change that cannot be, at the end. */
static void impossible_change(struct model *m)
{
    struct err e;
    struct model_row *there = any_row(m, true), *gone = any_row(m, false);
    struct buf a = {0}, b = {0};
    if (dice(2) && there && there->first != UNTOUCHED && m->shape->keys) {
        make_tuple(m, there, &a);
        assert_int_equal(give_len(m->t, INSERT, a.p, a.len, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
    } else if (gone && (m->truncated || (gone->first != UNTOUCHED && m->shape->keys))) {
        make_tuple(m, gone, &a);
        make_tuple(m, &m->rows[dice((unsigned)m->count)], &b);
        assert_int_equal(give_len(m->t, dice(2) ? DELETE : UPDATE, a.p, a.len, b.p, &e), -1);
        assert_int_equal(e.cls, ERR_DAMAGED);
    }
    buf_free(&a);
    buf_free(&b);
}

/* A base that lacks a row which went, or has one that came later, or one twice. */
static bool spoil_keyed(struct model *m, struct texts *base)
{
    struct model_row *r = &m->rows[dice((unsigned)m->count)];
    struct buf tuple = {0};
    if (r->first == UNTOUCHED)
        return false;
    for (size_t i = 0; r->first == WENT && i < base->count; i++)
        if (strcmp(base->list[i], r->base.p) == 0 && dice(2)) {
            free(base->list[i]);
            base->list[i] = base->list[--base->count];
            return true;
        }
    make_tuple(m, r, &tuple);
    add_text(base, tuple.p, tuple.len);
    shuffle(base);
    buf_free(&tuple);
    return true;
}

/* More went of a row than the base and the changes had. */
static bool spoil_whole(struct model *m, struct texts *base)
{
    const struct model_row *r = &m->rows[dice((unsigned)m->count)];
    bool spoilt = r->copies < r->base_copies;
    for (size_t i = 0; spoilt && i < base->count;) {
        if (strcmp(base->list[i], r->base.p) == 0) {
            free(base->list[i]);
            base->list[i] = base->list[--base->count];
        } else {
            i++;
        }
    }
    return spoilt;
}

static void walk_astray(const struct shape *shape, unsigned *spoilt)
{
    struct model m;
    struct err e = {0};
    struct texts base = {0}, got = {0};
    bool truncates = dice(4) == 0;
    model_begin(&m, shape);
    for (unsigned n = dice(100); n; n--)
        step(&m, truncates);
    impossible_change(&m);
    base_of(&m, &base);
    bool bad = !m.truncated && (shape->keys ? spoil_keyed(&m, &base) : spoil_whole(&m, &base));
    assert_int_equal(delta_up(m.t, &base, false, &got, &e), bad ? -1 : 0);
    assert_int_equal(e.cls, bad ? ERR_DAMAGED : ERR_NONE);
    *spoilt += bad;
    free_texts(&base);
    free_texts(&got);
    model_free(&m);
}

static void walk_all(uint64_t from, unsigned rounds)
{
    unsigned spoilt = 0;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < COUNT(shapes); i++) {
            dice_seed = (from + round) * UINT64_C(0x9e3779b97f4a7c15) + i + 1;
            walk_exactly(&shapes[i], false);
            walk_exactly(&shapes[i], true);
            walk_astray(&shapes[i], &spoilt);
            if (shapes[i].keys)
                walk_loosely(&shapes[i]);
        }
    assert_true(spoilt > rounds);
}

static void test_walks(void **state)
{
    (void)state;
    walk_all(1, 150);
    const char *other = getenv("WK_SEED");
    if (other) {
        printf("WK_SEED=%s\n", other);
        walk_all(strtoull(other, NULL, 10), 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_last_one_wins, halt),
        cmocka_unit_test_teardown(test_replace, halt),
        cmocka_unit_test_teardown(test_replace_of_other_forms, halt),
        cmocka_unit_test_teardown(test_replace_and_truncate, halt),
        cmocka_unit_test_teardown(test_replace_loosely, halt),
        cmocka_unit_test_teardown(test_came_and_went, halt),
        cmocka_unit_test_teardown(test_key_changes, halt),
        cmocka_unit_test_teardown(test_keys_are_bytes, halt),
        cmocka_unit_test_teardown(test_keys_of_columns, halt),
        cmocka_unit_test_teardown(test_keys_apart, halt),
        cmocka_unit_test_teardown(test_keys_begin_alike, halt),
        cmocka_unit_test_teardown(test_changes_contradict, halt),
        cmocka_unit_test_teardown(test_base_contradicts, halt),
        cmocka_unit_test_teardown(test_loose, halt),
        cmocka_unit_test_teardown(test_truncate, halt),
        cmocka_unit_test_teardown(test_no_key, halt),
        cmocka_unit_test_teardown(test_no_key_loose, halt),
        cmocka_unit_test_teardown(test_base_again, halt),
        cmocka_unit_test_teardown(test_no_key_truncate, halt),
        cmocka_unit_test_teardown(test_blocks, halt),
        cmocka_unit_test_teardown(test_tables, halt),
        cmocka_unit_test_teardown(test_errors, halt),
        cmocka_unit_test_teardown(test_cut_tuples, halt),
        cmocka_unit_test_teardown(test_no_tuples, halt),
        cmocka_unit_test_teardown(test_bytes_of_strings, halt),
        cmocka_unit_test_teardown(test_other_columns, halt),
        cmocka_unit_test_teardown(test_space_is_used_again, halt),
        cmocka_unit_test_teardown(test_queue, halt),
        cmocka_unit_test(test_some_at_a_time),
        cmocka_unit_test(test_long_copies),
        cmocka_unit_test_teardown(test_late_contradiction, halt),
        cmocka_unit_test_teardown(test_contradiction_behind_a_turn, halt),
        cmocka_unit_test(test_work_not_waited_for),
        cmocka_unit_test_teardown(test_parts, halt),
        cmocka_unit_test_teardown(test_walks, halt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
