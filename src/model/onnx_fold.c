/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators: the shape by broadcasting, and the value where all
 * inputs are small and known (shape arithmetic). An element that depends on an
 * unknown dimension is NaN and makes NaN, so that one unbound name spoils only
 * what really depends on it. */
#include "onnx_priv.h"

#include <math.h>

#define IN  model_onnx_in
#define OUT model_onnx_out

/* Broadcasts b into y (ONNX rules: align right, 1 stretches). Files of the
 * first opsets add a vector to the channels without saying so: there the
 * shape of the larger operand stands. */
static void broadcast(struct onnx_shape *y, const struct onnx_shape *b)
{
    int64_t dim[PDL_MAX_RANK];
    int rank = y->rank > b->rank ? y->rank : b->rank;

    if (y->rank < 0 || b->rank < 0) {
        y->rank = -1;
        return;
    }
    for (int i = 0; i < rank; i++) {
        int iy = i - (rank - y->rank), ib = i - (rank - b->rank);
        int64_t p = iy < 0 ? 1 : y->dim[iy], q = ib < 0 ? 1 : b->dim[ib];

        if (p > 1 && q > 1 && p != q) {
            if (b->rank > y->rank)
                model_onnx_set(y, b->rank, b->dim);
            return;
        }
        dim[i] = p == 1 || p < 0 ? q : p;
        if (p < 0 && q == 1)
            dim[i] = -1;
    }
    model_onnx_set(y, rank, dim);
}

/* The element of x that broadcasting puts at flat place k of y. */
static double element(const struct onnx_shape *x, const struct onnx_shape *y,
                      int64_t k)
{
    int64_t flat = 0, step = 1;

    for (int i = y->rank - 1; i >= 0; i--) {
        int ix = i - (y->rank - x->rank);
        int64_t at = y->dim[i] > 0 ? k % y->dim[i] : 0;

        k = y->dim[i] > 0 ? k / y->dim[i] : 0;
        if (ix < 0)
            break;
        if (x->dim[ix] != 1)
            flat += at * step;
        step *= x->dim[ix];
    }
    return flat >= 0 && flat < x->nval ? x->val[flat] : (double)NAN;
}

static double divide(double a, double b, bool whole)
{
    if (b == 0 || isnan(a) || isnan(b))
        return (double)NAN;
    return whole ? trunc(a / b) : a / b;
}

static double mod(double a, double b)
{
    return b == 0 ? (double)NAN : a - b * floor(a / b);
}

static double apply2(const char *op, double a, double b, bool whole)
{
    if (isnan(a) || isnan(b)) /* 0 times unknown is 0, and masks use that */
        return strcmp(op, "Mul") == 0 && (a == 0 || b == 0) ? 0 : (double)NAN;
    switch (op[0]) {
    case 'A':
        return op[1] == 'd' ? a + b : (double)(a != 0 && b != 0);
    case 'S':
        return a - b;
    case 'M':
        return op[1] == 'u'   ? a * b
               : op[1] == 'a' ? fmax(a, b)
               : op[1] == 'i' ? fmin(a, b)
                              : mod(a, b);
    case 'D':
        return divide(a, b, whole);
    case 'P':
        return pow(a, b);
    case 'E':
        return a == b;
    case 'G':
        return strcmp(op, "Greater") == 0 ? a > b : a >= b;
    case 'L':
        return strcmp(op, "Less") == 0 ? a < b : a <= b;
    case 'O':
        return a != 0 || b != 0;
    case 'X':
        return (a != 0) != (b != 0);
    default:
        return (double)NAN;
    }
}

static bool all_known(const struct onnx_call *c, int n)
{
    for (int i = 0; i < n; i++)
        if (IN(c, i)->nval < 0)
            return false;
    return n > 0;
}

static void fold_binary(struct onnx_call *c, struct onnx_shape *y)
{
    int64_t n = model_onnx_elements(y);
    bool whole = model_onnx_int_type(IN(c, 0)->type);
    double *val;

    if (!all_known(c, c->n->nin) || n < 0)
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t k = 0; val && k < n; k++) {
        val[k] = element(IN(c, 0), y, k);
        for (int i = 1; i < c->n->nin; i++)
            val[k] = apply2(c->n->type, val[k], element(IN(c, i), y, k), whole);
    }
}

/* Opset 6 and older align with an attribute; there the first input is whole. */
static bool old_broadcast(const struct onnx_call *c)
{
    return c->n->opset < 7 && model_onnx_int(c->n, "broadcast", 0) != 0;
}

