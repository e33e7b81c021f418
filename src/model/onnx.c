/* SPDX-License-Identifier: Apache-2.0
 *
 * The ONNX reader: the order of the steps (see onnx_priv.h). */
#include "onnx_priv.h"

static enum pdl_status load(struct onnx_graph *g, struct pdl_bytes in,
                            const struct pdl_model_options *opt)
{
    enum pdl_status st = model_onnx_unpack(g, in);

    if (st == PDL_OK)
        st = model_onnx_flatten(g);
    if (st == PDL_OK)
        st = model_onnx_bind(g, opt ? opt->dims : NULL);
    if (st == PDL_OK)
        st = model_onnx_infer(g);
    if (st == PDL_OK)
        st = model_onnx_count(g);
    return st;
}

enum pdl_status pdl_model_onnx(pdl_arena *a, struct pdl_bytes in,
                               const char *name,
                               const struct pdl_model_options *opt,
                               const struct pdl_model **out,
                               struct pdl_err *err)
{
    struct onnx_graph g = {.arena = a, .name = name, .err = err};
    enum pdl_status st = load(&g, in, opt);

    return st ? st : model_onnx_build(&g, out);
}
