/* The builder's inside, shared by graph.c (tensors, blocks, the whole) and
 * graph_node.c (nodes). */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "model_priv.h"

struct pdl_build {
    pdl_arena *arena;
    struct pdl_model model; /* what is known already; arrays are below */
    struct pdl_tensor *tensors;
    struct pdl_node *nodes;
    struct pdl_segment *segments;
    const char **unknown;
    int64_t *unknown_counts;
    const char **unbound;
    int ntensors, nnodes, nsegments, nunknown, nunbound;
    int cap_tensors, cap_nodes, cap_segments, cap_unknown, cap_unbound;
    int segment_tensors; /* made in the open segment */
    bool repeating;
    enum pdl_status status;
    struct pdl_err err;
};

bool model_build_ok(const pdl_build *b); /* nothing has failed */
int model_build_no_memory(pdl_build *b); /* -1 */
/* Room for one more item; false when memory is out. */
bool model_build_room(pdl_build *b, void **items, int count, int *cap,
                      size_t size);
/* Appends a tensor whose name already lives in the arena. */
int model_build_add(pdl_build *b, const struct pdl_tensor *t);

#endif
