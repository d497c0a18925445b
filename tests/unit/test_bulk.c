/* bulk: rows of a dump become lines of LOAD DATA and columns of an array, with the value that an
 * INSERT of the same literal has, or are refused. Nothing is narrowed or guessed. Texts are copied
 * to the heap with nothing behind them, so the sanitizers detect a read beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bulk/block.h"
#include "bulk/bulk_int.h"
#include "bulk/local.h"
#include "sql/literal.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(s) s, sizeof(s) - 1

static char *exact(const char *s, size_t len)
{
    char *p = malloc(len ? len : 1);
    assert_non_null(p);
    memcpy(p, s, len);
    return p;
}

/* ---- both ways ---- */

static int lines(const char *text, size_t len, struct buf *out)
{
    char *s = exact(text, len);
    int rc = bulk_lines(out, s, len);
    free(s);
    return rc;
}

/* A letter a column: b bytes, d double, 1 2 4 8 integers of that width, ABCD the unsigned ones. */
static void block_for(struct bulk_block *k, const char *spec)
{
    static const char letters[] = "bd1248ABCD";
    static const enum bulk_kind kinds[] = {BULK_BYTES, BULK_DOUBLE, BULK_INT8, BULK_INT16,
                                           BULK_INT32, BULK_INT64,  BULK_INT8, BULK_INT16,
                                           BULK_INT32, BULK_INT64};
    struct bulk_column columns[16] = {{0}};
    for (size_t i = 0; spec[i]; i++) {
        size_t letter = (size_t)(strchr(letters, spec[i]) - letters);
        columns[i].kind = kinds[letter];
        columns[i].is_unsigned = letter >= 6;
    }
    bulk_block_init(k, columns, strlen(spec));
}

/* All rows fit in one block here. 0, or -1 for no plain values. */
static int block(struct bulk_block *k, const char *spec, const char *text, size_t len)
{
    char *s = exact(text, len);
    block_for(k, spec);
    const char *end = bulk_block_read(k, s, s + len, SIZE_MAX);
    assert_true(!end || end == s + len);
    free(s); /* a block holds its values itself */
    return end ? 0 : -1;
}

/* ---- lines ---- */

static const struct {
    const char *tuples;
    size_t tuples_len;
    const char *lines;
    size_t lines_len;
} good_lines[] = {
    {TEXT("(1)"), TEXT("1\n")},
    {TEXT("(1,2,3)"), TEXT("1\r2\r3\n")},
    {TEXT("(1),\n(2),\n(3)"), TEXT("1\n2\n3\n")},
    {TEXT("(NULL)"), TEXT("\\N\n")},
    {TEXT("(NULL,NULL),\n(NULL,1)"), TEXT("\\N\r\\N\n\\N\r1\n")},
    {TEXT("('')"), TEXT("\n")},
    {TEXT("('','')"), TEXT("\r\n")},
    {TEXT("('NULL','N','\\\\N')"), TEXT("NULL\rN\r\\\\N\n")},
    {TEXT("('\\0\\n\\r\\\\\\'\\\"\\Z')"), TEXT("\\0\\n\\r\\\\\\'\\\"\\Z\n")},
    {TEXT("('\t')"), TEXT("\t\n")},
    {TEXT("('a,b)c(d;e\"f`')"), TEXT("a,b)c(d;e\"f`\n")},
    {TEXT("('\xff\x80\xe3\x95')"), TEXT("\xff\x80\xe3\x95\n")},
    {TEXT("(_latin1'10.0.0.1',_utf8mb4'{}')"), TEXT("10.0.0.1\r{}\n")},
    {TEXT("(_latin1'',_utf8mb4'')"), TEXT("\r\n")},
    {TEXT("(0x00,0x0a,0x0d,0x5c)"), TEXT("\\0\r\\n\r\\r\r\\\\\n")},
    {TEXT("(0x41,0xff00ff,0x270922)"), TEXT("A\r\xff\\0\xff\r'\t\"\n")},
    {TEXT("(-1,0.5,-12345678901234567890.123,1e300,-0e0,2.5e-07,1E+5)"),
     TEXT("-1\r0.5\r-12345678901234567890.123\r1e300\r-0e0\r2.5e-07\r1E+5\n")},
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good_lines); i++) {
        struct buf out = {0};
        buf_adds(&out, "before ");
        if (lines(good_lines[i].tuples, good_lines[i].tuples_len, &out) < 0)
            fail_msg("%s was refused", good_lines[i].tuples);
        assert_int_equal(out.len, 7 + good_lines[i].lines_len);
        assert_memory_equal(out.p + 7, good_lines[i].lines, good_lines[i].lines_len);
        assert_int_equal(out.p[out.len], '\0');
        buf_free(&out);
    }
}

