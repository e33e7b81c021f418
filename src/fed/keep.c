/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a federated run, also in the middle of a round: the model, the
 * sum so far, what the algorithm keeps, and where the run is. Rank 0 has all
 * of it and writes alone. Plans are drawn again from the seed, so a run goes on
 * with any number of workers, and must be the same run: what it was started
 * with is compared. */
#include "fed/fed_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- how it was started --------------------------------------------- */

enum { NSETTINGS = 10 };

struct settings {
    struct pdl_setting is[NSETTINGS];
    char text[NSETTINGS][200];
};

/* How many there are, and what was asked for besides. */
static void describe_clients(const struct pdl_fed_job *o, char *text, size_t n)
{
    int at = snprintf(text, n, "%lld", (long long)o->partition.clients);

    if (o->select > 0)
        at += snprintf(text + at, n - (size_t)at, ", %lld a round",
                       (long long)o->select);
    if (o->only >= 0)
        at += snprintf(text + at, n - (size_t)at, ", only number %lld",
                       (long long)o->only);
    if (o->first_round > 0)
        snprintf(text + at, n - (size_t)at, ", from round %lld on",
                 (long long)o->first_round);
}

static void describe(const struct fed *f, struct settings *s)
{
    const struct pdl_fed_job *o = f->job;
    static const char *const names[NSETTINGS] = {
        "model", "data",  "partition", "algorithm", "clients",
        "local", "rates", "seed",      "lost",      "devices"};
    size_t n = sizeof s->text[0];
    const char *none = "";

    snprintf(s->text[0], n, "%s", o->model_name ? o->model_name : none);
    snprintf(s->text[1], n, "%.170s, %lld samples",
             o->data_name ? o->data_name : none,
             (long long)o->partition.samples);
    snprintf(s->text[2], n, "%s",
             o->partition_name ? o->partition_name : "iid");
    snprintf(s->text[3], n, "%s", o->algorithm ? o->algorithm : "fedavg");
    describe_clients(o, s->text[4], n);
    snprintf(s->text[5], n, "epochs=%lld steps=%lld batch=%lld%s%s",
             (long long)o->epochs, (long long)o->steps, (long long)o->batch,
             o->strategy ? " " : none, o->strategy ? o->strategy : none);
    snprintf(s->text[6], n, "%s lr=%.15g decay=%.15g%s",
             o->optimizer ? o->optimizer : "sgd", o->lr, o->lr_decay,
             o->raw ? " raw" : "");
    snprintf(s->text[7], n, "%llu", (unsigned long long)o->seed);
    snprintf(s->text[8], n, "drop=%.15g away=%.15g deadline=%.15g", o->drop,
             o->away, o->deadline_s);
    snprintf(s->text[9], n,
             "speed=%.15g spread=%.15g down=%.15g up=%.15g latency=%.15g",
             o->speed, o->spread, o->down, o->up, o->latency_s);
    for (int i = 0; i < NSETTINGS; i++)
        s->is[i] = (struct pdl_setting){names[i], s->text[i]};
}

static enum pdl_status compare(const struct fed *f,
                               const struct pdl_ckpt_state *was,
                               const char *path, struct pdl_err *err)
{
    struct settings now;

    describe(f, &now);
    for (int i = 0; i < NSETTINGS; i++)
        for (int k = 0; k < was->nsettings; k++)
            if (strcmp(was->settings[k].name, now.is[i].name) == 0 &&
                strcmp(was->settings[k].value, now.is[i].value) != 0)
                return pdl_fail(err, PDL_EINVAL,
                                "%.120s: is of another run: %s '%.60s', not "
                                "'%.60s'",
                                path, now.is[i].name, was->settings[k].value,
                                now.is[i].value);
    return PDL_OK;
}

/* ---- writing -------------------------------------------------------- */

struct list {
    struct pdl_shard *x;
    int n, room;
    pdl_arena *arena;
    bool failed;
};

static void add(struct list *l, const char *name, enum pdl_dtype dtype,
                const void *data, int64_t count)
{
    struct pdl_shard x = {.name = name,
                          .dtype = dtype,
                          .rank = 1,
                          .dim = {count},
                          .box = {.ndims = 1, .hi = {count}},
                          .data = data};

    if (l->n == l->room) {
        int more = 2 * l->room + 16;
        struct pdl_shard *to = PDL_NEW(l->arena, struct pdl_shard, more);

        if (to && l->n > 0)
            memcpy(to, l->x, (size_t)l->n * sizeof to[0]);
        l->failed = l->failed || !to;
        l->x = to ? to : l->x;
        l->room = to ? more : l->room;
    }
    if (!l->failed && name)
        l->x[l->n++] = x;
    l->failed = l->failed || !name;
}

