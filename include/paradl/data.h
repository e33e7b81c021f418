/* paradl/data.h - what a data set is, and in which order it is seen.
 *
 * A data set is described by numbers only; files are io's business. Samples
 * of a split have ids 0 .. samples-1 that never change. An epoch visits
 * positions 0 .. samples-1, and which sample stands at a position is a pure
 * function of (seed, epoch, position): no list is stored, no rank count
 * enters, and a run resumes from one integer. Batch b of an epoch is the
 * positions [b*B, (b+1)*B).
 *
 * Orders with state (samples that live on workers and are exchanged, samples
 * that are hidden for an epoch because they teach nothing) are a sampler's: it
 * begins an epoch from what training saw in the one before. Nothing of it
 * depends on the number of ranks: a worker is a share of the batch. */
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

/* A data set to plan with: a number of samples, a name ("imagenet") or a file
 * "*.yaml" (src/data/about.c). */
struct pdl_data_about {
    const char *name;
    int64_t samples, files;     /* files 0: so few that opening costs nothing */
    double bytes, stored_bytes; /* of a sample: in its file, in a store */
    double load_s;     /* of a worker for a sample, that nothing hides */
    double exchange_s; /* of a worker for a sample that it exchanges */
};
enum pdl_status pdl_data_about(pdl_arena *a, const char *text,
                               struct pdl_data_about *out, struct pdl_err *err);
/* From text in memory; name is for messages. */
enum pdl_status pdl_data_about_read(pdl_arena *a, struct pdl_bytes in,
                                    const char *name,
                                    struct pdl_data_about *out,
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
};
void pdl_order_begin(struct pdl_order *o, const struct pdl_shuffle *how,
                     uint64_t seed, int64_t epoch, int64_t n);
/* 0 <= position < n, 0 <= sample < n. */
int64_t pdl_order_at(const struct pdl_order *o, int64_t position);
int64_t pdl_order_find(const struct pdl_order *o, int64_t sample);

/* A key for one purpose of one epoch of a run, so that order, augmentation
 * and whatever comes later never draw the same numbers. */
enum pdl_draw {
    PDL_DRAW_ORDER,
    PDL_DRAW_AUGMENT,
    PDL_DRAW_SYNTHETIC,
    PDL_DRAW_PLACE,     /* which worker stores a sample at the beginning */
    PDL_DRAW_EXCHANGE,  /* who sends what to whom */
    PDL_DRAW_HIDE,      /* which samples are left out */
    PDL_DRAW_MASK,      /* which tokens are hidden */
    PDL_DRAW_PARTITION, /* which client has a sample */
};
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

/* ---- samplers: orders with state -------------------------------------- */

enum { PDL_SAMPLING_KEYS = 8 };

/* A parameter of a way: a number, or one of some words (its index). */
struct pdl_sampling_key {
    const char *name, *summary;
    double value, min, max;   /* by default, and what it may be */
    const char *const *words; /* NULL-ended; none: a whole number; NULL: any */
};
extern const char *const pdl_sampling_whole[]; /* no words */

/* A way to deal samples to workers, or to hide some: "name:key=value,...". */
struct pdl_sampling {
    const char *name, *summary;
    struct pdl_sampling_key keys[PDL_SAMPLING_KEYS]; /* up to a NULL name */
};
/* What the parameters were set to. */
struct pdl_sampling_setting {
    int way; /* its row */
    double value[PDL_SAMPLING_KEYS];
};
/* Against the ways of a table; what: "hide samples", for messages. */
enum pdl_status pdl_sampling_parse(const struct pdl_sampling *(*at)(int),
                                   const char *what, const char *text,
                                   struct pdl_sampling_setting *out,
                                   struct pdl_err *err);
const struct pdl_sampling *pdl_deal_at(int i); /* NULL past the end */
const struct pdl_sampling *pdl_hide_at(int i);

struct pdl_sampler_options {
    int64_t samples, batch, epochs;
    int64_t micros;       /* micro-batches of a batch; 0 is 1 */
    int64_t workers;      /* where `deal` does not say; 0 is 1 */
    double warmup_epochs; /* the learning rate is left alone that long */
    uint64_t seed;
    const char *deal;      /* "global" when NULL; "partial:q=0.3,workers=64" */
    const char *hide;      /* "none" when NULL; "kakurenbo:f=0.3" */
    const int32_t *labels; /* of all samples, for place=class; else NULL */
};

/* All ranks of a run have the same sampler and tell it the same results. */
typedef struct pdl_sampler pdl_sampler;

enum pdl_status pdl_sampler_create(const struct pdl_sampler_options *o,
                                   pdl_sampler **out, struct pdl_err *err);
void pdl_sampler_destroy(pdl_sampler *s); /* NULL is allowed */

