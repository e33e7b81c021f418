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
static const struct choice together[] = { /* ranks of one node */
    {"allgather", -1, "linear"},
    {"alltoall", -1, "linear"},
    {"broadcast", -1, "linear"},
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

const char *const comm_collectives[] = {
    "allreduce", "reduce-scatter", "allgather", "alltoall", "broadcast", NULL};

const char *comm_algorithm_for(const char *asked, const char **spec)
{
    const char *slash = strchr(asked, '/');
    size_t n = slash ? (size_t)(slash - asked) : 0;

    *spec = slash ? slash + 1 : asked;
    if (!slash)
        return comm_collectives[0];
    for (const char *const *p = comm_collectives; *p; p++)
        if (strlen(*p) == n && strncmp(*p, asked, n) == 0)
            return *p;
    return NULL;
}

static bool reduces(const struct comm_call *call)
{
    return strcmp(call->collective, "allreduce") == 0 ||
           strcmp(call->collective, "reduce-scatter") == 0;
}

const char *comm_select(const pdl_comm *c, const struct comm_call *call)
{
    int64_t bytes = call->count * comm_type_bytes(call->type);
    bool allreduce = strcmp(call->collective, "allreduce") == 0;
    bool near = c->area && c->node_size == c->size && c->size <= 64;
    const char *found = NULL;

    if (allreduce && c->program)
        return NULL;
    if (c->algorithm && strcmp(call->collective, c->algorithm_for) == 0)
        return c->algorithm;
    if (!c->fixed_order || !reduces(call))
        found = comm_table_find(&c->table, call->collective, c->size, bytes);
    if (!found && (c->fixed_order || near))
        found = find(ordered, sizeof ordered / sizeof ordered[0],
                     call->collective, bytes);
    if (!found && near)
        found = find(together, sizeof together / sizeof together[0],
                     call->collective, bytes);
    if (!found && allreduce && *c->by_node && bytes > 16384)
        found = c->by_node;
    if (!found)
        found = find(usual, sizeof usual / sizeof usual[0], call->collective,
                     bytes);
    return found;
}

const char *pdl_comm_choice(const pdl_comm *c, const char *collective,
                            int64_t bytes)
{
    struct comm_call call = {
        .collective = collective, .count = bytes, .type = PDL_COMM_F32};
    const char *found;

    call.count = bytes / comm_type_bytes(call.type);
    found = comm_select(c, &call);
    return !found && c->program ? c->program->alg.name : found;
}
