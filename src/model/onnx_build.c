#include "onnx_priv.h"
enum pdl_status model_onnx_build(struct onnx_graph *g,
                                 const struct pdl_model **out)
{
    (void)g;
    (void)out;
    return PDL_EINVAL;
}
