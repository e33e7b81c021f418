/* paradl/io.h - files of the runtime: data sets in, checkpoints in and out,
 * weights in and out, measurements out.
 *
 * Whatever is read may be damaged or hostile: a function answers with one
 * line, never with a crash, and allocates no more than the file could need.
 * What is written is visible whole or not at all. Nothing here knows of MPI:
 * each rank calls for itself, and what ranks must agree on (which checkpoint)
 * one rank decides and the others are told. */
#ifndef PARADL_IO_H
#define PARADL_IO_H

#include "paradl/base.h"
#include "paradl/data.h"
#include "paradl/model.h"

PDL_BEGIN

/* ---- data sets -------------------------------------------------------- */

/* An open data set. Reading is const: threads may share one. */
typedef struct pdl_io pdl_io;

/* How to open; all zero is the default. */
struct pdl_io_options {
    const char *format; /* NULL: found from the content */
    int64_t sequence;   /* tokens in a sample; 0: 256 */
    int token_bytes;    /* of a token file: 2, 4; 0: by content */
    double holdout;     /* share kept back as "test" where the files have
                              no splits; 0: the format's own, < 0: none */
    const char *input;  /* HDF5 names, "x" and "y" when NULL; splits are */
    const char *target; /* groups, /train/x, or one set of samples, /x */
    const struct pdl_dataset *like; /* what "synthetic" shall look like */
    uint64_t seed;                  /* of "synthetic" */
    int64_t classes;   /* or vocabulary, where known; 0: by content */
    int64_t max_bytes; /* held in memory at most; 0: 8 GiB */
    int64_t side;      /* JPEG images become side x side; 0: 224 */
};

/* A format; the table is walked by the program and the tests. */
struct pdl_format {
    const char *name, *summary;
};
const struct pdl_format *pdl_format_at(int i); /* NULL past the end */

/* path: a file, a folder of files, "digits" (ships with the program) or
 * "synthetic". Errors name the file. */
enum pdl_status pdl_io_open(const char *path, const struct pdl_io_options *opt,
                            pdl_io **out, struct pdl_err *err);
void pdl_io_close(pdl_io *io); /* NULL is allowed */
const struct pdl_dataset *pdl_io_describe(const pdl_io *io);

/* Random crop after padding by `pad` zeros on each side, random horizontal
 * flip (both a function of seed, epoch and sample id), and normalisation
 * (x - mean) / std by channel. Pixels of 8 bits are first scaled to [0,1]. */
struct pdl_augment {
    int64_t pad;
    bool flip;
    int channels; /* of mean and std; 0: no normalisation */
    float mean[16], std[16];
    uint64_t seed;
    int64_t epoch;
};

/* A part of some samples. The box is of one sample, in the field's order,
 * after augmentation: a rank that computes rows 8..16 reads those. */
struct pdl_read {
    int split;
    const int64_t *samples;
    int64_t nsamples;
    struct pdl_box box;                /* ndims = the field's rank */
    bool channels_last;                /* store [H,W,C] instead of [C,H,W] */
    const struct pdl_augment *augment; /* input only; NULL: none */
};
/* dst: nsamples times the box's volume, float or int32_t as the field says. */
enum pdl_status pdl_io_input(const pdl_io *io, const struct pdl_read *r,
                             void *dst, struct pdl_err *err);
enum pdl_status pdl_io_target(const pdl_io *io, const struct pdl_read *r,
                              void *dst, struct pdl_err *err);
/* Mean and standard deviation of each channel (dim 0) over at most `limit`
 * samples of a split, evenly spaced. At most 16 channels. */
enum pdl_status pdl_io_moments(const pdl_io *io, int split, int64_t limit,
                               struct pdl_augment *out, struct pdl_err *err);

/* ---- prefetch --------------------------------------------------------- */

