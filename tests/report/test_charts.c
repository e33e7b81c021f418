/* Charts: well-formed whatever the names, every point and part with its
 * tooltip and table row, and one chart as it is, byte for byte. */
#include "report_priv.h"
#include "svg.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define HOSTILE "]]><x a='\"&\x01\xff"

static int count(const char *text, const char *what)
{
    int n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void draw_lines(struct pdl_buf *b, const char *name)
{
    static double x[] = {1024, 4096, 1 << 20}, y[] = {1e-6, 2e-6, 1e-3};
    struct report_series s[12];
    struct report_lines c = {
        .id = "c",
        .label = name,
        .x = {.title = "size", .unit = PDL_UNIT_BYTES, .log = true},
        .y = {.title = "time", .unit = PDL_UNIT_SECONDS, .log = true},
        .series = s,
        .nseries = 12};

    for (int i = 0; i < 12; i++)
        s[i] = (struct report_series){
            .name = name, .n = 3, .x = x, .y = y, .colour = i};
    report_lines(&b->sink, &c);
}

static void lines_are_well_formed_and_have_a_table(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    draw_lines(&b, HOSTILE);
    assert_int_equal(count_charts(b.text), 1);
    assert_int_equal(count(b.text, "<polyline"), 2 * 12);
    assert_int_equal(count(b.text, "class=\"line sm\" points"), 2 * 4);
    assert_int_equal(count(b.text, "<tr>"), 1 + 36);
    assert_null(strstr(b.text, "<x a"));
    pdl_buf_free(&b);
}

static void the_test_sees_what_is_not_well_formed(void **state)
{
    struct pdl_buf b;
    char *hole;

    (void)state;
    pdl_buf_init(&b);
    draw_lines(&b, "ring");
    assert_int_equal(count_charts(b.text), 1);
    hole = strstr(b.text, "</polyline>");
    assert_non_null(hole);
    hole[1] = ' ';
    assert_int_equal(count_charts(b.text), -1);
    hole[1] = '/';
    assert_int_equal(count_charts(b.text), 1);
    memcpy(strstr(b.text, " narrow\" viewBox"), " broad ", 7);
    assert_int_equal(count_charts(b.text), -1);
    pdl_buf_free(&b);
}

static const char *const parts[] = {"a&b", "second"};

static void draw_bars(struct pdl_buf *b)
{
    static const struct report_bar bars[] = {
        {"good", NULL, {1, 0.5}, false},
        {HOSTILE, "too large: " HOSTILE, {2, 3}, true},
        {"endless", NULL, {1000, NAN}, false},
    };
    struct report_bars c = {.id = "b",
                            .label = "bars",
                            .title = "time",
                            .unit = PDL_UNIT_SECONDS,
                            .parts = parts,
                            .nparts = 2,
                            .bars = bars,
                            .nbars = 3,
                            .limit = 4,
                            .limit_name = "capacity",
                            .cut = 10};

    report_bars(&b->sink, &c);
}

static void bars_are_grey_cut_and_limited_where_they_should_be(void **state)
{
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    draw_bars(&b);
    assert_int_equal(count_charts(b.text), 1);
    assert_int_equal(count(b.text, "class=\"part grey"), 2 * 2);
    assert_int_equal(count(b.text, "class=\"cut\""), 2 * 1);
    assert_int_equal(count(b.text, "class=\"limit\""), 2 * 2);
    assert_int_equal(count(b.text, "<tr>"), 1 + 3);
    assert_non_null(strstr(b.text, "too large: "));
    pdl_buf_free(&b);
}

/* A step of an hour and one of a millisecond, half of each forward: both are
 * seen, and the number beside each is its own. */
static void bars_of_shares_are_equally_long(void **state)
{
    static const struct report_bar bars[] = {
        {"1 PE", NULL, {1800, 1800}, false},
        {"many PEs", NULL, {0.0005, 0.0005}, false},
    };
    struct report_bars c = {.id = "s",
                            .label = "shares",
                            .title = "% of the step",
                            .unit = PDL_UNIT_SECONDS,
                            .parts = parts,
                            .nparts = 2,
                            .bars = bars,
                            .nbars = 2};
    double width[8];

    (void)state;
    for (int shares = 0; shares < 2; shares++) {
        struct pdl_buf b;
        int n = 0;

        pdl_buf_init(&b);
        c.shares = shares;
        report_bars(&b.sink, &c);
        assert_int_equal(count_charts(b.text), 1);
        for (const char *p = b.text; n < 8 && (p = strstr(p, "\"part f")); p++)
            width[n++] = strtod(strstr(p, "width=\"") + 7, NULL);
        assert_int_equal(n, 8); /* broad and narrow, two bars of two parts */
        for (int i = 1; shares && i < 4; i++)
            assert_float_equal(width[i], width[0], 0.11);
        assert_true(shares || width[2] < 0.01 * width[0]);
        assert_int_equal(count(b.text, ">3600 s<"), 2 + 1);
        assert_int_equal(count(b.text, ">1 ms<"), 2 + 1);
        pdl_buf_free(&b);
    }
}

/* As long as what it says, and never one over the next. */
static void long_labels_go_on_several_lines(void **state)
{
    static const struct {
        const char *text;
        int columns, lines;
    } cases[] = {{"data=8", 50, 1},
                 {"pipe=4(m=8),data=8", 12, 2},
                 {"a,b,c,d", 4, 2},
                 {"nowhere-to-break-it", 5, 4},
                 {"", 10, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_buf b;

        pdl_buf_init(&b);
        assert_int_equal(report_svg_lines(&b.sink, "", 0, 0, cases[i].text,
                                          cases[i].columns),
                         cases[i].lines);
        assert_int_equal(count(b.text, "<text"), cases[i].lines);
        assert_int_equal(
            report_svg_lines(NULL, "", 0, 0, cases[i].text, cases[i].columns),
            cases[i].lines);
        pdl_buf_free(&b);
    }
}

static void ticks_have_text_where_there_is_room(void **state)
{
    struct report_axis ax = {
        .unit = PDL_UNIT_BYTES, .log = true, .from = 0, .to = 700};

    (void)state;
    report_axis_fit(&ax, 4096, 64 << 20);
    assert_int_equal(report_axis_stride(&ax), 1);
    ax.to = 260;
    assert_int_equal(report_axis_stride(&ax), 2);
    ax.to = 10;
    assert_true(report_axis_stride(&ax) >= ax.nticks);
}

/* PARADL_UPDATE=1 rewrites the file; look at the difference. */
static void a_small_chart_is_as_it_was(void **state)
{
    static const char path[] = PDL_SOURCE_DIR "/tests/data/report/lines.svg";
    static double x[] = {16, 64}, y[] = {1e-3, 2.5e-3};
    struct report_series s = {.name = "ring", .n = 2, .x = x, .y = y};
    struct report_lines c = {.id = "golden",
                             .label = "a small chart",
                             .x = {.title = "ranks", .log = true},
                             .y = {.title = "time", .unit = PDL_UNIT_SECONDS},
                             .series = &s,
                             .nseries = 1};
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_bytes want;
    struct pdl_buf b;
    char *svg;

    (void)state;
    pdl_buf_init(&b);
    report_lines(&b.sink, &c);
    svg = strstr(b.text, "<svg ");
    assert_non_null(svg);
    *(strstr(svg, "</svg>\n") + 7) = '\0';
    if (getenv("PARADL_UPDATE"))
        pdl_file_write(path, svg, strlen(svg), NULL);
    assert_int_equal(pdl_file_read(a, path, 1 << 20, &want, NULL), PDL_OK);
    assert_string_equal(svg, want.data);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

/* ---- networks ---------------------------------------------------------------- */

static void draw_net(struct pdl_buf *b, const char *spec,
                     struct report_graph *out)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 28);
    const struct pdl_net *net;
    struct report_graph g;
    int64_t *bytes;

    assert_int_equal(pdl_net_make(a, spec, &net, NULL), PDL_OK);
    bytes = PDL_NEW(a, int64_t, net->nlinks);
    for (int i = 0; i < net->nlinks; i++)
        bytes[i] = i % 7;
    assert_int_equal(report_graph_make(a, net, bytes, 1e-9, &g, NULL), PDL_OK);
    report_layout(&g);
    for (int i = 0; i < g.nv; i++) {
        assert_true(g.v[i].x >= 0 && g.v[i].x <= g.w);
        assert_true(g.v[i].y >= 0 && g.v[i].y <= g.h);
        for (int k = 0; k < i && g.nv < 200; k++)
            assert_true(hypot(g.v[i].x - g.v[k].x, g.v[i].y - g.v[k].y) > 1);
    }
    report_graph_draw(&b->sink, "g", spec, &g);
    *out = g;
    pdl_arena_destroy(a);
}

/* The example of every generator, and what is too large for all to be drawn. */
static void every_topology_can_be_drawn(void **state)
{
    (void)state;
    for (int i = 0; pdl_topo_at(i); i++) {
        struct report_graph g;
        struct pdl_buf b;

        pdl_buf_init(&b);
        draw_net(&b, pdl_topo_at(i)->example, &g);
        assert_int_equal(count_svgs(b.text), 1);
        assert_true(g.nv <= REPORT_MAX_VERTICES && g.ne <= REPORT_MAX_EDGES);
        assert_int_equal(count(b.text, "<path class=\"e e"), g.ne);
        pdl_buf_free(&b);
    }
}

static void large_networks_are_drawn_coarse_and_lose_nothing(void **state)
{
    static const struct {
        const char *spec;
        int nv, of;
    } cases[] = {{"torus:32x32", 64, 1024},
                 {"fat-tree:down=16x64,up=1x8", 72, 1096},
                 {"torus:4x4", 16, 16}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct report_graph g;
        struct pdl_buf b;

        pdl_buf_init(&b);
        draw_net(&b, cases[i].spec, &g);
        assert_int_equal(g.nv, cases[i].nv);
        assert_int_equal(g.of, cases[i].of);
        pdl_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_well_formed_and_have_a_table),
        cmocka_unit_test(the_test_sees_what_is_not_well_formed),
        cmocka_unit_test(bars_are_grey_cut_and_limited_where_they_should_be),
        cmocka_unit_test(bars_of_shares_are_equally_long),
        cmocka_unit_test(long_labels_go_on_several_lines),
        cmocka_unit_test(ticks_have_text_where_there_is_room),
        cmocka_unit_test(a_small_chart_is_as_it_was),
        cmocka_unit_test(every_topology_can_be_drawn),
        cmocka_unit_test(large_networks_are_drawn_coarse_and_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
