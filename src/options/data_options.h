/* The options of `data show`, `data stage` and `data check`: `paradl` checks
 * them, `paradl-run` follows them. */
#ifndef RUN_DATA_OPTIONS_H
#define RUN_DATA_OPTIONS_H

#include "paradl/base.h"

struct data_options {
    const char *store, *shuffle, *only;
    int64_t ranks, threads, seed, sequence, side;
};

#define AT(field) offsetof(struct data_options, field)
// clang-format off
static const struct pdl_opt data_opts[] = {
    {"sequence", 0, PDL_OPT_COUNT, AT(sequence), "T", NULL,
     "tokens of a sample of text (default 256)"},
    {"side", 0, PDL_OPT_COUNT, AT(side), "S", NULL,
     "JPEG images become S x S (default 224)"},
};
static const struct pdl_opt data_stage_opts[] = {
    {"store", 0, PDL_OPT_TEXT, AT(store), "DIR", NULL,
     "folder on the local disk; rank R's file is DIR/rank-R.store"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "ranks that will share the samples (default 1)"},
    {"only", 0, PDL_OPT_TEXT, AT(only), "R", NULL,
     "stage the file of this rank alone (default: of all)"},
    {"shuffle", 0, PDL_OPT_TEXT, AT(shuffle), "NAME[:K=V,...]", NULL,
     "as of train: who stores what at first, and how much room exchange takes "
     "(default local)"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "S", NULL, "as of train (default 0)"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL,
     "that read and decode (default: processors)"},
    {"sequence", 0, PDL_OPT_COUNT, AT(sequence), "T", NULL,
     "tokens of a sample of text (default 256)"},
    {"side", 0, PDL_OPT_COUNT, AT(side), "S", NULL,
     "JPEG images become S x S (default 224)"},
};
// clang-format on
#undef AT

enum {
    NDATA_OPTS = sizeof data_opts / sizeof data_opts[0],
    NDATA_STAGE_OPTS = sizeof data_stage_opts / sizeof data_stage_opts[0],
};

#endif
