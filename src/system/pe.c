/* SPDX-License-Identifier: Apache-2.0
 *
 * Small questions about processing elements: precisions, rates, and which PE
 * of the library a driver means by its model name. */
#include "system_priv.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    double bytes;
} precisions[PDL_NPRECISIONS] = {
#define X(id, name, bytes) [PDL_PREC_##id] = {name, bytes},
    PDL_PRECISION_LIST(X)
#undef X
};

const char *pdl_precision_name(enum pdl_precision p)
{
    return precisions[p].name;
}

double pdl_precision_bytes(enum pdl_precision p)
{
    return precisions[p].bytes;
}

/* Recipes of 8 and 4 bits by their formats' names. */
static const char *plain_name(const char *name)
{
    static const struct {
        const char *called, *name;
    } also[] = {{"mxfp8", "fp8"}, {"nvfp4", "fp4"}, {"mxfp4", "fp4"}};

    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(also[i].called, name) == 0)
            return also[i].name;
    return name;
}

enum pdl_precision pdl_precision_find(const char *name)
{
    int p = 0;

    name = plain_name(name);

    while (p < PDL_NPRECISIONS && strcmp(precisions[p].name, name) != 0)
        p++;
    return (enum pdl_precision)p;
}

double pdl_pe_matmul_rate(const struct pdl_pe *pe, enum pdl_precision p,
                          double guess)
{
    if (pe->matmul_flop_per_s[p] > 0)
        return pe->matmul_flop_per_s[p];
    return guess * pe->peak_flop_per_s[p];
}

/* Words that must all stand in the model's name, in NVIDIA's and AMD's
 * spelling; the first row that fits wins. */
static const struct {
    const char *words[3];
    const char *pe;
} models[] = {
    {{"P100", "SXM2"}, "p100-16g"},
    {{"V100", "32GB"}, "v100-32g"},
    {{"V100", "16GB"}, "v100-16g"},
    {{"A100", "40GB"}, "a100-40g"},
    {{"A100", "80GB"}, "a100-80g"},
    {{"H100", "80GB"}, "h100-80g"},
    {{"H200"}, "h200"},
    {{"GH200"}, "gh200"},
    {{"GB300"}, "gb300"},
    {{"B300"}, "b300"},
    {{"GB200"}, "gb200"},
    {{"B200"}, "b200"},
    {{"MI210"}, "mi210"},
    {{"MI250X"}, "mi250x"},
    {{"MI300X"}, "mi300x"},
    {{"MI325X"}, "mi325x"},
    {{"MI355X"}, "mi355x"},
};

const char *pdl_pe_of_model(const char *model)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bool all = true;

        for (int w = 0; w < 3 && models[i].words[w]; w++)
            all = all && strcasestr(model, models[i].words[w]);
        /* a PCIe board has the name but not the links or the power */
        if (all && !strcasestr(model, "PCIe"))
            return models[i].pe;
    }
    return NULL;
}
