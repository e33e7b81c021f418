/* The documents and the program agree: doc/formats/system.md has a row for
 * every key and no other, doc/systems.md is what the built-ins say. With
 * PDL_UPDATE_DOCS set the second is rewritten. */
#include "system_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT PDL_SOURCE_DIR "/doc/formats/system.md"
#define TABLE  PDL_SOURCE_DIR "/doc/systems.md"

/* ---- the format ------------------------------------------------------- */

static const char *kind_name(const struct system_field *f)
{
    static const char *const units[PDL_NUNITS] = {
        [PDL_UNIT_NONE] = "number",   [PDL_UNIT_BYTES] = "size",
        [PDL_UNIT_BYTES_S] = "rate",  [PDL_UNIT_SECONDS] = "time",
        [PDL_UNIT_FLOP_S] = "flop/s", [PDL_UNIT_WATT] = "power",
        [PDL_UNIT_METRE] = "length",  [PDL_UNIT_HERTZ] = "frequency"};
    static const char *const kinds[] = {
        [SYSTEM_TEXT] = "text",           [SYSTEM_COUNT] = "count",
        [SYSTEM_BYTES] = "size",          [SYSTEM_BOOL] = "true or false",
        [SYSTEM_SHAPE] = "shape",         [SYSTEM_TEXTS] = "list of texts",
        [SYSTEM_INTS] = "list of counts", [SYSTEM_INTROWS] = "list of lists",
        [SYSTEM_TOPOLOGY] = "map",        [SYSTEM_PE] = "PE",
        [SYSTEM_ROWS] = "list of maps",   [SYSTEM_MAP] = "map"};

    return f->kind == SYSTEM_NUM ? units[f->unit] : kinds[f->kind];
}

/* Rows that are missing; counts those that are there. */
static int walk(pdl_arena *a, const struct system_table *t, const char *prefix,
                const char *doc, int *missing)
{
    int rows = 0;

    for (int i = 0; i < t->count; i++) {
        const struct system_field *f = &t->fields[i];
        const char *path =
            pdl_arena_printf(a, "%s%s%s", prefix, *prefix ? "." : "", f->name);
        const char *row =
            pdl_arena_printf(a, "\n| `%s` | %s%s |", path, kind_name(f),
                             f->required ? ", required" : "");

        rows++;
        if (!strstr(doc, row)) {
            printf("doc/formats/system.md lacks:%s\n", row);
            (*missing)++;
        }
        if (f->kind == SYSTEM_ROWS)
            rows += walk(a, f->sub, pdl_arena_printf(a, "%s[]", path), doc,
                         missing);
        else if (f->sub && (f->kind != SYSTEM_PE || !*prefix)) /* "as `pe`" */
            rows += walk(a, f->sub, path, doc, missing);
    }
    return rows;
}

static void the_format_document_has_every_key_and_no_other(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes doc;
    int missing = 0, rows, found = 0;

    (void)state;
    assert_int_equal(pdl_file_read(a, FORMAT, 1 << 20, &doc, NULL), PDL_OK);
    rows = walk(a, &system_root, "", doc.data, &missing);
    for (const char *p = doc.data; (p = strstr(p, "\n| `")); p++)
        found++;
    assert_int_equal(missing, 0);
    assert_int_equal(found, rows);
    pdl_arena_destroy(a);
}

/* ---- the table of built-ins ------------------------------------------- */

static const char *put(double v, enum pdl_unit unit, char *buf, size_t size)
{
    return v > 0 ? pdl_unit_format(v, unit, buf, size) : "-";
}