/* What one rank wants of every batch. */
struct pdl_loader_options {
    const pdl_io *io;
    int split;
    const struct pdl_shuffle *shuffle;
    /* or the epoch that a sampler is in; steps are then its batches, and the
     * loader must be gone before the next epoch begins */
    const pdl_sampler *sampler;
    /* or so many samples, once: these, NULL: from the first on; one that only
     * fills up is ~id. Past the last every batch has sample 0. */
    const int64_t *list;
    int64_t nlist;
    uint64_t seed;
    int64_t batch; /* global */
    bool keep_last;
    int64_t lo, hi;     /* this rank's samples of the batch, [lo, hi) */
    int64_t micros;     /* micro-batches, [lo, hi) of each one; 0: 1 */
    bool input, target; /* which fields it wants (first, last stage) */
    struct pdl_box input_box, target_box;
    bool channels_last;
    const struct pdl_augment *augment; /* seed is filled in, and the epoch
                                          unless there is a list */
    int64_t first_step;                /* where to begin, or resume */
    int64_t last_step;                 /* one past the last; 0: no end */
    int depth;                         /* batches read ahead; 0: 2 */
    int threads;                       /* that share a batch; 0: 1 */
    bool narrow; /* inputs that are numbers come as bfloat16 */
    /* Memory for batches; NULL: malloc and free. A batch lies where a place
     * begins. */
    void *(*place)(void *ctx, size_t bytes);
    void (*place_back)(void *ctx, void *at);
    void *ctx;
};

/* Valid until the next pdl_loader_next. */
struct pdl_batch {
    int64_t step, epoch, index; /* index of the batch in its epoch */
    int64_t global;             /* samples of the whole batch */
    int64_t nsamples;           /* of this rank; 0 in a short last batch */
    const int64_t *samples;     /* their ids */
    const void *input, *target; /* NULL where not wanted */
};

typedef struct pdl_loader pdl_loader;
enum pdl_status pdl_loader_create(const struct pdl_loader_options *opt,
                                  pdl_loader **out, struct pdl_err *err);
/* Waits for the next batch. An error of the reading thread comes out here,
 * after the good batches before it. PDL_EINVAL past last_step. */
enum pdl_status pdl_loader_next(pdl_loader *l, struct pdl_batch *out,
                                struct pdl_err *err);
/* Seconds that next has waited since the start: what I/O costs the step. */
double pdl_loader_waited_s(const pdl_loader *l);
void pdl_loader_destroy(pdl_loader *l); /* NULL is allowed */

/* ---- stores: samples on a local disk ----------------------------------- */

/* One mapped file of samples (a rank's share), each with a checksum. Slots are
 * of one size; the room is taken when the file is made. It may be read while
 * samples come and go. */
typedef struct pdl_store pdl_store;

struct pdl_store_info {
    int64_t samples, classes; /* of the data set's split */
    int64_t capacity, count;  /* samples that fit, and that are there */
    int64_t record_bytes, file_bytes;
    struct pdl_field input;
    int version;
    const char *split, *format, *elem; /* elem: how inputs are stored */
    int64_t healed;  /* samples written over since it was opened */
    int64_t dropped; /* lines of the index that said what cannot be */
};

/* For the samples of a split of `source`: made where there is none, grown to
 * `capacity`; refused when another job has it, when it is damaged or of another
 * data set. source NULL: to look at what is there. */
enum pdl_status pdl_store_open(const char *path, const pdl_io *source,
                               int split, int64_t capacity, pdl_store **out,
                               struct pdl_err *err);
void pdl_store_close(pdl_store *s); /* NULL is allowed */
void pdl_store_describe(const pdl_store *s, struct pdl_store_info *out);
/* Larger, or as small as what is there; nobody may be reading. */
enum pdl_status pdl_store_resize(pdl_store *s, int64_t capacity,
                                 struct pdl_err *err);
enum pdl_status pdl_store_sync(pdl_store *s, struct pdl_err *err);
int64_t pdl_store_count(const pdl_store *s);
bool pdl_store_has(pdl_store *s, int64_t sample);
/* The sample in a slot, 0 .. capacity-1; -1: none. */
int64_t pdl_store_at(pdl_store *s, int64_t slot);
/* A sample's bytes, record_bytes of them; PDL_EPARSE when they are damaged. */
enum pdl_status pdl_store_get(pdl_store *s, int64_t sample, void *record,
                              struct pdl_err *err);
enum pdl_status pdl_store_put(pdl_store *s, int64_t sample, const void *record,
                              struct pdl_err *err);
void pdl_store_drop(pdl_store *s, int64_t sample); /* also if not there */
/* Against the checksum, whether or not that was done before. */
enum pdl_status pdl_store_check(pdl_store *s, int64_t sample,
                                struct pdl_err *err);
