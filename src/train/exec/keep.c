/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a run: whose folder it is, when one is due, what happens
 * when it cannot be written, and going on from one. Every rank writes what it
 * holds; of replicas each one writes its share. Training waits for the copy
 * only: one that is due while the last is still being written comes when that
 * is done. What one rank alone knows (that its part failed) travels with the
 * votes of a step. */
#include "train/exec/loop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double FIRST_PAUSE_S = 1, LONGEST_PAUSE_S = 60,
                    WORTH_S = 1; /* of training that may be lost */

/* ---- the folder ------------------------------------------------------- */

static void tell_lines(struct train_loop *l, char *text)
{
    for (char *end; text && *text; text = end) {
        end = text + strcspn(text, "\n");
        if (*end)
            *end++ = '\0';
        train_note(l, "%s", text);
    }
}

static enum pdl_status claim(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_train_job *j = l->job;
    struct pdl_ckpt_claim c = {.dir = j->checkpoint,
                               .resume = j->resume,
                               .beside = j->beside,
                               .again = j->again,
                               .job = j->job,
                               .model = j->model,
                               .patience_s = j->again ? 30 : 2};
    struct pdl_buf notes;
    enum pdl_status st;

    pdl_buf_init(&notes);
    st = pdl_ckpt_claim(&c, &l->keep.lock, &notes.sink, err);
    if (st == PDL_OK)
        tell_lines(l, notes.text);
    pdl_buf_free(&notes);
    return st;
}

/* Rank 0 takes it, all know which it is. */
enum pdl_status train_keep_open(struct train_loop *l, struct pdl_err *err)
{
    struct {
        uint64_t taken, owner;
        char dir[4080];
    } it = {.taken = 0};
    enum pdl_status st = PDL_OK, sent;
    struct pdl_err lost;

    if (!l->job->checkpoint)
        return PDL_OK;
    if (train_is_first(l)) {
        st = claim(l, err);
        if (st == PDL_OK) {
            it.taken = 1;
            it.owner = pdl_ckpt_lock_owner(l->keep.lock);
            snprintf(it.dir, sizeof it.dir, "%.4000s",
                     pdl_ckpt_lock_dir(l->keep.lock));
        }
    }
    sent = pdl_comm_broadcast(l->comm, &it, sizeof it / 8, PDL_COMM_I64, 0,
                              st == PDL_OK ? err : &lost);
    if (st != PDL_OK || sent != PDL_OK)
        return st != PDL_OK ? st : sent;
    if (!it.taken)
        return pdl_fail(err, PDL_EINVAL, "%s: rank 0 may not have it",
                        l->job->checkpoint);
    l->keep.owner = it.owner;
    snprintf(l->keep.dir, sizeof l->keep.dir, "%s", it.dir);
    return PDL_OK;
}

/* ---- writing ---------------------------------------------------------- */

/* This rank's share of a tensor that several hold: rows of it, or of a small
 * one all or nothing. False: nothing. */
static bool share(const struct pdl_train_state *s, int turn,
                  struct pdl_shard *x)
{
    enum { SMALL = 1 << 16 };
    int64_t rows = s->part.ndims > 0 ? x->box.hi[0] - x->box.lo[0] : 0;
    int64_t bytes = pdl_box_volume(&x->box) * pdl_dtype_bits(x->dtype) / 8;
    int64_t lo, hi;

    if (s->replicas <= 1)
        return s->owner;
    if (bytes < SMALL || rows < s->replicas)
        return turn % s->replicas == s->replica;
    lo = rows * s->replica / s->replicas;
    hi = rows * (s->replica + 1) / s->replicas;
    x->data = (const char *)x->data + lo * (bytes / rows);
    x->box.hi[0] = x->box.lo[0] + hi;
    x->box.lo[0] += lo;
    return true;
}

