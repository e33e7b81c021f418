/* States on the host (offload=optimizer): losses, weights on the device and on
 * the host, masters and what the optimizer keeps are those of a run that keeps
 * them where it computes, in bits; on the host, and on a device in orders of
 * chance, under other strategies, optimizers, clipping, and with activations
 * that wait as well; of all layers, or of some. What is broken on purpose is
 * found. */
#include "effort.h"
#include "train_runs.h"
#include <stdio.h>

#define GPT "gpt:layers=3,hidden=12,heads=3,ffn=20,vocab=17,seq=8"
#define CNN "resnet-cifar:depth=8,width=4,input=8,classes=4"

/* Every state of a rank by its name. */
struct kept {
    char name[160];
    struct pdl_buf bytes;
};
enum { MOST = 512 };
struct states {
    struct job *j;
    struct kept kept[MAX_RANKS][MOST];
    int n[MAX_RANKS];
    struct pdl_train_memory memory;
};

static void keep(struct states *s, const pdl_trainer *t, int rank)
{
    const struct pdl_train_state *x;

    for (int i = 0; (x = pdl_trainer_state(t, i)) != NULL; i++) {
        struct kept *k = &s->kept[rank][s->n[rank]++];

        assert_true(s->n[rank] <= MOST);
        snprintf(k->name, sizeof k->name, "%s%s", x->part.name,
                 x->cut ? " (whole)" : "");
        pdl_buf_init(&k->bytes);
        pdl_put(&k->bytes.sink, x->part.data,
                (size_t)(pdl_box_volume(&x->part.box) *
                         pdl_dtype_bits(x->part.dtype) / 8));
    }
}

static enum pdl_status body_of(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct states *s = ctx;
    int rank = pdl_comm_rank(comm);
    pdl_trainer *t = NULL;
    enum pdl_status st = train_steps(s->j, comm, &t, err);

    if (st == PDL_OK)
        keep(s, t, rank);
    if (st == PDL_OK && rank == 0)
        pdl_trainer_memory(t, &s->memory);
    pdl_trainer_close(t);
    return st;
}

static struct states *run_all(struct job *j, struct pdl_err *err)
{
    struct states *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->j = j;
    if (pdl_train_virtual((int)j->plan->mesh->pes, 60, body_of, s, err) !=
        PDL_OK) {
        free(s);
        return NULL;
    }
    return s;
}

static void drop(struct states *s)
{
    for (int r = 0; s && r < MAX_RANKS; r++)
        for (int i = 0; i < s->n[r]; i++)
            pdl_buf_free(&s->kept[r][i].bytes);
    free(s);
}

static const struct kept *find(const struct states *s, int rank,
                               const char *name)
{
    for (int i = 0; i < s->n[rank]; i++)
        if (strcmp(s->kept[rank][i].name, name) == 0)
            return &s->kept[rank][i];
    return NULL;
}

/* What the host's run has is what the other has by that name, and all of it.
 * Whole weights that only stand for their parts go by the name without. */
static bool equal(const struct states *plain, const struct states *host)
{
    bool ok = memcmp(plain->j->loss, host->j->loss, sizeof plain->j->loss) == 0;

    for (int r = 0; r < (int)plain->j->plan->mesh->pes; r++) {
        for (int i = 0; i < host->n[r]; i++) {
            const struct kept *h = &host->kept[r][i];
            const struct kept *p = find(plain, r, h->name);
            char name[160];

            snprintf(name, sizeof name, "%.*s", (int)strcspn(h->name, " "),
                     h->name);
            if (!p)
                p = find(plain, r, name);
            /* a part, that of the device */
            ok = ok && p &&
                 (p->bytes.len != h->bytes.len ||
                  memcmp(p->bytes.text, h->bytes.text, p->bytes.len) == 0);
        }
        for (int i = 0; i < plain->n[r]; i++)
            ok = ok && find(host, r, plain->kept[r][i].name);
    }
    return ok;
}

static struct job job_of(pdl_arena *a, const char *model, const char *strategy,
                         enum pdl_dtype dtype, const char *optimizer)
{
    return (struct job){.plan = lowered(a, model, strategy, 8, dtype),
                        .opt = {.backend = "ref",
                                .optimizer = optimizer,
                                .seed = 5,
                                .poison = true},
                        .fault_op = -1};
}

struct example {
    const char *model, *strategy;
    enum pdl_dtype dtype;
    const char *optimizer;
    double clip, scale;
};

