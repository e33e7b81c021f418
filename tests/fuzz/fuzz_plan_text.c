#include "paradl/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum pdl_status small(void *ctx, pdl_arena *a,
                             const struct pdl_plan_head *head,
                             const struct pdl_model **out, struct pdl_err *err)
{
    pdl_build *b = pdl_build_begin(a, "small");
    int64_t dim[3] = {2, 5, 4};
    struct pdl_attr conv = {.kernel = {3, 3}, .pad = {1, 1}, .features = 2};
    int x;

    (void)ctx;
    if (strncmp(head->model, "gpt", 3) == 0) /* has blocks to roll */
        return pdl_zoo_build(a,
                             "gpt:layers=9,hidden=4,heads=2,vocab=5,"
                             "positions=4,seq=3",
                             out, err);
    conv.pad_end[0] = conv.pad_end[1] = 1;
    x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 3, dim);
    x = pdl_build_op(b, "conv", "conv1", &conv, &x, 1);
    x = pdl_build_op(b, "batch_norm", "bn1", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "relu", "relu1", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "flatten", "flat", &(struct pdl_attr){0}, &x, 1);
    x = pdl_build_op(b, "linear", "fc", &(struct pdl_attr){.features = 3}, &x,
                     1);
    (void)x;
    return pdl_build_end(b, out, err);
}

/* What reads must print and read again to the same plan; what the checker
 * then accepts, the executor must survive. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pdl_plan_loader loader = {small, NULL};
    pdl_arena *a = pdl_arena_create(1 << 26);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_plan_head head, again_head;
    const struct pdl_plan *p, *again;
    struct pdl_err err;
    struct pdl_buf b;

    if (a && pdl_plan_parse(a, in, "f", &loader, &head, &p, &err) == PDL_OK) {
        pdl_buf_init(&b);
        pdl_plan_print(p, &head, &b.sink);
        in = (struct pdl_bytes){b.text, b.len};
        if (b.sink.failed ||
            pdl_plan_parse(a, in, "f", &loader, &again_head, &again, &err) !=
                PDL_OK ||
            !pdl_plan_equal(p, again))
            abort();
        if (pdl_plan_check(p, &err) == PDL_OK && p->mesh->pes <= 8 &&
            p->batch <= 8)
            (void)pdl_plan_prove(p, 1, &err);
        pdl_buf_free(&b);
    }
    pdl_arena_destroy(a);
    return 0;
}
