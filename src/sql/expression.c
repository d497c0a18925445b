#include "sql/expression.h"

#include <string.h>

#include "sql/literal.h"

#define DEPTH_MAX 100u

/* Functions of both servers that neither read nor write anything outside of their arguments. */
static const char functions[] =
    "abs acos add_months adddate addtime aes_decrypt aes_encrypt ascii asin atan atan2 bin "
    "bin_to_uuid bit_count bit_length cast ceil ceiling char char_length character_length "
    "charset chr coalesce coercibility collation column_check column_create column_exists "
    "column_get column_json column_list compress concat concat_ws conv convert convert_tz cos "
    "cot crc32 crc32c curdate current_date current_role current_time current_timestamp "
    "current_user curtime database date date_add date_format date_sub datediff day dayname "
    "dayofmonth dayofweek dayofyear decode decode_oracle default degrees elt encode exp "
    "export_set extract extractvalue field find_in_set floor format format_bytes "
    "format_pico_time from_base64 from_days from_unixtime from_vector geomcollection "
    "geometrycollection greatest hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa "
    "insert instr is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid isnull json_array "
    "json_array_append json_array_insert json_array_intersect json_compact json_contains "
    "json_contains_path json_depth json_detailed json_equals json_exists json_extract "
    "json_insert json_key_value json_keys json_length json_loose json_merge json_merge_patch "
    "json_merge_preserve json_normalize json_object json_object_filter_keys "
    "json_object_to_array json_overlaps json_pretty json_query json_quote json_remove "
    "json_replace json_schema_valid json_schema_validation_report json_search json_set "
    "json_storage_free json_storage_size json_type json_unquote json_valid json_value "
    "last_day lcase least left length lengthb linestring ln localtime localtimestamp locate "
    "log log10 log2 lower lpad ltrim make_set makedate maketime mbrcontains mbrcoveredby "
    "mbrcovers mbrdisjoint mbrequal mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin "
    "md5 microsecond mid minute mod month monthname months_between multilinestring multipoint "
    "multipolygon natural_sort_key now nullif nvl nvl2 oct octet_length ord password "
    "period_add period_diff pi point polygon position pow power quarter quote radians rand "
    "random_bytes regexp_instr regexp_like regexp_replace regexp_substr repeat replace "
    "reverse right round rpad rtrim schema sec_to_time second session_user sformat sha sha1 "
    "sha2 sign sin soundex space sqrt st_area st_asbinary st_asgeojson st_astext st_aswkb "
    "st_aswkt st_boundary st_buffer st_centroid st_contains st_convexhull st_crosses "
    "st_difference st_dimension st_disjoint st_distance st_distance_sphere st_endpoint "
    "st_envelope st_equals st_exteriorring st_geohash st_geomcollfromtext st_geomcollfromwkb "
    "st_geometryfromtext st_geometryfromwkb st_geometryn st_geometrytype st_geomfromgeojson "
    "st_geomfromtext st_geomfromwkb st_interiorringn st_intersection st_intersects "
    "st_isclosed st_isempty st_isring st_issimple st_isvalid st_latfromgeohash st_latitude "
    "st_length st_linefromtext st_linefromwkb st_longfromgeohash st_longitude st_makeenvelope "
    "st_numgeometries st_numinteriorrings st_numpoints st_overlaps st_pointfromgeohash "
    "st_pointfromtext st_pointfromwkb st_pointn st_pointonsurface st_polyfromtext "
    "st_polyfromwkb st_relate st_simplify st_srid st_startpoint st_swapxy st_symdifference "
    "st_touches st_transform st_union st_validate st_within st_x st_y str_to_date strcmp "
    "string_to_vector subdate substr substring substring_index subtime sys_guid sysdate "
    "system_user tan time time_format time_to_sec timediff timestamp timestampadd "
    "timestampdiff to_base64 to_char to_date to_days to_number to_seconds to_vector trim "
    "trunc truncate ucase uncompress uncompressed_length unhex unix_timestamp updatexml upper "
    "user utc_date utc_time utc_timestamp uuid uuid_short uuid_to_bin uuid_v4 uuid_v7 "
    "vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext "
    "vector_dim vector_to_string version week weekday weekofyear weight_string year yearweek";

/* Words. A parenthesis may follow them. */
static const char words[] =
    "all and any array as ascii at between binary both case char character charset collate "
    "current_date current_time current_timestamp current_user date datetime day day_hour "
    "day_microsecond day_minute day_second decimal default div double else empty end error "
    "escape false float for from geometry geometrycollection hour hour_microsecond "
    "hour_minute hour_second in inet4 inet6 int integer interval is json leading like "
    "linestring localtime localtimestamp maxvalue member microsecond minute "
    "minute_microsecond minute_second mod month multilinestring multipoint multipolygon nchar "
    "not null of on or point polygon quarter real regexp returning rlike row second "
    "second_microsecond set signed some sounds then time timestamp trailing true unknown "
    "unsigned using utc_date utc_time utc_timestamp uuid varbinary varchar week when xor year "
    "year_month zone";

/* ":=" is missing, because it would set a variable, and "->", because it reads JSON and is also
 * a function. */
static const char operators[] = "+ - * / % < > = <= >= <> != ! ~ | & ^ << >> , && || <=>";

