/* paradl/comm.h - collectives on real buffers.
 *
 * A communicator runs the programs of coll.h: the steps that are proved and
 * simulated are the steps that move the data. Below it is a transport: memory
 * (all ranks are threads of one process: virtual ranks), MPI messages, an MPI
 * shared window, another process's memory (CMA), or shared slots.
 *
 * Every call says what happened in a status; after PDL_ENOENV (a time-out,
 * a lost peer) the communicator is broken and every later call says so at
 * once. */
#ifndef PARADL_COMM_H
#define PARADL_COMM_H

#include "paradl/base.h"
#include "paradl/coll.h"

#include <mpi.h>

PDL_BEGIN

typedef struct pdl_comm pdl_comm;

#define PDL_COMM_TYPE_LIST(X) \
    X(F32, "float32", 4)      \
    X(F64, "float64", 8)      \
    X(BF16, "bf16", 2)        \
    X(F16, "fp16", 2)         \
    X(I32, "int32", 4)        \
    X(I64, "int64", 8)

enum pdl_comm_type {
#define X(name, text, bytes) PDL_COMM_##name,
    PDL_COMM_TYPE_LIST(X)
#undef X
        PDL_NCOMM_TYPES
};
enum pdl_comm_op { PDL_COMM_SUM, PDL_COMM_MAX, PDL_COMM_MIN, PDL_COMM_AVG };

/* Which algorithm a collective of so many bytes on so many ranks runs. */
struct pdl_comm_rule {
    const char *collective; /* "allreduce"; a name that stays */
    int ranks;
    int64_t up_to; /* bytes of the whole vector; INT64_MAX: no limit */
    char algorithm[56];
};
struct pdl_comm_table {
    struct pdl_comm_rule *rule;
    int n;
};
/* A profile file, and the text of one. */
enum pdl_status pdl_comm_table_read(pdl_arena *a, const char *path,
                                    struct pdl_comm_table *out,
                                    struct pdl_err *err);
void pdl_comm_table_print(const struct pdl_comm_table *t, struct pdl_sink *out);

struct pdl_comm_options {
    const char *transport; /* NULL: auto; "p2p", "window", "cma", "staged" */
    const char *algorithm; /* NULL: auto, by the table; of allreduce, or with
                              the collective: "allgather/bruck" */
    bool fixed_order;      /* sums in rank order: the same bits everywhere */
    double timeout_s;      /* 0: 300 s */
    int ranks_per_node;    /* 0: as found; else nodes of so many ranks */
    bool progress;         /* a thread moves what is started meanwhile */
    /* Allreduce runs this program (coll.h), made for as many ranks. It is
     * proved first, and must outlive the communicator. */
    const struct pdl_coll_program *program;
    /* What auto follows, the same on all ranks; NULL: built-in rules. It is
     * copied. */
    const struct pdl_comm_table *table;
};

/* Collective over `mpi`, which is duplicated. opt NULL: all defaults. */
enum pdl_status pdl_comm_create(MPI_Comm mpi,
                                const struct pdl_comm_options *opt,
                                pdl_comm **out, struct pdl_err *err);
/* n virtual ranks of this process: out[r] is used by one thread each. */
enum pdl_status pdl_comm_create_memory(int n,
                                       const struct pdl_comm_options *opt,
                                       pdl_comm **out, struct pdl_err *err);
/* Processes of one machine that have no MPI, one rank each: all of them call
 * it with the same name (letters, digits, - and _; of nobody else), and it
 * waits for all. The name is gone when they have come. */
enum pdl_status pdl_comm_create_shared(const char *name, int rank, int size,
                                       const struct pdl_comm_options *opt,
                                       pdl_comm **out, struct pdl_err *err);
/* A communicator of some ranks of another, in the order given; collective
 * over those ranks. */
enum pdl_status pdl_comm_subset(pdl_comm *c, int n, const int *ranks,
                                pdl_comm **out, struct pdl_err *err);
