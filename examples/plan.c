/* The best way to train a model on a machine, and why: the smallest program
 * that uses libparadl.
 *
 *   cc plan.c -o plan $(pkg-config --cflags --libs paradl)
 *   ./plan config.json dgx-a100 64 512
 *
 * Compiled and run by the tests. */
#include <paradl/job.h>

#include <stdio.h>

/* MODEL SYSTEM PES BATCH: searches, explains the best. */
static enum pdl_status plan(pdl_job *job, char **argv, struct pdl_err *err)
{
    static const char *const names[] = {"model", "system", "pes", "batch"};
    struct pdl_search_result found;
    struct pdl_explanation why;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < 4 && st == PDL_OK; i++)
        st = pdl_job_set(job, names[i], argv[i], err);
    if (st == PDL_OK)
        st = pdl_job_search(job, &found, err);
    if (st != PDL_OK || found.feasible == 0)
        return st != PDL_OK ? st : pdl_fail(err, PDL_EWRONG, "nothing fits");
    st = pdl_job_set(job, "strategy", found.list[0].strategy, err);
    if (st == PDL_OK)
        st = pdl_job_explain(job, &why, err);
    if (st != PDL_OK)
        return st;
    printf("best of %lld that fit: %s\n", (long long)found.feasible,
           found.list[0].strategy);
    printf("a step takes %.3g s and %.3g GiB of a PE\n",
           pdl_job_projection(job)->step_s,
           (double)pdl_job_projection(job)->peak_bytes / (1 << 30));
    for (int i = 0; i < why.nlimits; i++)
        printf("- %s\n", why.limits[i].text);
    return PDL_OK;
}

int main(int argc, char **argv)
{
    struct pdl_err err = {"usage: plan MODEL SYSTEM PES BATCH", ""};
    pdl_job *job = argc == 5 ? pdl_job_create() : NULL;
    enum pdl_status st = job ? plan(job, argv + 1, &err) : PDL_EINVAL;

    if (st != PDL_OK)
        fprintf(stderr, "%s%s%s\n", err.msg, *err.hint ? ": " : "", err.hint);
    pdl_job_destroy(job);
    return st == PDL_OK ? 0 : 1;
}
