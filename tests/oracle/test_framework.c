/* Frameworks as files: what is built in, what a reader refuses and where, what
 * a base gives, and whether a framework can run a strategy. */
#include "plans.h"

#include <stdio.h>
#include <string.h>

#include "oracle/habit/framework.h"

static enum pdl_status read_text(pdl_arena *a, const char *text,
                                 const struct pdl_framework **out,
                                 struct pdl_err *err)
{
    return pdl_framework_read(a, (struct pdl_bytes){text, strlen(text)}, "f",
                              out, err);
}

static void every_built_in_says_where_its_numbers_come_from(void **st)
{
    const struct pdl_builtin *b;
    int n = 0;

    (void)st;
    for (; (b = pdl_framework_builtin(n)) != NULL; n++) {
        const struct pdl_framework *f = open_framework(b->name);
        const struct pdl_habit *h;

        assert_string_equal(pdl_framework_name(f), b->name);
        assert_true(pdl_framework_runs(f)->known);
        assert_true(strlen(pdl_framework_runs(f)->source) > 10);
        for (int i = 0; (h = pdl_framework_habit(f, i)) != NULL; i++)
            assert_true(*h->kind && strlen(h->source) > 10 && *h->what);
    }
    assert_true(n >= 12);
    assert_null(pdl_framework_builtin(n));
    assert_null(pdl_framework_builtin(-1));
}

/* The page and the table know the same keys. */
static void the_page_has_every_key(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct framework_key *k;
    struct pdl_bytes page;
    char row[80];

    (void)st;
    assert_int_equal(
        pdl_file_read(a, PDL_SOURCE_DIR "/doc/formats/framework.md", 1 << 20,
                      &page, NULL),
        PDL_OK);
    for (int i = 0; (k = oracle_framework_key(i)) != NULL; i++) {
        snprintf(row, sizeof row, "| %s |", k->name);
        if (!strstr(page.data, row))
            fail_msg("no row '%s' in doc/formats/framework.md", row);
    }
    pdl_arena_destroy(a);
}

static void wrong_files_are_refused_with_their_place(void **st)
{
    static const struct {
        const char *text, *msg, *hint;
    } cases[] = {
        {"title: x\n", "f:1:1: missing key 'name'", ""},
        {"- 1\n", "f:1:1: row: expected a map", ""},
        {"name: a\ntitle: b\nad: []\n", "f:3:1: unknown key 'ad'", ""},
        {"schema: x/1\nname: a\ntitle: b\n", "f:1:9: schema:", ""},
        {"name: a\ntitle: b\nbase: nobody\n", "f:3:7: base: 'nobody'", ""},
        {"name: a\ntitle: b\nadds:\n  - fused: true\n    kind: counted\n",
         "f:4:5: adds: a group without 'source'", "every number"},
        {"name: a\ntitle: b\nadds:\n  - fused: true\n    source: x\n",
         "f:4:5: adds: a group without 'kind'", "every number"},
        {"name: a\ntitle: b\nadds:\n  - fused: true\n    kind: guessed\n"
         "    source: x\n",
         "f:5:11: kind: 'guessed' is none", "fitted"},
        {"name: a\ntitle: b\nadds:\n  - isue: 1us\n    kind: counted\n"
         "    source: x\n",
         "f:4:5: unknown key 'isue'", "issue"},
        {"name: a\ntitle: b\nadds:\n  - issue: 1\n    kind: counted\n"
         "    source: x\n",
         "f:4:12: issue: ", ""},
        {"name: a\ntitle: b\nadds:\n  - eager: 1000\n    kind: counted\n"
         "    source: x\n",
         "f:4:12: eager: 1000 is outside 0 to 100", ""},
        {"name: a\ntitle: b\nadds:\n  - {fused: true, kind: counted, source: "
         "x}\n  - {fused: false, kind: counted, source: y}\n",
         "f:5:13: fused: given twice", ""},
        {"name: a\ntitle: b\nadds:\n  - {steps: true, kind: counted, source: "
         "x}\n",
         "f:1:1: steps without issue", ""},
        {"name: a\ntitle: b\nadds:\n  - {split: even, kind: counted, source: "
         "x}\n",
         "f:4:13: split: 'even'", "blocks"},
        {"name: a\ntitle: b\nruns: {axes: [data+pip], source: x}\n",
         "f:3:15: no axis 'pip'", "pipe"},
        {"name: a\ntitle: b\nruns: {axes: [data], schedules: [1b1f], source: "
         "x}\n",
         "f:3:34: schedules: '1b1f'", "1f1b"},
        {"name: a\ntitle: b\nruns: {axes: [data], zero: {4: data}, source: "
         "x}\n",
         "f:3:29: unknown key '4'", ""},
        {"name: a\ntitle: b\nruns: {axes: [data], offload: [disk], source: "
         "x}\n",
         "f:3:32: offload: 'disk'", ""},
        {"name: a\ntitle: b\nruns: {axes: [data], precisions: [fp7], source: "
         "x}\n",
         "f:3:35: no precision 'fp7'", ""},
        {"name: a\ntitle: b\nruns: {axes: [data]}\n",
         "f:3:7: runs: missing key 'source'", ""},
    };

    (void)st;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_framework *f = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(read_text(a, cases[i].text, &f, &err), PDL_EPARSE);
        assert_null(f);
        if (strncmp(err.msg, cases[i].msg, strlen(cases[i].msg)) != 0)
            fail_msg("'%s' is not '%s'", err.msg, cases[i].msg);
        if (!strstr(err.hint, cases[i].hint))
            fail_msg("%s: hint '%s' has no '%s'", err.msg, err.hint,
                     cases[i].hint);
        pdl_arena_destroy(a);
    }
}

