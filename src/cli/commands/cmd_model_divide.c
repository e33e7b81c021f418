/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl model divide: the narrow networks that FedDCT trains in the place of
 * a wide one. */
#include "cli/cli_priv.h"

#include "paradl/model.h"

struct options {
    int64_t parts;
};

static const struct pdl_opt divide_opts[] = {
    {"parts", 0, PDL_OPT_COUNT, offsetof(struct options, parts), "S", NULL,
     "how many (default 4)"},
};

/* What leaves the stem: the output of the first ReLU. */
static int64_t stem_of(const struct pdl_model *m)
{
    int64_t n = 1;
    int at = 0;

    while (at + 1 < m->nnodes && pdl_op_id(m->nodes[at].op) != PDL_ID_RELU)
        at++;
    for (int d = 0; d < m->tensors[m->nodes[at].out[0]].rank; d++)
        n *= m->tensors[m->nodes[at].out[0]].dim[d];
    return n;
}

struct sizes {
    const char *spec;
    struct pdl_model_totals all;
    int64_t stem;
};

static enum pdl_status measure(pdl_arena *a, struct sizes *s,
                               struct pdl_err *err)
{
    const struct pdl_model *m = NULL;
    enum pdl_status st = pdl_zoo_build(a, s->spec, &m, err);

    if (st == PDL_OK)
        st = pdl_model_totals(m, &s->all, err);
    if (st == PDL_OK)
        s->stem = stem_of(m);
    return st;
}

static void print_text(const struct sizes *whole, const struct sizes *part,
                       int64_t parts)
{
    struct pdl_sink *out = cli_out();
    double n = (double)parts;

    pdl_printf(out, "whole        %s\n", whole->spec);
    pdl_printf(out, "  parameters %lld, forward FLOPs %lld a sample\n",
               (long long)whole->all.parameters,
               (long long)whole->all.forward_flops);
    pdl_printf(out, "%lld parts of  %s\n", (long long)parts, part->spec);
    pdl_printf(out,
               "  parameters %lld (%.3f of the whole, %.3f together), forward "
               "FLOPs %lld\n",
               (long long)part->all.parameters,
               (double)part->all.parameters / (double)whole->all.parameters,
               n * (double)part->all.parameters / (double)whole->all.parameters,
               (long long)part->all.forward_flops);
    pdl_printf(out, "  stem       %lld numbers a sample leave it\n",
               (long long)part->stem);
}

static void print_json(const struct sizes *whole, const struct sizes *part,
                       int64_t parts)
{
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "model-divide");
    pdl_json_kstr(&j, "whole", whole->spec);
    pdl_json_kint(&j, "whole_parameters", whole->all.parameters);
    pdl_json_kint(&j, "parts", parts);
    pdl_json_kstr(&j, "part", part->spec);
    pdl_json_kint(&j, "part_parameters", part->all.parameters);
    pdl_json_kint(&j, "part_forward_flops", part->all.forward_flops);
    pdl_json_kint(&j, "stem_numbers", part->stem);
    pdl_json_end(&j);
}

static int divide(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    int64_t parts = o->parts > 0 ? o->parts : 4;
    struct sizes whole = {.spec = args->pos[0]}, part = {.spec = NULL};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    enum pdl_status st =
        !a ? pdl_fail(&err, PDL_ENOMEM, "out of memory")
        : parts > 4096
            ? pdl_fail(&err, PDL_EINVAL, "--parts: from 1 to 4096")
            : pdl_zoo_divide(a, whole.spec, (int)parts, &part.spec, &err);

    if (st == PDL_OK)
        st = measure(a, &whole, &err);
    if (st == PDL_OK)
        st = measure(a, &part, &err);
    if (st == PDL_OK)
        (args->json ? print_json : print_text)(&whole, &part, parts);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_model_divide = {
    .name = "model divide",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "the narrow networks that FedDCT makes of a wide one",
    .text = "A network of the zoo with a width is replaced by S narrower ones, "
            "each 1/sqrt(S) as wide, so that together they have about as many "
            "parameters ('paradl federate MODEL --algorithm feddct:parts=S' "
            "trains them). The stem (up to the first ReLU) stays with whoever "
            "has the samples; what leaves it is sent to the device of the "
            "part.",
    .example = "paradl model divide resnet110 --parts 4",
    .opts = divide_opts,
    .nopts = sizeof divide_opts / sizeof divide_opts[0],
    .opts_size = sizeof(struct options),
    .run = divide,
};
