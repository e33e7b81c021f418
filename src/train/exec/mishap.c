/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss that is no number, or many times the mean of the last ones. It is
 * known before any weight is changed. What then: stop; leave the batch out
 * and go on with the next; or go back to the last checkpoint and from there
 * on leave out all batches up to and with the bad one, as was done by hand
 * for PaLM (Chowdhery et al. 2022, section 5.1). Both are a shift between
 * steps and batches, which a checkpoint keeps: a run with mishaps is as
 * repeatable as one without. */
#include "train/exec/loop.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_IN_A_ROW = 10, MOST_ROLLBACKS = 10, SEEN_ENOUGH = 20 };
static const double FORGET = 0.05; /* of the mean, a step */

/* ---- running statistics: forward has changed them already ------------- */

static bool is_buffer(const struct train_loop *l,
                      const struct pdl_train_state *s)
{
    const struct pdl_model *m = l->job->plan->model;

    return s->model_tensor >= 0 &&
           m->tensors[s->model_tensor].kind == PDL_TENSOR_BUFFER;
}

static size_t bytes_of(const struct pdl_train_state *s)
{
    return (size_t)(pdl_box_volume(&s->part.box) *
                    pdl_dtype_bits(s->part.dtype) / 8);
}

/* Copies all buffers from or to the room kept for them. */
static enum pdl_status copy_buffers(struct train_loop *l, bool back,
                                    struct pdl_err *err)
{
    const struct pdl_train_state *s;
    char *p = l->mishap.buffers;
    enum pdl_status st = p ? pdl_trainer_fetch(l->t, err) : PDL_OK;

    for (int i = 0; p && (s = pdl_trainer_state(l->t, i)) != NULL; i++)
        if (is_buffer(l, s)) {
            memcpy(back ? s->part.data : p, back ? p : s->part.data,
                   bytes_of(s));
            p += bytes_of(s);
        }
    return st == PDL_OK && back ? train_state_send(l->t, err) : st;
}

enum pdl_status train_mishap_open(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_train_state *s;
    size_t n = 0;

    if (l->job->on_nan != PDL_TRAIN_SKIP)
        return PDL_OK;
    if (pdl_strategy_compresses(l->job->plan->strategy))
        return pdl_fail(err, PDL_EINVAL,
                        "leaving out batches does not go with compress=: "
                        "what is kept of gradients holds the bad one's");
    for (int i = 0; (s = pdl_trainer_state(l->t, i)) != NULL; i++)
        n += is_buffer(l, s) ? bytes_of(s) : 0;
    l->mishap.buffers = pdl_arena_alloc(l->arena, n + 1, 1);
    return l->mishap.buffers ? PDL_OK
                             : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

/* ---- around a step ---------------------------------------------------- */

enum pdl_status train_mishap_before(struct train_loop *l, struct pdl_err *err)
{
    const struct train_mishap *m = &l->mishap;
    double limit = INFINITY;

    if (l->job->spike > 0 && m->seen >= SEEN_ENOUGH)
        limit = l->job->spike * m->mean;
    pdl_trainer_limit(l->t, limit);
    return copy_buffers(l, false, err);
}

void train_mishap_none(struct train_loop *l, double loss)
{
    struct train_mishap *m = &l->mishap;

    m->mean = m->seen == 0 ? loss : m->mean + FORGET * (loss - m->mean);
    m->seen++;
    m->in_a_row = 0;
}

/* The batches to come are others now. */
static enum pdl_status leave_out(struct train_loop *l, int64_t n,
                                 struct pdl_err *err)
{
    enum pdl_status st = train_epochs_skip(&l->epochs, n, err);

    l->mishap.shift += n;
    return st == PDL_OK ? train_read_ahead(l, err) : st;
}

static enum pdl_status give_up(int times, struct pdl_err *err)
{
    struct pdl_err why = *err;

    return pdl_fail(err, PDL_EWRONG, "%.380s; %d times, so it is no accident",
                    why.msg, times);
}

static enum pdl_status roll_back(struct train_loop *l, const char *why,
                                 struct pdl_err *err)
{
    int64_t bad = l->done + l->mishap.shift, n;
    enum pdl_status st = train_keep_back(l, err);

    if (st != PDL_OK)
        return st;
    n = bad - l->done - l->mishap.shift + 1;
    train_note(l,
               "%s; back to step %" PRId64 ", leaving out %" PRId64 " batches",
               why, l->done, n);
    return leave_out(l, n, err);
}

enum pdl_status train_mishap(struct train_loop *l, struct pdl_err *err)
{
    struct train_mishap *m = &l->mishap;
    struct pdl_err why = *err;
    enum pdl_status st;

    if (l->job->on_nan == PDL_TRAIN_STOP)
        return PDL_EWRONG;
    if (l->job->on_nan == PDL_TRAIN_SKIP) {
        if (++m->in_a_row > MOST_IN_A_ROW)
            return give_up(MOST_IN_A_ROW, err);
        st = copy_buffers(l, true, err);
        train_note(l, "%s; the batch is left out", why.msg);
        return st == PDL_OK ? leave_out(l, 1, err) : st;
    }
    if (++m->rollbacks > MOST_ROLLBACKS)
        return give_up(MOST_ROLLBACKS, err);
    return roll_back(l, why.msg, err);
}