/* Reads a literal. Numbers may have a sign here; elsewhere a sign is an operator. */
void expression_literal(struct reader *r, struct buf *out)
{
    bool sign = sql_is_punct(&r->t, "-") || sql_is_punct(&r->t, "+");
    if (r->t.kind == SQL_CHARSET) {
        for (size_t i = 0; i < r->t.len; i++)
            if ((unsigned char)r->t.s[i] >= 0x80 || r->t.s[i] == '$') {
                reader_refuse(r, "the character set");
                return;
            }
        reader_expect(r, SQL_CHARSET, out);
        buf_adds(out, r->t.kind == SQL_STRING ? "" : " ");
    } else if (sign || r->t.kind == SQL_NUMBER) {
        if (sign)
            reader_expect(r, SQL_PUNCT, out);
        reader_expect(r, SQL_NUMBER, out);
        return;
    }
    if (r->t.kind == SQL_HEX || r->t.kind == SQL_BITS)
        reader_expect(r, r->t.kind, out);
    else
        reader_string(r, out);
}

/* Reads MariaDB's "nextval(`schema`.`sequence`)". All sequences must be in one schema, which the
 * caller checks. */
static void add_sequence(struct reader *r, struct buf *out)
{
    /* the schema may be missing */
    char *first = NULL, *second = NULL;
    reader_expect(r, SQL_WORD, out);
    reader_expect(r, SQL_OPEN, out);
    reader_text(r, reader_name, &first);
    if (reader_punct(r, ".")) {
        reader_text(r, reader_name, &second);
        if (!r->of->sequences)
            r->of->sequences = first;
        if (strcmp(r->of->sequences, first) != 0)
            reader_refuse_text(r, "a sequence of another schema,", first, strlen(first));
        sql_ident2(out, first, second);
    } else {
        sql_ident(out, first);
    }
    reader_expect(r, SQL_CLOSE, out);
}

static void expression_add_word(struct reader *r, struct buf *out)
{
    struct sql_token word = r->t;
    bool opens = reader_peek(r).kind == SQL_OPEN;
    bool call = opens && sql_find_word(functions, word.s, word.len);
    /* a sequence is a separate table, so only those of the world are allowed */
    if (opens && sql_is(&word, "nextval")) {
        add_sequence(r, out);
        buf_addc(out, ' ');
        return;
    }
    if (!call && !sql_find_word(words, word.s, word.len)) {
        reader_refuse(r, opens ? "the function" : "in an expression");
        return;
    }
    reader_expect(r, SQL_WORD, out);
    if (call) /* with a blank before the parenthesis, MySQL would not treat it as a call */
        return;
    buf_addc(out, ' ');
    /* The name of a character set or collation follows. It is in no list. */
    if (sql_find_word("collate charset using set", word.s, word.len)) {
        reader_letters(r, out);
        buf_addc(out, ' ');
    }
}

/* Reads a column. A quoted name before a parenthesis would be a stored function. */
static void add_column(struct reader *r, struct buf *out)
{
    if (reader_peek(r).kind == SQL_OPEN)
        reader_refuse(r, "the function");
    reader_identifier(r, out);
}

/* Reads one token. Blanks keep two tokens from forming another token or a comment. */
static void add_piece(struct reader *r, struct buf *out)
{
    if (r->t.kind == SQL_WORD) {
        expression_add_word(r, out);
        return;
    }
    if (r->t.kind == SQL_NAME)
        add_column(r, out);
    else if (r->t.kind != SQL_PUNCT)
        expression_literal(r, out);
    else if (sql_find_word(operators, r->t.s, r->t.len))
        reader_expect(r, SQL_PUNCT, out);
    else
        reader_refuse(r, "in an expression");
    buf_addc(out, ' ');
}

void expression_read(struct reader *r, struct buf *out)
{
    unsigned depth = 0;
    do {
        if (r->t.kind == SQL_OPEN) {
            reader_expect(r, SQL_OPEN, out);
            depth++;
        } else if (depth && r->t.kind == SQL_CLOSE) {
            out->len -= out->p[out->len - 1] == ' ';
            reader_expect(r, SQL_CLOSE, out);
            buf_addc(out, ' ');
            depth--;
            /* only a parenthesis begins an expression; what follows its end is another clause */
        } else if (depth == 0) {
            reader_refuse(r, NULL);
        } else {
            add_piece(r, out);
        }
        /* The limit exceeds any definition written by people. It keeps a server's parser from
         * deep recursion. */
        if (depth > DEPTH_MAX)
            reader_refuse_text(r, NULL, "an expression so deep", 21);
    } while (depth > 0 && !r->refused);
    if (!r->refused)
        out->p[--out->len] = '\0';
}

void expression_now(struct reader *r, struct buf *out)
{
    if (!reader_word(r, "CURRENT_TIMESTAMP") && !reader_word(r, "now"))
        reader_refuse(r, "the moment");
    buf_adds(out, "CURRENT_TIMESTAMP");
    if (r->t.kind == SQL_OPEN) {
        reader_expect(r, SQL_OPEN, out);
        if (r->t.kind != SQL_CLOSE)
            reader_number(r, out);
        reader_expect(r, SQL_CLOSE, out);
    }
}

/* Reads a default. MariaDB writes a single call or column without parentheses. */
void expression_default(struct reader *r, struct buf *out)
{
    if (reader_at(r, "CURRENT_TIMESTAMP")) {
        expression_now(r, out);
    } else if (r->t.kind == SQL_OPEN) {
        expression_read(r, out);
    } else if (r->t.kind == SQL_NAME) {
        add_column(r, out);
    } else if (reader_word(r, "NULL")) {
        buf_adds(out, "NULL");
    } else if (r->t.kind != SQL_WORD) {
        expression_literal(r, out);
    } else if (reader_peek(r).kind != SQL_OPEN) {
        reader_refuse(r, "the default");
    } else if (reader_at(r, "nextval")) {
        add_sequence(r, out);
    } else {
        expression_add_word(r, out);
        expression_read(r, out);
    }
}
