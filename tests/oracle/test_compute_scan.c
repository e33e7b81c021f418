/* The recurrence of a Mamba-2 branch, from counts by hand: 2 heads of 4, 2
 * groups that share B and C of 4 numbers, 3 samples of 5 tokens. */
#include "oracle/oracle_priv.h"
#include "plans.h"

#include <math.h>
#include <string.h>

#define HYBRID                                                             \
    "nemotron:mamba=5,attention=1,hidden=8,heads=2,kv_heads=1,head_dim=4," \
    "ssm_heads=2,ssm_head_dim=4,ssm_groups=2,state=4,experts=4,topk=2,"    \
    "ffn=6,shared_ffn=4,vocab=16,seq=5"

static const double RATE = 1e9, LAUNCH = 1e-6;

static int scan(const struct pdl_plan *p, enum pdl_pass pass)
{
    for (int i = 0; i < p->nops; i++) {
        const char *name = p->ops[i].node >= 0
                               ? p->model->nodes[p->ops[i].node].source_op
                               : NULL;

        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE && p->ops[i].pass == pass &&
            name && strcmp(name, "selective_scan") == 0)
            return i;
    }
    fail_msg("no recurrence");
    return -1;
}

/* 15 tokens: 120 numbers out; 120 of B and as many of C, which are taken for one
 * group of 8. A state is 8 wide for each number out, one for 128 tokens; a
 * chunk's scores are 128 for each token. */
static void bytes_are_counted_kernel_by_kernel(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_oracle_options opt = {.parameters = PDL_EMPIRICAL};
    struct oracle o = {.p = lower(a, HYBRID, "serial", 3),
                       .opt = &opt,
                       .pe = {.bytes_per_s = RATE, .launch_s = LAUNCH},
                       .pe16 = {.item_bytes = 2}};
    double states = 120 * 8 / 128. * 4, scores = 15 * 128 * 4;
    double forward = oracle_scan(&o, scan(o.p, PDL_FORWARD), 0);
    double back = oracle_scan(&o, scan(o.p, PDL_BACKWARD_DATA), 0);

    (void)state;
    assert_true(fabs(forward - 5 * LAUNCH -
                     (3 * states + 3 * 240 + 4 * 240 + 2 * scores) / RATE) <
                1e-15);
    assert_true(fabs(back - 12 * LAUNCH -
                     (7.5 * states + 11 * 240 + 8 * 240 + 6 * scores) / RATE) <
                1e-15);
    assert_true(oracle_scan(&o, scan(o.p, PDL_BACKWARD_WEIGHTS), 0) == 0);
    for (int i = 0; i < o.p->nops; i++)
        if (o.p->ops[i].node < 0 ||
            !o.p->model->nodes[o.p->ops[i].node].source_op)
            assert_true(oracle_scan(&o, i, 0) < 0);
    o.pe.core = true;
    assert_true(oracle_scan(&o, scan(o.p, PDL_FORWARD), 0) < 0);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_counted_kernel_by_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
