/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of ways in which gradients travel: compress=NAME or NAME:VALUE. */
#include "plan_priv.h"

#include <string.h>

static const struct {
    const char *name;
    double least, most; /* of the value, which is above `least`; 0: has none */
    bool whole;         /* the value is a count */
} ways[PDL_NCOMPRESS] = {
    [PDL_COMPRESS_NONE] = {"none", 0, 0, false},
    [PDL_COMPRESS_TOPK] = {"topk", 0, 1, false},
    [PDL_COMPRESS_INT8] = {"int8", 0, 0, false},
    [PDL_COMPRESS_BF16] = {"bf16", 0, 0, false},
    [PDL_COMPRESS_FP16] = {"fp16", 0, 0, false},
    [PDL_COMPRESS_SIGN] = {"sign", 0, 0, false},
    [PDL_COMPRESS_POWERSGD] = {"powersgd", 0, 64, true},
    [PDL_COMPRESS_LOSSLESS] = {"lossless", 0, 0, false},
};

const char *pdl_compress_name(enum pdl_compress_kind kind)
{
    return kind < PDL_NCOMPRESS ? ways[kind].name : "none";
}

const char *pdl_strategy_compression(const struct pdl_strategy *s, int clause)
{
    const char *own = clause >= 0 ? s->clause[clause].compress : NULL;

    if (!own)
        return s->compress;
    return strcmp(own, "none") == 0 ? NULL : own;
}

bool pdl_strategy_compresses(const struct pdl_strategy *s)
{
    bool any = s->compress != NULL;

    for (int c = 0; c < s->nclauses; c++)
        any = any || pdl_strategy_compression(s, c);
    return any;
}

bool pdl_compress_parse(const char *text, struct pdl_compression *out)
{
    size_t len = text ? strcspn(text, ":") : 0;
    double v = 0;

    *out = (struct pdl_compression){PDL_COMPRESS_NONE, 0};
    if (!text)
        return true;
    for (int k = PDL_COMPRESS_TOPK; k < PDL_NCOMPRESS; k++) {
        bool takes = ways[k].most > 0;

        if (strlen(ways[k].name) != len ||
            strncmp(ways[k].name, text, len) != 0)
            continue;
        if (takes != (text[len] == ':'))
            return false;
        if (takes && (pdl_unit_parse(text + len + 1, PDL_UNIT_NONE, &v, NULL) !=
                          PDL_OK ||
                      !(v > ways[k].least && v <= ways[k].most) ||
                      (ways[k].whole && v != (double)(int)v)))
            return false;
        *out = (struct pdl_compression){(enum pdl_compress_kind)k, v};
        return true;
    }
    return false;
}
