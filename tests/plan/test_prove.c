/* Random models x strategies x sizes: the plan, executed on all ranks in
 * exact arithmetic, must equal the unsharded graph. PDL_LONG=1 runs the
 * 10,000 triples of the bar, otherwise some hundreds. */
#include "effort.h"
#include "random_plan.h"

static int prove_one(uint64_t seed, char *why, size_t size)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p;
    struct pdl_err err;
    char what[1024];
    int rc = random_plan(a, seed, &p, what, sizeof what, &err);

    if (rc == 0 && (pdl_plan_check(p, &err) != PDL_OK ||
                    pdl_plan_prove(p, seed, &err) != PDL_OK))
        rc = -1;
    snprintf(why, size, "%s: %s", what, err.msg);
    pdl_arena_destroy(a);
    return rc;
}

static void plans_equal_the_unsharded_graph(void **state)
{
    int want = effort(80, 400, 10000), proved = 0;
    char why[2048];

    (void)state;
    for (uint64_t seed = 1; proved < want; seed++) {
        int rc = prove_one(seed, why, sizeof why);

        if (rc < 0)
            fail_msg("%s", why);
        proved += rc == 0;
    }
    print_message("%d triples proved\n", proved);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_equal_the_unsharded_graph),
    };
    char why[2048];

    if (argc > 1) { /* one seed, for a person */
        int rc = prove_one(strtoull(argv[1], NULL, 10), why, sizeof why);

        printf("%d %s\n", rc, why);
        return rc < 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
