/* paradl/fed.h - federated training: models move, data stays.
 *
 * A run is rounds. A round is a small plan: which clients take part, which
 * model each of them begins from, whom a model visits one after the other, and
 * how what comes back is put together. An algorithm (one file and one row)
 * writes that plan and the sums; everything else is the same for all. Clients
 * are virtual: their samples are a part of one data set, and a few workers
 * (ranks of a communicator, threads or MPI processes) train one client after
 * the other. Results are summed in the order of the plan, so that any number
 * of workers gives the same bits. */
#ifndef PARADL_FED_H
#define PARADL_FED_H

#include "paradl/base.h"
#include "paradl/comm.h"
#include "paradl/data.h"
#include "paradl/io.h"
#include "paradl/model.h"

PDL_BEGIN

/* An algorithm: "name:key=value,...". */
const struct pdl_sampling *pdl_fed_algorithm_at(int i); /* NULL past the end */

/* What clients run on: "phone", "edge:away=0.2", ... */
struct pdl_fed_devices {
    double flops, down, up, latency_s; /* down, up: bytes/s */
    double spread, away;
};
const struct pdl_sampling *pdl_fed_devices_at(int i); /* NULL past the end */
enum pdl_status pdl_fed_devices_parse(const char *text,
                                      struct pdl_fed_devices *out,
                                      struct pdl_err *err);

/* ---- the plan of a round -------------------------------------------- */

enum { PDL_FED_GLOBAL = -1 };

/* One model that is trained: from `start`, by the clients of visits [first,
 * first + nvisits) of the round, one after the other. */
struct pdl_fed_task {
    int64_t first, nvisits;
    int64_t start;    /* a travelling model, or PDL_FED_GLOBAL */
    int64_t version;  /* rounds done when it began: later, it is stale */
    double seconds;   /* that the clients' devices are said to need */
    int64_t attempt;  /* how often the round has asked its client before */
    bool pooled;      /* their samples together, not one after the other */
    const char *lost; /* why nothing comes back: "dropped", "late"; NULL */
};
struct pdl_fed_visit {
    int64_t client, epochs;
};
struct pdl_fed_round {
    int64_t round, ntasks, nvisits;
    const struct pdl_fed_task *task;
    const struct pdl_fed_visit *visit;
    int64_t down_bytes, up_bytes, across_bytes; /* across: client to client */
    double seconds; /* until the last that is waited for */
};
/* One JSON object on one line. */
void pdl_fed_round_print(const struct pdl_fed_round *r, struct pdl_sink *out);

/* ---- a run ---------------------------------------------------------- */

/* What a round was, told by rank 0 when it is over. */
struct pdl_fed_line {
    const struct pdl_fed_round *plan;
    int64_t round, rounds; /* done; of the run */
    int64_t trained, lost; /* models that came back, or did not */
    double train_loss;     /* mean over what was trained */
    double loss, accuracy; /* of the test split; not a number: not tested */
    int64_t groups, clients;
    const double *group_accuracy;  /* as their clients' classes are mixed */
    const double *client_accuracy; /* NULL where not tested */
    int64_t clusters; /* that the algorithm has found; 0: it looks for none */
    const int32_t *cluster;  /* of each client; -1: not seen yet */
    const float *similarity; /* of each two clients; NULL: none. -2: unknown */
    bool past;        /* of before a resume, told again: what it has not is
                         NULL */
    const char *note; /* else nothing but this */
};

struct pdl_fed_job {
    const struct pdl_model *model; /* what a client trains */
    const pdl_io *io;
    struct pdl_partition partition;
    const char *algorithm;  /* NULL: fedavg */
    int64_t select, rounds; /* clients of a round; 0: all */
    int64_t epochs, steps;  /* of a visit; steps > 0: that many instead */
    int64_t batch;
    double lr, lr_decay;   /* factor of each round; 0: 1 */
    const char *optimizer; /* of a client; NULL: sgd without momentum */
    const char *strategy;  /* of a client's devices; NULL: it has one */
    uint64_t seed;
    double drop;            /* share of clients that drop out of a round */
    double away;            /* share that cannot be asked in a round */
    int64_t only;           /* the one client that takes part; -1: all may */
    int64_t first_round;    /* number of the first, for who goes on by itself */
    double target;          /* accuracy to stop at; 0: none */
    double deadline_s;      /* of a round; 0: none */
    double speed, spread;   /* samples/s of a device; sigma of its log */
    double down, up;        /* bytes/s of a client's link; 0: no time */
    double latency_s;       /* of a transfer */
    int64_t test_every;     /* rounds; 0: 1 */
    int64_t test_samples;   /* 0: all, < 0: none */
    const char *backend;    /* of pdl_train_options */
    bool raw;               /* inputs are not normalised */
    int threads;            /* of a worker; 0: 1 */
    bool devices_are_ranks; /* the parts of a divided network, too: a cluster
                               is trained by several ranks; else by one */
    const char *checkpoint; /* folder; NULL: none */
    int64_t every;          /* models trained between two; 0: a round's */
    int keep;               /* checkpoints; 0: 2 */
    bool resume;
    const char *weights_in, *weights_out; /* safetensors; NULL: none */
    const char *model_name, *data_name, *partition_name; /* for checkpoints */
    uint64_t run;             /* tells starts apart, all ranks alike */
    const volatile int *stop; /* becomes not 0: save and stop */
    void (*tell)(void *ctx, const struct pdl_fed_line *line); /* rank 0 */
    void (*trained)(void *ctx, int64_t done, int64_t of);     /* rank 0; may be
                                                             NULL */
    void (*at)(void *ctx, enum pdl_ckpt_phase phase);         /* tests */
    /* tests: after a client's training; PDL_EWRONG: its model is no number */
    enum pdl_status (*visited)(void *ctx, int64_t client, struct pdl_err *err);
    void *ctx;
};

struct pdl_fed_summary {
    int64_t rounds, models, lost, parameters;
    int64_t down_bytes, up_bytes, across_bytes;
    double seconds; /* of the rounds, as devices are said to be */
    double wall_s;
    double loss, accuracy, best; /* of the last test; the best accuracy */
    int64_t memory_bytes; /* of one client's training: tensors and weights */
    int64_t resumed_at;   /* models; 0: from the beginning */
    bool stopped;
    bool reached; /* the target, in the last round */
};

/* Collective over comm: all ranks have the same job. */
enum pdl_status pdl_fed_run(const struct pdl_fed_job *job, pdl_comm *comm,
                            struct pdl_fed_summary *out, struct pdl_err *err);
/* Projected from the plans of all rounds, without training: how long a round
 * takes on the devices and links that the job describes. */
struct pdl_fed_projection {
    int64_t rounds, tasks, lost, parameters;
    double mean_s, median_s, p90_s, total_s;   /* of a round; of all */
    double down_bytes, up_bytes, across_bytes; /* of a round, mean */
    int64_t memory_bytes;                      /* of a client in training */
};
enum pdl_status pdl_fed_project(const struct pdl_fed_job *job,
                                struct pdl_fed_projection *out,
                                struct pdl_err *err);
/* The plans of all rounds, without training. */
enum pdl_status pdl_fed_emit(const struct pdl_fed_job *job,
                             struct pdl_sink *out, struct pdl_err *err);

PDL_END

#endif