uint64_t pdl_store_sum(const pdl_store *s, int64_t sample, const void *record);
/* A part of a sample, as pdl_io_input and pdl_io_target give it. */
enum pdl_status pdl_store_part(pdl_store *s, int64_t sample, bool target,
                               const struct pdl_box *box, void *dst,
                               struct pdl_err *err);
/* From the source to a record. */
enum pdl_status pdl_store_encode(const pdl_store *s, const pdl_io *io,
                                 int split, int64_t sample, void *record,
                                 struct pdl_err *err);

/* Reads the split from the store, and everything else from the source. A
 * sample that is damaged is taken from the source and put again. Both must
 * outlive it. */
enum pdl_status pdl_io_over_store(const pdl_io *source, pdl_store *store,
                                  int split, pdl_io **out, struct pdl_err *err);

/* Puts samples of the source into the store, by several threads; those that are
 * there, and good, stay. */
struct pdl_store_fill {
    const pdl_io *source;
    int split, threads;     /* 0: one */
    const int64_t *samples; /* n of them */
    int64_t n;
    int64_t put;                /* out: how many were written */
    const volatile int *cancel; /* becomes not 0: PDL_EINTR; may be NULL */
};
enum pdl_status pdl_store_fill(pdl_store *s, struct pdl_store_fill *f,
                               struct pdl_err *err);

/* ---- checkpoints ------------------------------------------------------ */

/* A part of a named tensor, contiguous and row-major in its box. */
struct pdl_shard {
    const char *name;
    enum pdl_dtype dtype;
    int rank;
    int64_t dim[PDL_MAX_RANK]; /* of the whole tensor */
    struct pdl_box box;
    const void *data;
};

struct pdl_scalar {
    const char *name;
    double value;
};

/* How a run was started, in words: "batch" "32". */
struct pdl_setting {
    const char *name, *value;
};

/* What a run needs besides tensors to go on. Random streams are functions of
 * the seed and these numbers (Philox), so there is no generator state. */
struct pdl_ckpt_state {
    int64_t step;         /* optimizer steps done */
    int64_t epoch, batch; /* of the batch that comes next */
    uint64_t seed;
    int64_t samples; /* of the split: an order of another n is refused */
    int64_t nranks;  /* that wrote it */
    const char *model, *strategy, *optimizer, *data; /* text; NULL: "" */
    double loss;
    int nscalars; /* anything else: loss scale, best accuracy ... */
    const struct pdl_scalar *scalars;
    int nsettings;
    const struct pdl_setting *settings;
};

/* True when `rank` is the one that writes its box: no lower rank's box holds
 * it, and it is not empty. boxes[r] is rank r's. */
bool pdl_ckpt_owns(const struct pdl_box *boxes, int nranks, int rank);

/* Moments of writing, in order; `at` is called with each name. A test kills
 * the process there. */
#define PDL_CKPT_PHASE_LIST(X) \
    X(STAGED, "staged")        \
    X(FOLDER, "folder")        \
    X(DATA, "data")            \
    X(SYNCED, "synced")        \
    X(PART, "part")            \
    X(GATHERED, "gathered")    \
    X(MANIFEST, "manifest")    \
    X(RENAMED, "renamed")      \
    X(DURABLE, "durable")      \
    X(PRUNED, "pruned")
enum pdl_ckpt_phase {
#define X(name, text) PDL_CKPT_##name,
    PDL_CKPT_PHASE_LIST(X)
#undef X
        PDL_NCKPT_PHASES
};
const char *pdl_ckpt_phase_name(enum pdl_ckpt_phase p);

/* Where and as whom. run tells this attempt of the job from a dead one that
 * left files of the same step: any number that all ranks share and that
 * differs between starts (rank 0's clock). */
struct pdl_ckpt_writer {
    const char *dir;
    int rank, nranks;
    uint64_t run;
    uint64_t owner;             /* the run, whatever its starts; only its own
                            checkpoints are pruned. 0: nobody's */
    int keep;                   /* checkpoints kept; 0: all */
    double timeout_s;           /* for the other ranks' parts; 0: 600 */
    int64_t chunk_bytes;        /* of a checksum; 0: 1 MiB */
    const volatile int *cancel; /* becomes not 0: no use waiting for parts */
    void (*at)(void *ctx, enum pdl_ckpt_phase phase); /* NULL: none */
    void *ctx;
};

