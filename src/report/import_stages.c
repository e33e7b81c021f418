/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipelines of today's jobs that are not cut into equally many layers, and
 * recomputation of some of a stage's layers. Sources: Megatron-LM's
 * pipeline_parallel_layer_layout.py (a layout is E, t, m and L, stages parted
 * by '|', "t*3" and "(tt|)*4" repeat), its --decoder-first- and
 * --decoder-last-pipeline-num-layers; torchtitan's pipeline_parallel.py.
 * Stages are named by the first layer of their first block, as the zoo's
 * decoders call it. */
#include "import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYOUT = 65536, MAX_STAGES = 1024, MAX_CLAUSES = 31 };

/* ---- layouts ----------------------------------------------------------- */

/* The number after '*' at *p, which it passes; 1 where there is none. */
static int64_t times(const char **p)
{
    char *end;
    int64_t n;

    if (**p != '*' || !isdigit((unsigned char)(*p)[1]))
        return 1;
    n = strtoll(*p + 1, &end, 10);
    *p = end;
    return n < 0 ? 0 : n > MAX_LAYOUT ? MAX_LAYOUT : n;
}

/* Repetitions of "(...)" written out. */
static void unroll(const char *p, struct pdl_sink *out, struct pdl_buf *b)
{
    while (*p && b->len < MAX_LAYOUT) {
        const char *close = *p == '(' ? strchr(p, ')') : NULL;

        if (!close) {
            if (*p != ',')
                pdl_put(out, p, 1);
            p++;
            continue;
        }
        const char *from = p + 1, *after = close + 1;
        int64_t n = times(&after);

        for (int64_t i = 0; i < n && b->len < MAX_LAYOUT; i++)
            pdl_put(out, from, (size_t)(close - from));
        p = after;
    }
}

/* Layers of each stage of a text without brackets; -1: not a layout. */
static int64_t count(const char *p, int64_t *of, int64_t *layers)
{
    int64_t stage = 0;

    of[0] = *layers = 0;
    while (*p) {
        char c = *p++;
        int64_t n = times(&p);

        if (c == '|')
            for (; n > 0; n--) {
                if (++stage >= MAX_STAGES)
                    return -1;
                of[stage] = 0;
            }
        else if (c == 't' && *layers + n < MAX_LAYOUT)
            of[stage] += n, *layers += n;
        else if (!strchr("EmL", c))
            return -1;
    }
    return stage + 1;
}

static int64_t read_layout(const struct report_setup *s, int64_t *of)
{
    struct pdl_buf b;
    int64_t n = -1, layers = 0;

    pdl_buf_init(&b);
    unroll(s->layout, &b.sink, &b);
    if (!b.sink.failed && b.text && b.len < MAX_LAYOUT)
        n = count(b.text, of, &layers);
    pdl_buf_free(&b);
    return layers == s->layers && n > 0 && n % s->pipe == 0 ? n : -1;
}

/* ---- counted stages ---------------------------------------------------- */