/* ---- refused by both, whatever the columns are ---- */

static const struct {
    const char *text;
    size_t len;
} bad[] = {
    {TEXT("1")},
    {TEXT("()")},
    {TEXT("(,)")},
    {TEXT("(1,)")},
    {TEXT("(,1)")},
    {TEXT("(1")},
    {TEXT("1)")},
    {TEXT("(1 )")},
    {TEXT("( 1)")},
    {TEXT(" (1)")},
    {TEXT("(1) ")},
    {TEXT("(1);")},
    {TEXT("(1),")},
    {TEXT("(1),\n")},
    {TEXT("(1),\n ")},
    {TEXT("(1),(2)")},
    {TEXT("(1), (2)")},
    {TEXT("(1)\n(2)")},
    {TEXT("(1)(2)")},
    {TEXT("(1),\r\n(2)")},
    {TEXT("(1),\n(2),\n")},
    {TEXT("(1),\n\n(2)")},
    {TEXT("((1))")},
    {TEXT("[1]")},
    {TEXT("(null)")},
    {TEXT("(NUL)")},
    {TEXT("(NULLL)")},
    {TEXT("(NULL1)")},
    {TEXT("(-NULL)")},
    {TEXT("(a)")},
    {TEXT("(NOW())")},
    {TEXT("(@a)")},
    {TEXT("(`a`)")},
    {TEXT("(\"a\")")},
    {TEXT("(?)")},
    {TEXT("('a)")},
    {TEXT("('a'b)")},
    {TEXT("('a''b')")},
    {TEXT("('a' 'b')")},
    {TEXT("('a\\')")},
    {TEXT("('\\")},
    {TEXT("('\\x')")}, /* not x to LOAD DATA in all versions */
    {TEXT("('\\t')")}, /* a TAB to INSERT */
    {TEXT("('\\b')")}, /* a backspace */
    {TEXT("('\\%')")}, /* both characters */
    {TEXT("('\\_')")},
    {TEXT("('\\N')")},
    {TEXT("('\\\0')")},
    {TEXT("(0x)")},
    {TEXT("(0x0)")},
    {TEXT("(0x123)")},
    {TEXT("(0x0g)")},
    {TEXT("(0xg0)")},
    {TEXT("(0x00 )")},
    {TEXT("(x'00')")},
    {TEXT("(X'00')")},
    {TEXT("(_latin1)")},
    {TEXT("(_latin1'")},
    {TEXT("(_latin1')")},
    {TEXT("(_latin10x41)")},
    {TEXT("(_latin2'a')")},
    {TEXT("(_LATIN1'a')")},
    {TEXT("(_binary'a')")},
    {TEXT("(1\0)")},
    {TEXT("(1;2)")},
    {TEXT("(1/2)")},
    {TEXT("(1*2)")},
    {TEXT("(inf)")},
    {TEXT("(nan)")},
    {TEXT("(0x1p3)")},
    {TEXT("(true)")},
    {TEXT("(--1)")},
    {TEXT("(1-2)")},
    {TEXT("(1.2.3)")},
    {TEXT("(1e5-)")},
};

static void test_refused(void **state)
{
    (void)state;
    static const char *const specs[] = {"b", "d", "1", "8", "D"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct buf out = {0};
        if (lines(bad[i].text, bad[i].len, &out) == 0)
            fail_msg("%s became lines", bad[i].text);
        assert_int_equal(out.len, 0);
        buf_free(&out);
        for (size_t c = 0; c < COUNT(specs); c++) {
            struct bulk_block k;
            if (block(&k, specs[c], bad[i].text, bad[i].len) == 0)
                fail_msg("%s became a column of kind %s", bad[i].text, specs[c]);
            bulk_block_free(&k);
        }
    }
    struct buf out = {0};
    assert_int_equal(lines("", 0, &out), -1);
    buf_free(&out);
}

