/* Inside the train room: keys that come block by block (ring.c), and attention
 * to them (ring_attention.c). */
#ifndef TRAIN_RING_H
#define TRAIN_RING_H

#include "train/train_priv.h"

enum {
    RING_OPERANDS = 2, /* keys and values, or their gradients */
    RING_TAGS = 32000, /* a tensor's messages are told by its number */
};

/* The rotations of one attention in one pass. */
struct train_ring {
    int n, me; /* ranks of the ring; this one among them */
    bool known;
    int64_t *first, *end; /* positions of each rank's block */
    uint32_t group;
    pdl_comm *comm;
    struct train_kernel **kernel; /* for each block; NULL: no query sees it */
    struct train_operands at;
    int grad[3]; /* of queries, keys, values: among the outputs; -1: none */
    /* where in the operation's workspace, behind the kernels' own */
    int64_t part[RING_OPERANDS + 2]; /* results for one block */
    int64_t whole[RING_OPERANDS];    /* a block of keys that do not turn */
    int64_t wide[2];                 /* bfloat16 results as float32 */
};

/* The block that is here at a step; its shape of a tensor; its bytes. */
int train_ring_block(const struct train_ring *r, int step);
struct train_array train_ring_part(const pdl_trainer *t,
                                   const struct train_ring *r, int tensor,
                                   int block);
char *train_ring_slot(const pdl_trainer *t, int tensor, int step, int micro);
/* Sends the blocks of this step on and receives those of the next; *req is
 * NULL where there is nothing to wait for. */
enum pdl_status train_ring_pass(pdl_trainer *t, int op, int micro,
                                const int *tensor, int n, int step,
                                struct train_transfer **req,
                                struct pdl_err *err);

#endif
