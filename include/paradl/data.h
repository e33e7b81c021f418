/* paradl/data.h - what a data set is, and in which order it is seen.
 *
 * A data set is described by numbers only; files are io's business. Samples
 * of a split have ids 0 .. samples-1 that never change. An epoch visits
 * positions 0 .. samples-1, and which sample stands at a position is a pure
 * function of (seed, epoch, position): no list is stored, no rank count
 * enters, and a run resumes from one integer. Batch b of an epoch is the
 * positions [b*B, (b+1)*B).
 *
 * Adding an order (partial or pair-wise exchange between ranks, hiding of
 * samples): a file with one struct pdl_shuffle and a row in the table of
 * src/data/order.c. An order with state (who holds or sees what) keeps it in
 * `state`, which the checkpoint must then store; the two here have none. */
#ifndef PARADL_DATA_H
#define PARADL_DATA_H

#include "paradl/base.h"

PDL_BEGIN

/* ---- description ------------------------------------------------------ */

enum { PDL_DATA_RANK = 4, PDL_DATA_SPLITS = 4 };

/* One tensor of a sample: int32 (tokens, labels) or float32, in the order
 * of models: [C,H,W], [C,D,H,W], [T] or [E]; rank 0 is one number. */
struct pdl_field {
    bool integer;
    int rank;
    int64_t dim[PDL_DATA_RANK];
};

struct pdl_data_split {
    const char *name; /* "train", "test" */
    int64_t samples;
};

struct pdl_dataset {
    const char *name;   /* for people: the path or what was asked for */
    const char *format; /* "idx", "cifar", "tokens" ... */
    struct pdl_field input, target;
    int64_t classes; /* of the target, or the vocabulary; 0: real numbers */
    int nsplits;
    struct pdl_data_split split[PDL_DATA_SPLITS];
};

/* Index of a split by name, -1 when there is none. */
int pdl_dataset_split(const struct pdl_dataset *d, const char *name);
/* Elements of one sample's field; false when they overflow. */
bool pdl_field_elements(const struct pdl_field *f, int64_t *out);
/* A box that holds all of a field. */
struct pdl_box pdl_field_box(const struct pdl_field *f);
/* Sizes positive and bounded, names unique, classes fit int32. */
enum pdl_status pdl_dataset_check(const struct pdl_dataset *d,
                                  struct pdl_err *err);

/* ---- order ------------------------------------------------------------ */

struct pdl_order;

/* A way to order an epoch. at and find are inverse bijections of [0, n). */
struct pdl_shuffle {
    const char *name, *summary;
    void (*begin)(struct pdl_order *o); /* fills the fields after `n` */
    int64_t (*at)(const struct pdl_order *o, int64_t position);
    int64_t (*find)(const struct pdl_order *o, int64_t sample);
};
const struct pdl_shuffle *pdl_shuffle_at(int i); /* NULL past the end */
/* "global", "none"; NULL with a did-you-mean in err when unknown. */
const struct pdl_shuffle *pdl_shuffle_find(const char *name,
                                           struct pdl_err *err);

/* The order of one epoch; small, copied freely. */
struct pdl_order {
    const struct pdl_shuffle *how;
    uint64_t seed;
    int64_t epoch, n;
    uint64_t key; /* of how */
    int low_bits, high_bits;
    const void *state;
};
void pdl_order_begin(struct pdl_order *o, const struct pdl_shuffle *how,
                     uint64_t seed, int64_t epoch, int64_t n);
/* 0 <= position < n, 0 <= sample < n. */
int64_t pdl_order_at(const struct pdl_order *o, int64_t position);
int64_t pdl_order_find(const struct pdl_order *o, int64_t sample);

/* A key for one purpose of one epoch of a run, so that order, augmentation
 * and whatever comes later never draw the same numbers. */
enum pdl_draw { PDL_DRAW_ORDER, PDL_DRAW_AUGMENT, PDL_DRAW_SYNTHETIC };
uint64_t pdl_draw_key(uint64_t seed, enum pdl_draw purpose, int64_t epoch);

/* ---- batches ---------------------------------------------------------- */

struct pdl_batching {
    int64_t samples, batch; /* both > 0 */
    bool keep_last;         /* a short last batch; else it is dropped */
};
int64_t pdl_batch_count(const struct pdl_batching *b); /* in an epoch */
/* Positions [lo, hi) of batch i of an epoch. */
void pdl_batch_range(const struct pdl_batching *b, int64_t i, int64_t *lo,
                     int64_t *hi);
/* Where the batch of a step stands, steps counted from 0 over all epochs.
 * There must be a batch in an epoch. */
void pdl_batch_locate(const struct pdl_batching *b, int64_t step,
                      int64_t *epoch, int64_t *index);

PDL_END

#endif