static const struct pdl_train_state *state_shard(const struct train_loop *l,
                                                 int i, struct pdl_shard *x)
{
    const struct pdl_train_state *s = pdl_trainer_state(l->t, i);

    *x = (struct pdl_shard){.name = s->part.name,
                            .dtype = s->part.dtype,
                            .rank = s->part.ndims,
                            .box = s->part.box,
                            .data = s->part.data};
    memcpy(x->dim, s->part.dim, (size_t)s->part.ndims * sizeof x->dim[0]);
    return s;
}

enum pdl_status train_keep_begin(struct train_loop *l, struct pdl_err *err)
{
    struct train_keeper *k = &l->keep;
    struct pdl_ckpt_writer w = {.dir = k->dir,
                                .rank = pdl_comm_rank(l->comm),
                                .nranks = pdl_comm_size(l->comm),
                                .run = l->job->run,
                                .owner = k->owner,
                                .keep = l->job->keep > 0 ? l->job->keep : 2,
                                .timeout_s = l->job->timeout_s,
                                .at = l->job->at,
                                .ctx = l->job->ctx};
    int n = 0;

    if (!l->job->checkpoint)
        return PDL_OK;
    while (pdl_trainer_state(l->t, n))
        n++;
    k->shards = PDL_NEW(l->arena, struct pdl_shard,
                        n + l->naverages + TRAIN_EPOCHS_SHARDS);
    if (!k->shards)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a checkpoint");
    for (int i = 0; i < n + l->naverages; i++) {
        struct pdl_shard *x = &k->shards[k->nshards];
        const struct pdl_train_state *s =
            i < n ? state_shard(l, i, x) : train_average_shard(l, i - n, x);

        k->nshards += share(s, i, x);
    }
    for (int i = 0; train_is_first(l) && train_epochs_shard(&l->epochs, i).name;
         i++)
        k->shards[k->nshards++] = train_epochs_shard(&l->epochs, i);
    return pdl_saver_create(&w, &k->saver, err);
}

static void note_failure(struct train_keeper *k, enum pdl_status st,
                         const struct pdl_err *err)
{
    if (st == PDL_OK || st == PDL_EINTR) /* another rank's, already told */
        return;
    k->failed = true;
    k->err = *err;
}

/* --every says how much may be lost: once, where the disk does not let it. */
static void tell_late(struct train_loop *l)
{
    struct train_keeper *k = &l->keep;
    int64_t every = l->job->every;

    if (!train_is_first(l) || every < 1 || !k->overdue || k->late ||
        k->warned || l->done - k->due < every ||
        pdl_clock_s() - k->due_s < WORTH_S)
        return;
    k->late = true;
    train_note(l,
               "writing a checkpoint takes longer than --every %" PRId64
               ": that of step %" PRId64 " waited until step %" PRId64,
               every, k->due, l->done);
}

enum pdl_status train_keep_save(struct train_loop *l, struct pdl_err *err)
{
    struct train_keeper *k = &l->keep;
    struct pdl_ckpt_state s = {.step = l->done,
                               .seed = l->job->opt.seed,
                               .samples = train_samples_of(l),
                               .nranks = pdl_comm_size(l->comm),
                               .model = l->job->model,
                               .strategy = l->job->strategy,
                               .optimizer = l->job->opt.optimizer,
                               .data = l->job->data,
                               .loss = l->last_loss,
                               .nsettings = l->nsettings,
                               .settings = l->settings};
    struct pdl_scalar scale[] = {{"loss_scale", 1},
                                 {"loss_scale_good", 0},
                                 {"batch_shift", (double)l->mishap.shift},
                                 {"loss_mean", l->mishap.mean},
                                 {"loss_mean_of", (double)l->mishap.seen}};
    enum pdl_status st = pdl_trainer_settle(l->t, err);
    struct pdl_err why = {"", ""};