static void a_base_gives_what_a_file_does_not_say(void **st)
{
    static const char text[] =
        "name: mine\ntitle: my own\nbase: megatron\nadds:\n"
        "  - {issue: 50us, fused: false, kind: profiled, source: my cluster}\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_framework *base = open_framework("megatron"), *f = NULL;
    const struct pdl_habit *h;
    int issues = 0;

    (void)st;
    assert_int_equal(read_text(a, text, &f, NULL), PDL_OK);
    assert_string_equal(pdl_framework_name(f), "mine");
    assert_true(f->issue_s == 50e-6 && !f->fused);
    assert_true(f->update_bytes == base->update_bytes && f->no_overlap);
    assert_int_equal(f->runs.schedules, base->runs.schedules);
    for (int i = 0; (h = pdl_framework_habit(f, i)) != NULL; i++)
        if (strcmp(h->key, "issue") == 0) {
            issues++;
            assert_string_equal(h->kind, "profiled");
        }
    assert_int_equal(issues, 1); /* its own replaces the base's */
    pdl_arena_destroy(a);
}

static void unknown_names_are_refused_with_a_hint(void **st)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_framework *f = NULL;
    struct pdl_err err = {"", ""};

    (void)st;
    assert_int_equal(pdl_framework_open(a, "megatorn", &f, &err), PDL_EINVAL);
    assert_non_null(strstr(err.hint, "megatron"));
    assert_int_equal(pdl_framework_open(a, "qqqqqqqqqq", &f, &err), PDL_EINVAL);
    assert_non_null(strstr(err.hint, "megatron, "));
    assert_int_not_equal(pdl_framework_open(a, "/nowhere.yaml", &f, &err),
                         PDL_OK);
    /* as its launch files are called */
    assert_int_equal(pdl_framework_open(a, "deepspeed", &f, &err), PDL_OK);
    assert_string_equal(pdl_framework_name(f), "megatron-deepspeed");
    assert_string_equal(pdl_framework_name(NULL), "none");
    assert_int_equal(pdl_framework_split(NULL), PDL_SPLIT_WORK);
    pdl_arena_destroy(a);
}

