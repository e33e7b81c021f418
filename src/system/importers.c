/* SPDX-License-Identifier: Apache-2.0
 *
 * Every importer, and the smallest of them. To add one: write its file,
 * declare its descriptor in system_priv.h, add one line here. */
#include "system_priv.h"

#include <string.h>

/* Distinct names: a list with duplicates names slots, not nodes. */
static int64_t distinct(pdl_arena *a, const struct pdl_hosts *hosts)
{
    struct pdl_hosts sorted = {PDL_NEW(a, const char *, hosts->count),
                               hosts->count};
    int64_t n = 0;

    if (!sorted.names)
        return -1;
    memcpy(sorted.names, hosts->names,
           (size_t)hosts->count * sizeof *hosts->names);
    pdl_hostlist_sort(&sorted);
    for (int64_t i = 0; i < sorted.count; i++)
        n += i == 0 || strcmp(sorted.names[i], sorted.names[i - 1]) != 0;
    return n;
}

static enum pdl_status set_tasks(pdl_arena *a, const char *text, int64_t nodes,
                                 struct pdl_system *sys, struct pdl_err *err)
{
    struct pdl_ints tasks = {NULL, 0};
    enum pdl_status st = pdl_tasks_expand(a, text, &tasks, err);
    int64_t most = 0, least = INT64_MAX;
    const char *number;

    if (st != PDL_OK)
        return st;
    if (tasks.n != nodes)
        return pdl_fail(err, PDL_EINVAL,
                        "tasks for %lld nodes, but %lld nodes are listed",
                        (long long)tasks.n, (long long)nodes);
    for (int64_t i = 0; i < tasks.n; i++) {
        most = tasks.v[i] > most ? tasks.v[i] : most;
        least = tasks.v[i] < least ? tasks.v[i] : least;
    }
    number = pdl_arena_printf(a, "%lld", (long long)most);
    if (!number)
        return system_no_memory(err, "tasks");
    st = pdl_system_set(a, sys, "pes_per_node", number, err);
    if (st == PDL_OK && least != most)
        st = system_add_text(a, &sys->unverified, &sys->nunverified, err,
                             "node.pes: the nodes have %lld to %lld tasks",
                             (long long)least, (long long)most);
    return st;
}

static enum pdl_status hostlist(pdl_arena *a, struct pdl_bytes in,
                                const char *name, const struct pdl_import *how,
                                struct pdl_system *sys, struct pdl_err *err)
{
    struct pdl_hosts hosts = {NULL, 0};
    enum pdl_status st;
    const char *text;
    int64_t nodes;

    if (memchr(in.data, '\0', in.len))
        return pdl_fail(err, PDL_EPARSE, "%s: not a text file", name);
    text = pdl_arena_strndup(a, in.data, in.len);
    if (!text)
        return system_no_memory(err, name);
    st = pdl_hostlist_expand(a, text, &hosts, err);
    if (st != PDL_OK) {
        struct pdl_err inner;

        if (err) {
            inner = *err;
            pdl_say(err, "%s: %s", name, inner.msg);
        }
        return st;
    }
    nodes = distinct(a, &hosts);
    if (nodes < 0)
        return system_no_memory(err, name);
    st = pdl_hostlist_compress(a, &hosts, &sys->hosts, err);
    sys->nodes = sys->built_nodes = nodes; /* these are real */
    if (st == PDL_OK && how->tasks)
        st = set_tasks(a, how->tasks, nodes, sys, err);
    if (st == PDL_OK)
        st = system_add_text(a, &sys->sources, &sys->nsources, err,
                             "host list: %s", name);
    return st;
}

const struct pdl_importer system_import_hostlist = {
    .name = "hostlist",
    .summary = "a Slurm host list: the number of nodes (and --tasks)",
    .run = hostlist,
};

static const struct pdl_importer *const importers[] = {
    &system_import_nccl_tests, &system_import_osu,
    &system_import_nccl_topo,  &system_import_hwloc,
    &system_import_hostlist,
};

const struct pdl_importer *pdl_importer_at(int i)
{
    int n = sizeof importers / sizeof importers[0];

    return i >= 0 && i < n ? importers[i] : NULL;
}
