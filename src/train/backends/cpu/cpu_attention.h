/* Attention by blocks of queries: what float32 and bfloat16 share. */
#ifndef TRAIN_CPU_ATTENTION_H
#define TRAIN_CPU_ATTENTION_H

#include "train/backends/cpu/cpu.h"

enum { ATTENTION_BLOCK = 64 };

/* Keys that a query sees, by their places. */
struct attention_sight {
    int64_t first, end;
};

struct attention_kernel {
    struct train_kernel base;
    struct train_call call;
    struct train_operands op;
    int64_t heads, kv, d, dv;
    int64_t h0, h1;                      /* heads of the part */
    int64_t t0, t1, s0, s1;              /* queries, keys: global places */
    const struct attention_sight *sight; /* of each query */
    int64_t n, ldq, ldk, ldv, ldy;
    int64_t q0, k0, v0, y0; /* first feature of each part */
    bool causal;
    float scale;
    int grad[3]; /* outputs that are dq, dk, dv; -1: not wanted */
    /* table of distances [rows, columns], whose first head is w0; 0: none */
    int64_t rows, columns, w0;
    const float *key_at; /* positions of the keys, for ALiBi; NULL: none */
};

/* Queries [a,b) against keys [lo,hi): all that some query of the block sees. */
struct attention_block {
    int64_t a, b, lo, hi;
};

struct attention_block train_attention_block(const struct attention_kernel *k,
                                             int64_t a);
/* Keys that query t of the block sees, counted from lo. */
void train_attention_visible(const struct attention_kernel *k,
                             const struct attention_block *x, int64_t t,
                             int64_t *first, int64_t *end);
/* What ALiBi subtracts from the scores of query t of a head with keys from
 * place lo on. */
void train_attention_distance(const struct attention_kernel *k, int64_t head,
                              int64_t t, int64_t lo, float *row, int64_t n);
/* Distances that occur, keys less queries: the first, and how many. */
int64_t train_attention_nearest(const struct attention_kernel *k);
int64_t train_attention_distances(const struct attention_kernel *k);
/* What the table adds to the scores of a head at each distance, and the
 * gradients `by` distance of a head into the table's. */
void train_attention_shifts(const struct attention_kernel *k, int64_t head,
                            const float *table, float *shift);
void train_attention_unshift(const struct attention_kernel *k, int64_t head,
                             const float *by, float *dtable);
/* The kernel of bfloat16 operands; *out stays NULL where oneDNN has only
 * reference products for it. */
enum pdl_status train_attention_bf16(struct cpu_state *s,
                                     const struct attention_kernel *k,
                                     struct train_kernel **out,
                                     struct pdl_err *err);

#endif