static void a_framework_says_what_it_does_not_run(void **st)
{
    static const struct {
        const char *framework, *strategy, *lacks; /* NULL: it runs */
    } cases[] = {
        {"megatron", "pipe=8(1f1b,m=64),data=8,tensor=8+seq,zero=1", NULL},
        {"megatron", "pipe=8(zb-v,m=64),data=8", "schedule"},
        {"megatron", "data=8,spatial=2", "spatial"},
        {"megatron", "data=8,zero=3", NULL},
        {"megatron", "pipe=2,data=8,zero=3", "zero=3"},
        {"megatron", "data=8,offload=activations", "offload=activations"},
        {"torchtitan", "pipe=4(zb-v,m=8),data=8,zero=3:4", NULL},
        {"torchtitan", "data=8,zero=1", "zero=1"},
        {"torchtitan", "data=2,context=4(a2a)", "context"},
        {"composer", "data=8,zero=3", NULL},
        {"composer", "data=8,tensor=2", "data+tensor"},
        {"chainermnx", "data=8,filter=4", NULL},
        {"chainermnx", "data=8,filter=4,spatial=2", "the product"},
        {"chainermnx", "spatial=2x2", NULL},
        {"tensorflow", "data=8,recompute=full", "recompute"},
        {"own", "*: data=4; fc6..fc8: filter=4", NULL},
        {"mxnet", "*: data=4; fc6..fc8: filter=4", "filter"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)st;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_strategy s;
        struct pdl_err err = {"", ""};
        enum pdl_status done;

        assert_int_equal(pdl_strategy_parse(a, cases[i].strategy, &s, &err),
                         PDL_OK);
        done = pdl_framework_can(open_framework(cases[i].framework), &s, &err);
        if ((done == PDL_OK) != !cases[i].lacks ||
            (cases[i].lacks && !strstr(err.msg, cases[i].lacks)))
            fail_msg("%s %s: '%s'", cases[i].framework, cases[i].strategy,
                     err.msg);
        assert_int_equal(pdl_framework_can(NULL, &s, &err), PDL_OK);
    }
    pdl_arena_destroy(a);
}

static enum pdl_precision precision_of(const struct pdl_run *r)
{
    return pdl_precision_find(r->precision ? r->precision : "bf16");
}

static int slots_of(const struct pdl_run *r)
{
    return r->optimizer && strcmp(r->optimizer, "adam") != 0 ? 1 : 2;
}

