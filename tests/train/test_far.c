/* Activations that wait elsewhere: losses, weights and states of a run that
 * copies them out and in are those of a run that keeps everything, in bits, on
 * the host, on a device in orders of chance, through a file; under the same for
 * all layers, and under decisions of chance for each block. What is broken on
 * purpose is found, and a limit on memory holds. */
#include "effort.h"
#include "train_runs.h"
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/exec/far.h"

struct example {
    const char *model;
    int64_t batch;
};

#define GPT  "gpt:layers=4,hidden=12,heads=3,ffn=20,vocab=17,seq=8"
#define POOL PDL_SOURCE_DIR "/tests/data/pool.yaml"

/* Families that train; the first few always. */
static const struct example families[] = {
    {GPT, 4},
    {"lenet5", 3},
    {"resnet-cifar:depth=8,width=4,input=8,classes=4", 4},
    {"llama:layers=3,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=19,seq=6", 4},
    {"bert:layers=2,hidden=16,heads=2,ffn=32,vocab=23,seq=8,head=1", 2},
    {"t5:layers=2,hidden=16,heads=2,ffn=32,vocab=23,seq=6", 2},
    {"moe:layers=2,hidden=8,heads=2,ffn=6,vocab=11,seq=5,experts=4,topk=2", 4},
    {"vit:layers=2,hidden=16,heads=2,ffn=32,input=32,patch=16", 2},
    {"wrn:depth=10,width=1,input=8", 4},
    {"deepseek:layers=2,dense=1,hidden=8,heads=2,ffn=6,moe_ffn=3,experts=4,"
     "topk=2,q_lora=6,kv_lora=5,nope=4,rope=2,v_head_dim=4,vocab=11,seq=5",
     2},
    {"densenet121:input=32", 1},
    {"mobilenet-v2:input=32", 1},
    {"mobilenet-v3-small:input=32", 1},
    {"efficientnet-b0:input=32", 1},
    {"googlenet:input=32", 1},
    {"squeezenet1.1:input=32", 1},
    {"regnet-y-400mf:input=32", 1},
    {"resnet18:input=32", 2},
    {"vgg16:input=32", 1},
    {"alexnet:input=64", 1},
    {"resnet9", 1},
    {"unet:input=188,base=4", 1},
    {"unet3d:input=92,base=2", 1},
};
enum { FAMILIES = sizeof families / sizeof *families, USUAL = 10 };

static struct job job_of(pdl_arena *a, const char *model, const char *strategy,
                         int64_t batch)
{
    return (struct job){.plan = lowered(a, model, strategy, batch, PDL_F32),
                        .opt = {.backend = "ref",
                                .optimizer = "adamw",
                                .seed = 5,
                                .poison = true},
                        .fault_op = -1};
}

static bool copies(const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COPY_IN)
            return true;
    return false;
}

/* One decision a block, or one for each few of its layers, by chance. */
static void decide(const struct pdl_model *m, uint64_t seed, char *text,
                   size_t size)
{
    static const char *const choices[] = {NULL, "recompute=full",
                                          "offload=activations",
                                          "recompute=full,offload=activations"};
    struct pdl_rng r = {.key = seed};
    size_t n = (size_t)snprintf(text, size, "*: data=1");
    int clauses = 1;

    for (int i = 0, end; i < m->nnodes && clauses < PDL_MAX_CLAUSES; i = end) {
        const char *c = choices[pdl_rng_below(&r, 4)];

        for (end = i + 1; end < m->nnodes &&
                          pdl_same_block(m->nodes[i].name, m->nodes[end].name);
             end++)
            ;
        if (end - i > 1 && pdl_rng_below(&r, 2))
            end = i + 1 + (int)pdl_rng_below(&r, (uint64_t)(end - i));
        else if (end - i == 1) /* layers alone go together */
            end += (int)pdl_rng_below(&r, 3);
        end = end < m->nnodes ? end : m->nnodes;
        if (!c)
            continue;
        n += (size_t)snprintf(text + n, size - n, "; %s..%s: %s",
                              m->nodes[i].name, m->nodes[end - 1].name, c);
        clauses++;
    }
}

