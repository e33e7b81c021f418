/* Compressed sums of gradients, between compress.c and the ways to do it. */
#ifndef COMM_COMPRESS_H
#define COMM_COMPRESS_H

#include "comm_priv.h"

/* One value at a time, or blocks of a few hundred: a part of a vector becomes
 * bytes and back. */
struct comm_codec {
    int64_t (*room)(int64_t n); /* bytes that n floats take at most */
    /* Returns the bytes written: room(n), unless it `varies`. */
    int64_t (*encode)(const float *x, int64_t n, uint8_t *out);
    /* False: these are not n floats. */
    bool (*decode)(const uint8_t *in, int64_t bytes, int64_t n, float *x);
    bool varies;
    bool exact; /* decode(encode(x)) is x: nothing is kept */
};
extern const struct comm_codec comm_codec_int8, comm_codec_bf16,
    comm_codec_fp16, comm_codec_sign, comm_codec_lossless;

struct comm_compressor {
    struct pdl_compressor is;
    const struct comm_codec *codec; /* in blocks.c; NULL: the calls below */
    enum pdl_status (*create)(pdl_compress *x, struct pdl_err *err);
    /* NULL: it does not matter */
    enum pdl_status (*shape)(pdl_compress *x, int n,
                             const struct pdl_compress_part *parts,
                             struct pdl_err *err);
    void (*destroy)(pdl_compress *x);
    void (*take)(pdl_compress *x, const float *gradient);
    enum pdl_status (*start)(pdl_compress *x, struct pdl_err *err);
    /* Goes on as far as it can, or (wait) to the end. */
    enum pdl_status (*go)(pdl_compress *x, bool wait, bool *done,
                          struct pdl_err *err);
    void (*put)(pdl_compress *x, float *sum);
    void (*forget)(pdl_compress *x); /* NULL: a residual is all it keeps */
};
extern const struct comm_compressor comm_compress_blocks, comm_compress_topk,
    comm_compress_powersgd;

struct pdl_compress {
    const struct comm_compressor *how; /* whose calls are made */
    const struct comm_codec *codec;
    pdl_comm *comm;
    int64_t dim;
    double value; /* of "topk:0.01", "powersgd:4" */
    uint64_t seed;
    float *residual; /* dim floats; NULL: kept elsewhere, or exact */
    int64_t sent;    /* bytes of this rank, in the last sum */
    void *own;       /* of the way */
    pdl_comm_request *request;
};

/* A request has ended, or (wait) is waited for; none: it has. */
enum pdl_status comm_compress_settle(pdl_compress *x, bool wait, bool *done,
                                     struct pdl_err *err);
/* residual of top-k, which keeps its own */
float *comm_topk_residual(pdl_compress *x);

#endif
