/* SPDX-License-Identifier: Apache-2.0
 *
 * How a strategy would do on fewer and more PEs: its data axis is divided and
 * multiplied by powers of two, and the batch with it (weak scaling: the samples
 * of a data rank stay). Strategies by layers are not scaled. */
#include "cli/output/projection.h"

#include <stdlib.h>
#include <string.h>

/* Where the size of the data axis is written; NULL: there is none. */
static const char *data_axis(const char *text)
{
    for (const char *s = strstr(text, "data="); s; s = strstr(s + 1, "data="))
        if (s == text || s[-1] == ',')
            return s + 5;
    return NULL;
}

/* times < 0: divided; false where it does not divide. */
static bool by(int64_t n, int times, int64_t *out)
{
    int64_t part = times < 0 ? -(int64_t)times : 1;

    *out = times > 0 ? n * times : n / part;
    return *out > 0 && n % part == 0;
}

/* NULL: it does not divide. */
static const char *scaled(pdl_arena *a, const char *text, int times)
{
    const char *at = data_axis(text);
    char *end;
    int64_t n;

    if (!at)
        return times > 0 ? pdl_arena_printf(a, "data=%d,%s", times, text)
                         : NULL;
    n = strtoll(at, &end, 10);
    if (!by(n, times, &n))
        return NULL;
    return pdl_arena_printf(a, "%.*s%lld%s", (int)(at - text), text,
                            (long long)n, end);
}

static void point(struct pdl_json *w, const struct cli_question *asked,
                  const struct cli_job *j, const char *strategy, int times)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct cli_job other = {.job = NULL};
    struct cli_question q = *asked;
    const char *text = a ? scaled(a, strategy, times) : NULL;

    q.pes = 0;
    if (text && by(asked->batch, times, &q.batch) &&
        cli_job_fork(j, &other, NULL) == PDL_OK &&
        cli_job_price(&q, text, &other, NULL) == PDL_OK) {
        pdl_json_object(w);
        pdl_json_kstr(w, "strategy", text);
        cli_brief_json(w, &other.x, &other.sys);
        cli_interval_json(w, &other);
        pdl_json_end(w);
    }
    cli_job_close(&other);
    pdl_arena_destroy(a);
}

void cli_scaling_json(struct pdl_json *w, const struct cli_question *q,
                      const struct cli_job *j, const char *strategy)
{
    static const int times[] = {-8, -4, -2, 1, 2, 4};

    if (strpbrk(strategy, ";:") || strcmp(strategy, "serial") == 0)
        return;
    pdl_json_key(w, "scaling");
    pdl_json_array(w);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        point(w, q, j, strategy, times[i]);
    pdl_json_end(w);
}
