/* The framework that plans are made for. */
#ifndef CLI_FRAMEWORK_H
#define CLI_FRAMEWORK_H

#include "cli/questions/projection.h"

struct cli_for {
    const char *name, *why;
};
/* asked: --framework, export: --export; NULL where they are not given. */
struct cli_for cli_framework_for(const struct pdl_model *m, const char *asked,
                                 const char *export, bool per_layer);
/* Axes that a file of this format can say; NULL: all. */
const char *cli_export_axes(const char *format);
/* --framework none: what no framework runs. */
bool cli_framework_none(const char *name);
/* Drops what the framework does not run; how many are left. */
int cli_framework_keep(pdl_arena *a, const struct pdl_framework *f,
                       struct pdl_found *list, int n);
/* The highest stage of ZeRO that it runs with anything; at least 1. */
int cli_framework_most_zero(const struct pdl_framework *f);

#endif