static void must_equal(struct job *plain, struct job *j, const char *what,
                       const char *strategy)
{
    struct pdl_err err = {"", ""};

    if (run(j, &err) != PDL_OK)
        fail_msg("%s, %s: %s", what, strategy, err.msg);
    if (!same(plain, j))
        fail_msg("%s, %s: not the bits of a run that keeps everything", what,
                 strategy);
    forget(j);
}

/* The plan on the host, on the twin, and by the fast kernels through a file. */
static void compare(pdl_arena *a, const struct example *e, const char *strategy,
                    uint64_t seed)
{
    struct job plain = job_of(a, e->model, "serial", e->batch), j;
    char device[32];
    struct pdl_err err;

    if (run(&plain, &err) != PDL_OK)
        fail_msg("%s: %s", e->model, err.msg);
    j = job_of(a, e->model, strategy, e->batch);
    must_equal(&plain, &j, "host", strategy);
    snprintf(device, sizeof device, "twin:%d%s", (int)seed,
             seed % 3 == 1 ? ":2000" : ""); /* bytes that may be locked */
    j.opt.device = device;
    must_equal(&plain, &j, e->model, strategy);
    forget(&plain);
    if (seed % 2 == 1 && !getenv("PDL_LONG"))
        return;
    plain.opt.backend = j.opt.backend = NULL;
    j.opt.device = NULL;
    j.opt.far = "/tmp";
    if (run(&plain, &err) != PDL_OK)
        fail_msg("%s: %s", e->model, err.msg);
    must_equal(&plain, &j, "file", strategy);
    forget(&plain);
}

static void out_of_core_has_the_bits_of_in_core(void **state)
{
    static const char *const uniform[] = {
        "serial,offload=activations", "serial,recompute=full",
        "serial,recompute=full,offload=activations"};
    int n = getenv("PDL_LONG") ? FAMILIES : USUAL;

    (void)state;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) {
            if (!getenv("PDL_LONG") && k != i % 3)
                continue;

            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

            compare(a, &families[i], uniform[k], (uint64_t)k);
            pdl_arena_destroy(a);
        }
    }
}

static void so_have_decisions_of_chance_for_each_block(void **state)
{
    int n = effort(2, USUAL, 400),
        families_now = getenv("PDL_LONG") ? FAMILIES : USUAL;
    int copied = 0;

    (void)state;
    for (int i = 0; i < n; i++) {
        const struct example *e = &families[i % families_now];
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        char strategy[4096];

        struct job j = job_of(a, e->model, "serial", e->batch);

        decide(j.plan->model, (uint64_t)i, strategy, sizeof strategy);
        j = job_of(a, e->model, strategy, e->batch);
        copied += copies(j.plan);
        compare(a, e, strategy, (uint64_t)i);
        pdl_arena_destroy(a);
    }
    assert_true(copied > n / 3);
}

/* With other axes, and several micro-batches in flight. */
static void other_strategies_copy_as_well(void **state)
{
    static const struct {
        const char *model, *plain, *far;
    } pairs[] = {
        {GPT, "accumulate=2", "accumulate=2,offload=activations"},
        {GPT, "data=2", "data=2,offload=activations"},
        {GPT, "data=2,zero=3",
         "data=2,zero=3,offload=activations,recompute=full"},
        {GPT, "tensor=3", "tensor=3,offload=activations"},
        {GPT, "pipe=2(1f1b,m=4)", "pipe=2(1f1b,m=4),offload=activations"},
        {GPT, "pipe=2(gpipe,m=2)", "pipe=2(gpipe,m=2),offload=activations"},
        /* positions of maxima have halos of what came back */
        {POOL, "spatial=2", "spatial=2,offload=activations"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct job plain = job_of(a, pairs[i].model, pairs[i].plain, 8);
        struct job j = job_of(a, pairs[i].model, pairs[i].far, 8);
        struct pdl_err err;

        if (run(&plain, &err) != PDL_OK)
            fail_msg("%s: %s", pairs[i].plain, err.msg);
        must_equal(&plain, &j, "host", pairs[i].far);
        for (int s = 0; s < effort(1, 1, 20); s++) {
            char device[32];

            snprintf(device, sizeof device, "twin:%d", s);
            j.opt.device = device;
            must_equal(&plain, &j, device, pairs[i].far);
        }
        forget(&plain);
        pdl_arena_destroy(a);
    }
}

/* ---- the tester is tested --- */

static void finds_in(enum train_fault fault, const struct example *e)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job plain = job_of(a, e->model, "serial", e->batch), j;
    struct pdl_err err;
    bool found = false;

    assert_int_equal(run(&plain, &err), PDL_OK);
    j = job_of(a, e->model, "serial,offload=activations", e->batch);
    j.fault = fault;
    for (int s = 0; s < 20 && !found; s++) {
        char device[32];

        snprintf(device, sizeof device, "twin:%d", s);
        j.opt.device = device;
        found = run(&j, &err) != PDL_OK || !same(&plain, &j);
        forget(&j);
    }
    forget(&plain);
    pdl_arena_destroy(a);
    if (!found)
        fail_msg("%s: fault %d is not found in 20 orders", e->model,
                 (int)fault);
}

