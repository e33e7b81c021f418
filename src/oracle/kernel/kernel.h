/* kernel: what one local operation takes on a PE, by its shape alone or by a
 * profile of the machine; nothing here knows a framework or a network. */
#ifndef ORACLE_KERNEL_H
#define ORACLE_KERNEL_H

#include "paradl/oracle.h"

/* The rates of a PE at a precision, guesses filled in; conv by pass. */
struct oracle_pe {
    double rate, vector_rate, peak, bytes_per_s, item_bytes, units, launch_s;
    double conv[3];
    double batch_norm_forward, batch_norm_backward, layer_norm_forward;
    double l2_bytes, clock_hz;
    double watched_s; /* that it took to time an operation of the profile */
    bool vector;      /* no matrix units at this precision */
    bool core;     /* processor cores: register tiles, which no shape wastes */
    bool own;      /* our own runtime runs here: cores, or what it measured */
    bool joins;    /* ... and runs groups of operations as one kernel */
    bool flat;     /* no tiles, no waves: the rate whatever the shape */
    bool any_head; /* attention has its rate with heads of any size */
    struct pdl_kernels k;
};
/* what its i-th number is and where from; false past the end */
bool oracle_pe_basis(const struct pdl_pe *pe, enum pdl_precision precision,
                     int i, struct pdl_basis *out);
/* 8 or 4 bits: products of blocks alone, operands are cast */
bool oracle_is_narrow(enum pdl_precision p);
void oracle_pe_settle(const struct pdl_pe *pe, enum pdl_precision precision,
                      struct oracle_pe *out);

/* compute_gemm.c, compute_conv.c, compute_attention.c */
struct oracle_gemm {
    double m, n, k, batch, rate, units, bytes_per_s, in_bytes, out_bytes;
    double fill, tile_s, epilogue;
    double least_m, least_n; /* smallest tile there is; 0: any */
    double joint; /* as many products fill the waves together; 0: one */
    bool core;
    bool flat;
};
double oracle_gemm_seconds(const struct oracle_gemm *g);
double oracle_matmul(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_conv(const struct oracle_pe *pe, const struct pdl_shape *s);
/* One channel a group; PyTorch's own kernels, for 32 bits channels first */
bool oracle_is_depthwise(const struct pdl_shape *s);
double oracle_depthwise_first(const struct oracle_pe *pe,
                              const struct pdl_shape *s);
double oracle_attention(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_shape(const struct oracle_pe *pe, const struct pdl_shape *s);

/* ---- of a plan ---- */

struct oracle;
/* op.c: the operator of an operation, OTHER: none; what the plan contracts,
 * false: nothing known; an axis of the strategy, and ranks of its tensor
 * axis */
enum pdl_op_id oracle_op_id(const struct oracle *o, int op);
bool oracle_shape_of(const struct oracle *o, int op, int64_t rank,
                     struct pdl_shape *s);
int64_t oracle_extent(const struct pdl_box *b, int dim);
bool oracle_has_axis(const struct oracle *o, enum pdl_axis axis);
int64_t oracle_tensor_ranks(const struct oracle *o);
/* from the forward operation of a node; false: it is no plain attention */
bool oracle_attention_shape(const struct oracle *o, int node, int64_t rank,
                            struct pdl_shape *s);
/* compute_profile.c: by what was measured on this machine; < 0: nothing was */
double oracle_profiled(const struct oracle *o, int op, int64_t rank);
/* seconds that looking at an operation adds to it */
double oracle_watched(const struct pdl_pe *pe, const char *precision);
/* forward of an operator that moves as many bytes */
double oracle_profiled_bytes(const struct oracle *o, const char *op,
                             int64_t bytes);
bool oracle_has_profile(const struct oracle *o);
/* how far from one busy PE of the node (0) to all of them (1), where so many
 * lanes of the pipeline work at a time */
double oracle_busy(const struct oracle *o, double lanes);
/* bytes that an operation works in besides its operands */
int64_t oracle_workspace(const struct oracle *o, int op, int64_t rank);
/* compute_norm.c; oracle_stream: without the launch */
double oracle_norm(const struct oracle_pe *pe, const struct pdl_shape *s);
double oracle_stream(const struct oracle_pe *pe, double bytes);
/* 0: the working set is in the last level of cache, 1: it is not */
double oracle_out_of_cache(const struct oracle_pe *pe, double bytes);
/* compute_batch_norm.c: PyTorch's kernels for 16 bits; 0: the clock is not
 * known */
enum oracle_norm_kernel {
    ORACLE_NORM_STATISTICS,
    ORACLE_NORM_APPLY,
    ORACLE_NORM_SUMS,
    ORACLE_NORM_GRADIENT,
};
double oracle_batch_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                         double rows, double channels);
double oracle_volume_norm(const struct oracle_pe *pe, enum oracle_norm_kernel i,
                          double samples, double voxels, double channels);

#endif