static void add_all(const struct fed *f, struct list *l)
{
    add(l, "model", PDL_F32, f->model, f->n);
    add(l, "sum", PDL_F64, f->sum, f->n);
    for (int i = 0; i < f->alg->shared; i++)
        add(l, pdl_arena_printf(l->arena, "shared.%d", i), PDL_F32,
            f->shared[i], f->n);
    for (int s = 0; s < FED_SHELVES; s++)
        for (int64_t i = 0; i < f->shelf[s].slots; i++)
            if (f->shelf[s].at[i])
                add(l,
                    pdl_arena_printf(l->arena, "%s.%lld", f->shelf[s].name,
                                     (long long)i),
                    PDL_F32, f->shelf[s].at[i], f->n);
    if (f->nhistory > 0)
        add(l, "history", PDL_F64, f->history,
            f->nhistory * fed_history_width(f));
    for (int t = 0; t < FED_TABLES; t++)
        if (f->table[t].count > 0)
            add(l, f->table[t].name, PDL_F64, f->table[t].at,
                f->table[t].count);
}

enum { NSCALARS = 15 };

/* Numbers of a run: written, and read back in the same order. */
static void scalars(struct fed *f, struct pdl_scalar *x, bool back)
{
    struct {
        const char *name;
        double *real;
        int64_t *whole;
    } is[NSCALARS] = {
        {"rounds", NULL, &f->sum_up.rounds},
        {"next", NULL, &f->next},
        {"done", NULL, &f->done},
        {"came", NULL, &f->came},
        {"gone", NULL, &f->gone},
        {"weight", &f->weight, NULL},
        {"train_loss", &f->train_loss, NULL},
        {"train_samples", &f->train_samples, NULL},
        {"models", NULL, &f->sum_up.models},
        {"lost", NULL, &f->sum_up.lost},
        {"best", &f->sum_up.best, NULL},
        {"seconds", &f->sum_up.seconds, NULL},
        {"down_bytes", NULL, &f->sum_up.down_bytes},
        {"up_bytes", NULL, &f->sum_up.up_bytes},
        {"across_bytes", NULL, &f->sum_up.across_bytes},
    };

    for (int i = 0; i < NSCALARS; i++) {
        if (back && is[i].real)
            *is[i].real = x[i].value;
        else if (back)
            *is[i].whole = (int64_t)x[i].value;
        x[i] = (struct pdl_scalar){
            is[i].name, is[i].real ? *is[i].real : (double)*is[i].whole};
    }
}

enum pdl_status fed_keep_save(struct fed *f, struct pdl_err *err)
{
    struct pdl_ckpt_writer w = {.dir = pdl_ckpt_lock_dir(f->lock),
                                .nranks = 1,
                                .run = f->job->run,
                                .owner = pdl_ckpt_lock_owner(f->lock),
                                .keep = f->job->keep > 0 ? f->job->keep : 2,
                                .at = f->job->at,
                                .ctx = f->job->ctx};
    struct pdl_scalar numbers[NSCALARS] = {{NULL, 0}};
    struct settings with;
    struct pdl_ckpt_state s = {.step = f->done + f->sum_up.rounds,
                               .epoch = f->sum_up.rounds,
                               .batch = f->next,
                               .seed = f->job->seed,
                               .samples = f->job->partition.samples,
                               .nranks = 1,
                               .model = f->job->model_name,
                               .strategy = "federate",
                               .optimizer = f->job->optimizer,
                               .data = f->job->data_name,
                               .nscalars = NSCALARS,
                               .scalars = numbers,
                               .nsettings = NSETTINGS,
                               .settings = with.is};
    struct list l = {.arena = pdl_arena_create((size_t)1 << 30)};
    enum pdl_status st = PDL_OK;

    describe(f, &with);
    scalars(f, numbers, false);
    if (l.arena)
        add_all(f, &l);
    if (!l.arena || l.failed)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for a checkpoint");
    if (st == PDL_OK)
        st = pdl_ckpt_part(&w, &s, l.x, l.n, err);
    if (st == PDL_OK)
        st = pdl_ckpt_commit(&w, &s, err);
    pdl_arena_destroy(l.arena);
    f->saved = f->done;
    return st;
}

/* ---- reading -------------------------------------------------------- */

static enum pdl_status read_one(const pdl_ckpt *c, const char *name,
                                enum pdl_dtype dtype, int64_t count, void *to,
                                struct pdl_err *err)
{
    struct pdl_box all = {.ndims = 1, .hi = {count}};
    int k = pdl_ckpt_find(c, name);
    const struct pdl_ckpt_tensor *x = k < 0 ? NULL : pdl_ckpt_tensor(c, k);

