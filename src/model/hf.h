/* Between the files of the HF config.json reader and the zoo: the table of
 * families, and the step from fields to the description of a transformer. */
#ifndef MODEL_HF_H
#define MODEL_HF_H

#include "family.h"
#include "transformer.h"

extern const struct model_row model_hf_families[];

/* What a reader decides besides the fields. */
struct model_tf_choice {
    const char *architecture; /* "BertForMaskedLM", or NULL */
    int64_t seq;              /* asked for; 0: the default */
};

enum { MODEL_SEQ_DEFAULT = 4096, MODEL_MAX_LAYERS = 100000 };

/* Fills stacks, runs and head from the fields; tf's name and source are the
 * caller's. */
enum pdl_status model_tf_fill(struct model_fields *f, pdl_arena *a,
                              const struct model_tf_choice *choice,
                              struct model_tf *tf);

#endif