/* A raw line end inside a string would end a line; raw bytes otherwise are what they are. */
static void test_raw_bytes(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        if (c == '\'' || c == '\\')
            continue;
        char text[] = {'(', '\'', 'a', (char)c, 'b', '\'', ')'};
        struct buf out = {0};
        struct bulk_block k;
        int rc = lines(text, sizeof text, &out);
        assert_int_equal(rc, c == '\n' || c == '\r' ? -1 : 0);
        if (rc == 0)
            assert_memory_equal(out.p, ((char[]){'a', (char)c, 'b', '\n'}), 4);
        assert_int_equal(block(&k, "b", text, sizeof text), c == '\n' ? -1 : 0);
        if (c != '\n') {
            assert_int_equal(k.columns[0].lengths[0], 3);
            assert_memory_equal(k.columns[0].bytes[0], text + 2, 3);
        }
        bulk_block_free(&k);
        buf_free(&out);
    }
}

/* ---- values come through ---- */

/* What LOAD DATA makes of one field, FIELDS ESCAPED BY '\\'. */
static size_t load_data(const char *s, size_t len, char *out)
{
    static const char letters[] = "0nrZ", bytes[] = "\0\n\r\032";
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        assert_true(s[i] != '\r' && s[i] != '\n'); /* would end it */
        if (s[i] == '\\') {
            const char *l = strchr(letters, s[++i]);
            assert_true(i < len && s[i] != 'N' && s[i] != 't' && s[i] != 'b');
            out[n++] = l ? bytes[l - letters] : s[i];
        } else {
            out[n++] = s[i];
        }
    }
    return n;
}

static void check_value(const char *literal, size_t literal_len, const char *data, size_t len)
{
    struct buf text = {0}, out = {0};
    struct bulk_block k;
    char back[600];
    buf_adds(&text, "(");
    buf_add(&text, literal, literal_len);
    buf_adds(&text, ",7)");
    assert_int_equal(lines(text.p, text.len, &out), 0);
    assert_memory_equal(out.p + out.len - 3, "\r7\n", 3);
    assert_int_equal(load_data(out.p, out.len - 3, back), len);
    assert_memory_equal(back, data, len);
    assert_int_equal(block(&k, "b1", text.p, text.len), 0);
    assert_int_equal(k.rows, 1);
    assert_int_equal(k.columns[0].null[0], BULK_GIVEN);
    assert_int_equal(k.columns[0].lengths[0], len);
    assert_memory_equal(k.columns[0].bytes[0], data, len);
    assert_int_equal(((int8_t *)k.columns[1].numbers)[0], 7);
    bulk_block_free(&k);
    buf_free(&text);
    buf_free(&out);
}

static void check_bytes(const char *data, size_t len)
{
    struct buf b = {0};
    sql_string(&b, data, len);
    check_value(b.p, b.len, data, len);
    buf_clear(&b);
    sql_hex(&b, data, len);
    check_value(b.p, b.len, data, len);
    buf_clear(&b);
    buf_adds(&b, "_latin1");
    sql_string(&b, data, len);
    check_value(b.p, b.len, data, len);
    buf_free(&b);
}

/* Each byte, each pair and triple of those that mean something to somebody, as a dump writes them.
 */
static void test_bytes(void **state)
{
    (void)state;
    static const char odd[] = "\0\n\r\t\032\\'\"`;,()%_Nx\x80\xff";
    char all[256];
    check_bytes("", 0);
    for (int c = 0; c < 256; c++) {
        all[c] = (char)c;
        check_bytes(all + c, 1);
    }
    check_bytes(all, sizeof all);
    for (size_t a = 0; a < sizeof odd; a++)
        for (size_t b = 0; b < sizeof odd; b++)
            for (size_t c = 0; c < sizeof odd; c++)
                check_bytes((char[]){odd[a], odd[b], odd[c]}, 3);
}

static void test_decimals(void **state)
{
    (void)state;
    static const char *const good[] = {"0",
                                       "-1",
                                       "1.5",
                                       "-0.000000000000000000000000000001",
                                       "007",
                                       ".5",
                                       "5.",
                                       "-0",
                                       "99999999999999999999999999999999999.999999999999999999999"};
    static const char *const wrong[] = {"-",   ".",  "-.", "1.2.3", "1-2", "--1",
                                        "1..", "+1", "e",  "1-",    "-1.-"};
    for (size_t i = 0; i < COUNT(good); i++)
        check_value(good[i], strlen(good[i]), good[i], strlen(good[i]));
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct buf text = {0};
        struct bulk_block k;
        buf_printf(&text, "(%s)", wrong[i]);
        if (block(&k, "b", text.p, text.len) == 0)
            fail_msg("%s became a decimal", wrong[i]);
        bulk_block_free(&k);
        buf_free(&text);
    }
}

/* ---- integers: both ends of every width, and just beyond ---- */

