/* SPDX-License-Identifier: Apache-2.0
 *
 * The named physical effects of the empirical model, each of which can be left
 * out: what a projection is worth without it says what the effect is worth.
 * Habits of a framework and parameters of the system are taken out of copies
 * of them; what is neither is a flag that the pricing asks for. */
#include "oracle/habit/habit.h"

#include <string.h>

// clang-format off
static const struct pdl_effect effects[] = {
    [ORACLE_SHARING] = {"sharing", "what leaves a node or a rack shares its uplinks"},
    [ORACLE_CHANNEL] = {"one-channel", "gradient rings use one adapter, one cable"},
    [ORACLE_LATENCY] = {"latency", "every step of a ring has a latency"},
    [ORACLE_SYNC] = {"sync", "the host waits for every collective"},
    [ORACLE_STAGING] = {"staging", "halos go through the host, rank after rank"},
    [ORACLE_VOLUMES] = {"volumes", "bytes as the code moves them: leaders, folds"},
    [ORACLE_COPIES] = {"copies", "results of layer collectives are copied"},
    [ORACLE_PARTS] = {"parts", "parts are copied by a kernel each"},
    [ORACLE_TENSORS] = {"tensors", "weights are packed and updated one by one"},
    [ORACLE_BIAS] = {"bias", "biases of convolutions are passes of their own"},
    [ORACLE_HOST] = {"host", "the host needs time for every call"},
    [ORACLE_FILES] = {"files", "every rank opens files on the shared disk"},
    [ORACLE_LOCKS] = {"locks", "opening slows down with the number of ranks"},
    [ORACLE_ROUND_TRIP] = {"round-trip", "a file is opened by asking its server"},
    [ORACLE_TILES] = {"tiles", "kernels compute whole tiles in whole waves"},
    [ORACLE_REREAD] = {"reread", "normalisation reads its input twice"},
    [ORACLE_INTERFERENCE] = {"interference", "hidden exchange slows what hides it"},
};
// clang-format on
enum { NEFFECTS = sizeof effects / sizeof effects[0] };

const struct pdl_effect *pdl_effect_at(int i)
{
    return i >= 0 && i < NEFFECTS ? &effects[i] : NULL;
}

enum pdl_status pdl_effect_find(const char *name, uint32_t *bit,
                                struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; i < NEFFECTS; i++) {
        if (strcmp(effects[i].name, name) == 0) {
            *bit = UINT32_C(1) << i;
            return PDL_OK;
        }
        pdl_suggest_try(&s, effects[i].name);
    }
    pdl_fail(err, PDL_EINVAL, "no such effect: '%s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

static bool out(const struct pdl_oracle_options *opt, enum oracle_effect e)
{
    return opt->without >> e & 1;
}

bool oracle_without(const struct oracle *o, enum oracle_effect e)
{
    return out(o->opt, e);
}

static void change_habits(const struct pdl_oracle_options *opt,
                          struct pdl_framework *f)
{
    f->one_channel = f->one_channel && !out(opt, ORACLE_CHANNEL);
    f->staged_halo = f->staged_halo && !out(opt, ORACLE_STAGING);
    f->leaders = f->leaders && !out(opt, ORACLE_VOLUMES);
    f->folded_filter = f->folded_filter && !out(opt, ORACLE_VOLUMES);
    f->copies = f->copies && !out(opt, ORACLE_COPIES);
    f->by_tensor = f->by_tensor && !out(opt, ORACLE_TENSORS);
    f->bias_passes = f->bias_passes && !out(opt, ORACLE_BIAS);
    if (out(opt, ORACLE_PARTS))
        f->part_s = 0;
    if (out(opt, ORACLE_HOST))
        f->host_call_s = f->issue_s = f->collective_s = f->pipe_step_s = 0;
    if (out(opt, ORACLE_FILES))
        f->opens = 0;
}

void oracle_leave_out(struct oracle *o, struct oracle_changed *c)
{
    if (o->opt->without == 0)
        return;
    c->opt = *o->opt;
    c->sys = *o->sys;
    if (c->opt.framework) {
        c->framework = *c->opt.framework;
        change_habits(o->opt, &c->framework);
        c->opt.framework = &c->framework;
    }
    if (out(o->opt, ORACLE_SYNC))
        c->sys.network.sync_s = 0;
    if (out(o->opt, ORACLE_LOCKS))
        c->sys.storage.contention_s = 0;
    if (out(o->opt, ORACLE_ROUND_TRIP))
        c->sys.storage.round_trip_s = 0;
    o->opt = &c->opt;
    o->sys = &c->sys;
    o->pe.flat = out(o->opt, ORACLE_TILES);
}