    if (st == PDL_OK)
        st = pdl_trainer_fetch(l->t, err);
    if (st != PDL_OK)
        return st;
    tell_late(l);
    train_tuner_scale(l->t, &scale[0].value, &scale[1].value);
    s.nscalars = sizeof scale / sizeof scale[0];
    s.scalars = scale;
    train_epochs_where(&l->epochs, &s.epoch, &s.batch);
    note_failure(k, pdl_saver_save(k->saver, &s, k->shards, k->nshards, &why),
                 &why);
    k->since_s = pdl_clock_s();
    k->overdue = false;
    return PDL_OK;
}

/* Its cost decides when no interval is given: a day between failures, 2 % at
 * most. */
bool train_keep_due(struct train_loop *l)
{
    struct train_keeper *k = &l->keep;
    struct pdl_saver_status s;
    double now = pdl_clock_s();
    bool due;

    if (!k->saver || !train_is_first(l))
        return false;
    pdl_saver_status(k->saver, &s);
    if (s.durable_step >= 0)
        k->interval_s = pdl_ckpt_interval_s(s.stage_s + s.write_s, 86400, 0.02);
    due = l->job->every > 0 ? (l->done + 1) % l->job->every == 0
                            : now - k->since_s > k->interval_s;
    if (due && !k->overdue) {
        k->due = l->done + 1;
        k->due_s = now;
    }
    k->overdue |= due;
    return k->overdue && now >= k->not_before_s && !pdl_saver_busy(k->saver);
}

bool train_keep_failed(struct train_loop *l)
{
    struct train_keeper *k = &l->keep;
    struct pdl_err why = {"", ""};

    if (k->saver)
        note_failure(k, pdl_saver_poll(k->saver, &why), &why);
    return k->failed;
}

/* What the lowest rank that failed has to say, on all. */
static enum pdl_status share_reason(struct train_loop *l, int64_t *who,
                                    char *text, size_t size,
                                    struct pdl_err *err)
{
    int64_t me = pdl_comm_rank(l->comm);
    enum pdl_status st = PDL_OK;

    *who = l->keep.failed ? me : INT64_MAX;
    if (pdl_comm_size(l->comm) > 1)
        st = pdl_comm_allreduce(l->comm, who, who, 1, PDL_COMM_I64,
                                PDL_COMM_MIN, err);
    if (st != PDL_OK || *who == INT64_MAX)
        return st;
    if (*who == me)
        snprintf(text, size, "%s", l->keep.err.msg);
    if (pdl_comm_size(l->comm) > 1)
        st = pdl_comm_broadcast(l->comm, text, (int64_t)size / 8, PDL_COMM_I64,
                                (int)*who, err);
    return st;
}

enum pdl_status train_keep_shared(struct train_loop *l, struct pdl_err *err)
{
    struct train_keeper *k = &l->keep;
    char text[512] = "", last[64] = "there is none yet";
    struct pdl_saver_status s;
    int64_t who;
    enum pdl_status st = share_reason(l, &who, text, sizeof text, err);

    if (st != PDL_OK || who == INT64_MAX)
        return st;
    if (train_is_first(l) && who != 0)
        pdl_saver_cancel(k->saver);
    pdl_saver_status(k->saver, &s);
    if (s.durable_step >= 0 || l->resumed_at > 0)
        snprintf(last, sizeof last, "the last is of step %" PRId64,
                 s.durable_step >= 0 ? s.durable_step : l->resumed_at);
    if (!k->warned)
        train_note(l,
                   "no checkpoint could be written: %s; training goes on, it "
                   "is tried again (%s)",
                   text, last);
    k->warned = k->overdue = true;
    k->failed = false;
    k->pause_s = k->pause_s > 0 ? 2 * k->pause_s : FIRST_PAUSE_S;
    k->pause_s = k->pause_s < LONGEST_PAUSE_S ? k->pause_s : LONGEST_PAUSE_S;
    k->not_before_s = pdl_clock_s() + k->pause_s;
    return PDL_OK;
}

/* Waits until nothing is being written; rank 0 for parts of others only where
 * they come. */