static void put_pe(struct pdl_sink *out, const struct pdl_pe *pe)
{
    static const enum pdl_precision shown[] = {PDL_PREC_FP64, PDL_PREC_FP32,
                                               PDL_PREC_TF32, PDL_PREC_FP16,
                                               PDL_PREC_BF16, PDL_PREC_FP8};
    char b[40];

    pdl_printf(out, "| `%s` | %s |", pe->name, pe->title);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (pe->peak_flop_per_s[shown[i]] > 0)
            pdl_printf(out, " %g |", pe->peak_flop_per_s[shown[i]] / 1e12);
        else
            pdl_puts(out, " - |");
    }
    if (pe->matmul_flop_per_s[PDL_PREC_BF16] > 0)
        pdl_printf(out, " %g |", pe->matmul_flop_per_s[PDL_PREC_BF16] / 1e12);
    else
        pdl_puts(out, " - |");
    pdl_printf(out, " %s |",
               put((double)pe->memory_bytes, PDL_UNIT_BYTES, b, sizeof b));
    pdl_printf(out, " %s |\n",
               put(pe->memory_bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
}

static void put_system(struct pdl_sink *out, const struct pdl_system *s)
{
    const struct pdl_node_links *l = &s->node.links;
    const struct pdl_nics *n = &s->node.nics;
    char b[40];

    pdl_printf(out, "| `%s` | %s | ", s->name, s->title);
    if (s->built_nodes)
        pdl_printf(out, "%lld | ", (long long)s->nodes);
    else
        pdl_puts(out, "any | ");
    pdl_printf(out, "%lld x `%s` | %s %s, %s", (long long)s->node.pes,
               s->pe.name, l->type ? l->type : "",
               pdl_link_shape_name((enum pdl_link_shape)l->shape),
               put(l->bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
    pdl_printf(out, " | %lld x %s | %s |\n", (long long)n->count,
               put(n->bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b),
               s->network.topology);
}

static void put_levels(struct pdl_sink *out, const struct pdl_system *s)
{
    for (int i = 0; i < s->nlevels; i++) {
        const struct pdl_level *l = &s->levels[i];
        char bw[40], flow[40], meas[40], lat[40];

        pdl_printf(
            out, "| `%s` | %s | %lld | %s | %s | %s | %s | %g |\n", s->name,
            l->name, (long long)l->pes,
            put(l->bytes_per_s, PDL_UNIT_BYTES_S, bw, sizeof bw),
            put(l->flow_bytes_per_s, PDL_UNIT_BYTES_S, flow, sizeof flow),
            put(l->measured_bytes_per_s, PDL_UNIT_BYTES_S, meas, sizeof meas),
            put(l->latency_s, PDL_UNIT_SECONDS, lat, sizeof lat),
            l->oversubscription);
    }
}

static void put_doubts(struct pdl_sink *out, const struct pdl_system *s)
{
    pdl_printf(out, "\n**%s**\n\n", s->name);
    for (int64_t i = 0; i < s->nsources; i++)
        pdl_printf(out, "- source: %s\n", s->sources[i]);
    for (int64_t i = 0; i < s->nunverified; i++)
        pdl_printf(out, "- unverified: %s\n", s->unverified[i]);
}

static void each_system(pdl_arena *a, struct pdl_sink *out,
                        void (*each)(struct pdl_sink *,
                                     const struct pdl_system *))
{
    const struct pdl_builtin *b;

    for (int i = 0; (b = pdl_system_builtin(i)); i++) {
        struct pdl_system s;

        assert_int_equal(pdl_system_open(a, b->name, &s, NULL), PDL_OK);
        each(out, &s);
    }
}

static void generate(pdl_arena *a, struct pdl_sink *out)
{
    const struct pdl_builtin *b;

    pdl_puts(out, "# The built-in systems\n\nMade from `systems/*.yaml` by "
                  "tests/system/test_doc.c; do not edit. Rates are per "
                  "direction.\n\n## Systems\n\n| name | title | nodes | PEs "
                  "of a node | links of a PE | NICs of a node | topology |\n"
                  "|---|---|---:|---|---|---|---|\n");
    each_system(a, out, put_system);
    pdl_puts(out, "\n## Levels\n\nOf one PE; the taper divides when every PE "
                  "sends across the level.\n\n| system | level | PEs | rate "
                  "| one message | measured | latency | taper |\n"
                  "|---|---|---:|---:|---:|---:|---:|---:|\n");
    each_system(a, out, put_levels);
    pdl_puts(out, "\n## Processing elements\n\nPeaks in TFLOP/s without "
                  "sparsity; the last but two columns is what large bf16 "
                  "matrix products were measured to reach.\n\n| name | title "
                  "| fp64 | fp32 | tf32 | fp16 | bf16 | fp8 | bf16 sustained "
                  "| memory | bandwidth |\n"
                  "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; (b = pdl_pe_builtin(i)); i++) {
        struct pdl_pe pe;

        assert_int_equal(pdl_pe_open(a, b->name, &pe, NULL), PDL_OK);
        put_pe(out, &pe);
    }
    pdl_puts(out, "\n## Sources and doubts\n");
    each_system(a, out, put_doubts);
}

static void the_table_of_built_ins_is_what_they_say(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes doc = {"", 0};
    struct pdl_buf text;

    (void)state;
    pdl_buf_init(&text);
    generate(a, &text.sink);
    if (getenv("PDL_UPDATE_DOCS"))
        assert_int_equal(pdl_file_write(TABLE, text.text, text.len, NULL),
                         PDL_OK);
    assert_int_equal(pdl_file_read(a, TABLE, 1 << 20, &doc, NULL), PDL_OK);
    if (strcmp(doc.data, text.text) != 0)
        fail_msg("doc/systems.md is old: run this test with "
                 "PDL_UPDATE_DOCS=1");
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_document_has_every_key_and_no_other),
        cmocka_unit_test(the_table_of_built_ins_is_what_they_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
