/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a data set fit a model? Where it does not, the line says both shapes,
 * and the hint which parameters of the model would bring them together. */
#include "train/exec/loop.h"

#include <stdio.h>
#include <string.h>

static void shape_text(char *to, size_t size, const int64_t *dim, int n)
{
    size_t at = 0;

    to[0] = '\0';
    for (int i = 0; i < n && at + 24 < size; i++)
        at += (size_t)snprintf(to + at, size - at, "%s%lld", i ? "x" : "",
                               (long long)dim[i]);
}

/* ---- what to do about it ---------------------------------------------- */

struct wanted {
    const char *key;
    int64_t value;
};

static bool takes(const char *zoo, const struct wanted *w)
{
    struct pdl_zoo_param p;

    for (int k = 0; pdl_zoo_param(zoo, k, &p); k++)
        if (strcmp(p.key, w->key) == 0)
            return p.choices || (w->value >= p.min && w->value <= p.max);
    return false;
}

/* "bert with seq=64,vocab=65 takes it": nothing unless the network of the zoo
 * has all the keys, and takes the values. */
static void suggest(const struct pdl_model *m, const struct wanted *w, int n,
                    const char *what, struct pdl_err *err)
{
    char zoo[64], text[160] = "";
    size_t at = 0;

    snprintf(zoo, sizeof zoo, "%.*s", (int)strcspn(m->name, ":"), m->name);
    for (int i = 0; i < n; i++) {
        if (!takes(zoo, &w[i]))
            return;
        if (at + 40 < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s=%lld",
                                   at ? "," : "", w[i].key,
                                   (long long)w[i].value);
    }
    pdl_hint(err, "%s with %s %s", zoo, text, what);
}

/* ---- inputs ----------------------------------------------------------- */

static void suggest_input(const struct pdl_dataset *d,
                          const struct pdl_model *m, struct pdl_err *err)
{
    const struct pdl_field *f = &d->input;
    struct wanted image[] = {{"input", f->rank > 1 ? f->dim[1] : 0},
                             {"channels", f->dim[0]},
                             {"classes", d->classes}};
    struct wanted text[] = {{"seq", f->dim[0]}, {"vocab", d->classes}};

    if (f->rank == 1)
        suggest(m, text, 2, "takes them", err);
    else if (f->rank == 3 && f->dim[1] == f->dim[2])
        suggest(m, image, 3, "takes them", err);
}

static enum pdl_status check_input(const struct pdl_dataset *d,
                                   const struct pdl_model *m, int tensor,
                                   struct pdl_err *err)
{
    struct pdl_tensor all = m->tensors[tensor], *x = &all;
    bool same = x->rank == d->input.rank;
    char want[64], have[64];

    if (train_inputs(m) > 1) {
        if (x->rank != 1)
            return pdl_fail(err, PDL_EINVAL,
                            "%s has several inputs that are no sequences; data "
                            "sets have one",
                            m->name);
        x->dim[0] = train_begins_at(m, m->ntensors);
    }
    for (int i = 0; same && i < x->rank; i++)
        same = x->dim[i] == d->input.dim[i];
    if (same)
        return PDL_OK;
    shape_text(want, sizeof want, x->dim, x->rank);
    shape_text(have, sizeof have, d->input.dim, d->input.rank);
    pdl_fail(err, PDL_EINVAL, "%s: samples are %s, but %s takes %s", d->name,
             have, m->name, want);
    suggest_input(d, m, err);
    return PDL_EINVAL;
}

/* ---- labels ----------------------------------------------------------- */

/* An encoder without a head, BERT as it is published. */
static bool is_bare(const struct pdl_model *m)
{
    const struct pdl_node *last = &m->nodes[m->nnodes - 1];

    return m->tokens > 0 && pdl_op_id(last->op) != PDL_ID_LINEAR;
}

static void suggest_head(const struct pdl_dataset *d, const struct pdl_model *m,
                         const struct pdl_plan_tensor *y, struct pdl_err *err)
{
    bool text = d->target.rank == 1 && d->input.rank == 1;
    struct wanted head[] = {{"head", 1}}, classes[] = {{"classes", d->classes}};

    if (!is_bare(m))
        pdl_hint(err, "a target has the shape of %s without the classes",
                 y->name);
    else if (text)
        suggest(m, head, 1, "learns to fill in tokens that are masked", err);
    else
        suggest(m, classes, 1, "tells classes apart", err);
    if (is_bare(m) && err && !*err->hint)
        pdl_hint(err,
                 "%s of a config.json: --dim head=1 adds the head that "
                 "fills in masked tokens",
                 m->name);
}

