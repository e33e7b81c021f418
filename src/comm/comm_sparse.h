/* Parts of sparse vectors, between sparse_stream.c and sparse_allreduce.c. */
#ifndef COMM_SPARSE_H
#define COMM_SPARSE_H

#include "comm_priv.h"

/* Elements [begin, begin + dim) of a vector, as SparCML's streams (Renggli et
 * al., SC 2019): n pairs, or all dim values when n == dim. The memory is what
 * a message carries: n indices (of the whole vector) and then n values, or
 * dim values. */
struct comm_stream {
    int64_t begin, dim, n;
    uint32_t *words;
    int64_t cap; /* words */
    bool lent;   /* the memory is a part of the result */
    bool pairs;  /* never dense to be shorter, only when it is full */
};

static inline bool comm_stream_dense(const struct comm_stream *s)
{
    return s->n == s->dim;
}

static inline float *comm_stream_values(const struct comm_stream *s)
{
    return (float *)(void *)(s->words + (comm_stream_dense(s) ? 0 : s->n));
}

/* Pairs of n elements take no less than all dim values. */
static inline bool comm_stream_fills(int64_t n, int64_t dim)
{
    return n * 2 >= dim;
}

/* n elements are kept dense. */
static inline bool comm_stream_goes_dense(const struct comm_stream *s,
                                          int64_t n)
{
    return s->pairs ? n >= s->dim : comm_stream_fills(n, s->dim);
}

static inline int64_t comm_stream_words(int64_t n, int64_t dim)
{
    return n == dim ? dim : 2 * n;
}

/* Room for n elements (or dim, dense); the contents are lost. */
enum pdl_status comm_stream_room(struct comm_stream *s, int64_t n,
                                 struct pdl_err *err);
void comm_stream_free(struct comm_stream *s);
/* Fills s, whose begin and dim are set, from a vector. */
enum pdl_status comm_stream_cut(struct comm_stream *s,
                                const struct pdl_sparse *x,
                                struct pdl_err *err);
/* s += t, which may be destroyed; spare lends its memory. */
enum pdl_status comm_stream_sum(struct comm_stream *s, struct comm_stream *t,
                                struct comm_stream *spare, struct pdl_err *err);
/* Puts s, dense, at its place in a vector. */
void comm_stream_place(struct comm_stream *s, float *vector);
/* The memory of s is its place in a vector; the contents are lost. */
void comm_stream_lend(struct comm_stream *s, float *vector);

/* ---- an allreduce ----------------------------------------------------- */

/* One chunk on its way. */
struct comm_move {
    int peer;
    int64_t step, chunk;
    enum pdl_act act;
};

struct comm_moves {
    struct comm_move *at;
    int64_t n, cap;
};

struct pdl_comm_sparse {
    pdl_comm *comm;
    struct pdl_coll_job job;
    struct comm_stream *chunk, *inbox, spare;
    int64_t ninbox;
    int64_t at, end;           /* steps of the round under way */
    bool streams;              /* of which the lengths have come */
    pdl_comm_request *flying;  /* its messages; NULL: none */
    struct comm_moves out, in; /* of the round */
    uint32_t *lengths;         /* out's, then in's */
    struct pdl_comm_message *message;
    int64_t nmessages; /* room in lengths and message */
    struct comm_stream result;
    bool ends_dense; /* the last round's messages: they go into the result */
    int64_t sent;
};

#endif
