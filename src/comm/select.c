/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm a collective runs: the one asked for; else what the table of
 * choices says; else the first rule here that fits. On one node everyone
 * reaches everyone's memory, and adding in the order of ranks is also the
 * fastest; between nodes the ranks of a node share the work of its links. */
#include "comm_core.h"

struct choice {
    const char *collective;
    int64_t max_bytes; /* up to, -1: any */
    const char *algorithm;
};

// clang-format off
static const struct choice ordered[] = {
    {"allreduce", 8192, "flat"},
    {"allreduce", -1, "ordered"},
    {"reduce-scatter", -1, "ordered"},
};
static const struct choice usual[] = {
    {"allreduce", 16384, "recursive-doubling"},
    {"allreduce", 262144, "rabenseifner"},
    {"allreduce", -1, "ring"},
    {"reduce-scatter", -1, "ring"},
    {"allgather", 16384, "bruck"},
    {"allgather", -1, "ring"},
    {"alltoall", -1, "pairwise"},
    {"broadcast", 65536, "binomial"},
    {"broadcast", -1, "scatter-allgather"},
};
// clang-format on

static const char *find(const struct choice *rows, size_t n,
                        const char *collective, int64_t bytes)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].collective, collective) == 0 &&
            (rows[i].max_bytes < 0 || bytes <= rows[i].max_bytes))
            return rows[i].algorithm;
    return NULL;
}

const char *comm_select(const pdl_comm *c, const struct comm_call *call)
{
    int64_t bytes = call->count * comm_type_bytes(call->type);
    bool allreduce = strcmp(call->collective, "allreduce") == 0;
    bool together = c->area && c->node_size == c->size && c->size <= 64;
    const char *found = NULL;

    if (allreduce && (c->program || c->algorithm))
        return c->program ? NULL : c->algorithm;
    if (allreduce && !c->fixed_order)
        found = comm_table_find(&c->table, c->size, bytes);
    if (!found && (c->fixed_order || together))
        found = find(ordered, sizeof ordered / sizeof ordered[0],
                     call->collective, bytes);
    if (!found && allreduce && *c->by_node && bytes > 16384)
        found = c->by_node;
    if (!found)
        found = find(usual, sizeof usual / sizeof usual[0], call->collective,
                     bytes);
    return found;
}

const char *pdl_comm_choice(const pdl_comm *c, int64_t bytes)
{
    struct comm_call call = {
        .collective = "allreduce", .count = bytes, .type = PDL_COMM_F32};

    call.count = bytes / comm_type_bytes(call.type);
    return c->program ? c->program->alg.name : comm_select(c, &call);
}
