/* Test the tester: a plan changed at random must be refused by the checker,
 * or the symbolic executor must show that it still is equal to the unsharded
 * graph. The classes named below must always be refused by one of the two. */
#include "effort.h"
#include "random_plan.h"

struct mutant {
    struct pdl_plan p;
    struct pdl_plan_tensor *tensors;
    struct pdl_plan_op *ops;
    struct pdl_plan_item *items;
};

static void copy(pdl_arena *a, const struct pdl_plan *p, struct mutant *m)
{
    m->p = *p;
    m->tensors = PDL_NEW(a, struct pdl_plan_tensor, p->ntensors + 1);
    m->ops = PDL_NEW(a, struct pdl_plan_op, p->nops + 1);
    m->items = PDL_NEW(a, struct pdl_plan_item, p->nitems + 1);
    memcpy(m->tensors, p->tensors, (size_t)p->ntensors * sizeof *m->tensors);
    memcpy(m->ops, p->ops, (size_t)p->nops * sizeof *m->ops);
    memcpy(m->items, p->items, (size_t)p->nitems * sizeof *m->items);
    m->p.tensors = m->tensors;
    m->p.ops = m->ops;
    m->p.items = m->items;
}

/* The item of operation i; everything behind it moves. */
static void shift_items(struct mutant *m, int i, int by)
{
    for (int k = 0; k < m->p.nitems; k++)
        if (i >= m->items[k].first_op &&
            i < m->items[k].first_op + m->items[k].nops)
            m->items[k].nops += by;
        else if (m->items[k].first_op > i)
            m->items[k].first_op += by;
}

static void remove_op(struct mutant *m, int i)
{
    shift_items(m, i, -1);
    memmove(&m->ops[i], &m->ops[i + 1],
            (size_t)(m->p.nops - i - 1) * sizeof *m->ops);
    m->p.nops--;
}

static void double_op(struct mutant *m, int i)
{
    shift_items(m, i, 1);
    memmove(&m->ops[i + 1], &m->ops[i],
            (size_t)(m->p.nops - i) * sizeof *m->ops);
    m->p.nops++;
}

/* A random operation of a kind; -1: there is none. */
static int find(const struct mutant *m, struct pdl_rng *rng,
                bool (*is)(const struct pdl_plan_op *))
{
    int n = 0;

    for (int i = 0; i < m->p.nops; i++)
        n += is(&m->ops[i]);
    if (n == 0)
        return -1;
    n = (int)pick(rng, 0, n - 1);
    for (int i = 0;; i++)
        if (is(&m->ops[i]) && n-- == 0)
            return i;
}

static bool is_free(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_FREE;
}

static bool is_halo(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_HALO;
}

static bool is_collective(const struct pdl_plan_op *o)
{
    return o->kind >= PDL_PLAN_OP_ALLREDUCE && o->kind <= PDL_PLAN_OP_ROTATE;
}

static bool is_send(const struct pdl_plan_op *o)
{
    return o->kind == PDL_PLAN_OP_SEND;
}

static bool is_any(const struct pdl_plan_op *o)
{
    (void)o;
    return true;
}

/* ---- the mutations: false when the plan has no place for one ------------- */

static bool removed_free(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int i = find(m, rng, is_free);

    (void)a;
    if (i >= 0)
        remove_op(m, i);
    return i >= 0;
}

static bool doubled_free(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int i = find(m, rng, is_free);

    (void)a;
    if (i >= 0)
        double_op(m, i);
    return i >= 0;
}

/* One row less in the frame of a halo: the window reaches less far. */
static bool dropped_halo_row(pdl_arena *a, struct mutant *m,
                             struct pdl_rng *rng)
{
    int i = find(m, rng, is_halo);
    struct pdl_frame *frame = PDL_NEW(a, struct pdl_frame, PDL_BOX_DIMS);
    struct pdl_plan_tensor *t;

    if (i < 0)
        return false;
    t = &m->tensors[m->ops[i].out[0]];
    memcpy(frame, t->frame, PDL_BOX_DIMS * sizeof *frame);
    t->frame = frame;
    for (int d = 0; d < t->ndims; d++)
        if (frame[d].kind != PDL_FRAME_NONE) {
            if (pick(rng, 0, 1))
                frame[d].window.kernel--;
            else
                frame[d].window.pad--;
            return true;
        }
    return false;
}

/* A collective left out: its readers read the operand. */
static bool missing_collective(pdl_arena *a, struct mutant *m,
                               struct pdl_rng *rng)
{
    int i = find(m, rng, is_collective), from, to;

    if (i < 0 || m->ops[i].nin != 1)
        return false;
    from = m->ops[i].out[0];
    to = m->ops[i].in[0];
    remove_op(m, i);
    for (int k = 0; k < m->p.nops; k++) {
        int *in = PDL_NEW(a, int, m->ops[k].nin + 1);
        bool changed = false;

        for (int j = 0; j < m->ops[k].nin; j++) {
            in[j] = m->ops[k].in[j] == from ? to : m->ops[k].in[j];
            changed = changed || in[j] != m->ops[k].in[j];
        }
        if (changed)
            m->ops[k].in = in;
    }
    return true;
}