/* Writes this rank's shards to DIR/step-N.tmp, durably. */
enum pdl_status pdl_ckpt_part(const struct pdl_ckpt_writer *w,
                              const struct pdl_ckpt_state *s,
                              const struct pdl_shard *shards, int n,
                              struct pdl_err *err);
/* Rank 0: waits for all parts, writes the manifest, renames to DIR/step-N,
 * removes old checkpoints. Needs no message between ranks. */
enum pdl_status pdl_ckpt_commit(const struct pdl_ckpt_writer *w,
                                const struct pdl_ckpt_state *s,
                                struct pdl_err *err);

/* The same in the background. Staging copies; the caller may change its
 * tensors when it returns. */
typedef struct pdl_saver pdl_saver;
struct pdl_saver_status {
    int64_t staged_step;     /* last one copied, -1: none */
    int64_t durable_step;    /* last one on disk (other ranks than 0: their part
                             of it), -1: none */
    double stage_s, write_s; /* of the last one */
    double blocked_s;        /* all time that the caller was held up */
};
enum pdl_status pdl_saver_create(const struct pdl_ckpt_writer *w,
                                 pdl_saver **out, struct pdl_err *err);
/* Waits while an earlier one is still being written; how that ended is told
 * by poll or wait. An error here is of the copy. */
enum pdl_status pdl_saver_save(pdl_saver *s, const struct pdl_ckpt_state *state,
                               const struct pdl_shard *shards, int n,
                               struct pdl_err *err);
enum pdl_status pdl_saver_wait(pdl_saver *s, struct pdl_err *err);
/* The same without waiting: PDL_OK while one is being written. An error is
 * told once. */
enum pdl_status pdl_saver_poll(pdl_saver *s, struct pdl_err *err);
bool pdl_saver_busy(pdl_saver *s);
/* Another rank has no part to give: rank 0 stops waiting (PDL_EINTR). */
void pdl_saver_cancel(pdl_saver *s);
void pdl_saver_status(pdl_saver *s, struct pdl_saver_status *out);
void pdl_saver_destroy(pdl_saver *s); /* finishes first; NULL is allowed */

/* An open checkpoint: logical tensors, whoever wrote them. */
typedef struct pdl_ckpt pdl_ckpt;
struct pdl_ckpt_tensor {
    const char *name;
    enum pdl_dtype dtype;
    int rank;
    int64_t dim[PDL_MAX_RANK];
    int64_t bytes;
};
/* A folder step-N. Checked: the manifest's checksum, that shards tile every
 * tensor, that files are there and as long as they should be. */
enum pdl_status pdl_ckpt_open(const char *path, pdl_ckpt **out,
                              struct pdl_err *err);
/* The newest good one of step < before (INT64_MAX: any) in dir. `deep` also
 * checks every byte. *out is NULL when there is no checkpoint at all;
 * PDL_EPARSE when there are some and none is good. notes (may be NULL) gets
 * one line for each one passed over. */
enum pdl_status pdl_ckpt_latest(const char *dir, int64_t before, bool deep,
                                pdl_ckpt **out, struct pdl_sink *notes,
                                struct pdl_err *err);
void pdl_ckpt_close(pdl_ckpt *c); /* NULL is allowed */
const char *pdl_ckpt_path(const pdl_ckpt *c);
const struct pdl_ckpt_state *pdl_ckpt_state(const pdl_ckpt *c);
int pdl_ckpt_count(const pdl_ckpt *c);
const struct pdl_ckpt_tensor *pdl_ckpt_tensor(const pdl_ckpt *c, int i);
int pdl_ckpt_find(const pdl_ckpt *c, const char *name); /* -1: none */
/* Any box of a tensor, row-major, from whatever shards hold it; the chunks
 * read are checked. Threads may share the checkpoint. */
enum pdl_status pdl_ckpt_read(const pdl_ckpt *c, int tensor,
                              const struct pdl_box *box, void *dst,
                              struct pdl_err *err);
/* Every byte of every file against its checksum. */
enum pdl_status pdl_ckpt_verify(const pdl_ckpt *c, struct pdl_err *err);
uint64_t pdl_ckpt_owner(const pdl_ckpt *c); /* 0: nobody's */
/* Keeps the w->keep newest good ones of w->owner (0: all), removes its older
 * ones, and what dead runs left of steps before `writing`. */
