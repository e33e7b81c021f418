/* Pages: from a result's JSON and nothing else; one file, nothing from
 * outside; bad input is one line with its place. */
#include "report_priv.h"
#include "svg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MEMORY                                                             \
    "\"memory\":{\"allocated_bytes\":9,\"reserved_bytes\":9,"              \
    "\"peak_bytes\":9000,\"comm_buffers_bytes\":0,\"weights_bytes\":4000," \
    "\"gradients_bytes\":1000,\"optimizer_bytes\":0,"                      \
    "\"activations_bytes\":2000,\"workspace_bytes\":0,"                    \
    "\"capacity_bytes\":8000}"
#define TIME                                                            \
    "\"time\":{\"forward_s\":0.1,\"backward_s\":0.2,\"update_s\":0.01," \
    "\"recompute_s\":0,\"bubble_s\":0,\"exposed_comm_s\":0.3,\"io_s\":0}"
#define PLAN                                                             \
    "{\"schema\":\"paradl.plan/1\",\"command\":\"paradl plan <x>\","     \
    "\"plans\":[{\"strategy\":\"data=<4>\",\"feasible\":false,"          \
    "\"reasons\":[\"more memory than </script> a PE\"],\"step_s\":0.61," \
    "\"samples_per_s\":10,\"mfu\":0.5,\"comm_s\":0.4," TIME "," MEMORY "}]}"
#define COMPARE                                                             \
    "{\"schema\":\"paradl.collective-compare/1\",\"collective\":\"x\","     \
    "\"rows\":[{\"topology\":\"torus:2x2\",\"size_bytes\":8,"               \
    "\"algorithm\":\"ring\",\"ranks\":4,\"time_s\":1e-6,"                   \
    "\"lower_bound_s\":1e-6,\"messages\":3},{\"topology\":\"torus:2x2\","   \
    "\"size_bytes\":16,\"algorithm\":\"ring\",\"ranks\":4,\"time_s\":2e-6," \
    "\"lower_bound_s\":1e-6,\"messages\":3}],\"heat\":[{\"topology\":"      \
    "\"torus:2x2\",\"algorithm\":\"ring\",\"size_bytes\":16,"               \
    "\"time_s\":1,\"link_bytes\":[]},{\"topology\":\"/etc/x.xml\","         \
    "\"algorithm\":\"ring\",\"size_bytes\":16,\"time_s\":1,"                \
    "\"link_bytes\":[]}]}"
#define SIMULATE                                                          \
    "{\"schema\":\"paradl.simulate/1\",\"collective\":\"allreduce\","     \
    "\"algorithm\":\"ring\",\"topology\":\"torus:2x2\",\"size_bytes\":8," \
    "\"ranks\":4,\"messages\":2,\"time_s\":1,\"lower_bound_s\":0.5,"      \
    "\"bytes_on_wire\":8,\"max_link_bytes\":4,\"contention\":[1,2,1],"    \
    "\"links\":[{\"link\":0,\"bytes\":5}]}"