static enum pdl_status drain(struct train_loop *l, int64_t *who, char *text,
                             size_t size, struct pdl_err *err)
{
    struct train_keeper *k = &l->keep;
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    if (!train_is_first(l))
        note_failure(k, pdl_saver_wait(k->saver, &why), &why);
    st = share_reason(l, who, text, size, err);
    if (st != PDL_OK)
        return st;
    if (*who != INT64_MAX)
        pdl_saver_cancel(k->saver);
    note_failure(k, pdl_saver_wait(k->saver, &why), &why);
    return PDL_OK;
}

enum pdl_status train_keep_end(struct train_loop *l, struct pdl_err *err)
{
    struct train_keeper *k = &l->keep;
    char text[512] = "";
    enum pdl_status st;
    int64_t who;

    if (!k->saver)
        return PDL_OK;
    st = drain(l, &who, text, sizeof text, err);
    if (st != PDL_OK || (!k->failed && who == INT64_MAX))
        return st;
    return pdl_fail(err, PDL_EIO, "the last checkpoint is missing: %s",
                    k->failed ? k->err.msg : text);
}

double train_keep_stall(const struct train_loop *l)
{
    struct pdl_saver_status s = {.blocked_s = 0};

    if (l->keep.saver)
        pdl_saver_status(l->keep.saver, &s);
    return s.blocked_s;
}

void train_keep_close(struct train_loop *l)
{
    pdl_saver_destroy(l->keep.saver);
    pdl_ckpt_release(l->keep.lock);
}

/* ---- going on --------------------------------------------------------- */

