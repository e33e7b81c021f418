/* SPDX-License-Identifier: Apache-2.0
 *
 * The best plan of a question, for commands that ask for more than one of
 * them: fewer of the search's courtesies, the same best. */
#include "cli/questions/best.h"

#include "cli/questions/framework.h"

enum pdl_status cli_best(pdl_arena *a, const struct cli_question *q,
                         struct cli_job *j, const char **strategy,
                         struct pdl_err *err)
{
    static const struct {
        const char *name, *value;
    } brief[] = {{"top", "1"}, {"one-order", "yes"}, {"uncounted", "yes"}};
    struct cli_question ask = *q;
    struct pdl_search_result r = {.n = 0};
    struct cli_for whose;
    enum pdl_status st = cli_open_for(&ask, NULL, false, j, &whose, err);

    for (int i = 0; i < 3 && st == PDL_OK; i++)
        st = pdl_job_set(j->job, brief[i].name, brief[i].value, err);
    if (st == PDL_OK)
        st = pdl_job_search(j->job, &r, err);
    if (st != PDL_OK)
        return st;
    if (r.n == 0 || !r.list[0].priced || !r.list[0].x.feasible)
        return pdl_fail(err, PDL_EINVAL,
                        "no plan fits into the memory of %lld "
                        "PEs",
                        (long long)q->pes);
    *strategy = pdl_arena_strdup(a, r.list[0].strategy);
    return *strategy ? cli_job_price(&ask, *strategy, j, err)
                     : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