#define FIELDS                                                              \
    "\"pes\":4,\"batch\":8,\"feasible\":true,\"reasons\":[],"               \
    "\"step_s\":0.61,\"interval_s\":[0.5,0.7],\"samples_per_s\":10,"        \
    "\"tokens_per_s\":0,\"mfu\":0.5,\"comm_s\":0.4," TIME "," MEMORY        \
    ",\"limits\":[{\"id\":\"gradient-exchange\",\"kind\":\"limit\","        \
    "\"phase\":\"backward\",\"share\":0.4,\"text\":\"too <slow>\"}],"       \
    "\"gains\":[{\"resource\":\"flops\",\"factor\":1.1,\"step_s\":0.6},"    \
    "{\"resource\":\"link:<leaf>\",\"factor\":1.1,\"step_s\":0.5}],"        \
    "\"stages\":[{\"stage\":0,\"weights_bytes\":4,\"gradients_bytes\":4,"   \
    "\"optimizer_bytes\":0,\"activations_bytes\":9,\"workspace_bytes\":0,"  \
    "\"comm_buffers_bytes\":0,\"peak_bytes\":20},{\"stage\":1,"             \
    "\"weights_bytes\":4,\"gradients_bytes\":4,\"optimizer_bytes\":0,"      \
    "\"activations_bytes\":9,\"workspace_bytes\":0,"                        \
    "\"comm_buffers_bytes\":0,\"peak_bytes\":9000}],\"schedule\":{"         \
    "\"rows\":[\"stage 0\",\"stage 1\"],\"micro_batches\":1,\"total\":2,"   \
    "\"tasks\":[{\"row\":0,\"kind\":\"forward\",\"micro\":0,\"start_s\":0," \
    "\"seconds\":1},{\"row\":9,\"kind\":\"update\",\"micro\":-1,"           \
    "\"start_s\":1,\"seconds\":1}]},\"out_of_core\":{"                      \
    "\"in_core_s\":0.5,\"in_core_fits\":false,\"planned_s\":0.6,"           \
    "\"bound_s\":0.6,\"ahead\":1,\"out_busy\":0.5,\"in_busy\":0.25,"        \
    "\"wait_s\":0.01,\"blocks\":[{\"first\":\"a<1>\",\"last\":\"b\","       \
    "\"choice\":\"swap\",\"what\":\"on the host\",\"why\":"                 \
    "\"copies hide\",\"again_s\":0.1,\"copy_s\":0.05}],\"policies\":["      \
    "{\"name\":\"recompute\",\"fits\":true,\"step_s\":1.22},{\"name\":"     \
    "\"keep\",\"fits\":false,\"step_s\":0.61}]},\"network\":{\"topology\":" \
    "\"torus:2x2\",\"hosts\":4,\"link_bytes\":[1,2,3,4,5,6,7,8]}"
#define PROJECT                                                       \
    "{\"schema\":\"paradl.project/1\",\"model\":\"m<1>\",\"system\":" \
    "\"s\",\"strategy\":\"data=4\"," FIELDS "}"
#define SCALE                                                                 \
    "{\"schema\":\"paradl.scale/1\",\"scaling\":\"weak\",\"points\":["        \
    "{\"strategy\":\"data=4\"," FIELDS "},{\"pes\":8,\"strategy\":"           \
    "\"data=8\",\"batch\":16,\"feasible\":false,\"reasons\":[\"too many\"]}," \
    "{\"strategy\":\"data=5\"," FIELDS "}]}"
#define VALIDATE                                                              \
    "{\"schema\":\"paradl.validate/1\",\"rows\":[{\"id\":\"a<b>\",\"set\":"   \
    "\"x\",\"projected_s\":1.0,\"measured_s\":1.05},{\"id\":\"c\",\"set\":"   \
    "\"y\",\"projected_s\":2.0,\"measured_s\":1.0},{\"id\":\"memory\"}],"     \
    "\"mean_accuracy\":0.5,\"by\":{\"set\":{\"x\":{\"rows\":1,"               \
    "\"mean_accuracy\":0.9,\"mape\":0.1,\"median_error\":0.1,\"bias\":-0.05," \
    "\"spearman\":null}}}}"

#define HERE                                                                \
    "{\"schema\":\"paradl.validate/1\",\"rows\":[{\"id\":\"step\",\"set\":" \
    "\"here\",\"projected_s\":1.0,\"measured_s\":1.05},{\"id\":"            \
    "\"0 forward conv1\",\"set\":\"here\",\"layer\":\"conv1\","             \
    "\"projected_s\":2.0,\"measured_s\":1.0},{\"id\":\"9 halo conv1.y\","   \
    "\"set\":\"here\",\"layer\":\"conv1\",\"projected_s\":40.0,"            \
    "\"measured_s\":20.0}],\"mean_accuracy\":0.5}"