enum pdl_status pdl_ckpt_prune(const struct pdl_ckpt_writer *w, int64_t writing,
                               struct pdl_err *err);

/* A folder of checkpoints belongs to one run. Whoever writes there holds
 * DIR/lock, which the kernel gives back when the process dies. */
struct pdl_ckpt_claim {
    const char *dir;
    bool resume;  /* go on with the run that is there; else it must be empty */
    bool beside;  /* where it is not: DIR-2, DIR-3 ... instead */
    bool again;   /* started again: only where `job` was the last */
    uint64_t job; /* whoever starts the ranks again; 0: nobody */
    const char *model;
    double patience_s; /* for one that is about to end */
};
typedef struct pdl_ckpt_lock pdl_ckpt_lock;
/* PDL_EINVAL names who holds it, or whose checkpoints are there; notes (may
 * be NULL) gets a line where it is not as asked. */
enum pdl_status pdl_ckpt_claim(const struct pdl_ckpt_claim *c,
                               pdl_ckpt_lock **out, struct pdl_sink *notes,
                               struct pdl_err *err);
const char *pdl_ckpt_lock_dir(const pdl_ckpt_lock *l);
uint64_t pdl_ckpt_lock_owner(const pdl_ckpt_lock *l);
void pdl_ckpt_release(pdl_ckpt_lock *l); /* NULL is allowed */

/* ---- safetensors ------------------------------------------------------ */

/* A tensor to write; data NULL: `fill` is asked for it. */
struct pdl_weights_options {
    const char *const *metadata; /* key, value, ..., NULL */
    int64_t max_file_bytes;      /* above: several files and an index; 0:
                                    one file */
    enum pdl_status (*fill)(void *ctx, int tensor, void *dst,
                            struct pdl_err *err);
    void *ctx;
};
/* Writes PATH (*.safetensors), or PATH-00001-of-00003 ... and
 * PATH.index.json. box of the shards is ignored: they are whole tensors. */
enum pdl_status pdl_weights_write(const char *path,
                                  const struct pdl_shard *tensors, int n,
                                  const struct pdl_weights_options *opt,
                                  struct pdl_err *err);

/* A file, or an index with its files. */
typedef struct pdl_weights pdl_weights;
enum pdl_status pdl_weights_open(const char *path, pdl_weights **out,
                                 struct pdl_err *err);
void pdl_weights_close(pdl_weights *w); /* NULL is allowed */
int pdl_weights_count(const pdl_weights *w);
const struct pdl_ckpt_tensor *pdl_weights_tensor(const pdl_weights *w, int i);
int pdl_weights_find(const pdl_weights *w, const char *name); /* -1: none */
enum pdl_status pdl_weights_read(const pdl_weights *w, int tensor,
                                 const struct pdl_box *box, void *dst,
                                 struct pdl_err *err);

/* ---- measurements over time ------------------------------------------- */

/* Rows of numbers by step: JSON lines (*.jsonl), CSV (*.csv) or events for
 * TensorBoard (*.tfevents). A row is written whole, so a crash leaves at most
 * one broken row, and opening at resume_step removes that and all rows of
 * later steps: the file of a run with restarts is that of one without. */
typedef struct pdl_metrics pdl_metrics;
enum pdl_status pdl_metrics_open(const char *path, const char *const *columns,
                                 int ncolumns, int64_t resume_step,
                                 pdl_metrics **out, struct pdl_err *err);
/* Steps do not fall. Not-a-number is written as null, or an empty cell. */
enum pdl_status pdl_metrics_add(pdl_metrics *m, int64_t step,
                                const double *values, struct pdl_err *err);
/* A row with a text and a number; only JSON lines have such rows. */
enum pdl_status pdl_metrics_remark(pdl_metrics *m, int64_t step,
                                   const char *key, const char *text,
                                   const char *number, double value,
                                   struct pdl_err *err);
/* Rows of later steps are removed: they will come again. */
enum pdl_status pdl_metrics_back(pdl_metrics *m, int64_t step,
                                 struct pdl_err *err);
int64_t pdl_metrics_last(const pdl_metrics *m); /* step; -1: none */
enum pdl_status pdl_metrics_close(pdl_metrics *m, struct pdl_err *err);

PDL_END

#endif
