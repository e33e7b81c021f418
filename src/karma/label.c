/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions block by block, in the order of forward. Forward is run as far as
 * blocks have chosen. Of their backward, which comes last, the end of the step
 * is known as a function of when it is entered: a maximum of sums, of the time
 * at which computing gets there (+ ENTER), at which each copy that is already
 * asked for is done (+ B) and at which the link is free (+ LINK). */
#include "karma_label.h"

#include <math.h>
#include <string.h>

static void shift(struct karma_label *l, int at, int n, double first)
{
    memmove(l->x + at + 1, l->x + at, (size_t)(n - 1) * sizeof l->x[0]);
    l->x[at] = first;
}

/* Backward of block j, which then asks for what block j - ahead left. */
static void add_backward(const struct karma_way *w, struct karma_label *l,
                         int j, enum pdl_karma_choice c, double offset)
{
    const struct pdl_karma_block *b = &w->k->block[j];
    int d = w->ahead;
    double tail = w->update->tail[j];
    double work = b->backward_s + karma_left(b, c)->again_s;
    double on = work + (tail < 0 ? l->x[KARMA_ENTER]
                                 : fmax(tail + offset, l->x[KARMA_ENTER]));
    double copy = l->x[KARMA_INS + d - 1], at = l->x[KARMA_ATS + d - 1];

    l->x[KARMA_ENTER] = on + w->k->slow * copy;
    if (at > -INFINITY) {
        l->x[KARMA_LINK] = copy + fmax(at, l->x[KARMA_LINK]);
        l->x[KARMA_ENTER] = fmax(l->x[KARMA_ENTER], l->x[KARMA_LINK]);
    }
    shift(l, KARMA_ATS, d, karma_moves(c) ? on : -INFINITY);
}

static void add_forward(const struct karma_way *w, struct karma_label *l, int j,
                        enum pdl_karma_choice c)
{
    const struct pdl_karma *k = w->k;
    int d = w->ahead;
    int64_t left = karma_left(&k->block[j], c)->bytes;
    double out = 0, in = 0;

    l->x[KARMA_NOW] =
        fmax(l->x[KARMA_NOW] + k->block[j].forward_s, l->x[KARMA_OUTS + d - 1]);
    if (karma_moves(c)) {
        double s = (double)left / k->out_bytes_per_s;

        out = l->x[KARMA_LAST] = fmax(l->x[KARMA_NOW], l->x[KARMA_LAST]) + s;
        l->x[KARMA_NOW] += k->slow * s;
        l->x[KARMA_HOST] += (double)left;
        in = (double)left / k->in_bytes_per_s;
    } else {
        l->x[KARMA_BYTES] += (double)left;
    }
    shift(l, KARMA_OUTS, d, out);
    shift(l, KARMA_INS, d, in);
    shift(l, KARMA_LEFT, d, karma_moves(c) ? (double)left : 0);
}

void karma_label_begin(const struct karma_way *w, struct karma_label *l)
{
    memset(l, 0, sizeof *l);
    l->x[KARMA_ENTER] = w->update->device_s;
    l->x[KARMA_LINK] = w->update->in_s;
    l->x[KARMA_HOST] = (double)w->update->host_bytes;
    for (int i = 0; i < PDL_KARMA_AHEAD; i++)
        l->x[KARMA_ATS + i] = -INFINITY;
}

void karma_label_add(const struct karma_way *w, struct karma_label *l, int j,
                     enum pdl_karma_choice c, double offset)
{
    add_backward(w, l, j, c, offset);
    add_forward(w, l, j, c);
}

double karma_label_end(const struct karma_way *w, const struct karma_label *l)
{
    double now = fmax(l->x[KARMA_NOW], l->x[KARMA_LAST]), in = 0, end = 0;

    for (int i = 1; i < w->ahead; i++) {
        double s = l->x[KARMA_INS + i];

        if (l->x[KARMA_ATS + i] == -INFINITY)
            continue;
        in = fmax(now, in) + s;
        now += w->k->slow * s;
        end = fmax(end, in + l->x[KARMA_ATS + i]);
    }
    return fmax(end, fmax(now + l->x[KARMA_ENTER], in + l->x[KARMA_LINK]));
}

void karma_label_clocks(const struct karma_way *w, const struct karma_label *l,
                        double forward, double backward, double *t)
{
    double computing = l->x[KARMA_NOW] + forward;
    double out = fmax(l->x[KARMA_NOW], l->x[KARMA_LAST]);
    double in = l->x[KARMA_LINK], back = backward + l->x[KARMA_ENTER];

    for (int i = 0; i < w->ahead; i++)
        in += l->x[KARMA_INS + i];
    t[KARMA_COMPUTING] = computing + back;
    t[KARMA_IN] = computing + in;
    t[KARMA_OUT] = out + back;
    t[KARMA_BOTH] = out + in;
}