/* What people measured with a framework it can run, or its file is wrong. */
static void what_was_measured_can_be_run(void **st)
{
    static const char *const files[] = {"published.json", "runs.json",
                                        "torch_h200.json"};
    const struct pdl_row_filter all = {.n = 0};
    int seen = 0;

    (void)st;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_bytes in;
        const struct pdl_doc *doc;
        struct pdl_runs runs;
        char path[512];

        snprintf(path, sizeof path, PDL_SOURCE_DIR "/tests/data/oracle/%s",
                 files[i]);
        if (pdl_file_read(a, path, 64 << 20, &in, &err) != PDL_OK ||
            pdl_doc_json(a, in, files[i], &doc, &err) != PDL_OK ||
            pdl_runs_read(a, doc, &all, &runs, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        for (int k = 0; k < runs.n; k++) {
            const struct pdl_run *r = &runs.run[k];
            struct pdl_strategy s;

            if (!r->framework ||
                pdl_strategy_parse(a, r->strategy, &s, &err) != PDL_OK)
                continue;
            seen++;
            if (pdl_framework_can(open_framework(r->framework), &s, &err) !=
                    PDL_OK ||
                pdl_framework_trains(open_framework(r->framework),
                                     precision_of(r), slots_of(r),
                                     &err) != PDL_OK)
                fail_msg("%s (%s): %s", r->id, r->strategy, err.msg);
        }
        pdl_arena_destroy(a);
    }
    assert_true(seen > 200);
}

static void precisions_optimizers_and_pes_are_the_frameworks(void **st)
{
    const struct pdl_framework *f = open_framework("nanotron");
    struct pdl_pe tpu = {.vendor = "Google", .arch = "tpu4"},
                  cores = {.arch = "cpu"}, unknown = {.name = "mine"};
    struct pdl_err err = {"", ""};

    (void)st;
    assert_int_equal(pdl_framework_trains(f, PDL_PREC_BF16, 2, &err), PDL_OK);
    assert_int_equal(pdl_framework_trains(f, PDL_PREC_FP8, 2, &err),
                     PDL_EINVAL);
    assert_string_equal(err.msg, "nanotron does not compute in fp8");
    assert_string_equal(err.hint, "it has bf16");
    assert_int_equal(pdl_framework_trains(f, PDL_PREC_BF16, 1, &err),
                     PDL_EINVAL);
    assert_string_equal(err.msg, "nanotron has no optimizer sgd");
    assert_int_equal(pdl_framework_trains(NULL, PDL_PREC_FP4, 1, &err), PDL_OK);
    assert_false(pdl_framework_on(f, &tpu));
    assert_false(pdl_framework_on(f, &cores));
    assert_true(pdl_framework_on(f, &unknown));
    assert_true(pdl_framework_on(NULL, &tpu));
    assert_true(pdl_framework_on(open_framework("own"), &cores));
}

/* GPT-2's 50257 classes: rows of an odd width are slow, padded ones are not. */
static void megatron_pads_the_head(void **st)
{
    static const char *const named[] = {"megatron", "pytorch"};
    struct pdl_plan_options po = {.batch = 128, .dtype = PDL_BF16};
    double times[2];

    (void)st;
    for (int i = 0; i < 2; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_system sys = open_system(a, "dgx-a100");
        struct pdl_oracle_options opt = {.precision = PDL_PREC_BF16,
                                         .optimizer_slots = 2,
                                         .framework = open_framework(named[i])};
        struct pdl_projection odd, even;

        assert_int_equal(
            pdl_project(lower_as(a, "gpt2:vocab=50257", "data=8", &po), &sys,
                        &opt, &odd, NULL),
            PDL_OK);
        assert_int_equal(
            pdl_project(lower_as(a, "gpt2:vocab=50304", "data=8", &po), &sys,
                        &opt, &even, NULL),
            PDL_OK);
        times[i] = odd.compute_s / even.compute_s;
        pdl_arena_destroy(a);
    }
    assert_true(times[0] > .99 && times[0] < 1.01);
    assert_true(times[1] > 1.1);
}

static void a_starved_reader_fails_and_says_so(void **st)
{
    const struct pdl_builtin *b = pdl_framework_builtin(0);
    size_t limit = 0;
    enum pdl_status done = PDL_ENOMEM;

    (void)st;
    for (; done != PDL_OK && limit < (size_t)1 << 20; limit += 64) {
        pdl_arena *a = pdl_arena_create(limit);
        const struct pdl_framework *f = NULL;
        struct pdl_err err = {"", ""};

        if (!a)
            continue;
        done = pdl_framework_read(a, (struct pdl_bytes){b->text, b->len},
                                  b->name, &f, &err);
        assert_true(done == PDL_OK ? f != NULL : *err.msg != '\0');
        pdl_arena_destroy(a);
    }
    assert_int_equal(done, PDL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_says_where_its_numbers_come_from),
        cmocka_unit_test(the_page_has_every_key),
        cmocka_unit_test(wrong_files_are_refused_with_their_place),
        cmocka_unit_test(a_base_gives_what_a_file_does_not_say),
        cmocka_unit_test(unknown_names_are_refused_with_a_hint),
        cmocka_unit_test(a_framework_says_what_it_does_not_run),
        cmocka_unit_test(what_was_measured_can_be_run),
        cmocka_unit_test(precisions_optimizers_and_pes_are_the_frameworks),
        cmocka_unit_test(megatron_pads_the_head),
        cmocka_unit_test(a_starved_reader_fails_and_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