#define CLUSTERS                                                           \
    "{\"schema\":\"paradl.federate/1\",\"model\":\"m<1>\",\"algorithm\":"  \
    "\"cadis\",\"partition\":\"iid\",\"clients\":3,\"history\":["          \
    "{\"round\":1,\"accuracy\":0.5,\"group_accuracy\":[0.4,null],"         \
    "\"down_bytes\":8,\"up_bytes\":8,\"across_bytes\":0},"                 \
    "{\"round\":2,\"accuracy\":0.6,\"group_accuracy\":[0.4,0.8],"          \
    "\"down_bytes\":8,\"up_bytes\":8,\"across_bytes\":0}],\"clusters\":2," \
    "\"cluster\":[0,1,0],\"similarity\":[[1,-0.2,0.9],[-0.2,1,-2],"        \
    "[0.9,-2,1]],\"client_accuracy\":[0.9,0.25,null]"
#define FEDERATE  CLUSTERS "}"
#define IN_GROUPS CLUSTERS ",\"group\":[4,7,4]}"
#define IN_OTHERS CLUSTERS ",\"group\":[4,7,7]}"

static enum pdl_status make(const char *json, size_t len, struct pdl_buf *page,
                            struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    enum pdl_status st;

    pdl_buf_init(page);
    st = pdl_report_html(a, (struct pdl_bytes){json, len}, "r.json",
                         &page->sink, err);
    pdl_arena_destroy(a);
    return st;
}

/* What a browser would fetch. */
static void assert_alone(const char *page)
{
    static const char *const bad[] = {"src=",    "@import", "url(",
                                      "<iframe", "<img",    "fetch("};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(strstr(page, bad[i]));
    for (const char *p = page; (p = strstr(p, "href=\"")) != NULL; p++)
        assert_true(p[6] == '#' || strncmp(p + 6, "data:,", 6) == 0);
    for (const char *p = page; (p = strstr(p, "http://")) != NULL; p++)
        assert_memory_equal(p, "http://www.w3.org/2000/svg", 26);
    assert_null(strstr(page, "https://"));
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_non_null(strstr(page, "prefers-color-scheme:dark"));
    assert_non_null(strstr(page, "@media print"));
}

/* Clusters are told to be the groups only where they are; clients are in the
 * order of how they fare. */
static void clusters_are_compared_with_groups(void **state)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf page;

    (void)state;
    assert_int_equal(make(IN_GROUPS, strlen(IN_GROUPS), &page, &err), PDL_OK);
    assert_non_null(strstr(page.text, "They are the groups"));
    assert_non_null(strstr(page.text, "the worst 25.0 %"));
    pdl_buf_free(&page);
    assert_int_equal(make(IN_OTHERS, strlen(IN_OTHERS), &page, &err), PDL_OK);
    assert_non_null(strstr(page.text, "They are not the groups"));
    pdl_buf_free(&page);
}

/* The operations of a layer are added up. */
static void layers_of_a_run_here_are_sums(void **state)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf page;
    const char *row;

    (void)state;
    assert_int_equal(make(HERE, strlen(HERE), &page, &err), PDL_OK);
    row = strstr(page.text, "<section id=\"layers\">");
    row = row ? strstr(row, ">conv1<") : NULL;
    assert_non_null(row);
    row = strstr(row, "21 s");
    assert_non_null(row);
    assert_non_null(strstr(row, "42 s"));
    pdl_buf_free(&page);
}

/* Clients of a cluster stand side by side; who never met has no cell. */
static void alike_clients_stand_side_by_side(void **state)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf page;
    const char *chart, *a, *b;

    (void)state;
    assert_int_equal(make(FEDERATE, strlen(FEDERATE), &page, &err), PDL_OK);
    chart = strstr(page.text, "similarity of each two clients");
    assert_non_null(chart);
    a = strstr(chart, "clients 0 and 2: 0.900");
    b = strstr(chart, "clients 0 and 1: -0.200");
    assert_true(a && b && a < b);
    assert_null(strstr(chart, "clients 1 and 2"));
    assert_non_null(strstr(page.text, "2 clusters"));
    pdl_buf_free(&page);
}