static const struct example examples[] = {
    {GPT, "serial", PDL_F32, "adamw", 0, 0},
    {CNN, "serial", PDL_F32, "sgd:momentum=0.9", 0, 0},
    {GPT, "accumulate=2", PDL_F32, "adamw", .1, 0},
    {GPT, "data=2", PDL_BF16, "adamw", 0, 1024},
    {GPT, "data=2,zero=1", PDL_F32, "adam", 0, 0},
    {GPT, "data=2,zero=3", PDL_BF16, "adamw", .1, 0},
    {CNN, "data=2", PDL_F32, "lars", 0, 0},
    {GPT, "data=2,tensor=3", PDL_F32, "adamw", 0, 0},
    {GPT, "pipe=2(1f1b,m=4)", PDL_F32, "adamw", 0, 0},
    {GPT, "data=4", PDL_F32, "lamb", .1, 0},
    {GPT, "data=2,zero=2", PDL_F32, "adamw", 0, 0},
    {CNN, "filter=2,data=2", PDL_F32, "adamw", 1, 0},
    {GPT, "pipe=2(gpipe,m=2),data=2", PDL_BF16, "adamw", 0, 0},
    {GPT, "serial", PDL_F64, "adamw", 0, 0},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

static struct job example_job(pdl_arena *a, const struct example *e,
                              const char *more)
{
    char strategy[200];
    struct job j;

    snprintf(strategy, sizeof strategy, "%s%s", e->strategy, more);
    j = job_of(a, e->model, strategy, e->dtype, e->optimizer);
    j.opt.clip = e->clip;
    j.opt.loss_scale = e->scale;
    return j;
}

static void must_equal(const struct states *plain, struct job *j,
                       const struct example *e, const char *where, bool all)
{
    struct pdl_err err = {"", ""};
    struct states *s = run_all(j, &err);

    if (!s)
        fail_msg("%s, %s, %s: %s", e->model, e->strategy, where, err.msg);
    if (!equal(plain, s))
        fail_msg("%s, %s, %s, %s: not the bits of a run with its states here",
                 e->model, e->strategy, e->optimizer, where);
    assert_int_equal(s->memory.optimizer > 0, !all);
    assert_true(s->memory.far > 0);
    drop(s);
}

static void states_on_the_host_have_the_same_bits(void **state)
{
    static const char *const more[] = {
        ",offload=optimizer", ",offload=optimizer,offload=activations"};

    (void)state;
    for (int i = 0; i < effort(4, EXAMPLES, EXAMPLES); i++)
        for (int k = 0; k < effort(1, 1, 2); k++) {
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct job plain = example_job(a, &examples[i], "");
            struct job j = example_job(a, &examples[i], more[(i + k) % 2]);
            struct pdl_err err = {"", ""};
            struct states *s = run_all(&plain, &err);

            if (!s)
                fail_msg("%s: %s", examples[i].strategy, err.msg);
            must_equal(s, &j, &examples[i], "host", true);
            for (int d = 0; d < effort(1, 1, 12); d++) {
                char device[32];

                snprintf(device, sizeof device, "twin:%d", d + i);
                j.opt.device = device;
                must_equal(s, &j, &examples[i], device, true);
            }
            drop(s);
            pdl_arena_destroy(a);
        }
}

/* Some layers' states are on the host, whatever their activations do. */
static const char *const some[] = {
    "layers.1.*: offload=optimizer",
    "layers.0.*: recompute=full; layers.1.*: recompute=full,offload=optimizer",
    "layers.0.*: offload=optimizer,offload=activations; head: "
    "offload=optimizer",
    "layers.0.*: recompute=full,offload=optimizer,offload=activations; "
    "layers.2.ffn.*: offload=optimizer",
};

static void states_of_some_layers_go(void **state)
{
    (void)state;
    for (int i = 0; i < effort(6, EXAMPLES, EXAMPLES); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct example e = examples[i];
        struct job plain = example_job(a, &e, ""), j;
        struct pdl_err err = {"", ""};
        char strategy[200], device[32];
        struct states *s;

        if (strcmp(e.model, GPT) == 0) {
            snprintf(strategy, sizeof strategy, "*: %s; %s", e.strategy,
                     some[i % 4]);
            e.strategy = strategy;
            j = example_job(a, &e, "");
            s = run_all(&plain, &err);
            assert_non_null(s);
            must_equal(s, &j, &e, "host", false);
            snprintf(device, sizeof device, "twin:%d", i);
            j.opt.device = device;
            must_equal(s, &j, &e, device, false);
            drop(s);
        }
        pdl_arena_destroy(a);
    }
}

/* ---- the tester is tested --- */

static void a_fault_is_found(void **state)
{
    static const enum train_fault faults[] = {TRAIN_FAULT_NO_EVENT,
                                              TRAIN_FAULT_SWAP_FAR};
    const struct example *e = &examples[0];

    (void)state;
    for (int f = 0; f < 2; f++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct job plain = example_job(a, e, "");
        struct job j = example_job(a, e, ",offload=optimizer");
        struct pdl_err err = {"", ""};
        struct states *s = run_all(&plain, &err);
        int found = 0;

        assert_non_null(s);
        j.fault = faults[f];
        for (int d = 0; d < 5; d++) {
            char device[32];
            struct states *x;

            snprintf(device, sizeof device, "twin:%d", d);
            j.opt.device = device;
            x = run_all(&j, &err);
            found += !x || !equal(s, x);
            drop(x);
        }
        assert_true(found > 0);
        drop(s);
        pdl_arena_destroy(a);
    }
}

/* A file cannot be updated in. */
static void a_file_is_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job j = example_job(a, &examples[0], ",offload=optimizer");
    struct pdl_err err = {"", ""};

    (void)state;
    j.opt.far = "/tmp";
    assert_null(run_all(&j, &err));
    assert_non_null(strstr(err.msg, "not in a file"));
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_on_the_host_have_the_same_bits),
        cmocka_unit_test(states_of_some_layers_go),
        cmocka_unit_test(a_fault_is_found),
        cmocka_unit_test(a_file_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
