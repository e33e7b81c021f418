/* paradl/coll.h - collective algorithms as data.
 *
 * An algorithm is a pure function: step s of rank r, for a job of given size.
 * A step holds no callbacks, so the same steps can be proved, priced,
 * simulated, printed and executed.
 *
 * Each rank has numbered buffers, each cut into equal chunks (chunk c of n of
 * count items is [floor(c*count/n), floor((c+1)*count/n)) ). A message is one
 * or two spans of chunks. Messages from one rank to another match in the
 * order of the sender's and the receiver's step numbers. */
#ifndef PARADL_COLL_H
#define PARADL_COLL_H

#include "paradl/base.h"
#include "paradl/net.h"

PDL_BEGIN

/* n runs of `run` chunks, the i-th starting at first + i*stride, all modulo
 * the number of chunks of the buffer. */
struct pdl_span {
    int buf;
    int64_t first, run, stride, n;
};

enum pdl_act {
    PDL_ACT_COPY,   /* what arrives overwrites */
    PDL_ACT_REDUCE, /* what arrives is added */
};

enum { PDL_STEP_SPANS = 2, PDL_STEP_AFTER = 4 };

struct pdl_step {
    int send_to, recv_from; /* -1: none; own rank: a local copy */
    int nsend, nrecv;       /* spans */
    struct pdl_span send[PDL_STEP_SPANS], recv[PDL_STEP_SPANS];
    enum pdl_act act;
    int nafter; /* earlier steps of this rank it waits for */
    int64_t after[PDL_STEP_AFTER];
};

PDL_END
#endif