static int one_number(const char *spec, const char *number, void *out, size_t width)
{
    struct buf text = {0};
    struct bulk_block k;
    buf_printf(&text, "(%s)", number);
    int rc = block(&k, spec, text.p, text.len);
    if (rc == 0) {
        assert_int_equal(k.columns[0].width, width);
        assert_int_equal(k.columns[0].null[0], BULK_GIVEN);
        memcpy(out, k.columns[0].numbers, width);
    }
    bulk_block_free(&k);
    buf_free(&text);
    return rc;
}

/* Negative ones as the pattern of their bits. */
static void number_is(const char *spec, const char *number, size_t width, uint64_t want)
{
    uint64_t v8 = 0;
    uint32_t v4 = 0;
    uint16_t v2 = 0;
    uint8_t v1 = 0;
    void *out = width == 1   ? (void *)&v1
                : width == 2 ? (void *)&v2
                : width == 4 ? (void *)&v4
                             : (void *)&v8;
    if (one_number(spec, number, out, width) < 0)
        fail_msg("%s was refused for %s", number, spec);
    uint64_t got = width == 1 ? v1 : width == 2 ? v2 : width == 4 ? v4 : v8;
    uint64_t mask = UINT64_MAX >> (64 - 8 * width);
    if (got != (want & mask))
        fail_msg("%s in %s became %" PRIx64, number, spec, got);
}

static void number_refused(const char *spec, const char *number)
{
    uint64_t out;
    if (one_number(spec, number, &out, 8) == 0)
        fail_msg("%s was taken for %s", number, spec);
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *is_signed, *is_unsigned;
        size_t width;
        const char *min, *below, *max, *above, *most, *over;
    } kinds[] = {
        {"1", "A", 1, "-128", "-129", "127", "128", "255", "256"},
        {"2", "B", 2, "-32768", "-32769", "32767", "32768", "65535", "65536"},
        {"4", "C", 4, "-2147483648", "-2147483649", "2147483647", "2147483648", "4294967295",
         "4294967296"},
        {"8", "D", 8, "-9223372036854775808", "-9223372036854775809", "9223372036854775807",
         "9223372036854775808", "18446744073709551615", "18446744073709551616"},
    };
    static const char *const wrong[] = {"",
                                        "-",
                                        "+1",
                                        "--1",
                                        "1-",
                                        "1.0",
                                        "1.",
                                        "1e0",
                                        "'1'",
                                        "0x01",
                                        "1 ",
                                        " 1",
                                        "18446744073709551616000",
                                        "-18446744073709551616",
                                        "36893488147419103232",
                                        "184467440737095516150",
                                        "99999999999999999999999999999999999999",
                                        "-99999999999999999999999999999999999999"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const char *s = kinds[i].is_signed, *u = kinds[i].is_unsigned;
        size_t w = kinds[i].width;
        uint64_t half = UINT64_C(1) << (8 * w - 1);
        number_is(s, kinds[i].min, w, 0 - half);
        number_is(s, kinds[i].max, w, half - 1);
        number_is(u, kinds[i].max, w, half - 1);
        number_is(u, kinds[i].above, w, half);
        number_is(u, kinds[i].most, w, UINT64_MAX);
        number_refused(s, kinds[i].below);
        number_refused(s, kinds[i].above);
        number_refused(s, kinds[i].most);
        number_refused(s, kinds[i].over);
        number_refused(u, kinds[i].over);
        number_refused(u, kinds[i].min);
        number_refused(u, "-1");
        for (const char *spec = s; spec; spec = spec == s ? u : NULL) {
            number_is(spec, "0", w, 0);
            number_is(spec, "-0", w, 0);
            number_is(spec, "00000000000000000000000000000000000000000007", w, 7);
            for (size_t n = 0; n < COUNT(wrong); n++)
                number_refused(spec, wrong[n]);
        }
        number_is(s, "-1", w, UINT64_MAX);
    }
}

/* ---- doubles ---- */