static bool wrong_group(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int i = find(m, rng, is_collective);
    uint32_t all = (UINT32_C(1) << m->p.mesh->nfactors) - 1, old;

    (void)a;
    if (i < 0 || m->p.mesh->nfactors < 2)
        return false;
    old = m->ops[i].group;
    m->ops[i].group ^= UINT32_C(1) << pick(rng, 0, m->p.mesh->nfactors - 1);
    m->ops[i].group &= all;
    return m->ops[i].group != old;
}

static bool wrong_box(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int t = (int)pick(rng, 0, m->p.ntensors - 1), f;

    (void)a;
    if (m->p.mesh->nfactors == 0)
        return false;
    f = (int)pick(rng, 0, m->p.mesh->nfactors - 1);
    if (m->p.pipe_factors >> f & 1)
        return false;
    m->tensors[t].place.at[f] =
        (int8_t)(m->tensors[t].place.at[f] == 0 ? PDL_REPLICATED : 0);
    return true;
}

/* A split in other units: its parts no longer meet the others'. */
static bool wrong_unit(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int t = (int)pick(rng, 0, m->p.ntensors - 1), d;

    (void)a;
    if (m->p.mesh->nfactors == 0)
        return false;
    d = m->tensors[t].place.at[pick(rng, 0, m->p.mesh->nfactors - 1)];
    if (d < 0)
        return false;
    m->tensors[t].unit[d] = m->tensors[t].unit[d] > 1 ? 1 : 2;
    return true;
}

static bool moved_before_its_input(pdl_arena *a, struct mutant *m,
                                   struct pdl_rng *rng)
{
    int i = find(m, rng, is_any);
    struct pdl_plan_op o;

    (void)a;
    if (i < 1)
        return false;
    for (int k = 0; k < m->p.nitems; k++)
        if (m->items[k].first_op == i)
            return false;
    o = m->ops[i];
    for (int k = 0; k < o.nin; k++)
        for (int j = 0; j < m->ops[i - 1].nout; j++)
            if (o.in[k] == m->ops[i - 1].out[j]) {
                m->ops[i] = m->ops[i - 1];
                m->ops[i - 1] = o;
                return true;
            }
    return false;
}

static bool swapped_sends(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    int i = find(m, rng, is_send), j = i + 1;
    const int *out;

    (void)a;
    while (i >= 0 && j < m->p.nops &&
           (!is_send(&m->ops[j]) ||
            m->tensors[m->ops[i].in[0]].stage !=
                m->tensors[m->ops[j].in[0]].stage ||
            m->tensors[m->ops[i].out[0]].stage !=
                m->tensors[m->ops[j].out[0]].stage))
        j++;
    if (i < 0 || j >= m->p.nops)
        return false;
    out = m->ops[i].out;
    m->ops[i].out = m->ops[j].out;
    m->ops[j].out = out;
    return true;
}

static bool removed_op(pdl_arena *a, struct mutant *m, struct pdl_rng *rng)
{
    (void)a;
    remove_op(m, find(m, rng, is_any));
    return true;
}

static const struct {
    const char *name;
    bool (*apply)(pdl_arena *, struct mutant *, struct pdl_rng *);
    bool always; /* equality is no excuse */
} mutations[] = {
    {"removed free", removed_free, true},
    {"doubled free", doubled_free, true},
    {"dropped halo row", dropped_halo_row, false},
    {"missing collective", missing_collective, true},
    {"wrong group", wrong_group, true},
    {"wrong box", wrong_box, false},
    {"wrong unit", wrong_unit, false},
    {"moved before its input", moved_before_its_input, true},
    {"swapped sends", swapped_sends, true},
    {"removed operation", removed_op, false},
};
enum { NMUTATIONS = sizeof mutations / sizeof mutations[0] };

/* ---- the test ------------------------------------------------------------------ */

static int caught[NMUTATIONS], equal[NMUTATIONS];

static void mutate(pdl_arena *a, const struct pdl_plan *p, uint64_t seed,
                   const char *what)
{
    struct pdl_rng rng = {.key = seed, .stream = 1};
    int k = (int)pick(&rng, 0, NMUTATIONS - 1);
    struct pdl_err check = {"", ""}, prove = {"", ""};
    struct mutant m;

    if (p->nstages > 1 && pick(&rng, 0, 1)) /* rare otherwise */
        while (mutations[k].apply != swapped_sends)
            k = (k + 1) % NMUTATIONS;
    copy(a, p, &m);
    if (!mutations[k].apply(a, &m, &rng))
        return;
    if (pdl_plan_check(&m.p, &check) != PDL_OK) {
        caught[k]++;
        return;
    }
    if (pdl_plan_prove(&m.p, seed, &prove) != PDL_OK)
        fail_msg("%s, %s: the checker accepted it, but: %s", what,
                 mutations[k].name, prove.msg);
    if (mutations[k].always)
        fail_msg("%s, %s: not detected", what, mutations[k].name);
    equal[k]++;
}

static void every_mutant_is_refused_or_proved_equal(void **state)
{
    uint64_t last = (uint64_t)effort(2000, 2000, 20000);

    (void)state;
    for (uint64_t seed = 1; seed <= last; seed++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_plan *p;
        struct pdl_err err;
        char what[1024];

        if (random_plan(a, seed, &p, what, sizeof what, &err) == 0)
            mutate(a, p, seed, what);
        pdl_arena_destroy(a);
    }
    for (int k = 0; k < NMUTATIONS; k++) {
        print_message("%-24s %5d refused %5d equal\n", mutations[k].name,
                      caught[k], equal[k]);
        assert_true(caught[k] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_is_refused_or_proved_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
