/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines with nodes of several kinds. A group is so many nodes of another
 * system. Inside a group its own links and network hold; between groups, and
 * for whoever asks for the machine as one, what the slowest of them has. The
 * keys of the file replace that. */
#include "system_priv.h"

#include <string.h>

int64_t system_group_nodes(const struct pdl_system *sys)
{
    int64_t n = 0;

    for (int64_t i = 0; i < sys->ngroups; i++)
        n += sys->groups[i].nodes;
    return n;
}

/* A file is looked for where the file is that names it. */
static const char *beside(pdl_arena *a, const struct pdl_doc *d,
                          const char *system)
{
    const char *slash = strrchr(d->file, '/');
    size_t n = strlen(system);
    bool file = (n > 5 && strcmp(system + n - 5, ".yaml") == 0) ||
                (n > 4 && strcmp(system + n - 4, ".yml") == 0) ||
                (n > 5 && strcmp(system + n - 5, ".json") == 0);

    if (!file || *system == '/' || !slash)
        return system;
    return pdl_arena_printf(a, "%.*s/%s", (int)(slash - d->file), d->file,
                            system);
}

static enum pdl_status open_group(pdl_arena *a, const struct pdl_doc *d,
                                  struct pdl_node_group *g, struct pdl_err *err)
{
    struct pdl_system *whole = PDL_NEW(a, struct pdl_system, 1);
    const char *system = beside(a, d, g->system);
    struct pdl_err inner = {"", ""};
    enum pdl_status st;

    if (!whole || !system)
        return system_no_memory(err, g->system);
    if (strcmp(system, "-") == 0)
        return pdl_doc_fail(d, err, "groups: '-' is no system's name");
    st = system_open(a, system, true, whole, &inner);
    if (st != PDL_OK) {
        pdl_doc_fail(d, err, "groups: %s", inner.msg);
        if (*inner.hint)
            pdl_hint(err, "%s", inner.hint);
        return st;
    }
    g->whole = whole;
    g->name = g->name ? g->name : whole->name;
    return PDL_OK;
}

/* One size of node, and one name a group. */
static enum pdl_status compare(const struct pdl_doc *d,
                               const struct pdl_node_group *g, int64_t n,
                               struct pdl_err *err)
{
    for (int64_t i = 1; i < n; i++)
        if (g[i].whole->node.pes != g[0].whole->node.pes) {
            bool less = g[i].whole->node.pes < g[0].whole->node.pes;

            pdl_doc_fail(d, err, "groups: %s has %lld PEs a node, %s %lld",
                         g[0].name, (long long)g[0].whole->node.pes, g[i].name,
                         (long long)g[i].whole->node.pes);
            pdl_hint(err, "'%s:pes_per_node=%lld' is a part of a node",
                     g[less ? 0 : i].system,
                     (long long)g[less ? i : 0].whole->node.pes);
            return PDL_EINVAL;
        }
    for (int64_t i = 1; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (strcmp(g[i].name, g[k].name) == 0) {
                pdl_doc_fail(d, err, "groups: two are called '%.60s'",
                             g[i].name);
                pdl_hint(err, "give each a name: {name: old, system: ...}");
                return PDL_EINVAL;
            }
    return PDL_OK;
}

static double out_of_node(const struct pdl_system *s)
{
    return (double)s->node.nics.count * s->node.nics.bytes_per_s;
}

static double in_node(const struct pdl_system *s)
{
    const struct pdl_node_links *l = &s->node.links;

    return l->measured_bytes_per_s > 0 ? l->measured_bytes_per_s
                                       : l->bytes_per_s;
}

/* The machine as one: the slower network and the slower links. */
static void take_slowest(struct pdl_system *sys)
{
    const struct pdl_node_group *groups = sys->groups;
    const struct pdl_system *far = groups[0].whole, *near = groups[0].whole;
    struct pdl_system joint;
    double error = 0;

    for (int64_t i = 0; i < sys->ngroups; i++) {
        const struct pdl_system *s = groups[i].whole;

        far = out_of_node(s) < out_of_node(far) ? s : far;
        near = in_node(s) < in_node(near) ? s : near;
        error = s->projection_error > error ? s->projection_error : error;
    }
    joint = *far;
    joint.node.links = near->node.links;
    joint.pe = groups[sys->ngroups - 1].whole->pe;
    joint.projection_error = error;
    joint.name = joint.title = joint.hosts = NULL;
    joint.nodes = sys->nodes;
    joint.built_nodes = -1;
    joint.grown = false;
    joint.collectives = NULL; /* measured on one of them */
    joint.ncollectives = 0;
    joint.measured = NULL;
    joint.nmeasured = joint.nspreads = 0;
    joint.groups = groups;
    joint.ngroups = sys->ngroups;
    joint.pe_groups = sys->pe_groups;
    joint.npe_groups = sys->npe_groups;
    *sys = joint;
}

/* Levels of a group's own network reach over all nodes. */
static enum pdl_status widen(pdl_arena *a, struct pdl_node_group *g,
                             int64_t nodes, struct pdl_err *err)
{
    struct pdl_system *whole = PDL_NEW(a, struct pdl_system, 1);

    if (!whole)
        return system_no_memory(err, g->system);
    *whole = *g->whole;
    whole->nodes = nodes;
    whole->built_nodes = 0;
    g->whole = whole;
    return pdl_system_update(a, whole, err);
}

enum pdl_status system_join(pdl_arena *a, const struct pdl_doc *d,
                            struct pdl_system *sys, struct pdl_err *err)
{
    int64_t n = sys->ngroups, nodes = 0;
    struct pdl_node_group *g = PDL_NEW(a, struct pdl_node_group, n + 1);
    struct pdl_pe_group *where = PDL_NEW(a, struct pdl_pe_group, n + 1);
    enum pdl_status st = PDL_OK;

    if (!g || !where)
        return system_no_memory(err, "groups");
    if (n < 1)
        return pdl_doc_fail(d, err, "groups: there are none");
    for (int64_t i = 0; i < n && st == PDL_OK; i++) {
        g[i] = sys->groups[i];
        nodes += g[i].nodes;
        st = open_group(a, d, &g[i], err);
    }
    if (st == PDL_OK)
        st = compare(d, g, n, err);
    for (int64_t i = 0; i < n && st == PDL_OK; i++) {
        where[i] = (struct pdl_pe_group){g[i].whole->pe, g[i].nodes, i + 1};
        st = widen(a, &g[i], nodes, err);
    }
    if (st != PDL_OK)
        return st;
    sys->groups = g;
    sys->nodes = nodes;
    sys->pe_groups = where;
    sys->npe_groups = n;
    take_slowest(sys);
    return PDL_OK;
}
