/* The options of `diff-run`: `paradl` checks them, `paradl-run` follows. */
#ifndef RUN_DIFF_OPTIONS_H
#define RUN_DIFF_OPTIONS_H

#include "paradl/base.h"

struct diff_options {
    const char *model, *backend, *precision, *optimizer, *dim;
    int64_t batch, steps, seed;
    double tolerance, lr;
    bool allow_empty;
};

#define AT(field) offsetof(struct diff_options, field)
// clang-format off
static const struct pdl_opt diff_opts[] = {
    {"model", 0, PDL_OPT_TEXT, AT(model), "MODEL", NULL,
     "the network, when A and B are strategies"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL,
     "samples of one step (default 8)"},
    {"steps", 0, PDL_OPT_COUNT, AT(steps), "N", NULL, "to run (default 2)"},
    {"tolerance", 0, PDL_OPT_NUM, AT(tolerance), "X", NULL,
     "of the largest value of a tensor, where sums cross ranks (default 1e-9 "
     "in fp64, 1e-3 in fp32)"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME", "fp64|fp32",
     "of the arithmetic (default fp64)"},
    {"backend", 0, PDL_OPT_TEXT, AT(backend), "NAME", NULL,
     "ref (default) or cpu"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(optimizer), "NAME[:K=V,...]", NULL,
     "as of train"},
    {"lr", 0, PDL_OPT_AMOUNT, AT(lr), "X", NULL, "learning rate (default 0.01)"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "S", NULL, "of weights and samples"},
    {"dim", 0, PDL_OPT_TEXT, AT(dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
    {"allow-empty", 0, PDL_OPT_FLAG, AT(allow_empty), NULL, NULL,
     "admit an axis larger than the index it cuts"},
};
// clang-format on
#undef AT

enum { NDIFF_OPTS = sizeof diff_opts / sizeof diff_opts[0] };

#endif
