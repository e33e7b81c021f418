/* SPDX-License-Identifier: Apache-2.0
 *
 * An epoch by where its samples come from: what --shuffle asks of project and
 * plan. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

static const struct way {
    const char *name;
    enum pdl_epoch_deal deal;
} ways[] = {{"global", PDL_EPOCH_GLOBAL},
            {"local", PDL_EPOCH_LOCAL},
            {"partial", PDL_EPOCH_PARTIAL},
            {"pair", PDL_EPOCH_PAIR}};

static const struct way *find_way(const char *name)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    return NULL;
}

/* The sampler's own reader of "partial:q=0.3". */
static enum pdl_status parse(const char *text, const struct way **way,
                             double *q, struct pdl_err *err)
{
    struct pdl_sampling_setting x;
    enum pdl_status st =
        pdl_sampling_parse(pdl_deal_at, "shuffle samples", text, &x, err);

    if (st != PDL_OK)
        return st;
    *way = find_way(pdl_deal_at(x.way)->name);
    if (!*way)
        return pdl_fail(err, PDL_EINVAL,
                        "--shuffle: %s is not projected: global, local, "
                        "partial and pair are",
                        pdl_deal_at(x.way)->name);
    *q = (*way)->deal == PDL_EPOCH_GLOBAL ? 0 : x.value[0];
    return PDL_OK;
}

enum pdl_status cli_epochs_asked(const struct cli_epoch_options *o,
                                 const char *dataset, struct pdl_err *err)
{
    const struct way *way;
    double q;

    if (!o->shuffle && o->hidden != 0)
        return pdl_fail(err, PDL_EINVAL, "--hidden is for --shuffle");
    if (!o->shuffle)
        return PDL_OK;
    if (!dataset)
        return pdl_fail(err, PDL_EINVAL, "--shuffle is for --dataset D");
    if (!(o->hidden >= 0 && o->hidden <= 0.9))
        return pdl_fail(err, PDL_EINVAL, "--hidden: from 0 to 0.9");
    return strcmp(o->shuffle, "all") == 0 ? PDL_OK
                                          : parse(o->shuffle, &way, &q, err);
}

static void add(struct cli_epochs *x, const struct cli_job *j,
                const struct way *way, double q, double hidden)
{
    struct cli_epoch *e = &x->row[x->n++];
    struct pdl_epoch_question ask = {&x->about, way->deal, q, hidden};

    if (q > 0)
        snprintf(e->name, sizeof e->name, "%s:q=%g", way->name, q);
    else
        snprintf(e->name, sizeof e->name, "%s", way->name);
    e->q = q;
    pdl_epoch_price(j->plan, &j->sys, &j->x, &ask, &e->x);
}

enum pdl_status cli_epochs_price(pdl_arena *a,
                                 const struct cli_epoch_options *o,
                                 const char *dataset, const struct cli_job *j,
                                 struct cli_epochs *x, struct pdl_err *err)
{
    static const double parts[] = {.1, .3, .5, .7, .9};
    const struct way *way = NULL;
    double q = 0;
    enum pdl_status st = pdl_data_about(a, dataset, &x->about, err);

    if (st != PDL_OK)
        return st;
    if (strcmp(o->shuffle, "all") != 0) {
        st = parse(o->shuffle, &way, &q, err);
        if (st == PDL_OK)
            add(x, j, way, q, o->hidden);
        return st;
    }
    add(x, j, &ways[0], 0, o->hidden);
    add(x, j, &ways[1], 0, o->hidden);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add(x, j, &ways[2], parts[i], o->hidden);
    add(x, j, &ways[3], .3, o->hidden);
    return PDL_OK;
}

/* The shortest of those that move samples, or not; -1: there is none. */
static int shortest(const struct cli_epochs *x, bool moves)
{
    int best = -1;

    for (int i = 0; i < x->n; i++)
        if ((x->row[i].q > 0) == moves &&
            strcmp(x->row[i].name, "global") != 0 &&
            (best < 0 || x->row[i].x.epoch_s < x->row[best].x.epoch_s))
            best = i;
    return best;
}