/* Of two machines: figures, nothing on one side, and a text. */
#define SIDES                                                               \
    "{\"schema\": \"paradl.compare/1\", \"a\": \"x\", \"b\": \"y\", "       \
    "\"equal\": 0, \"rows\": [{\"key\": \"step_s\", \"a\": 2, \"b\": 1, "   \
    "\"ratio\": 0.5}, {\"key\": \"time.forward_s\", \"a\": 1, \"b\": 0.5, " \
    "\"ratio\": 0.5}, {\"key\": \"note\", \"a\": null, \"b\": \"<b>\"}]}"

#define FIT_IN                                                                \
    "{\"schema\":\"paradl.fit-in/1\",\"model\":\"m\",\"system\":\"s\","       \
    "\"as_asked\":{\"fits\":true,\"pes\":1,\"batch\":8,\"strategy\":"         \
    "\"s<1>\",\"step_s\":1,\"peak_bytes\":9},\"most_layers\":{\"fits\":"      \
    "false},\"methods\":[{\"name\":\"in core\",\"batch\":8,\"fits\":true,"    \
    "\"samples_per_s\":8},{\"name\":\"in core\",\"batch\":16,\"fits\":false," \
    "\"samples_per_s\":null},{\"name\":\"karma\",\"batch\":8,\"fits\":true,"  \
    "\"samples_per_s\":8},{\"name\":\"karma\",\"batch\":16,\"fits\":true,"    \
    "\"samples_per_s\":7}]}"

static void every_schema_has_its_page(void **state)
{
    static const struct {
        const char *json;
        int charts;
    } cases[] = {{PLAN, 4},  {COMPARE, 2},  {SIMULATE, 3}, {PROJECT, 5},
                 {SCALE, 2}, {VALIDATE, 1}, {HERE, 4},     {FEDERATE, 4},
                 {SIDES, 1}, {FIT_IN, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf page;

        assert_int_equal(
            make(cases[i].json, strlen(cases[i].json), &page, &err), PDL_OK);
        assert_int_equal(count_charts(page.text), cases[i].charts);
        assert_alone(page.text);
        assert_non_null(strstr(page.text, "id=\"data\""));
        assert_non_null(strstr(page.text, pdl_version()));
        pdl_buf_free(&page);
    }
    assert_string_equal(pdl_report_schema_at(0), "plan");
    assert_string_equal(pdl_report_schema_at(8), "compare");
    assert_string_equal(pdl_report_schema_at(9), "fit-in");
    assert_null(pdl_report_schema_at(10));
}

static void names_and_reasons_are_escaped_everywhere(void **state)
{
    struct pdl_err err;
    struct pdl_buf page;

    (void)state;
    assert_int_equal(make(PLAN, sizeof PLAN - 1, &page, &err), PDL_OK);
    assert_null(strstr(page.text, "data=<4>"));
    assert_null(strstr(page.text, "than </script>"));
    assert_non_null(strstr(page.text, "data=&lt;4&gt;"));
    assert_non_null(strstr(page.text, "\\u003c/script>"));
    assert_non_null(strstr(page.text, "part grey"));
    pdl_buf_free(&page);
}

/* Pictures of one plan: all there, each with its table; a task in a row that
 * is not there harms nobody. */
static void a_projection_has_all_its_pictures(void **state)
{
    static const char *const want[] = {"id=\"why\"",
                                       "id=\"phases-chart\"",
                                       "id=\"memory-waterfall\"",
                                       "id=\"stages-chart\"",
                                       "id=\"gains-chart\"",
                                       "id=\"links-chart\"",
                                       "id=\"schedule-chart\"",
                                       "data-path=\"schedule\"",
                                       "id=\"outofcore\"",
                                       "a&lt;1&gt;..b",
                                       "2.00", /* times the step */
                                       "1.00, does not fit",
                                       "too &lt;slow&gt;",
                                       "m&lt;1&gt;",
                                       "bandwidth, &lt;leaf&gt;"};
    struct pdl_err err = {"", ""};
    struct pdl_buf page;

    (void)state;
    assert_int_equal(make(PROJECT, sizeof PROJECT - 1, &page, &err), PDL_OK);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        if (!strstr(page.text, want[i]))
            fail_msg("no %s", want[i]);
    pdl_buf_free(&page);
}

/* Every section of a page is in its list, and the policy names the one script
 * that there is. */
static void the_list_of_sections_is_complete(void **state)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf page;
    int sections = 0, listed = 0;
    const char *nav, *end;

    (void)state;
    assert_int_equal(make(SCALE, sizeof SCALE - 1, &page, &err), PDL_OK);
    nav = strstr(page.text, "<nav");
    end = strstr(page.text, "</nav>");
    assert_true(nav && end && nav < end);
    for (const char *s = nav; (s = strstr(s, "<a href=\"#")) && s < end; s++)
        listed++;
    for (const char *s = end; (s = strstr(s, "<section id=")); s++)
        sections++;
    assert_int_equal(listed, sections);
    assert_true(sections >= 3);
    assert_non_null(strstr(page.text, report_script_hash));
    assert_null(strstr(page.text, "script-src 'unsafe-inline'"));
    pdl_buf_free(&page);
}

