/* Samples on this rank's local disk, and their exchange with other ranks while
 * training goes on (supply.c); samples that should be there and are not
 * (refill.c). */
#ifndef TRAIN_SUPPLY_H
#define TRAIN_SUPPLY_H

#include "train/train_priv.h"

/* What goes to one rank, or comes from it, in a step: some samples, each with
 * its number and checksum before it. */
struct supply_parcel {
    int peer;
    int64_t n, room;
    char *data;
};

/* One exchange under way. */
struct supply_round {
    pdl_comm_request *req;
    struct supply_parcel *out, *in; /* by rank */
};

struct train_supply {
    pdl_comm *comm; /* its own; NULL where there is no store */
    int rank, ranks, split;
    const pdl_io *source;
    const pdl_sampler *sampler;
    pdl_store *store;
    pdl_io *io; /* the data set, read from the store */
    char path[4096];
    int64_t *first, *last; /* workers of each rank, [first, last) */
    int64_t record_bytes;
    int64_t moved; /* of each worker's moves of this epoch: started */
    struct supply_round now;
    int threads;
    const volatile int *stop;
    /* since the run began */
    int64_t exchanged, from_ranks, from_source, most_bytes, told;
    double waited_s;
};

/* Which workers' samples each rank reads; plan NULL: the caller says. */
enum pdl_status train_supply_deal(struct train_supply *s,
                                  const struct pdl_plan *plan,
                                  const pdl_comm *comm, struct pdl_err *err);
/* Collective. */
enum pdl_status train_supply_open(struct train_supply *s, const char *dir,
                                  pdl_comm *comm, struct pdl_err *err);
void train_supply_close(struct train_supply *s);
/* The store has what batches from `index` on need; before they are read. */
enum pdl_status train_supply_settle(struct train_supply *s, int64_t index,
                                    struct pdl_err *err);
/* Before a step: what was sent in the last one has come, and the next goes. */
enum pdl_status train_supply_step(struct train_supply *s, int64_t index,
                                  struct pdl_err *err);
/* After the last step of an epoch, before the sampler's next. */
enum pdl_status train_supply_end(struct train_supply *s, struct pdl_err *err);

/* ---- refill.c ---- */

/* Collective: the n samples of `want` are in the store, those that were not
 * from other ranks' stores or from the source; others may have gone. */
enum pdl_status train_supply_refill(struct train_supply *s, const int64_t *want,
                                    int64_t n, struct pdl_err *err);
/* Packs a sample, or says that it is not there; and unpacks: the sample, -1:
 * it was not there, or did not arrive whole. */
int64_t train_supply_item_bytes(const struct train_supply *s);
void train_supply_pack(struct train_supply *s, int64_t sample, char *item);
int64_t train_supply_unpack(struct train_supply *s, const char *item);

#endif