/* From now on allreduces (or "allgather/bruck": those) run this algorithm,
 * also where sums have a fixed order: it is then the algorithm's. Refused: one
 * that is not known, or does not run on so many ranks. All ranks call it. */
enum pdl_status pdl_comm_set_algorithm(pdl_comm *c, const char *algorithm,
                                       struct pdl_err *err);
/* From now on a thread moves what is started (options.progress) also in this
 * communicator, when nothing is under way in it. */
enum pdl_status pdl_comm_move_behind(pdl_comm *c, struct pdl_err *err);
void pdl_comm_destroy(pdl_comm *c); /* NULL: nothing */

/* What a communicator is like. Texts live as long as it does. */
struct pdl_comm_info {
    const char *transport; /* of long messages between ranks of a node */
    const char *used;      /* by the last collective */
    int nodes, node_ranks; /* ranks of this rank's node */
    bool cma;              /* another process's memory may be read */
    bool crowded;          /* more ranks than processors */
    /* By this rank, so far, in collectives: signals of other ranks that it
     * waited for, bytes that it copied or combined. */
    int64_t signals, worked;
    const char *note; /* why a faster way is not taken; "" for none */
};
void pdl_comm_describe(const pdl_comm *c, struct pdl_comm_info *out);
/* What the machine can do under it. Collective; takes some 0.1 s. */
struct pdl_comm_probe {
    double round_trip_s;         /* a word to another core and back; 0: not
                                  * known */
    double copy_bytes_per_s;     /* one rank copies memory */
    double copy_all_bytes_per_s; /* all at once, together */
};
enum pdl_status pdl_comm_measure(pdl_comm *c, struct pdl_comm_probe *out,
                                 struct pdl_err *err);
/* The algorithm that a collective ("allreduce") of so many bytes in all would
 * run. */
const char *pdl_comm_choice(const pdl_comm *c, const char *collective,
                            int64_t bytes);
int pdl_comm_rank(const pdl_comm *c);
int pdl_comm_size(const pdl_comm *c);
/* Memory that every transport can reach without a copy (shared window);
 * any other memory may be used too. Collective. */
enum pdl_status pdl_comm_alloc(pdl_comm *c, int64_t bytes, void **out,
                               struct pdl_err *err);
enum pdl_status pdl_comm_free(pdl_comm *c, void *buffer, struct pdl_err *err);

/* What collectives do with two operands: dst[i] = a[i] op b[i]; dst may be a or
 * b. Sums of 16-bit floats are rounded once. */
void pdl_comm_combine(void *dst, const void *a, const void *b, int64_t n,
                      enum pdl_comm_type type, enum pdl_comm_op op);

/* ---- collectives ------------------------------------------------------ */

/* in == out: in place. Counts are elements. */
enum pdl_status pdl_comm_allreduce(pdl_comm *c, const void *in, void *out,
                                   int64_t count, enum pdl_comm_type type,
                                   enum pdl_comm_op op, struct pdl_err *err);
/* Of count elements in all, rank r gets chunk r of size(c) chunks (coll.h's
 * cut) at out. */
enum pdl_status pdl_comm_reduce_scatter(pdl_comm *c, const void *in, void *out,
                                        int64_t count, enum pdl_comm_type type,
                                        enum pdl_comm_op op,
                                        struct pdl_err *err);
/* The other way: chunk r comes from rank r. */
enum pdl_status pdl_comm_allgather(pdl_comm *c, const void *in, void *out,
                                   int64_t count, enum pdl_comm_type type,
                                   struct pdl_err *err);
/* Block r of in goes to rank r; size(c) blocks of count elements. */
enum pdl_status pdl_comm_alltoall(pdl_comm *c, const void *in, void *out,
                                  int64_t count, enum pdl_comm_type type,
                                  struct pdl_err *err);
enum pdl_status pdl_comm_broadcast(pdl_comm *c, void *buffer, int64_t count,
                                   enum pdl_comm_type type, int root,
                                   struct pdl_err *err);
enum pdl_status pdl_comm_barrier(pdl_comm *c, struct pdl_err *err);

/* ---- messages: halos, resharding, pipelines --------------------------- */