/* One network is enough to run the injector itself under the sanitizers. */
static void finds(enum train_fault fault)
{
    int n = effort(1, USUAL, FAMILIES);

    for (int i = 0; i < n; i++)
        finds_in(fault, &families[i]);
}

static void a_dropped_event_is_found(void **state)
{
    (void)state;
    finds(TRAIN_FAULT_NO_EVENT);
}

static void a_swapped_buffer_is_found(void **state)
{
    (void)state;
    finds(TRAIN_FAULT_SWAP_FAR);
}

static void memory_freed_too_early_is_found(void **state)
{
    (void)state;
    finds(TRAIN_FAULT_EARLY_FREE);
}

/* ---- limits --- */

struct taken {
    const struct pdl_plan *plan;
    struct pdl_train_options opt;
    struct pdl_train_memory memory;
};

static enum pdl_status take(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct taken *x = ctx;
    pdl_trainer *t = NULL;
    enum pdl_status st = pdl_trainer_open(x->plan, comm, &x->opt, &t, err);

    if (st == PDL_OK)
        pdl_trainer_memory(t, &x->memory);
    pdl_trainer_close(t);
    return st;
}

/* In core it does not fit by one byte; what it says it takes is what it takes.
 */
static void a_limit_on_memory_holds(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct taken x = {.opt = {.backend = "ref"}}, far;
    struct pdl_err err;

    (void)state;
    x.plan = lowered(a, families[0].model, "serial", 8, PDL_F32);
    assert_int_equal(pdl_train_virtual(1, 60, take, &x, &err), PDL_OK);
    assert_true(x.memory.taken >= x.memory.arena + x.memory.optimizer);
    far = x;
    far.plan =
        lowered(a, families[0].model, "serial,offload=activations", 8, PDL_F32);
    far.opt.memory = x.opt.memory = x.memory.taken - 1;
    assert_int_equal(pdl_train_virtual(1, 60, take, &x, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "--memory is"));
    assert_int_equal(pdl_train_virtual(1, 60, take, &far, &err), PDL_OK);
    assert_true(far.memory.taken <= far.opt.memory && far.memory.far > 0);
    far.opt.memory = far.memory.taken;
    assert_int_equal(pdl_train_virtual(1, 60, take, &far, &err), PDL_OK);
    pdl_arena_destroy(a);
}

static void a_full_disk_is_one_line(void **state)
{
    struct train_far_file *f = NULL;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(train_far_file_open("/tmp", 0, INT64_C(1) << 50, &f, &err),
                     PDL_EIO);
    assert_non_null(strstr(err.msg, "--far /tmp: no room for"));
    assert_null(strchr(err.msg, '\n'));
    assert_int_equal(train_far_file_open("/nowhere/at/all", 0, 1, &f, &err),
                     PDL_EIO);
    assert_non_null(strstr(err.msg, "No such file or directory"));
    assert_int_equal(train_far_file_open("/dev/null", 0, 1, &f, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "--far '/dev/null': is no folder"));
    assert_null(f);
}

