/* Shared inside the room: the ways to order an epoch, to deal samples to
 * workers and to hide some of them. */
#ifndef DATA_PRIV_H
#define DATA_PRIV_H

#include "paradl/data.h"

extern const struct pdl_shuffle data_shuffle_global, data_shuffle_none;

/* ---- what was seen ----------------------------------------------------- */

enum { DATA_SEEN = 1, DATA_CORRECT = 2 };

struct data_seen { /* by sample */
    float *loss;   /* of the last time; 1 before the first */
    uint8_t *flags;
    float *conf; /* where they are told; 0 before the first */
};

struct pdl_sampler {
    pdl_arena *arena;
    struct pdl_sampler_options opt;
    const struct data_deal *deal;
    const struct data_hide *hide;
    struct pdl_sampling_setting deal_with, hide_with;
    int64_t epoch, batches;
    struct data_seen before, now; /* this epoch's begin, and since; or NULL */
    struct data_seen history[2]; /* two and three epochs ago, where asked for */
    uint8_t *hides;              /* by sample: 1 is hidden */
    int64_t *hidden, nhidden;
    int64_t *list, nlist; /* what is trained; NULL: every sample once */
    float *weight;
    double rate;
    struct pdl_order order; /* of the list */
    int64_t workers, nmoves;
    int64_t *slot;      /* samples, worker by worker */
    int64_t *mine;      /* what workers train, in this epoch's order, in the */
    int64_t *nmine;     /* room of their slots, and how many */
    int64_t *leaving;   /* slots in the order in which they are exchanged */
    int64_t *partner;   /* of each worker; NULL: another for each sample: */
    int32_t *to, *from; /* of move j, by worker: [nmoves][workers] */
    int64_t *again;     /* hidden samples by worker, to be looked at again */
    uint32_t *key;      /* to sort by; and its scratch */
    int64_t *sorted;
    struct pdl_sampler_part part[10];
    int nparts;
};

/* A random number in [0, 1) of a sample in this epoch, for one purpose. */
double data_draw(const pdl_sampler *s, enum pdl_draw why, int64_t sample);
/* sort.c: s->sorted lists [0, n) by s->key, equal ones in their order. */
void data_sort(pdl_sampler *s, int64_t n);
uint32_t data_key_of(float v); /* in the order of the numbers; NaN is last */
/* Samples by loss before this epoch, ascending, into s->sorted. */
void data_sort_by_loss(pdl_sampler *s);
/* Of the k >= 1 lowest losses the largest key; `equal` samples of exactly this
 * key, the first ones, are among them. Sets s->key. */
uint32_t data_lowest_losses(pdl_sampler *s, int64_t k, int64_t *equal);
/* Samples of an order that has a state; ids of these fit 32 bits. */
#define DATA_MOST ((int64_t)1 << 32)

/* ---- hiding ------------------------------------------------------------ */

/* choose sets hides[] (all 0), and weight[], rate or list where it has any. */
struct data_hide {
    struct pdl_sampling is;
    void (*choose)(pdl_sampler *s);
    bool (*told)(const pdl_sampler *s); /* asks for confidences; NULL: no */
    bool refreshes;                     /* hidden samples are looked at again */
    bool weighs, lists; /* sets weight[]; writes the list itself */
    int history;        /* epochs of losses before the last one: 0 or 2 */
};
extern const struct data_hide data_hide_none, data_hide_kakurenbo,
    data_hide_infobatch, data_hide_ies, data_hide_random, data_hide_iswr,
    data_hide_sb, data_hide_seta;

/* ---- dealing ----------------------------------------------------------- */

/* Without `leave` samples stay where they are. It writes the slots of a worker
 * in the order in which they go (s->leaving), and partners where there are. */
struct data_deal {
    struct pdl_sampling is;
    const struct pdl_shuffle *how; /* of all samples; NULL: of a worker's */
    void (*leave)(pdl_sampler *s);
    bool by_loss;
};
extern const struct data_deal data_deal_global, data_deal_none, data_deal_local,
    data_deal_partial, data_deal_pair;
enum { DATA_DEAL_Q, DATA_DEAL_WORKERS, DATA_DEAL_PLACE };
/* The keys that all who deal to workers have after q. */
extern const char *const data_places[]; /* deal.c */
// clang-format off
#define DATA_WORKERS                                                          \
    {"workers", "how many share the samples; 0: data ranks", 0, 0, 1e9,       \
     pdl_sampling_whole},                                                     \
    {"place", "at first: as in the files, at random, or by class", 1, 0, 2,   \
     data_places}
// clang-format on

/* deal.c: slots of a worker. */
int64_t data_slots_begin(const pdl_sampler *s, int64_t worker);
/* Slots by key[], hidden samples last: worker's part of s->leaving. */
void data_leave_in_order(pdl_sampler *s, int64_t worker);
/* Another receiver for each sample that a worker sends: s->to, s->from. */
void data_draw_receivers(pdl_sampler *s);
enum pdl_status data_deal_open(pdl_sampler *s, struct pdl_err *err);
void data_deal_epoch(pdl_sampler *s);
void data_deal_exchange(pdl_sampler *s);
/* Which worker sees a position of an epoch, and as its how manieth. */
int64_t data_worker_at(const pdl_sampler *s, int64_t position, int64_t *number);
/* Hidden samples, dealt to those who store them (s->again). */
int64_t data_deal_again(const pdl_sampler *s);
bool data_deal_is_whole(const pdl_sampler *s);

/* ---- partitions -------------------------------------------------------- */

enum { DATA_NOBODY = -1 };

/* What a way fills: owner[] (all DATA_NOBODY at first) and group[] (all 0). */
struct data_split {
    const struct pdl_partition_options *opt;
    struct pdl_sampling_setting with;
    int64_t *owner;
    int32_t *group;
    int64_t groups;
    int64_t *list;  /* samples in a random order; those of a class together, */
    int64_t *begin; /* class by class (one, where there are no labels) */
    double *share;  /* scratch: a number of each client */
    struct pdl_rng rng;
};
struct data_partition {
    struct pdl_sampling is;
    bool by_class; /* samples must have labels */
    enum pdl_status (*split)(struct data_split *s, struct pdl_err *err);
};
extern const struct data_partition data_partition_iid, data_partition_quantity,
    data_partition_dirichlet, data_partition_pathological,
    data_partition_cluster;
/* Shares of all clients, Dirichlet(alpha), that add up to 1. */
void data_draw_shares(struct data_split *s, double alpha);
/* list[from..to) to clients by their shares, in the order of the list. */
void data_deal_shares(struct data_split *s, int64_t from, int64_t to);
/* Clients with fewer than `least` take from who has most. */
void data_top_up(struct data_split *s, int64_t least);

#endif