void model_onnx_infer_binary(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);
    const struct onnx_shape *x = IN(c, 0);

    y->type = x->type ? x->type : IN(c, 1)->type;
    model_onnx_set(y, x->rank, x->dim);
    if (old_broadcast(c))
        return;
    for (int i = 1; i < c->n->nin; i++)
        broadcast(y, IN(c, i));
    fold_binary(c, y);
}

void model_onnx_infer_compare(struct onnx_call *c)
{
    model_onnx_infer_binary(c);
    OUT(c, 0)->type = ONNX_BOOL;
}

void model_onnx_infer_where(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);
    int64_t n;
    double *val;

    y->type = IN(c, 1)->type ? IN(c, 1)->type : IN(c, 2)->type;
    model_onnx_set(y, IN(c, 0)->rank, IN(c, 0)->dim);
    broadcast(y, IN(c, 1));
    broadcast(y, IN(c, 2));
    n = model_onnx_elements(y);
    if (!all_known(c, 3) || n < 0)
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t k = 0; val && k < n; k++) {
        double p = element(IN(c, 0), y, k), a = element(IN(c, 1), y, k),
               b = element(IN(c, 2), y, k);

        val[k] = isnan(p) ? (double)NAN : p != 0 ? a : b;
    }
}

static double apply1(const char *op, double a)
{
    static const struct {
        const char *op;
        double (*f)(double);
    } table[] = {{"Abs", fabs},   {"Ceil", ceil}, {"Floor", floor},
                 {"Round", rint}, {"Sqrt", sqrt}, {"Exp", exp},
                 {"Log", log}};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(op, table[i].op) == 0)
            return table[i].f(a);
    if (strcmp(op, "Neg") == 0)
        return -a;
    if (strcmp(op, "Reciprocal") == 0)
        return 1 / a;
    if (strcmp(op, "Not") == 0)
        return isnan(a) ? a : a == 0;
    return (double)NAN;
}

/* The shape of the first input, nothing known of the value. */
void model_onnx_infer_same(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);

    *y = *IN(c, 0);
    y->nval = -1;
}

/* Identity and its like hand the value on. */
void model_onnx_infer_fixed(struct onnx_call *c)
{
    *OUT(c, 0) = *IN(c, 0);
}

void model_onnx_infer_unary(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    double *val;

    model_onnx_infer_same(c);
    if (x->nval < 0)
        return;
    val = model_onnx_room(c, y, x->nval);
    for (int i = 0; val && i < x->nval; i++)
        val[i] = apply1(c->n->type, x->val[i]);
}

void model_onnx_infer_cast(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int to = (int)model_onnx_int(c->n, "to", 0);
    double *val;

    *y = *x;
    y->type = model_onnx_has(c, 1) ? IN(c, 1)->type : to; /* CastLike */
    if (x->nval < 0 || !model_onnx_int_type(y->type))
        return;
    val = model_onnx_room(c, y, x->nval);
    for (int i = 0; val && i < x->nval; i++)
        val[i] = y->type == ONNX_BOOL && !isnan(x->val[i])
                     ? (double)(x->val[i] != 0)
                     : trunc(x->val[i]);
}

void model_onnx_infer_expand(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0), want = {.nval = -1};
    int64_t dim[PDL_MAX_RANK], n;
    int rank = model_onnx_list(c, NULL, 1, dim, PDL_MAX_RANK);
    const struct onnx_shape *s = IN(c, 1);
    double *val;

    y->type = IN(c, 0)->type;
    model_onnx_set(y, IN(c, 0)->rank, IN(c, 0)->dim);
    if (rank < 0 && s->rank == 1 && s->dim[0] >= 0 && s->dim[0] <= PDL_MAX_RANK)
        model_onnx_set(&want, (int)s->dim[0], NULL);
    else
        model_onnx_set(&want, rank, dim);
    broadcast(y, &want);
    n = model_onnx_elements(y);
    if (IN(c, 0)->nval < 0 || n < 0)
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t k = 0; val && k < n; k++)
        val[k] = element(IN(c, 0), y, k);
}

