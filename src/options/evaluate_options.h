/* The options of `evaluate`: those of `train` that have a meaning without
 * training, in the same struct. */
#ifndef RUN_EVALUATE_OPTIONS_H
#define RUN_EVALUATE_OPTIONS_H

#include "train_options.h"

#define AT(field) offsetof(struct train_options, field)
// clang-format off
static const struct pdl_opt evaluate_opts[] = {
    {"data", 0, PDL_OPT_TEXT, AT(data), "DIR", NULL,
     "'digits' (ships with the program), a file or a folder"},
    {"checkpoint", 0, PDL_OPT_TEXT, AT(checkpoint), "DIR", NULL,
     "weights: the newest good checkpoint here, or DIR/step-N"},
    {"weights", 0, PDL_OPT_TEXT, AT(load), "FILE.safetensors", NULL,
     "weights: a file, or an index of several"},
    {"no-ema", 0, PDL_OPT_FLAG, AT(no_ema), NULL, NULL,
     "the weights themselves, not the mean that a checkpoint may hold"},
    {"split", 0, PDL_OPT_TEXT, AT(split), "NAME", NULL,
     "which samples (default test)"},
    {"test-samples", 0, PDL_OPT_COUNT, AT(test_samples), "N", NULL,
     "only the first N"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "ranks (default: the product of the strategy's axes)"},
    {"strategy", 0, PDL_OPT_TEXT, AT(strategy), "STRATEGY", NULL,
     "how to parallelise, e.g. data=2 (default: data=P)"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL,
     "samples at a time, over all ranks (default 32)"},
    {"sequence", 0, PDL_OPT_COUNT, AT(sequence), "T", NULL,
     "tokens of a sample (default: what the model takes)"},
    {"raw", 0, PDL_OPT_FLAG, AT(raw), NULL, NULL,
     "do not normalise inputs by mean and deviation"},
    {"mse", 0, PDL_OPT_FLAG, AT(mean_squares), NULL, NULL,
     "mean squared error instead of cross-entropy"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME", "fp32|bf16|fp64",
     "of the arithmetic (default fp32)"},
    {"backend", 0, PDL_OPT_TEXT, AT(backend), "NAME", NULL,
     "ref (plain C) or cpu (oneDNN; default where it is built)"},
    {"device", 0, PDL_OPT_TEXT, AT(device), "NAME", NULL,
     "cpu (default), cuda, cuda:1, cuda:1:tf32, or auto: a GPU if there is one"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL,
     "of each rank (default: processors / ranks)"},
    {"virtual", 0, PDL_OPT_FLAG, AT(virtual_ranks), NULL, NULL,
     "all ranks in one process, as threads"},
    {"timeout", 0, PDL_OPT_AMOUNT, AT(timeout), "SECONDS", NULL,
     "wait so long for a rank (default 300)"},
    {"plan", 0, PDL_OPT_TEXT, AT(plan), "FILE.plan", NULL,
     "evaluate this plan instead of MODEL and --strategy"},
    {"plan-hash", 0, PDL_OPT_TEXT, AT(plan_hash), "HEX", NULL,
     "refuse a plan whose text has another hash"},
    {"dim", 0, PDL_OPT_TEXT, AT(dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
};
// clang-format on
#undef AT

enum { NEVALUATE_OPTS = sizeof evaluate_opts / sizeof evaluate_opts[0] };

#endif