static void test_doubles(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0.0},
        {"-0e0", -0.0},
        {"-0", -0.0}, /* what stands for an integer in SQL is none in this column */
        {"0.1", 0.1},
        {"1e23", 1e23},
        {"-1.5E-7", -1.5e-7},
        {"2e+5", 2e5},
        {"5e-324", 5e-324},
        {"2.2250738585072014e-308", 2.2250738585072014e-308},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"-1.7976931348623157e308", -1.7976931348623157e308},
        {"9007199254740993", 9007199254740992.0},
        {"123456789012345678", 123456789012345680.0},
        {"0.30000000000000004", 0.30000000000000004},
        {".5", 0.5},
        {"5.", 5.0},
        {"1e-400", 0.0},
        {"0000000000000000000000000000000000000000000000000000000000000.5", 0.5},
    };
    static const char *const wrong[] = {
        "",
        "-",
        ".",
        "e5",
        "1e",
        "1e+",
        "--1",
        "1.2.3",
        "1-2",
        "1e5e5",
        "inf",
        "-inf",
        "nan",
        "1e400",
        "-1e400",
        "0x1p3",
        "'1'",
        "1 ",
        "1f",
        "1d0",
        "1e5.5",
        "1e99999999999999999999",
        "0000000000000000000000000000000000000000000000000000000000000000000.5"};
    for (size_t i = 0; i < COUNT(good); i++) {
        double got = 77;
        if (one_number("d", good[i].text, &got, 8) < 0)
            fail_msg("%s was refused", good[i].text);
        assert_memory_equal(&got, &good[i].value, sizeof got);
    }
    for (size_t i = 0; i < COUNT(wrong); i++)
        number_refused("d", wrong[i]);
}

/* ---- NULL ---- */

static void test_null(void **state)
{
    (void)state;
    static const char text[] = "(NULL,NULL,NULL,NULL,NULL,NULL),\n('',0,0,0,0,0),\n"
                               "(NULL,NULL,NULL,NULL,NULL,NULL)";
    struct bulk_block k;
    assert_int_equal(block(&k, "bd1248", TEXT(text)), 0);
    assert_int_equal(k.rows, 3);
    for (size_t c = 0; c < 6; c++) {
        assert_int_equal(k.columns[c].null[0], BULK_NULL);
        assert_int_equal(k.columns[c].null[1], BULK_GIVEN);
        assert_int_equal(k.columns[c].null[2], BULK_NULL);
    }
    for (size_t row = 0; row < 3; row++) {
        assert_non_null(k.columns[0].bytes[row]); /* the library reads through it */
        assert_int_equal(k.columns[0].lengths[row], 0);
    }
    bulk_block_free(&k);
}

/* ---- as many fields as columns ---- */

static void test_field_count(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *text;
        size_t len;
        int rc;
    } cases[] = {
        {"bb", TEXT("('a','b')"), 0},
        {"bb", TEXT("('a')"), -1},
        {"bb", TEXT("('a','b','c')"), -1},
        {"1", TEXT("(1,2)"), -1},
        {"11", TEXT("(1)"), -1},
        {"1b", TEXT("(1,'a'),\n(2)"), -1},
        {"1b", TEXT("(1,'a'),\n('a',1)"), -1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bulk_block k;
        assert_int_equal(block(&k, cases[i].spec, cases[i].text, cases[i].len), cases[i].rc);
        bulk_block_free(&k);
    }
}

/* ---- cut anywhere ---- */

static void test_cut(void **state)
{
    (void)state;
    static const char text[] = "(1,'it\\'s',0x00ff,NULL,-1.5e-7,_latin1'10.0.0.1',12.50),\n"
                               "(-2,'\\\\',0x5c,'',0.1,_utf8mb4'{}',NULL),\n"
                               "(3,NULL,NULL,'\\n),\\n(',-0e0,_latin1'',-7)";
    size_t whole = 0;
    for (size_t len = 0; len < sizeof text; len++) {
        struct buf out = {0};
        struct bulk_block k;
        bool rows = len && text[len - 1] == ')' && (text[len] == ',' || text[len] == '\0') &&
                    (text[len] == '\0' || text[len + 1] == '\n');
        int want = rows ? 0 : -1;
        if (lines(text, len, &out) != want)
            fail_msg("lines of %.*s", (int)len, text);
        if (len && block(&k, "4bbbdbb", text, len) != want)
            fail_msg("columns of %.*s", (int)len, text);
        if (len) {
            assert_int_equal(rows ? k.rows : 0, rows ? whole + 1 : 0);
            bulk_block_free(&k);
        }
        whole += rows;
        buf_free(&out);
    }
    assert_int_equal(whole, 3);
}

/* ---- many rows ---- */

/* "(0,'…'),\n(1,'…')" with strings of the lengths that `length` tells. */
static void make_rows(struct buf *b, size_t count, size_t (*length)(size_t row))
{
    for (size_t i = 0; i < count; i++) {
        buf_printf(b, "%s(%zu,'", i ? ",\n" : "", i);
        for (size_t n = length(i); n-- > 0;)
            buf_addc(b, (char)('a' + i % 26));
        buf_adds(b, "')");
    }
}

