/* Shared by the files of a run: the loop over steps (loop.c), its checkpoints
 * (keep.c), and how it was started (settings.c). */
#ifndef TRAIN_LOOP_H
#define TRAIN_LOOP_H

#include "train/exec/supply.h"
#include "train/optim/optim.h"
#include "train/train_priv.h"

enum { TRAIN_SETTINGS = 24 };

/* Checkpoints of a run. A failed one is told and tried again later: a full
 * disk does not end a training. */
struct train_keeper {
    pdl_ckpt_lock *lock; /* rank 0's */
    char dir[4096];
    uint64_t owner;
    pdl_saver *saver; /* NULL: none are written */
    struct pdl_shard *shards;
    int nshards;
    double since_s, interval_s;
    bool overdue; /* it was time, and the last one was not done */
    int64_t due;  /* the step at which it was time, */
    double due_s; /* and when that was */
    bool late;    /* and that has been said */
    double pause_s, not_before_s; /* after a failure */
    bool failed, warned;
    struct pdl_err err;
};

/* Batches left out after a bad loss. */
struct train_mishap {
    int64_t shift; /* batch of a step, less the step */
    int64_t seen;  /* losses in the mean */
    double mean;
    int in_a_row, rollbacks;
    char *buffers; /* running statistics before the step */
};

/* What the test split says; not a number: it was not asked, or has no such. */
struct train_score {
    double loss, perplexity, accuracy;
    const int32_t *labels; /* NULL: no classes, or too many */
    int nclasses;
    int64_t right[PDL_TRAIN_CLASSES], of[PDL_TRAIN_CLASSES];
    double seconds; /* in all */
};

/* Sites that meet every so many steps (sites.c); across: NULL where there is
 * one. */
struct train_sites {
    struct pdl_train_job job; /* this site's */
    pdl_comm *inside, *across;
    int64_t site;
    struct train_site_weight *weight;
    int nweights;
    bool asked; /* to stop */
};

struct train_loop {
    const struct pdl_train_job *job;
    struct train_sites *sites;
    pdl_comm *comm;
    pdl_arena *arena;
    pdl_trainer *t;
    struct train_samples train, test, hidden;
    struct train_masking mask;
    struct pdl_augment normalise, augment;
    struct train_epochs epochs;
    struct train_supply supply;
    struct train_schedule rates;
    int64_t steps, done, resumed_at; /* of the whole run */
    struct train_keeper keep;
    struct pdl_setting settings[TRAIN_SETTINGS];
    int nsettings;
    struct train_mishap mishap;
    struct train_score score;
    struct train_average *averages; /* of the weights; average.c */
    int naverages;
    double epoch_loss, last_loss;
    bool told_unlocked; /* memory of the host */
    int64_t epoch_steps;
    double busy_s, fastest_s, start_s, cpu_s;
    struct train_clock clock;
    struct train_outputs outputs;
};

bool train_is_first(const struct train_loop *l);
int64_t train_samples_of(const struct train_loop *l); /* of the split */
/* Rank 0 only; a note is a printf of one line. */
void train_tell(struct train_loop *l, struct pdl_train_line line);
/* slow.c: what ran in the reference kernels of a fast backend, by its share of
 * a step that took so long; collective */
enum pdl_status train_slow_tell(struct train_loop *l, double step_s,
                                struct pdl_err *err);
/* Batches to come are read by a thread, from where the run is. */
enum pdl_status train_read_ahead(struct train_loop *l, struct pdl_err *err);
/* Where most outputs of the model are of no class in the data. */
void train_tell_classes(struct train_loop *l);
void train_note(struct train_loop *l, const char *fmt, ...) PDL_PRINTF(2, 3);

/* ---- keep.c ---- */

/* Collective: takes the folder, makes the writer. */
enum pdl_status train_keep_open(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_keep_begin(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_keep_resume(struct train_loop *l, struct pdl_err *err);
/* Evaluation: the weights of a checkpoint, and nothing else of it. */
enum pdl_status train_keep_weights(struct train_loop *l, struct pdl_err *err);
/* Collective: to the newest checkpoint of this run. */
enum pdl_status train_keep_back(struct train_loop *l, struct pdl_err *err);
/* Before a step: is it time (rank 0), has the last one failed? */
bool train_keep_due(struct train_loop *l);
bool train_keep_failed(struct train_loop *l);
enum pdl_status train_keep_save(struct train_loop *l, struct pdl_err *err);
/* Collective: some ranks have said that they failed. */
enum pdl_status train_keep_shared(struct train_loop *l, struct pdl_err *err);
/* Collective: waits for the last one, which must be good. */
enum pdl_status train_keep_end(struct train_loop *l, struct pdl_err *err);
/* Seconds that steps have waited for checkpoints so far. */
double train_keep_stall(const struct train_loop *l);
void train_keep_close(struct train_loop *l);
/* What a tensor has wrong is wrong in this file. */
void train_name_file(const char *path, enum pdl_status st, struct pdl_err *err);

/* ---- score.c ---- */

int64_t train_score_samples(const struct train_loop *l);
/* Collective. A part of the test split says nothing: told to stop, all are
 * not numbers. */
enum pdl_status train_score(struct train_loop *l, bool *stop,
                            struct pdl_err *err);
void train_score_classes(const struct train_loop *l,
                         struct pdl_train_summary *out);
bool train_asked_to_stop(const struct train_loop *l);

/* ---- average.c ---- */

enum pdl_status train_average_open(struct train_loop *l, struct pdl_err *err);
/* To the weights; a step further; in place of the weights, and back. */
enum pdl_status train_average_reset(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_average_step(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_average_in(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_average_out(struct train_loop *l, struct pdl_err *err);
/* For a checkpoint: the whole box, and whose; NULL past the end. */
const struct pdl_train_state *train_average_shard(const struct train_loop *l,
                                                  int i, struct pdl_shard *x);
enum pdl_status train_average_restore(struct train_loop *l, const pdl_ckpt *c,
                                      struct pdl_err *err);

/* The float32 master of a state, or itself. */
const struct pdl_train_state *train_master_of(const pdl_trainer *t, int state);

/* ---- sites.c ---- */

/* Of all ranks; collective, as what follows is. */
enum pdl_status train_sites_open(struct train_sites *s,
                                 const struct pdl_train_job *job,
                                 pdl_comm *comm, struct pdl_err *err);
void train_sites_close(struct train_sites *s);
enum pdl_status train_sites_begin(struct train_loop *l, struct pdl_err *err);
/* After a step: where it is time they meet, and agree whether to stop. */
enum pdl_status train_sites_step(struct train_loop *l,
                                 struct pdl_train_result *r,
                                 struct pdl_err *err);

/* ---- mishap.c ---- */

enum pdl_status train_mishap_open(struct train_loop *l, struct pdl_err *err);
enum pdl_status train_mishap_before(struct train_loop *l, struct pdl_err *err);
void train_mishap_none(struct train_loop *l, double loss);
/* err says what was wrong with the step; PDL_OK: it is dealt with. */
enum pdl_status train_mishap(struct train_loop *l, struct pdl_err *err);

/* ---- settings.c ---- */

enum pdl_status train_settings(struct train_loop *l, struct pdl_err *err);
/* May a run that was started like this go on from the checkpoint? */
enum pdl_status train_settings_compare(struct train_loop *l, const pdl_ckpt *c,
                                       struct pdl_err *err);

#endif