/* The first and the last say how many they have; the others share the rest. */
static int64_t share_ends(const struct report_setup *s, int64_t *of)
{
    int64_t rest = s->layers - s->first_layers - s->last_layers;
    int64_t n = s->pipe, ends = (s->first_layers > 0) + (s->last_layers > 0);

    if (n - ends < 1 || rest < 0 || rest % (n - ends) != 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        of[i] = i == 0 && s->first_layers      ? s->first_layers
                : i == n - 1 && s->last_layers ? s->last_layers
                                               : rest / (n - ends);
    return n;
}

static int64_t share_counted(const struct report_setup *s, int64_t *of)
{
    int64_t v = s->virtual_stages > 1 ? s->virtual_stages : 1;
    int64_t n = s->pipe * v;
    int64_t all = s->layers + s->count_embedding + s->count_loss;

    if (n > MAX_STAGES || all % n != 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        of[i] = all / n - (i == 0 && s->count_embedding) -
                (i == n - 1 && s->count_loss);
    return n;
}

static enum pdl_status keep(pdl_arena *a, struct report_setup *s,
                            const int64_t *of, int64_t n, struct pdl_err *err)
{
    int64_t *copy = PDL_NEW(a, int64_t, n);
    bool equal = true;

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        copy[i] = of[i];
        equal = equal && of[i] == of[0];
    }
    s->nstages = n;
    s->stage_layers = equal ? NULL : copy;
    if (!s->zero_bubble_v) /* which has two by itself */
        s->virtual_stages = n / s->pipe;
    return PDL_OK;
}

/* A stage without a layer of its own cannot be named, but for the ends. */
static bool nameable(const int64_t *of, int64_t n)
{
    for (int64_t i = 1; i + 1 < n; i++)
        if (of[i] == 0)
            return false;
    return true;
}

enum pdl_status report_stages_read(pdl_arena *a, struct report_setup *s,
                                   struct pdl_launch *out, struct pdl_err *err)
{
    bool ends = s->first_layers > 0 || s->last_layers > 0;
    int64_t of[MAX_STAGES], n;

    if (s->pipe < 2 ||
        (!s->layout && !ends && !s->count_embedding && !s->count_loss))
        return PDL_OK;
    n = s->layout                        ? read_layout(s, of)
        : ends && s->virtual_stages <= 1 ? share_ends(s, of)
        : ends                           ? -1
                                         : share_counted(s, of);
    if (n < 1 || !nameable(of, n)) {
        report_note(out, "how its stages are cut is not understood: they are "
                         "taken as equal");
        return PDL_OK;
    }
    return keep(a, s, of, n, err);
}

enum pdl_status report_stages_share(pdl_arena *a, struct report_setup *s,
                                    int64_t n, int64_t first, int64_t last,
                                    struct pdl_err *err)
{
    int64_t of[MAX_STAGES], all = s->layers + first + last;

    if (n < 2 || n > MAX_STAGES || all / n < first || all / n < last)
        return PDL_OK;
    for (int64_t i = 0; i < n; i++)
        of[i] = all / n + (i < all % n) - (i == 0 ? first : 0) -
                (i == n - 1 ? last : 0);
    return nameable(of, n) ? keep(a, s, of, n, err) : PDL_OK;
}

enum pdl_status report_stages_given(pdl_arena *a, struct report_setup *s,
                                    const int64_t *of, int64_t n,
                                    struct pdl_err *err)
{
    if (n < 2 || n > MAX_STAGES || n % s->pipe != 0 || !nameable(of, n))
        return PDL_OK;
    s->layers = 0;
    for (int64_t i = 0; i < n; i++)
        s->layers += of[i];
    return keep(a, s, of, n, err);
}

void report_stages_put(const struct report_setup *s, struct pdl_sink *out)
{
    int64_t at = 0;

    for (int64_t i = 0; s->stage_layers && i + 1 < s->nstages; i++) {
        at += s->stage_layers[i];
        pdl_puts(out, i ? "+" : ",at=");
        if (at < s->layers)
            pdl_printf(out, "layers.%lld.attn.norm", (long long)at);
        else
            pdl_puts(out, "norm"); /* the head has a stage of its own */
    }
}

/* ---- recomputation ----------------------------------------------------- */

static int64_t stages_of(const struct report_setup *s)
{
    return s->pipe * (s->virtual_stages > 1 ? s->virtual_stages : 1);
}

bool report_recompute_some(const struct report_setup *s)
{
    int64_t n = stages_of(s);

    if (s->recompute_second)
        return true;
    return s->recompute_full && s->recompute_block && s->recompute_layers > 0 &&
           n <= MAX_CLAUSES && s->layers % n == 0 && !s->stage_layers &&
           s->recompute_layers < s->layers / n;
}

void report_recompute_put(const struct report_setup *s, struct pdl_sink *out)
{
    int64_t n = stages_of(s), each = s->layers / n;

    if (s->recompute_second) {
        pdl_puts(out, "; layers.*[13579].*: recompute=full");
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t from = i * each, to = from + s->recompute_layers - 1;

        pdl_printf(out,
                   "; layers.%lld.attn.norm..layers.%lld.attn.norm: "
                   "recompute=full",
                   (long long)from, (long long)to);
    }
}