static enum pdl_status check_shape(const struct pdl_dataset *d,
                                   const struct pdl_plan *p,
                                   const struct pdl_plan_tensor *y,
                                   bool numbers, struct pdl_err *err)
{
    int c = y->ndims >= 4 ? 1 : y->ndims - 1, k = 0, ones = 0;
    bool same = !numbers || !d->target.integer;

    for (int i = 1; i < y->ndims; i++)
        ones += (i != c || numbers) && y->dim[i] == 1;
    ones = y->ndims - (numbers ? 1 : 2) == d->target.rank ? 0 : ones;
    same = same && d->target.rank == y->ndims - (numbers ? 1 : 2) - ones;
    for (int i = 1; same && i < y->ndims; i++)
        if ((i != c || numbers) && !(ones && y->dim[i] == 1)) {
            same = d->target.dim[k] == y->dim[i] ||
                   (k == 0 && train_is_tail(d, p->model, y->dim[i]));
            k++;
        }
    if (same)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%s: its targets do not fit the output %s",
             d->name, y->name);
    suggest_head(d, p->model, y, err);
    return PDL_EINVAL;
}

static void suggest_classes(const struct pdl_dataset *d,
                            const struct pdl_model *m, struct pdl_err *err)
{
    struct wanted vocab[] = {{"vocab", d->classes}},
                  classes[] = {{"classes", d->classes}};

    suggest(m, d->target.rank == 1 ? vocab : classes, 1, "tells them apart",
            err);
}

static enum pdl_status check_label(const struct pdl_dataset *d,
                                   const struct pdl_plan *p,
                                   const struct pdl_plan_op *loss, bool numbers,
                                   struct pdl_err *err)
{
    const struct pdl_plan_tensor *y = &p->tensors[loss->in[0]];
    int c = y->ndims >= 4 ? 1 : y->ndims - 1;
    enum pdl_status st = check_shape(d, p, y, numbers, err);

    if (st != PDL_OK || numbers || d->classes <= y->dim[c])
        return st;
    pdl_fail(err, PDL_EINVAL,
             "%s: has %lld classes, but %s tells only %lld apart", d->name,
             (long long)d->classes, p->model->name, (long long)y->dim[c]);
    suggest_classes(d, p->model, err);
    return PDL_EINVAL;
}

void train_tell_classes(struct train_loop *l)
{
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    const struct pdl_plan *p = l->job->plan;

    for (int i = 0; i < p->nops && !l->job->opt.mean_squares; i++) {
        const struct pdl_plan_op *o = &p->ops[i];
        const struct pdl_plan_tensor *y;
        struct pdl_err how = {"", ""};
        int64_t most;

        if (d->classes < 1 || !train_ends_loss(o))
            continue;
        y = &p->tensors[o->in[0]];
        most = y->dim[y->ndims >= 4 ? 1 : y->ndims - 1];
        if (most <= 2 * d->classes)
            continue;
        suggest_classes(d, p->model, &how);
        train_note(l,
                   "%s has %lld classes, of the %lld that %s tells apart%s%s",
                   d->name, (long long)d->classes, (long long)most,
                   p->model->name, *how.hint ? "; " : "", how.hint);
        return;
    }
}

static enum pdl_status unknown_values(const struct pdl_model *m, int node,
                                      int tensor, struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL,
                    "%s: %s (%s): the runtime does not know the values of the "
                    "constant %s",
                    m->name, m->nodes[node].name,
                    m->nodes[node].source_op ? m->nodes[node].source_op
                                             : m->nodes[node].op->name,
                    m->tensors[tensor].name);
}

/* Rows that an embedding looks up are all 0 (types of tokens) unless dims says
 * otherwise; other numbers that a graph has as constants stay in its file. */
static bool is_known(const struct pdl_node *n, const struct pdl_tensor *x)
{
    return x->kind != PDL_TENSOR_CONST ||
           (x->dtype >= PDL_I8 && x->dtype <= PDL_U64 &&
            pdl_op_id(n->op) == PDL_ID_EMBEDDING && n->attr.ndims == 0);
}

enum pdl_status train_constants_check(const struct pdl_model *m,
                                      struct pdl_err *err)
{
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];

        for (int k = 0; k < n->nweights; k++)
            if (m->tensors[n->weights[k]].kind == PDL_TENSOR_BUFFER &&
                pdl_op_id(n->op) != PDL_ID_BATCH_NORM)
                return unknown_values(m, i, n->weights[k], err);
        for (int k = 0; k < n->nin; k++)
            if (!is_known(n, &m->tensors[n->in[k]]))
                return unknown_values(m, i, n->in[k], err);
    }
    return PDL_OK;
}

enum pdl_status train_samples_check(const struct pdl_dataset *d,
                                    const struct pdl_plan *p, bool numbers,
                                    struct pdl_err *err)
{
    enum pdl_status st = train_constants_check(p->model, err);

    for (int i = 0; i < p->model->ntensors && st == PDL_OK; i++)
        if (p->model->tensors[i].kind == PDL_TENSOR_INPUT)
            st = check_input(d, p->model, i, err);
    if (st == PDL_OK && train_inputs(p->model) < 1)
        st = pdl_fail(err, PDL_EINVAL, "%s has no input", p->model->name);
    for (int i = 0; i < p->nops && st == PDL_OK; i++)
        if (train_ends_loss(&p->ops[i]))
            st = check_label(d, p, &p->ops[i], numbers, err);
    return st;
}
