/* Where tensors live. The executor never touches their bytes: it moves, fills
 * and adds them, and runs kernels on them, through a device. The host is one
 * where all of that happens at once and in place (pdl_trainer.device is NULL);
 * any other has memory of its own that host code must not touch, streams in
 * which work is done later, in order, and tickets by which one stream, or the
 * host, waits for another.
 *
 * Work on bytes that is no kernel is a task: host code (struct train_work) with
 * copies of its arguments and a list of the spans it reads and writes. A device
 * may have code of its own under the work's name, may run the host's code on
 * its memory (the twin), or bring the spans to the host and back: whatever it
 * does not list still runs. */
#ifndef TRAIN_DEVICE_H
#define TRAIN_DEVICE_H

#include "paradl/train.h"
#include "train/backends/kernels.h"

enum train_stream {
    TRAIN_COMPUTE, /* kernels and all work of the executor */
    TRAIN_COPIES,  /* messages on their way to and from the host */
    TRAIN_OUT,     /* what waits on the host: there */
    TRAIN_IN,      /* ... and back */
    TRAIN_STREAMS
};

enum train_way { TRAIN_TO_DEVICE, TRAIN_TO_HOST, TRAIN_INSIDE };

enum { TRAIN_SPANS = 6, TRAIN_ARGS = 512 };

struct train_span {
    void *at;
    int64_t bytes;
    bool read, written;
};

struct train_work {
    const char *name;
    /* at: where the spans are, in the order of the task */
    void (*run)(const void *args, void *const *at);
};

struct train_task {
    const struct train_work *work;
    const void *args; /* at most TRAIN_ARGS bytes, no pointers to tensors */
    size_t args_bytes;
    int n;
    struct train_span span[TRAIN_SPANS];
};

/* Arguments of the executor's own work, for devices that have code for it:
 * "copy" (spans to, from), "add" (to, from), "plus" (to, a, b), "widen" and
 * "narrow" (to, from; the argument is a count). Those of "update" and "squares"
 * are in optim.h. */
struct train_copy_args {
    struct train_array to, from;
    struct pdl_box region;
};
struct train_add_args {
    enum pdl_dtype dtype;
    int64_t n;
};

/* All of it takes the state that open gives, as do the device's kernels.
 * Nothing waits but finish, and an error of work that is done later is found
 * there at the latest. */
struct train_device {
    const char *name, *summary;
    /* which: what the user wrote behind the name ("1" of cuda:1); NULL:
     * nothing */
    enum pdl_status (*open)(pdl_arena *a, const char *which, int64_t rank,
                            void **state, struct pdl_err *err);
    struct train_backend kernels; /* without open */
    enum pdl_status (*alloc)(void *state, int64_t bytes, void **out,
                             struct pdl_err *err);
    void (*free)(void *state, void *p); /* NULL: nothing */
    /* Memory of the host that copies go to and from without a detour, for
     * rooms; NULL: the host's own. It may have none, plain memory does. */
    void *(*take_host)(void *state, int64_t bytes);
    void (*give_host)(void *state, void *p);
    enum pdl_status (*copy)(void *state, enum train_stream s,
                            enum train_way way, void *to, const void *from,
                            int64_t bytes, struct pdl_err *err);
    enum pdl_status (*fill)(void *state, enum train_stream s, void *to,
                            int byte, int64_t bytes, struct pdl_err *err);
    enum pdl_status (*launch)(void *state, enum train_stream s,
                              const struct train_task *task,
                              struct pdl_err *err);
    /* Work of TRAIN_COMPUTE that is the same in every step is kept: what the
     * stream is given from hold to held is not done, repeat does all of it,
     * with the step and the first sample of its moment instead of hold's. What
     * held refuses was not done either. NULL: the device keeps nothing. */
    enum pdl_status (*hold)(void *state, const struct train_moment *when,
                            struct pdl_err *err);
    enum pdl_status (*held)(void *state, void **work, struct pdl_err *err);
    enum pdl_status (*repeat)(void *state, void *work,
                              const struct train_moment *when,
                              struct pdl_err *err);
    /* A ticket for all that the stream has been given so far. */
    uint64_t (*record)(void *state, enum train_stream s);
    void (*wait)(void *state, enum train_stream s, uint64_t ticket);
    bool (*reached)(void *state, uint64_t ticket);
    enum pdl_status (*finish)(void *state, uint64_t ticket,
                              struct pdl_err *err);
    /* Operators that the host runs for it, "a, b"; NULL: it has none such. */
    const char *(*on_host)(const void *state);
    bool (*present)(void); /* may `auto` take it? NULL: no */
    /* Mark i (they count from 0) is when the stream has come so far; seconds
     * from one to another, when both have been reached. */
    enum pdl_status (*mark)(void *state, enum train_stream s, int64_t i,
                            struct pdl_err *err);
    double (*between)(void *state, int64_t from, int64_t to);
    /* NULL: nothing is known */
    void (*describe)(void *state, struct pdl_train_device *out);
};

extern const struct train_device train_twin; /* tests: the host plays one */
#ifdef PDL_HAVE_CUDA
extern const struct train_device train_cuda;
#endif

/* "twin:7": the device and what stands behind the colon; "auto": the first
 * that is present. *out NULL: the host. */
enum pdl_status train_device_find(const char *text,
                                  const struct train_device **out,
                                  const char **which, struct pdl_err *err);
const struct train_device *train_device_at(int i); /* NULL past the end */

#endif