void model_onnx_infer_range(struct onnx_call *c)
{
    struct onnx_shape *y = OUT(c, 0);
    double start, limit, step, *val, n;

    y->type = IN(c, 0)->type;
    model_onnx_set(y, 1, NULL);
    if (!all_known(c, 3) || IN(c, 0)->nval != 1 || IN(c, 1)->nval != 1 ||
        IN(c, 2)->nval != 1)
        return;
    start = IN(c, 0)->val[0];
    limit = IN(c, 1)->val[0];
    step = IN(c, 2)->val[0];
    n = step == 0 ? (double)NAN : fmax(0, ceil((limit - start) / step));
    if (!isfinite(n) || n > 1e15)
        return;
    y->dim[0] = (int64_t)n;
    val = model_onnx_room(c, y, y->dim[0]);
    for (int64_t i = 0; val && i < y->dim[0]; i++)
        val[i] = start + step * (double)i;
}

/* ConstantOfShape */
void model_onnx_infer_fill(struct onnx_call *c)
{
    const Onnx__Attribute *a = model_onnx_attr(c->n, "value");
    struct onnx_shape *y = OUT(c, 0);
    struct onnx_value one = {.name = "value"};
    int64_t dim[PDL_MAX_RANK], n;
    int rank = model_onnx_list(c, NULL, 0, dim, PDL_MAX_RANK);
    double *val;

    y->type = a && a->t ? a->t->data_type : ONNX_FLOAT;
    model_onnx_set(y, rank, dim);
    n = model_onnx_elements(y);
    if (n < 0 || n > ONNX_MAX_FOLD)
        return;
    if (a && a->t && model_onnx_tensor(c->g, a->t, "value", &one))
        return;
    val = model_onnx_room(c, y, n);
    for (int64_t i = 0; val && i < n; i++)
        val[i] = one.stored.nval == 1 ? one.stored.val[0] : a ? (double)NAN : 0;
}

static void reduce_dims(const struct onnx_shape *x, const bool *drop, bool keep,
                        struct onnx_shape *y)
{
    int64_t dim[PDL_MAX_RANK];
    int n = 0;

    for (int i = 0; i < x->rank; i++)
        if (!drop[i])
            dim[n++] = x->dim[i];
        else if (keep)
            dim[n++] = 1;
    model_onnx_set(y, n, dim);
}

/* Products and extremes of whole vectors: "how many elements has it". */
static void fold_reduce(struct onnx_call *c, struct onnx_shape *y)
{
    const struct onnx_shape *x = IN(c, 0);
    const char *op = c->n->type;
    double v, *val;

    if (x->nval < 1 || model_onnx_elements(y) != 1)
        return;
    v = x->val[0];
    for (int i = 1; i < x->nval; i++)
        v = apply2(strcmp(op, "ReduceProd") == 0  ? "Mul"
                   : strcmp(op, "ReduceSum") == 0 ? "Add"
                   : strcmp(op, "ReduceMax") == 0 ? "Max"
                   : strcmp(op, "ReduceMin") == 0 ? "Min"
                                                  : "?",
                   v, x->val[i], false);
    val = model_onnx_room(c, y, 1);
    if (val)
        val[0] = v;
}

void model_onnx_infer_reduce(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t axes[PDL_MAX_RANK];
    bool drop[PDL_MAX_RANK] = {false};
    int n = model_onnx_list(c, "axes", 1, axes, PDL_MAX_RANK);
    bool keep = model_onnx_int(c->n, "keepdims", 1) != 0;

    y->type = x->type;
    if (x->rank < 0 || n > PDL_MAX_RANK)
        return;
    if (n < 0 && model_onnx_has(c, 1)) {
        if (keep)
            model_onnx_set(y, x->rank, NULL);
        return;
    }
    if (n <= 0 && model_onnx_int(c->n, "noop_with_empty_axes", 0)) {
        model_onnx_set(y, x->rank, x->dim);
        return;
    }
    for (int i = 0; i < x->rank && n <= 0; i++)
        drop[i] = true;
    for (int i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];

        if (axis >= 0 && axis < x->rank)
            drop[axis] = true;
    }
    reduce_dims(x, drop, keep, y);
    fold_reduce(c, y);
}

void model_onnx_infer_arg(struct onnx_call *c)
{
    const struct onnx_shape *x = IN(c, 0);
    struct onnx_shape *y = OUT(c, 0);
    int64_t axis = model_onnx_int(c->n, "axis", 0);
    bool drop[PDL_MAX_RANK] = {false};

    y->type = ONNX_INT64;
    if (x->rank < 0)
        return;
    axis = axis < 0 ? axis + x->rank : axis;
    if (axis >= 0 && axis < x->rank)
        drop[axis] = true;
    reduce_dims(x, drop, model_onnx_int(c->n, "keepdims", 1) != 0, y);
}
