/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters by which the oracle prices kernels (pe.kernels), fitted to
 * the operators that were measured (pe.profile): each row is priced as one
 * kernel, and the mean size of the logarithm of projected by measured is made
 * small. */
#include "cli/commands/cli_calibrate.h"

#include <math.h>
#include <string.h>

enum { MAX_ROWS = 512 };

struct rows {
    struct pdl_shape shape[MAX_ROWS];
    double seconds[MAX_ROWS];
    int n;
};

static bool pass_of(const char *name, enum pdl_pass *out)
{
    static const struct {
        const char *name;
        enum pdl_pass pass;
    } passes[] = {
        {"forward", PDL_FORWARD},
        {"backward-data", PDL_BACKWARD_DATA},
        {"backward-weights", PDL_BACKWARD_WEIGHTS},
    };

    for (int i = 0; i < 3; i++)
        if (name && strcmp(passes[i].name, name) == 0) {
            *out = passes[i].pass;
            return true;
        }
    return false;
}

/* False: not an operator that has a kernel of its own. */
static bool shape_of(const struct pdl_profile_row *r, struct pdl_shape *s)
{
    const int64_t *d = r->dims;

    *s = (struct pdl_shape){.groups = 1,
                            .precision = pdl_precision_find(r->precision)};
    if (!(r->seconds > 0) || !pass_of(r->pass, &s->pass))
        return false;
    if (strcmp(r->op, "matmul") == 0 && r->ndims == 3) {
        s->kind = PDL_SHAPE_MATMUL;
        s->n = d[0];
        s->f = d[1];
        s->c = d[2];
        return true;
    }
    if (strcmp(r->op, "conv") != 0 || r->ndims != 8)
        return false;
    s->kind = PDL_SHAPE_CONV;
    s->n = d[0];
    s->c = d[1];
    s->f = d[4];
    s->nspatial = 2;
    for (int i = 0; i < 2; i++) {
        s->in[i] = d[2 + i];
        s->kernel[i] = d[5];
        s->stride[i] = d[6];
        s->out[i] = (d[2 + i] + 2 * d[7] - d[5]) / d[6] + 1;
    }
    return true;
}

static double cost(const struct pdl_system *sys, void *ctx)
{
    const struct rows *r = ctx;
    double sum = 0;

    for (int i = 0; i < r->n; i++)
        sum += fabs(
            log(pdl_shape_seconds(&sys->pe, &r->shape[i]) / r->seconds[i]));
    return sum / r->n;
}

#define AT(field) offsetof(struct pdl_system, pe.kernels.field)
#define OF(field, precision) \
    (AT(field) + (PDL_PREC_##precision) * sizeof(double))
// clang-format off
static const struct pdl_fit_param params[] = {
    {"pe.kernels.conv_forward.fp32", OF(conv_forward, FP32), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_data.fp32", OF(conv_data, FP32), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_weights.fp32", OF(conv_weights, FP32), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_forward.bf16", OF(conv_forward, BF16), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_data.bf16", OF(conv_data, BF16), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_weights.bf16", OF(conv_weights, BF16), .02, 4, 1, 0, 0},
    {"pe.kernels.conv_tile", AT(conv_tile_s), 1e-9, 1e-3, 1e-6, 0, 0},
    {"pe.kernels.matmul_tile", AT(matmul_tile_s), 1e-9, 1e-3, 1e-6, 0, 0},
    {"pe.kernels.conv_epilogue", AT(conv_epilogue), .01, 4, .5, 0, 0},
    {"pe.kernels.matmul_epilogue", AT(matmul_epilogue), .01, 4, .5, 0, 0},
    {"pe.kernels.tile_fill", AT(tile_fill), .01, 1, .9, 0, 0},
    {"pe.kernels.pad_cost", AT(pad_cost), .01, 16, 1, 0, 0},
};
// clang-format on
#undef AT

void cli_fit_kernels(struct pdl_system *sys, struct cli_kernels *out)
{
    static struct rows r;
    const struct pdl_pe old = sys->pe;
    struct pdl_fit_result result;

    r.n = 0;
    for (int64_t i = 0; i < sys->pe.nprofile && r.n < MAX_ROWS; i++)
        if (shape_of(&sys->pe.profile[i], &r.shape[r.n]))
            r.seconds[r.n++] = sys->pe.profile[i].seconds;
    *out = (struct cli_kernels){.rows = r.n};
    if (r.n == 0)
        return;
    pdl_fit_system(sys, params, sizeof params / sizeof params[0], cost, &r, r.n,
                   false, &result);
    if (result.after > result.before) { /* few rows, and far apart */
        sys->pe.kernels = old.kernels;
        result.after = result.before;
    }
    out->before = result.before;
    out->after = result.after;
}
