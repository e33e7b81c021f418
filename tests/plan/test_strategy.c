/* The strategy notation and the mesh it makes. */
#include "paradl/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

static enum pdl_status parse(pdl_arena *a, const char *text,
                             struct pdl_strategy *s, struct pdl_err *err)
{
    *err = (struct pdl_err){"", ""};
    return pdl_strategy_parse(a, text, s, err);
}

static void print_and_parse_are_inverse(void **state)
{
    static const struct {
        const char *text, *printed; /* NULL: the same */
    } cases[] = {
        {"data=64", NULL},
        {"serial", "data=1"},
        {"data=16,filter=4", NULL},
        {"data=16,spatial=2x2", NULL},
        {"spatial=2x2x2", NULL},
        {"pipe=8(1f1b,m=64),data=8,tensor=8+seq,zero=1,recompute=selective",
         "pipe=8(m=64),data=8,tensor=8+seq,zero=1,recompute=selective"},
        {"pipe=4(interleaved,m=16,v=2),data=2", NULL},
        {"*: data=16; conv1..pool5: spatial=4; fc6..fc8: filter=4", NULL},
        {"conv1..pool5: data=4; fc6..fc8: filter=4", NULL},
        {"fc*: filter=4 ; *: data=2", "*: data=2; fc*: filter=4"},
        {"data=2,context=4(ring,plain),zero=3,recompute=full",
         "data=2,context=4(plain),zero=3,recompute=full"},
        {"context=4(a2a),tensor=2+seq,accumulate=4,zero=1,recompute=none,"
         "overlap=off",
         "context=4(a2a),tensor=2+seq,zero=1,accumulate=4,overlap=off"},
        {"data=8,zero=3:8,bucket=25MiB,allreduce=ring,compress=topk:0.5", NULL},
        {"data=8,compress=powersgd:4", NULL},
        {"data=8,compress=lossless", NULL},
        {"*: data=2,compress=int8; a..b: compress=powersgd:4; c: filter=2,"
         "compress=none",
         NULL},
        {"data=4,offload=optimizer,offload=activations,bn=sync,swap=auto",
         "data=4,swap=auto,offload=optimizer,offload=activations,bn=sync"},
        {"a: data=2; zero=1; b: filter=2", "a: data=2; b: filter=2; *: zero=1"},
        {"zero=0:8", "data=1"},
        {"data=2,expert=4(imbalance=1.5)", NULL},
        {"expert=4(imbalance=1)", "expert=4"},
        {"pipe=3(gpipe,m=4,at=conv3+fc6),data=2", NULL},
        {"*: pipe=2(m=4,at=b); a: data=2; b: data=2,offload=activations", NULL},
        {"*: data=2; a: recompute=full,offload=activations", NULL},
        {"*: data=2; a: recompute=full,offload=optimizer,offload=activations",
         NULL},
        {"*: data=2; a: offload=activations,offload=optimizer; b: filter=2,"
         "offload=optimizer",
         "*: data=2; a: offload=optimizer,offload=activations; b: filter=2,"
         "offload=optimizer"},
        {"*: data=1,prefetch=2; a..b+c: offload=activations; d..e+f..g: "
         "recompute=full",
         NULL},
        {"prefetch=3,offload=activations", "data=1,offload=activations,"
                                           "prefetch=3"},
        {"data=4,exchange=paper,memory=paper,save=gathered",
         "data=4,save=gathered,memory=paper,exchange=paper"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_strategy s, again;
        struct pdl_err err;
        struct pdl_buf b;

        pdl_buf_init(&b);
        if (parse(a, cases[i].text, &s, &err) != PDL_OK)
            fail_msg("%s: %s", cases[i].text, err.msg);
        pdl_strategy_print(&s, &b.sink);
        assert_string_equal(
            b.text, cases[i].printed ? cases[i].printed : cases[i].text);
        assert_int_equal(parse(a, b.text, &again, &err), PDL_OK);
        assert_true(pdl_strategy_equal(&s, &again));
        pdl_buf_free(&b);
    }
    pdl_arena_destroy(a);
}

static void nonsense_is_named_with_its_column(void **state)
{
    static const struct {
        const char *text, *msg, *hint;
    } cases[] = {
        {"", "strategy:1: an empty term", ""},
        {"data=4,", "strategy:8: an empty term", ""},
        {"dta=4", "strategy:1: unknown axis or option 'dta'",
         "did you mean 'data'?"},
        {"data=0", "strategy:1: data: 0 is outside 1 to 1099511627776", ""},
        {"data=2x2", "strategy:1: data=2x2: at most 1 size", ""},
        {"data=four", "strategy:1: data: 'four' is not a whole number", ""},
        {"data", "strategy:1: 'data' needs a size", "write it like data=4"},
        {"data=", "strategy:1: 'data=' has no value", ""},
        {"data=4,pipe=2(fast)", "strategy:8: pipe: 'fast' is not known",
         "one of 1f1b, gpipe, interleaved, zb-h1, zb-h2, dualpipe, zb-v"},
        {"pipe=2(m=4", "strategy:1: '2(m=4': unbalanced parentheses", ""},
        {"data=2,data=2", "strategy:8: 'data' is given twice", ""},
        {"zero=5", "strategy:1: zero: '5' is not 0, 1, 2 or 3", ""},
        {"zero=1,zero=2", "strategy:8: 'zero' is given twice", ""},
        {"conv1: zero=1",
         "strategy:8: 'zero' holds for the whole model, not for conv1", ""},
        {"bucket=25", "strategy:1: bucket: '25' needs a unit",
         "write it like 32MiB or 80GB"},
        {": data=2", "strategy:1: a clause without layers before ':'", ""},
        {"expert=4(imbalance=0.5)",
         "strategy:1: expert: 'imbalance=0.5' is not imbalance=X, X at least 1",
         "write it like expert=8(imbalance=1.3)"},
        {"pipe=2(at=)", "strategy:1: pipe: 'at' wants layers: at=conv3+fc6",
         ""},
        {"conv1: offload=weights",
         "strategy:8: offload: 'weights' is not optimizer or activations", ""},
        {"a: compress=int8,compress=none",
         "strategy:18: 'compress' is given twice", ""},
        {"compress=none",
         "strategy:1: compress: 'none' is not topk:SHARE, powersgd:RANK, int8, "
         "bf16, fp16, sign or lossless",
         "write it like compress=topk:0.01"},
        {"compress=topk:2",
         "strategy:1: compress: 'topk:2' is not topk:SHARE, powersgd:RANK, "
         "int8, bf16, fp16, sign or lossless",
         "write it like compress=topk:0.01"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_strategy s = {.nclauses = -7};
        struct pdl_err err;

        assert_int_equal(parse(a, cases[i].text, &s, &err), PDL_EPARSE);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        assert_int_equal(s.nclauses, -7);
    }
    pdl_arena_destroy(a);
}

static void mesh_of(pdl_arena *a, const char *text, struct pdl_mesh *m)
{
    struct pdl_strategy s;
    struct pdl_err err;

    if (parse(a, text, &s, &err) != PDL_OK ||
        pdl_mesh_make(&s, m, &err) != PDL_OK)
        fail_msg("%s: %s", text, err.msg);
}

static void the_mesh_is_the_common_refinement(void **state)
{
    static const struct {
        const char *text, *factors;
    } cases[] = {
        {"data=4", "4"},
        {"serial", ""},
        {"data=16,filter=4", "16x4"},
        {"data=2,spatial=2x2", "2x2x2"},
        {"conv*: data=4; fc*: filter=4", "4"},
        {"conv*: data=4; fc*: data=2,filter=2", "2x2"},
        {"a: data=2,filter=6; b: filter=12; c: data=4,filter=3", "2x2x3"},
        {"*: data=16; conv1..pool5: spatial=4; fc*: filter=2,channel=2",
         "16x2x2"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128] = "";
        struct pdl_mesh m;
        size_t n = 0;

        mesh_of(a, cases[i].text, &m);
        for (int f = 0; f < m.nfactors; f++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld",
                                  f ? "x" : "", (long long)m.factor[f]);
        assert_string_equal(text, cases[i].factors);
        for (int c = 0; m.nterms[c] > 0; c++)
            for (int t = 0; t < m.nterms[c]; t++) {
                int64_t p = 1;

                for (int f = 0; f < m.term[c][t].count; f++)
                    p *= m.factor[m.term[c][t].first + f];
                assert_true(p == m.term[c][t].size);
            }
    }
    pdl_arena_destroy(a);
}

static void what_cannot_be_a_mesh_is_refused(void **state)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"a: data=2,filter=3; b: data=3,filter=2",
         "strategy: axes do not nest: groups of 2 and of 3 PEs cut each other"},
        {"a: data=2; b: data=4", "strategy: b uses 4 PEs, a uses 2"},
        {"*: data=2; a: data=2", "strategy: 'data' is given twice for a"},
        {"data=1099511627776,filter=1099511627776", "strategy: too many PEs"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_strategy s;
        struct pdl_mesh m;
        struct pdl_err err;

        assert_int_equal(parse(a, cases[i].text, &s, &err), PDL_OK);
        assert_int_equal(pdl_mesh_make(&s, &m, &err), PDL_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
    }
    pdl_arena_destroy(a);
}

static void groups_match_a_search_over_all_ranks(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_mesh m;

    (void)state;
    mesh_of(a, "pipe=2,data=3,spatial=2x2", &m);
    for (int64_t rank = 0; rank < m.pes; rank++)
        for (uint32_t mask = 0; mask < 1u << m.nfactors; mask++) {
            int64_t got[64], n = pdl_mesh_group(&m, rank, mask, got, 64);
            int64_t k = 0;

            for (int64_t r = 0; r < m.pes; r++) {
                bool same = true;

                for (int f = 0; f < m.nfactors; f++)
                    same = same &&
                           (mask >> f & 1 || pdl_mesh_coord(&m, r, f) ==
                                                 pdl_mesh_coord(&m, rank, f));
                if (same)
                    assert_true(k < n && got[k++] == r);
            }
            assert_true(k == n);
        }
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(print_and_parse_are_inverse),
        cmocka_unit_test(nonsense_is_named_with_its_column),
        cmocka_unit_test(the_mesh_is_the_common_refinement),
        cmocka_unit_test(what_cannot_be_a_mesh_is_refused),
        cmocka_unit_test(groups_match_a_search_over_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
