/* The Kautz graph K(d,2) and its multi-port rounds; see kautz.c. */
#ifndef COLL_KAUTZ_H
#define COLL_KAUTZ_H

#include "coll_priv.h"

/* Vertex (a,b), a != b, symbols 0..d; its arcs go to all (b,c), c != b. */
struct coll_vertex {
    int d, a, b;
};

enum pdl_status coll_kautz_settle(struct pdl_coll_job *job,
                                  struct pdl_err *err);
struct coll_vertex coll_kautz_vertex(const struct pdl_coll_job *job, int rank);
int coll_kautz_rank(int d, int a, int b);
/* Port i = 0..d-1: the vertex it leads to, the vertex it comes from. */
struct coll_vertex coll_kautz_out(struct coll_vertex v, int64_t i);
struct coll_vertex coll_kautz_in(struct coll_vertex v, int64_t i);

/* Spans of a buffer with one chunk per vertex: (a,*) without `but`, and (*,b)
 * without `but` (a rank, or -1). Return how many; at most 2 and 3. */
int coll_kautz_row(int d, int a, int but, int buf, struct pdl_span *out);
int coll_kautz_column(int d, int b, int but, int buf, struct pdl_span *out);

/* Rounds 0 and 1 on port i of a reduce-scatter of buffer 0 that collects in
 * buffer 1, and of an allgather of buffer 0. */
void coll_kautz_scatter(struct coll_vertex v, int64_t round, int64_t i,
                        struct pdl_step *out);
void coll_kautz_gather(struct coll_vertex v, int64_t round, int64_t i,
                       struct pdl_step *out);

#endif
