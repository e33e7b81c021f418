/* SPDX-License-Identifier: Apache-2.0
 *
 * Which framework a plan is for: the one that is named, else the one that its
 * export is for, else a default by kind of model. What it does not run is not
 * planned. */
#include "cli/questions/framework.h"

#include <string.h>

/* Formats that are of no framework (sbatch, pipeline-csv) are not here. */
static const struct {
    const char *format, *framework;
} exports[] = {
    {"megatron", "megatron"},
    {"deepspeed", "megatron-deepspeed"},
    {"torchtitan", "torchtitan"},
    {"torchtitan-toml", "torchtitan"},
    {"accelerate", "pytorch"},
    {"nanotron", "nanotron"},
    {"paradl", "own"},
};

static const char *of_export(const char *format)
{
    for (size_t i = 0; format && i < sizeof exports / sizeof exports[0]; i++)
        if (strcmp(exports[i].format, format) == 0)
            return exports[i].framework;
    return NULL;
}

struct cli_for cli_framework_for(const struct pdl_model *m, const char *asked,
                                 const char *export, bool per_layer)
{
    bool transformer = strcmp(m->kind, "transformer") == 0;

    if (asked)
        return (struct cli_for){asked, "as asked"};
    if (of_export(export))
        return (struct cli_for){of_export(export), "as it is exported"};
    if (per_layer)
        return (struct cli_for){"own", "which alone runs axes of single "
                                       "layers; --framework chooses"};
    if (transformer)
        return (struct cli_for){
            "megatron", "the default for transformers; --framework chooses"};
    return (struct cli_for){"own", "the default for networks that are no "
                                   "transformers; --framework chooses"};
}

bool cli_framework_none(const char *name)
{
    return name && strcmp(name, "none") == 0;
}