/* Messages between two ranks with the same tag match in order. */
struct pdl_comm_message {
    int peer, tag;
    void *data;
    int64_t bytes;
};

/* ---- without waiting -------------------------------------------------- */

typedef struct pdl_comm_request pdl_comm_request;

/* Started operations of one communicator are carried out in the order they
 * are started, which must be the same on every rank (exchanges excepted). */
enum pdl_status pdl_comm_start_allreduce(pdl_comm *c, const void *in, void *out,
                                         int64_t count, enum pdl_comm_type type,
                                         enum pdl_comm_op op,
                                         pdl_comm_request **req,
                                         struct pdl_err *err);
enum pdl_status pdl_comm_start_exchange(pdl_comm *c, int nsends,
                                        const struct pdl_comm_message *sends,
                                        int nrecvs,
                                        const struct pdl_comm_message *recvs,
                                        pdl_comm_request **req,
                                        struct pdl_err *err);
enum pdl_status pdl_comm_test(pdl_comm_request *req, bool *done,
                              struct pdl_err *err);
/* Waits and frees. */
enum pdl_status pdl_comm_wait(pdl_comm_request *req, struct pdl_err *err);

/* ---- sparse vectors --------------------------------------------------- */

/* dim floats of which n are given: index[i] (ascending) has value[i]; all
 * others are zero. Dense: index is NULL, n == dim. Up to 2^32 - 1 elements. */
struct pdl_sparse {
    int64_t dim, n;
    const uint32_t *index;
    const float *value;
};

/* y[i] += scale * x[i] for the elements that x gives. */
void pdl_sparse_add(const struct pdl_sparse *x, float scale, float *y);

/* Sums sparse vectors of dim elements over the ranks of c, by the programs of
 * coll.h that take them: "sparse-ring", "sparse-ring-ring:k=4", "ssar", "dsar";
 * NULL: the one that should be fastest when each rank gives about `entries`
 * elements. A message lists index and value pairs while that is shorter than
 * the values of all elements. Collective; holds the memory that is needed. */
typedef struct pdl_comm_sparse pdl_comm_sparse;
enum pdl_status pdl_comm_sparse_create(pdl_comm *c, int64_t dim,
                                       int64_t entries, const char *algorithm,
                                       pdl_comm_sparse **out,
                                       struct pdl_err *err);
void pdl_comm_sparse_destroy(pdl_comm_sparse *s); /* NULL: nothing */
const char *pdl_comm_sparse_algorithm(const pdl_comm_sparse *s);
/* Bytes this rank sent in the last call. */
int64_t pdl_comm_sparse_sent(const pdl_comm_sparse *s);
/* The sum of all ranks' vectors: pairs or, when that is shorter, dense; the
 * same bits on every rank. Sums are float additions in the order of the
 * program, an element not given counts as +0. Ranks may give different
 * numbers of elements, also none. out points into s until the next call. */
enum pdl_status pdl_comm_sparse_allreduce(pdl_comm_sparse *s,
                                          const struct pdl_sparse *in,
                                          struct pdl_sparse *out,
                                          struct pdl_err *err);
/* The same, begun now, pushed by every test, and waited for later; `in` may
 * change after the start. One of a communicator at a time, in the same order
 * on all ranks. */
enum pdl_status pdl_comm_sparse_start(pdl_comm_sparse *s,
                                      const struct pdl_sparse *in,
                                      struct pdl_err *err);
enum pdl_status pdl_comm_sparse_test(pdl_comm_sparse *s, bool *done,
                                     struct pdl_err *err);
enum pdl_status pdl_comm_sparse_wait(pdl_comm_sparse *s, struct pdl_sparse *out,
                                     struct pdl_err *err);

/* The k elements of largest magnitude. Of equal ones the first; a NaN is
 * larger than all numbers, so that it is seen. */
enum pdl_topk_how {
    PDL_TOPK_EXACT,  /* exactly k */
    PDL_TOPK_SAMPLED /* all above a magnitude taken from a sample: about k,
                        never more than 2 k, no zeros; saves the selection */
};

