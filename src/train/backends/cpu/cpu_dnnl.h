/* Inside the files that call oneDNN 2.6 (C API): cpu_dnnl*.c. */
#ifndef TRAIN_CPU_DNNL_H
#define TRAIN_CPU_DNNL_H

#include "train/backends/cpu/cpu.h"

#include <dnnl.h>

struct dnnl_owned {
    dnnl_primitive_t primitive;
    dnnl_memory_t memory;
    struct dnnl_owned *next;
};

struct cpu_dnnl {
    pdl_arena *arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratch pads are the caller's */
    struct dnnl_owned *owned;
};

/* One operand: as the caller stores it and as the primitive wants it. */
struct dnnl_operand {
    dnnl_memory_t mine, theirs; /* the same where no reorder is needed */
    dnnl_primitive_t reorder;   /* NULL: none */
    int64_t offset;             /* of theirs in scratch */
    bool used, written;
};

enum { DNNL_OPERANDS = 4 };

/* A primitive with its operands. */
struct dnnl_plan {
    struct cpu_dnnl *d;
    dnnl_primitive_t primitive;
    dnnl_memory_t pad; /* scratch pad; NULL: none */
    int64_t pad_offset, scratch_bytes;
    struct dnnl_operand side[DNNL_OPERANDS];
    int argument[DNNL_OPERANDS]; /* DNNL_ARG_... of each */
    const char *name;
};

dnnl_data_type_t train_dnnl_type(enum pdl_dtype t);
/* "ref..." is 200 times slower than what it stands for, and silent. */
bool train_dnnl_is_reference(const char *name);
const char *train_dnnl_name(const_dnnl_primitive_desc_t pd);
/* The primitive and its scratch pad. */
bool train_dnnl_plan_make(struct dnnl_plan *p, struct cpu_dnnl *d,
                          dnnl_primitive_desc_t pd);
bool train_dnnl_plan_operand(struct dnnl_plan *p, int k, int argument,
                             const dnnl_memory_desc_t *mine,
                             const dnnl_memory_desc_t *theirs, bool written);
enum pdl_status train_dnnl_plan_run(const struct dnnl_plan *p,
                                    void *const *data, void *scratch,
                                    struct pdl_err *err);

#endif