    if (!x || x->dtype != dtype || x->rank != 1 || x->dim[0] != count)
        return pdl_fail(err, PDL_EINVAL, "%s: has no %s of this run",
                        pdl_ckpt_path(c), name);
    return pdl_ckpt_read(c, k, &all, to, err);
}

static enum pdl_status read_shelf(struct fed *f, int s, const pdl_ckpt *c,
                                  struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < f->shelf[s].slots && st == PDL_OK; i++) {
        char name[64];

        snprintf(name, sizeof name, "%.30s.%lld", f->shelf[s].name,
                 (long long)i);
        if (pdl_ckpt_find(c, name) < 0) {
            free(f->shelf[s].at[i]); /* what the algorithm began with */
            f->shelf[s].at[i] = NULL;
            continue;
        }
        st = read_one(c, name, PDL_F32, f->n, fed_slot(f, s, i), err);
    }
    return st;
}

static enum pdl_status read_all(struct fed *f, const pdl_ckpt *c,
                                struct pdl_err *err)
{
    enum pdl_status st = read_one(c, "model", PDL_F32, f->n, f->model, err);

    if (st == PDL_OK)
        st = read_one(c, "sum", PDL_F64, f->n, f->sum, err);
    for (int i = 0; i < f->alg->shared && st == PDL_OK; i++) {
        char name[32];

        snprintf(name, sizeof name, "shared.%d", i);
        st = read_one(c, name, PDL_F32, f->n, f->shared[i], err);
    }
    for (int s = 0; s < FED_SHELVES && st == PDL_OK; s++)
        st = read_shelf(f, s, c, err);
    for (int t = 0; t < FED_TABLES && st == PDL_OK; t++)
        if (f->table[t].count > 0)
            st = read_one(c, f->table[t].name, PDL_F64, f->table[t].count,
                          f->table[t].at, err);
    return st;
}

/* Where a round was saved before there were any, it has none. */
static enum pdl_status read_history(struct fed *f, const pdl_ckpt *c,
                                    struct pdl_err *err)
{
    int64_t rows = f->sum_up.rounds, width = fed_history_width(f);

    if (rows == 0 || pdl_ckpt_find(c, "history") < 0)
        return PDL_OK;
    if (rows > INT32_MAX || !fed_history_room(f, rows))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for %lld rounds",
                        (long long)rows);
    f->nhistory = rows;
    return read_one(c, "history", PDL_F64, rows * width, f->history, err);
}

static enum pdl_status resume(struct fed *f, const pdl_ckpt *c,
                              struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(c);
    struct pdl_scalar numbers[NSCALARS] = {{NULL, 0}};
    enum pdl_status st = compare(f, s, pdl_ckpt_path(c), err);

    if (st == PDL_OK && s->nscalars != NSCALARS)
        st = pdl_fail(err, PDL_EINVAL, "%s: is of no federated run",
                      pdl_ckpt_path(c));
    if (st == PDL_OK)
        st = read_all(f, c, err);
    if (st != PDL_OK)
        return st;
    memcpy(numbers, s->scalars, sizeof numbers);
    scalars(f, numbers, true);
    f->saved = f->done;
    if (f->sum_up.rounds < 0 || f->next < 0 || f->done < 0)
        return pdl_fail(err, PDL_EPARSE, "%s: numbers below 0",
                        pdl_ckpt_path(c));
    return read_history(f, c, err);
}

/* Checkpoints that were passed over, a line each. */
static void tell_lines(struct fed *f, char *text)
{
    for (char *end; text && *text; text = end + 1) {
        end = strchr(text, '\n');
        if (!end)
            break;
        fed_note(f, "%.*s", (int)(end - text), text);
    }
}

enum pdl_status fed_keep_open(struct fed *f, struct pdl_err *err)
{
    struct pdl_buf passed;
    struct pdl_ckpt_claim c = {.dir = f->job->checkpoint,
                               .resume = f->job->resume,
                               .model = f->job->model_name,
                               .patience_s = 2};
    pdl_ckpt *last = NULL;
    enum pdl_status st;

    if (!f->job->checkpoint)
        return PDL_OK;
    pdl_buf_init(&passed);
    st = pdl_ckpt_claim(&c, &f->lock, NULL, err);
    if (st == PDL_OK && f->job->resume)
        st = pdl_ckpt_latest(pdl_ckpt_lock_dir(f->lock), INT64_MAX, true, &last,
                             &passed.sink, err);
    tell_lines(f, passed.text);
    pdl_buf_free(&passed);
    if (st == PDL_OK && last)
        st = resume(f, last, err);
    pdl_ckpt_close(last);
    return st;
}

void fed_keep_close(struct fed *f)
{
    pdl_ckpt_release(f->lock);
}
