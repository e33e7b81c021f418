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
    bool head; /* an encoder gets the one that fills in masked tokens */
};

/* Equal layers may be many; layers that can differ are looked at one by one. */
enum {
    MODEL_SEQ_DEFAULT = 4096,
    MODEL_MAX_LAYERS = 100000,
    MODEL_MAX_DIFFERENT = 2000,
};

/* Fills stacks, runs and head from the fields; tf's name and source are the
 * caller's. */
enum pdl_status model_tf_fill(struct model_fields *f, pdl_arena *a,
                              const struct model_tf_choice *choice,
                              struct model_tf *tf);
/* Epsilon, activation and rotary positions, after the layers are known. */
void model_hf_numbers(pdl_arena *a, struct model_fields *f, const char *type,
                      struct model_tf *tf);
/* The kind of layer i: a prefix of field names (tf_kind.c). */
const char *model_tf_kind(struct model_fields *f, int64_t layers, int64_t i);
/* Is its feed-forward layer a mixture, in a model that has some? */
bool model_tf_mixture(struct model_fields *f, int64_t i);
/* Are all layers the same, whatever the depth? Fails on overlong lists. */
bool model_tf_uniform(struct model_fields *f);
/* Puts a tower of images before the only stack, from fields of its own. */
enum pdl_status model_tf_tower(struct model_fields *f, pdl_arena *a,
                               struct model_tf *tf);

#endif
