/* doc/zoo.md says what the program says: its table is made here again and
 * compared. PDL_UPDATE=1 writes it instead. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define DOC PDL_SOURCE_DIR "/doc/zoo.md"

static const char head[] = "<!-- table: made by tests/model/test_zoo_doc -->\n";
static const char tail[] = "<!-- end -->\n";

static void number(struct pdl_sink *out, int64_t v)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);

    for (int i = 0; i < n; i++)
        pdl_printf(out, "%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", text[i]);
}

static void row(const struct pdl_zoo_entry *e, struct pdl_sink *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;

    assert_int_equal(pdl_zoo_build(a, e->name, &m, NULL), PDL_OK);
    assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
    pdl_printf(out, "| `%s` | %s | %s | ", e->name, e->summary, m->source);
    number(out, t.parameters);
    pdl_puts(out, " | ");
    number(out, t.forward_flops);
    pdl_puts(out, " |\n");
    pdl_arena_destroy(a);
}

static void the_table_in_the_manual_is_what_the_program_says(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_zoo_entry *e;
    struct pdl_bytes doc;
    struct pdl_buf want;
    const char *from, *to;

    (void)state;
    assert_int_equal(pdl_file_read(a, DOC, 1 << 20, &doc, NULL), PDL_OK);
    from = strstr(doc.data, head);
    to = strstr(doc.data, tail);
    assert_non_null(from);
    assert_non_null(to);
    pdl_buf_init(&want);
    pdl_put(&want.sink, doc.data, (size_t)(from - doc.data));
    pdl_puts(&want.sink, head);
    pdl_puts(&want.sink,
             "| name | which | source | parameters | forward FLOPs a sample |\n"
             "|---|---|---|--:|--:|\n");
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++)
        row(e, &want.sink);
    pdl_puts(&want.sink, to);
    if (getenv("PDL_UPDATE"))
        assert_int_equal(pdl_file_write(DOC, want.text, want.len, NULL),
                         PDL_OK);
    else if (strcmp(want.text, doc.data) != 0)
        fail_msg("doc/zoo.md is out of date: PDL_UPDATE=1 %s",
                 "test_model_zoo_doc");
    pdl_buf_free(&want);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_in_the_manual_is_what_the_program_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