/* The next epoch: 0, 1, ... one after another. */
void pdl_sampler_next(pdl_sampler *s);
int64_t pdl_sampler_epoch(const pdl_sampler *s); /* -1 before the first */
/* Is it the global order of all samples, without state? Of others, an epoch is
 * known only when the one before has ended. */
bool pdl_sampler_is_plain(const pdl_sampler *s);
/* Batches of this epoch; at least one. A short last batch is dropped. */
int64_t pdl_sampler_batches(const pdl_sampler *s);
/* Which sample: 0 <= position < batches * batch. */
int64_t pdl_sampler_at(const pdl_sampler *s, int64_t position);
/* The same of n positions, from the first on. */
void pdl_sampler_order(const pdl_sampler *s, int64_t first, int64_t n,
                       int64_t *out);
/* What a sample's loss is multiplied with; NULL: all by 1. By sample. */
const float *pdl_sampler_weights(const pdl_sampler *s);
/* What the learning rate is multiplied with. */
double pdl_sampler_rate(const pdl_sampler *s);
/* Samples that are not trained in this epoch, in the order of their ids. */
int64_t pdl_sampler_hidden(const pdl_sampler *s, const int64_t **samples);
/* Do hidden samples want a forward pass at the end of the epoch? */
bool pdl_sampler_refreshes(const pdl_sampler *s);
/* The order of that pass, so that in each batch a worker sees samples that it
 * stores; ~sample fills up and is not to be told of. */
int64_t pdl_sampler_refresh(const pdl_sampler *s, const int64_t **samples);
/* What training, or that pass, saw of a sample. Its confidence is exp(-loss):
 * with softmax and cross-entropy the probability of the right class. */
void pdl_sampler_saw(pdl_sampler *s, int64_t sample, double loss, bool correct);
/* The same of n samples. */
void pdl_sampler_saw_all(pdl_sampler *s, int64_t n, const int64_t *sample,
                         const double *loss, const bool *correct);

/* Does the way to hide take confidences that it is told instead (conf_axis of
 * kakurenbo)? */
bool pdl_sampler_asks_confidence(const pdl_sampler *s);
void pdl_sampler_tell_confidence(pdl_sampler *s, int64_t n,
                                 const int64_t *sample,
                                 const double *confidence);

/* Samples that workers exchange in this epoch, to be used from the next: the
 * j-th of a worker leaves `slot` for `to`, and what `from` sends takes its
 * place. Before the last batch, all of them have gone. */
struct pdl_sampler_move {
    int64_t slot, sample;
    int64_t to, from;
};
int64_t pdl_sampler_workers(const pdl_sampler *s); /* 1: nobody to deal to */
/* Do workers keep samples of their own? */
bool pdl_sampler_keeps(const pdl_sampler *s);
int64_t pdl_sampler_moves(const pdl_sampler *s); /* of each worker */
struct pdl_sampler_move pdl_sampler_move(const pdl_sampler *s, int64_t worker,
                                         int64_t j);
/* Slots of a worker, and the sample in one of them. */
int64_t pdl_sampler_slots(const pdl_sampler *s, int64_t worker);
int64_t pdl_sampler_slot(const pdl_sampler *s, int64_t worker, int64_t slot);

/* What a checkpoint keeps of a sampler: arrays, NULL past the end. To go on,
 * fill them with what was kept and say in which epoch that was. */
struct pdl_sampler_part {
    const char *name;
    void *data;
    int64_t count;
    int bytes; /* of one: 1 (uint8), 4 (float), 8 (int64) */
};
const struct pdl_sampler_part *pdl_sampler_part(const pdl_sampler *s, int i);
enum pdl_status pdl_sampler_resume(pdl_sampler *s, int64_t epoch,
                                   struct pdl_err *err);

/* ---- partitions: who has which samples --------------------------------- */

struct pdl_partition_options {
    int64_t samples, clients;
    const char *how;       /* "iid" when NULL; "dirichlet:alpha=0.3" */
    const int32_t *labels; /* of all samples, 0 <= label < classes */
    int64_t classes;       /* 0: there are no labels */
    uint64_t seed;
};

/* Samples of client c are sample[first[c] .. first[c + 1]), by their ids. No
 * two clients have the same one; ways that make clients equal leave some to
 * nobody. Clients of a group were made alike (their label mix). */
struct pdl_partition {
    int64_t samples, clients, classes, groups;
    const int64_t *first; /* clients + 1 */
    const int64_t *sample;
    const int32_t *group; /* of each client */
    const int64_t *count; /* client by client, of each class; NULL: none */
};
const struct pdl_sampling *pdl_partition_at(int i); /* NULL past the end */
/* In the arena; a function of the options alone. */
enum pdl_status pdl_partition_make(pdl_arena *a,
                                   const struct pdl_partition_options *o,
                                   struct pdl_partition *out,
                                   struct pdl_err *err);

PDL_END

#endif