static void files_that_a_result_names_are_not_opened(void **state)
{
    struct pdl_err err;
    struct pdl_buf page;

    (void)state;
    assert_int_equal(make(COMPARE, sizeof COMPARE - 1, &page, &err), PDL_OK);
    assert_non_null(strstr(page.text, "Not drawn: networks from files"));
    pdl_buf_free(&page);
}

static void bad_input_is_one_line_with_its_place(void **state)
{
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"{", "r.json:1:"},
        {"[]", "r.json:1:1: not an object with 'schema'"},
        {"{\"a\":1}", "r.json:1:1: there is no 'schema'"},
        {"{\"schema\":\"paradl.info/1\"}", "there is no page for"},
        {"{\"schema\":\"paradl.plan/2\"}", "there is no page for"},
        {"{\"schema\":\"paradl.plan/1\"}", "there is no 'plans'"},
        {"{\"schema\":\"paradl.plan/1\",\n\"plans\":[{\"strategy\":[]}]}",
         "r.json:2:"},
        {"{\"schema\":\"paradl.collective-compare/1\",\"collective\":\"x\","
         "\"rows\":3}",
         "not a list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_buf page;

        assert_int_not_equal(
            make(cases[i].json, strlen(cases[i].json), &page, &err), PDL_OK);
        if (!strstr(err.msg, cases[i].want))
            fail_msg("%s: got '%s'", cases[i].json, err.msg);
        assert_int_equal(page.len, 0);
        pdl_buf_free(&page);
    }
}

/* 3000 rows of long names are more than a page may have. */
static void a_page_has_a_largest_size(void **state)
{
    struct pdl_buf json, page;
    struct pdl_err err = {"", ""};

    (void)state;
    pdl_buf_init(&json);
    pdl_puts(&json.sink, "{\"schema\":\"paradl.collective-compare/1\","
                         "\"collective\":\"x\",\"rows\":[");
    for (int i = 0; i < 2500; i++) {
        pdl_puts(&json.sink, i ? "," : "");
        pdl_printf(&json.sink,
                   "{\"topology\":\"%0*d\",\"size_bytes\":8,\"ranks\":2,"
                   "\"algorithm\":\"ring\",\"refused\":\"no\"}",
                   2500, i);
    }
    pdl_puts(&json.sink, "]}");
    assert_int_equal(make(json.text, json.len, &page, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "more than 5000000"));
    assert_int_equal(page.len, 0);
    pdl_buf_free(&page);
    pdl_buf_free(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike_clients_stand_side_by_side),
        cmocka_unit_test(clusters_are_compared_with_groups),
        cmocka_unit_test(every_schema_has_its_page),
        cmocka_unit_test(layers_of_a_run_here_are_sums),
        cmocka_unit_test(names_and_reasons_are_escaped_everywhere),
        cmocka_unit_test(a_projection_has_all_its_pictures),
        cmocka_unit_test(the_list_of_sections_is_complete),
        cmocka_unit_test(files_that_a_result_names_are_not_opened),
        cmocka_unit_test(bad_input_is_one_line_with_its_place),
        cmocka_unit_test(a_page_has_a_largest_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