void train_name_file(const char *path, enum pdl_status st, struct pdl_err *err)
{
    struct pdl_err inner;

    if (st == PDL_OK || !err || strncmp(err->msg, path, strlen(path)) == 0)
        return;
    inner = *err;
    pdl_fail(err, st, "%.200s: %.300s", path, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
}

/* Rank 0 finds the newest good checkpoint; "" when there is none, "!" when
 * there are only bad ones. */
static enum pdl_status find_latest(struct train_loop *l, char *path,
                                   size_t size, struct pdl_err *err)
{
    pdl_ckpt *c = NULL;
    struct pdl_buf notes;
    enum pdl_status st;

    pdl_buf_init(&notes);
    st = pdl_ckpt_latest(l->keep.dir, INT64_MAX, true, &c, &notes.sink, err);
    if (st == PDL_OK) /* else the error says it all */
        tell_lines(l, notes.text);
    if (st != PDL_OK)
        snprintf(path, size, "!");
    else if (c)
        snprintf(path, size, "%s", pdl_ckpt_path(c));
    pdl_ckpt_close(c);
    pdl_buf_free(&notes);
    return st;
}

static double scalar(const struct pdl_ckpt_state *s, const char *name,
                     double usual)
{
    for (int i = 0; i < s->nscalars; i++)
        if (strcmp(s->scalars[i].name, name) == 0 &&
            isfinite(s->scalars[i].value))
            return s->scalars[i].value;
    return usual;
}

/* Tensors and numbers. */
static enum pdl_status restore(struct train_loop *l, const pdl_ckpt *c,
                               struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(c);
    enum pdl_status st = train_epochs_resume(&l->epochs, c, err);

    if (st == PDL_OK)
        st = pdl_trainer_restore(l->t, c, err);
    train_name_file(pdl_ckpt_path(c), st, err);
    if (st != PDL_OK)
        return st;
    if (l->job->opt.loss_scale > 0)
        train_tuner_set_scale(l->t, scalar(s, "loss_scale", 1),
                              scalar(s, "loss_scale_good", 0));
    l->mishap.shift = (int64_t)scalar(s, "batch_shift", 0);
    if (pdl_sampler_is_plain(l->epochs.sampler)) /* it went by the step */
        st = train_epochs_skip(&l->epochs, l->mishap.shift, err);
    l->mishap.mean = scalar(s, "loss_mean", 0);
    l->mishap.seen = (int64_t)scalar(s, "loss_mean_of", 0);
    l->done = s->step;
    l->last_loss = s->loss;
    return st == PDL_OK ? train_average_restore(l, c, err) : st;
}

static enum pdl_status take_up(struct train_loop *l, const pdl_ckpt *c,
                               struct pdl_err *err)
{
    enum pdl_status st = train_settings_compare(l, c, err);
    char text[4200];

    if (st == PDL_OK)
        st = restore(l, c, err);
    if (st != PDL_OK)
        return st;
    l->resumed_at = l->done;
    snprintf(text, sizeof text, "resumed from %s", pdl_ckpt_path(c));
    train_tell(l, (struct pdl_train_line){.step = l->done, .note = text});
    return PDL_OK;
}

/* Rank 0 decides which checkpoint, all read their parts of that one. *found
 * is false where there is none. */
static enum pdl_status take_newest(struct train_loop *l,
                                   enum pdl_status (*take)(struct train_loop *l,
                                                           const pdl_ckpt *c,
                                                           struct pdl_err *err),
                                   bool *found, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK, sent;
    struct pdl_err lost;
    char path[4096] = "";
    pdl_ckpt *c = NULL;

    *found = false;
    if (train_is_first(l))
        st = find_latest(l, path, sizeof path, err);
    sent = pdl_comm_broadcast(l->comm, path, sizeof path / 8, PDL_COMM_I64, 0,
                              st == PDL_OK ? err : &lost);
    if (st != PDL_OK || sent != PDL_OK || path[0] == '\0')
        return st != PDL_OK ? st : sent;
    if (path[0] == '!')
        return pdl_fail(err, PDL_EPARSE, "rank 0 found no good checkpoint");
    *found = true;
    st = pdl_ckpt_open(path, &c, err);
    if (st == PDL_OK)
        st = take(l, c, err);
    pdl_ckpt_close(c);
    return st;
}

enum pdl_status train_keep_resume(struct train_loop *l, struct pdl_err *err)
{
    bool found;

    if (!(l->job->resume || l->job->again) || !l->job->checkpoint)
        return PDL_OK;
    return take_newest(l, take_up, &found, err);
}

/* A folder of checkpoints has a newest one; else it is one itself. */
static enum pdl_status find_from(const char *from, pdl_ckpt **out,
                                 struct pdl_err *err)
{
    enum pdl_status st = pdl_ckpt_latest(from, INT64_MAX, true, out, NULL, err);

    if (st == PDL_OK && !*out)
        st = pdl_ckpt_open(from, out, err);
    return st;
}

enum pdl_status train_keep_weights(struct train_loop *l, struct pdl_err *err)
{
    bool mean = !l->job->raw_weights;
    pdl_ckpt *c = NULL;
    enum pdl_status st;

    if (!l->job->from)
        return PDL_OK;
    st = find_from(l->job->from, &c, err);
    if (st == PDL_OK)
        st = pdl_trainer_restore_weights(l->t, c, &mean, err);
    if (c)
        train_name_file(pdl_ckpt_path(c), st, err);
    if (st == PDL_OK)
        train_note(l, "%sweights of %s", mean ? "the mean of the " : "",
                   pdl_ckpt_path(c));
    pdl_ckpt_close(c);
    return st;
}

/* What is being written is still good: it is of an earlier step. */
enum pdl_status train_keep_back(struct train_loop *l, struct pdl_err *err)
{
    struct pdl_err why = *err;
    char text[512] = "";
    bool found = false;
    enum pdl_status st = PDL_OK;
    int64_t who;

    if (l->keep.saver) {
        st = drain(l, &who, text, sizeof text, err);
        if (st == PDL_OK)
            st = take_newest(l, restore, &found, err);
    }
    if (st == PDL_OK && !found)
        st = pdl_fail(err, PDL_EWRONG,
                      "%.380s; there is no checkpoint to go back to", why.msg);
    return st;
}