static size_t short_ones(size_t row)
{
    return row % 5;
}
static size_t long_and_short(size_t row)
{
    return row % 3 ? 90 : 900;
}

/* Every row arrives once, in order, in executions of at most `packet` bytes or of one row. */
static void check_blocks(size_t count, size_t (*length)(size_t row), size_t packet, size_t least)
{
    struct buf b = {0};
    struct bulk_block k;
    make_rows(&b, count, length);
    char *text = exact(b.p, b.len);
    const char *s = text, *end = text + b.len;
    size_t row = 0, blocks = 0;
    block_for(&k, "4b");
    for (; s && s < end; blocks++) {
        size_t bytes = 0;
        s = bulk_block_read(&k, s, end, packet);
        assert_non_null(s);
        assert_in_range(k.rows, 1, BULK_BLOCK_ROWS);
        for (size_t i = 0; i < k.rows; i++, row++) {
            assert_int_equal(((int32_t *)k.columns[0].numbers)[i], row);
            assert_int_equal(k.columns[1].lengths[i], length(row));
            if (length(row))
                assert_int_equal(k.columns[1].bytes[i][length(row) - 1], 'a' + row % 26);
            bytes += 5 + length(row);
        }
        assert_true(bytes <= packet || k.rows == 1);
    }
    assert_int_equal(row, count);
    assert_true(blocks >= least);
    bulk_block_free(&k);
    free(text);
    buf_free(&b);
}

static void test_blocks(void **state)
{
    (void)state;
    check_blocks(3, short_ones, SIZE_MAX, 1);
    check_blocks(5000, short_ones, SIZE_MAX, 1);
    check_blocks(BULK_BLOCK_ROWS, short_ones, SIZE_MAX, 1);
    check_blocks(BULK_BLOCK_ROWS + 1, short_ones, SIZE_MAX, 2);
    check_blocks(2 * BULK_BLOCK_ROWS + 100, short_ones, SIZE_MAX, 3);
    check_blocks(500, short_ones, 0, 500);
    check_blocks(500, short_ones, 100, 50);
    /* one that is near the packet's size by itself does not go with those before it */
    check_blocks(300, long_and_short, 1000, 100);
    check_blocks(300, long_and_short, 500, 200);
}

/* A block that met rows that are none can be used again. */
static void test_after_damage(void **state)
{
    (void)state;
    struct bulk_block k;
    static const char wrong[] = "(1,'a'),\n(2,'b)", right[] = "(5,'xyz')";
    block_for(&k, "4b");
    assert_null(bulk_block_read(&k, wrong, wrong + sizeof wrong - 1, SIZE_MAX));
    assert_ptr_equal(bulk_block_read(&k, right, right + sizeof right - 1, SIZE_MAX),
                     right + sizeof right - 1);
    assert_int_equal(k.rows, 1);
    assert_int_equal(((int32_t *)k.columns[0].numbers)[0], 5);
    assert_memory_equal(k.columns[1].bytes[0], "xyz", 3);
    bulk_block_free(&k);
}

/* ---- the rest ---- */

static void test_expressions(void **state)
{
    (void)state;
    static const struct {
        enum db_encoding encoding;
        const char *text;
    } cases[] = {
        {DB_RAW, "?"},
        {DB_DOUBLE, "?"},
        {DB_BITS, "?"},
        {DB_BYTES, "?"},
        {DB_INDEX, "CAST(? AS UNSIGNED)"},
        {DB_LATIN1, "CONVERT(? USING latin1)"},
        {DB_UTF8, "CONVERT(? USING utf8mb4)"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b = {0};
        bulk_expression(&b, cases[i].encoding, "?");
        assert_string_equal(b.p, cases[i].text);
        buf_free(&b);
    }
    assert_string_equal(db_bulk_way_name(DB_BULK_ARRAY), "array");
    assert_string_equal(db_bulk_way_name(DB_BULK_LOCAL), "local");
    assert_string_equal(db_bulk_way_name(DB_BULK_ROWS), "rows");
    assert_string_equal(db_bulk_way_name(DB_BULK_NONE), "insert");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_raw_bytes),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_decimals),    cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles),     cmocka_unit_test(test_null),
        cmocka_unit_test(test_field_count), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_blocks),      cmocka_unit_test(test_after_damage),
        cmocka_unit_test(test_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