/* ... is told where nothing waits in the end, too. */
static void a_folder_that_is_not_there_is_told(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct taken x = {.opt = {.backend = "ref", .far = "/nowhere/at/all"}};
    struct pdl_err err = {"", ""};

    (void)state;
    x.plan = lowered(a, families[0].model, "serial", 8, PDL_F32);
    assert_int_equal(pdl_train_virtual(1, 60, take, &x, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "--far '/nowhere/at/all'"));
    pdl_arena_destroy(a);
}

/* ---- room on the host ------------------------------------------------------------- */

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int64_t room_in(const char *root)
{
    char path[256];

    snprintf(path, sizeof path, "%s/a", root);
    return train_group_room(root, path);
}

static void pages_of_files_are_room_of_a_group(void **state)
{
    char root[] = "/tmp/paradl-group-XXXXXX", child[64], command[96];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(child, sizeof child, "%s/a", root);
    assert_int_equal(mkdir(child, 0777), 0);
    assert_int_equal(room_in(root), INT64_MAX);
    put_file(child, "memory.max", "max\n");
    put_file(child, "memory.current", "900\n");
    assert_int_equal(room_in(root), INT64_MAX);
    put_file(child, "memory.max", "1000\n");
    assert_int_equal(room_in(root), 100);
    put_file(child, "memory.stat",
             "anon 300\nfile 650\nshmem 50\ninactive_anon 50\n"
             "inactive_file 400\nactive_file 200\nunevictable 7\n");
    assert_int_equal(room_in(root), 700);
    put_file(child, "memory.current", "2000\n"); /* of another moment */
    assert_int_equal(room_in(root), 0);
    put_file(child, "memory.current", "500\n");
    assert_int_equal(room_in(root), 1000);
    put_file(root, "memory.max", "3000\n"); /* of the group around it */
    put_file(root, "memory.current", "2400\n");
    assert_int_equal(room_in(root), 600);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

struct wishes {
    int64_t bytes[4], room[4];
    enum pdl_status st[4];
    struct pdl_err err[4];
};

static enum pdl_status ask(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct wishes *w = ctx;
    int r = pdl_comm_rank(comm);

    (void)err;
    w->st[r] = train_host_ask(comm, w->bytes[r], w->room[r], false, &w->err[r]);
    return PDL_OK;
}

/* Each alone would have it; one came when others had taken something else. */
static void ranks_of_a_host_share_its_memory(void **state)
{
    struct wishes fit = {.bytes = {100, 0, 200, 50},
                         .room = {350, 350, 350, 350}},
                  all = {.bytes = {100, 0, 200, 51},
                         .room = {350, 350, 350, 350}},
                  one = {.bytes = {100, 0, 200, 50},
                         .room = {400, 400, 349, 400}};
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_train_virtual(4, 60, ask, &fit, &err), PDL_OK);
    assert_int_equal(pdl_train_virtual(4, 60, ask, &all, &err), PDL_OK);
    assert_int_equal(pdl_train_virtual(4, 60, ask, &one, &err), PDL_OK);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(fit.st[r], PDL_OK);
        assert_int_equal(all.st[r], PDL_ENOMEM);
        assert_int_equal(one.st[r], PDL_ENOMEM);
        assert_string_equal(all.err[r].msg,
                            "351 B of 3 ranks are to wait in the host's "
                            "memory, which has 350 B left");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_core_has_the_bits_of_in_core),
        cmocka_unit_test(so_have_decisions_of_chance_for_each_block),
        cmocka_unit_test(other_strategies_copy_as_well),
        cmocka_unit_test(a_dropped_event_is_found),
        cmocka_unit_test(a_swapped_buffer_is_found),
        cmocka_unit_test(memory_freed_too_early_is_found),
        cmocka_unit_test(a_limit_on_memory_holds),
        cmocka_unit_test(pages_of_files_are_room_of_a_group),
        cmocka_unit_test(ranks_of_a_host_share_its_memory),
        cmocka_unit_test(a_full_disk_is_one_line),
        cmocka_unit_test(a_folder_that_is_not_there_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