/* Which of all: the file system's where it is as fast as any, since nothing
 * need be stored then. */
static void print_choice(const struct cli_epochs *x)
{
    const double same = 1.03; /* what projections cannot tell apart */
    int stays = shortest(x, false), moves = shortest(x, true);
    double global, local, mixed;

    if (stays < 0 || moves < 0)
        return;
    global = x->row[0].x.epoch_s;
    local = x->row[stays].x.epoch_s;
    mixed = x->row[moves].x.epoch_s;
    if (global <= same * local)
        cli_say(2, "global is as fast as any here: no stores are needed");
    else if (mixed <= same * local)
        cli_say(2,
                "global takes %.3g times as long as local; %s, which mixes "
                "samples, takes no longer than local",
                global / local, x->row[moves].name);
    else
        cli_say(2,
                "global takes %.3g times as long as local, %s, which mixes "
                "samples, %.3g times",
                global / local, x->row[moves].name, mixed / local);
}

void cli_epochs_text(const struct cli_epochs *x)
{
    struct pdl_sink *out = cli_out();

    pdl_printf(out, "An epoch of %s: %lld samples, %lld workers\n",
               x->about.name, (long long)x->about.samples,
               (long long)x->row[0].x.workers);
    pdl_printf(out, "  %-14s %10s %10s %10s %10s %10s\n", "samples", "epoch",
               "network", "stored", "moved", "staging");
    for (int i = 0; i < x->n; i++) {
        const struct pdl_epoch *e = &x->row[i].x;
        char t[5][32];

        pdl_printf(
            out, "  %-14s %10s %10s %10s %10s %10s\n", x->row[i].name,
            pdl_unit_format(e->epoch_s, PDL_UNIT_SECONDS, t[0], sizeof t[0]),
            pdl_unit_format(e->network_s, PDL_UNIT_SECONDS, t[1], sizeof t[1]),
            pdl_unit_format(e->stored_bytes, PDL_UNIT_BYTES, t[2], sizeof t[2]),
            pdl_unit_format(e->moved_bytes, PDL_UNIT_BYTES, t[3], sizeof t[3]),
            pdl_unit_format(e->stage_s, PDL_UNIT_SECONDS, t[4], sizeof t[4]));
    }
    if (x->row[0].x.read_s == 0 && strcmp(x->row[0].name, "global") == 0)
        pdl_puts(out, "  (this system's file system has no figures: it serves "
                      "at once)\n");
    else
        print_choice(x);
}

void cli_epochs_json(struct pdl_json *w, const struct cli_epochs *x)
{
    pdl_json_key(w, "epochs");
    pdl_json_array(w);
    for (int i = 0; i < x->n; i++) {
        const struct pdl_epoch *e = &x->row[i].x;

        pdl_json_row(w);
        pdl_json_kstr(w, "shuffle", x->row[i].name);
        pdl_json_kint(w, "workers", e->workers);
        pdl_json_knum(w, "epoch_s", e->epoch_s);
        pdl_json_knum(w, "compute_s", e->compute_s);
        pdl_json_knum(w, "load_s", e->load_s);
        pdl_json_knum(w, "read_s", e->read_s);
        pdl_json_knum(w, "exchange_s", e->exchange_s);
        pdl_json_knum(w, "network_s", e->network_s);
        pdl_json_kbool(w, "simulated", e->simulated);
        pdl_json_knum(w, "stage_s", e->stage_s);
        pdl_json_kint(w, "stored_bytes", (int64_t)(e->stored_bytes + 0.5));
        pdl_json_kint(w, "moved_bytes", (int64_t)(e->moved_bytes + 0.5));
        pdl_json_end(w);
    }
    pdl_json_end(w);
}