/* Memory for selecting k of dim elements, again and again. The sample that
 * speeds up the search is drawn from the seed; an exact selection does not
 * depend on it. */
typedef struct pdl_topk pdl_topk;
enum pdl_status pdl_topk_create(int64_t dim, int64_t k, enum pdl_topk_how how,
                                uint64_t seed, pdl_topk **out,
                                struct pdl_err *err);
void pdl_topk_destroy(pdl_topk *t); /* NULL: nothing */
/* out points into t until the next call. */
void pdl_topk_select(pdl_topk *t, const float *x, struct pdl_sparse *out);

/* Error feedback: what is not sent is kept and added to the next gradient.
 * The elements sent are moved out of the residual, so that element by element
 * sent + residual is gradient + residual before, to the last bit. */
typedef struct pdl_feedback pdl_feedback;
enum pdl_status pdl_feedback_create(int64_t dim, int64_t k,
                                    enum pdl_topk_how how, uint64_t seed,
                                    pdl_feedback **out, struct pdl_err *err);
void pdl_feedback_destroy(pdl_feedback *f); /* NULL: nothing */
/* Adds the gradient to the residual and takes the largest elements out of it;
 * out points into f until the next call. */
void pdl_feedback_step(pdl_feedback *f, const float *gradient,
                       struct pdl_sparse *out);
/* dim floats, for saving and restoring. */
float *pdl_feedback_residual(pdl_feedback *f);

/* ---- compressed sums of gradients ------------------------------------- */

/* A way to send less than the floats. */
struct pdl_compressor {
    const char *name, *summary;
    const char *value;  /* what follows the name: "topk:X"; NULL: nothing */
    double least, most; /* of it */
    bool exact;         /* no bit is lost */
};
const struct pdl_compressor *pdl_compressor_at(int i); /* NULL past the end */

/* Sums of vectors of dim floats over the ranks of c, again and again; what is
 * not sent is kept and added to the next. Collective. */
typedef struct pdl_compress pdl_compress;
enum pdl_status pdl_compress_create(pdl_comm *c, int64_t dim, const char *name,
                                    double value, uint64_t seed,
                                    pdl_compress **out, struct pdl_err *err);
void pdl_compress_destroy(pdl_compress *x); /* NULL: nothing */
/* What the vector is made of, before its first sum: matrices one after the
 * other, with gaps that nobody reads; the same on all ranks. powersgd then
 * factors each by itself (coll.h says which), else the vector as one square.
 * The other ways do not ask. */
struct pdl_compress_part {
    int64_t begin, rows, cols; /* of elements; a vector: one row */
};
enum pdl_status pdl_compress_shape(pdl_compress *x, int n,
                                   const struct pdl_compress_part *parts,
                                   struct pdl_err *err);
/* Adds the gradient to what is kept, and codes it. Then its exchange may
 * start: one of a communicator at a time, in the same order on all ranks. */
void pdl_compress_take(pdl_compress *x, const float *gradient);
enum pdl_status pdl_compress_start(pdl_compress *x, struct pdl_err *err);
enum pdl_status pdl_compress_test(pdl_compress *x, bool *done,
                                  struct pdl_err *err);
enum pdl_status pdl_compress_wait(pdl_compress *x, struct pdl_err *err);
/* Then the sum: dim floats, the same bits on every rank. Once. */
void pdl_compress_put(pdl_compress *x, float *sum);
/* dim floats, for saving and restoring; NULL: nothing is kept. */
float *pdl_compress_residual(pdl_compress *x);
/* The next sum is as if it were the first. All ranks call it. */
void pdl_compress_forget(pdl_compress *x);
/* Bytes this rank sent in the last sum. */
int64_t pdl_compress_sent(const pdl_compress *x);
/* What n floats are once they have been coded and decoded, and the bytes of
 * that; for those that work value by value. */
enum pdl_status pdl_compress_apply(const char *name, const float *in, int64_t n,
                                   float *out, int64_t *bytes,
                                   struct pdl_err *err);

PDL_END
#endif
