/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators by shape, on all ranks at once: convolutions of the kinds that
 * image models are made of, each pass, and matrix products from square ones
 * that reach the highest rate to the thin ones of a last layer. The smallest
 * product there is gives what a call costs. */
#include "calibrate.h"
#include "operator.h"

// clang-format off
static const int64_t convs[][8] = { /* n c h w f k stride pad */
    { 8,   3, 224, 224,   64, 7, 2, 3},
    { 2,  64, 112, 112,   64, 3, 1, 1},
    { 8,  64,  56,  56,   64, 3, 1, 1},
    { 8,  64,  56,  56,  256, 1, 1, 0},
    { 8, 128,  56,  56,  128, 3, 2, 1},
    { 8, 128,  28,  28,  128, 3, 1, 1},
    { 8, 512,  28,  28,  128, 1, 1, 0},
    { 8, 256,  14,  14,  256, 3, 1, 1},
    { 8, 256,  14,  14, 1024, 1, 1, 0},
    { 8, 512,   7,   7,  512, 3, 1, 1},
    {32,  16,  32,  32,   32, 3, 1, 1},
    {32,   1,  28,  28,   32, 5, 1, 2},
};
static const int64_t matmuls[][3] = { /* m n k */
    {2048, 2048, 2048},
    {1024, 1024, 1024},
    { 512,  512,  512},
    { 128,  128,  128},
    {2048, 1024,  256},
    {2048,  768,  768},
    {2048,  256, 1024},
    {  32, 4096, 4096},
    {  32, 1000, 2048},
    {  64,   64, 1024},
};
// clang-format on
enum {
    NCONVS = sizeof convs / sizeof convs[0],
    NMATMULS = sizeof matmuls / sizeof matmuls[0],
};

static void run_it(void *ctx)
{
    run_operator_run(ctx);
}

static void print_row(const struct calibration *c, const char *name,
                      const struct run_shape *s, double seconds)
{
    static const char *const passes[] = {"forward", "backward-data",
                                         "backward-weights"};

    if (!c->json)
        return;
    pdl_json_row(c->json);
    pdl_json_kstr(c->json, "op", name);
    pdl_json_kstr(c->json, "pass", passes[s->pass]);
    pdl_json_kstr(c->json, "precision", s->bf16 ? "bf16" : "fp32");
    pdl_json_key(c->json, "dims");
    pdl_json_flat(c->json);
    for (int i = 0; i < (s->conv ? 8 : 3); i++)
        pdl_json_int(c->json, s->dims[i]);
    pdl_json_end(c->json);
    pdl_json_knum(c->json, "seconds", seconds);
    pdl_json_end(c->json);
}

/* Skipped where one of the ranks has no kernel for it. */
static enum pdl_status one(const struct calibration *c, const char *name,
                           const struct run_shape *s, struct pdl_err *err)
{
    run_operator *op = run_operator_open(s);
    int32_t mine = op != NULL, all = 0;
    double seconds;
    enum pdl_status st = pdl_comm_allreduce(c->comm, &mine, &all, 1,
                                            PDL_COMM_I32, PDL_COMM_MIN, err);

    if (st == PDL_OK && all) {
        st = run_time_all(c, run_it, op, &seconds, err);
        if (st == PDL_OK)
            print_row(c, name, s, seconds);
    }
    run_operator_close(op);
    return st;
}

static enum pdl_status all_convs(const struct calibration *c, bool bf16,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < NCONVS; i++)
        for (int pass = 0; st == PDL_OK && pass < 3; pass++) {
            struct run_shape s = {
                .conv = true, .pass = (enum run_pass)pass, .bf16 = bf16};

            for (int d = 0; d < 8; d++)
                s.dims[d] = convs[i][d];
            if (s.dims[1] < 4 && pass == RUN_BACKWARD_DATA)
                continue; /* nobody asks for the gradient of an image */
            if (run_chosen(c, i, NCONVS))
                st = one(c, "conv", &s, err);
        }
    return st;
}

static enum pdl_status all_matmuls(const struct calibration *c, bool bf16,
                                   struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; st == PDL_OK && i < NMATMULS; i++) {
        struct run_shape s = {.bf16 = bf16};

        for (int d = 0; d < 3; d++)
            s.dims[d] = matmuls[i][d];
        if (run_chosen(c, i, NMATMULS))
            st = one(c, "matmul", &s, err);
    }
    return st;
}

enum pdl_status run_calibrate_compute(const struct calibration *c,
                                      struct pdl_err *err)
{
    struct run_shape least = {.dims = {1, 1, 1}};
    enum pdl_status st = PDL_OK;

    if (!run_operator_library())
        return PDL_OK;
    st = one(c, "call", &least, err);
    for (int bf16 = 0; st == PDL_OK && bf16 < 2; bf16++) {
        st = all_matmuls(c, bf16, err);
        if (st == PDL_OK)
            st = all_convs(c, bf16, err);
    }
    return st;
}
