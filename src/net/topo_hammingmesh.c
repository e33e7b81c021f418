/* SPDX-License-Identifier: Apache-2.0
 *
 * HammingMesh (Hoefler et al., SC 2022): boards of a x b accelerators, each a
 * mesh of wires on the board; the two ends of every row of accelerators, over
 * all boards of a line, meet in one switch, and so do those of every column.
 * 1x1 boards are a two-dimensional HyperX with a switch a line. Accelerator
 * (x, y) has number x + width * y.
 *
 * Routing puts x right first, then y: along the board to the nearer edge,
 * through the switch of the line into the edge of the goal's board that is
 * nearer to it, along that board. On one board it stays there. */
#include "topo_priv.h"

#include <stdlib.h>

enum { DIMS, BOARD };

struct hammingmesh {
    struct net_graph graph;
    int boards[2], board[2], size[2]; /* along x and y; size: accelerators */
    int nhosts;
};

// clang-format off
static const struct pdl_param params[] = {
    {"dims", PDL_PARAM_DIMS, NULL, 1, 4096, NULL, "boards along x and y"},
    {"board", PDL_PARAM_DIMS, "2x2", 1, 64, NULL,
     "accelerators of a board along x and y"},
};
// clang-format on

static int coordinate(const struct hammingmesh *h, int host, int axis)
{
    return axis ? host / h->size[0] : host % h->size[0];
}

static int moved(const struct hammingmesh *h, int host, int axis, int to)
{
    int x = axis ? coordinate(h, host, 0) : to;

    return x + h->size[0] * (axis ? to : coordinate(h, host, 1));
}

/* The switch of the line through a host along an axis. */
static int switch_of(const struct hammingmesh *h, int host, int axis)
{
    return h->nhosts + (axis ? h->size[1] : 0) +
           coordinate(h, host, axis ? 0 : 1);
}

/* The first or last accelerator of its board, along the axis: the nearer. */
static int edge(const struct hammingmesh *h, int at, int axis)
{
    int in = at % h->board[axis], last = h->board[axis] - 1;

    return in <= last - in ? at - in : at + last - in;
}

/* One step along an axis; `host` and the goal are different there. */
static int along(const struct hammingmesh *h, int host, int axis, int goal)
{
    int at = coordinate(h, host, axis), to = coordinate(h, goal, axis);
    int out = edge(h, at, axis);

    if (at / h->board[axis] == to / h->board[axis])
        return moved(h, host, axis, at + (to > at ? 1 : -1));
    return out == at ? switch_of(h, host, axis)
                     : moved(h, host, axis, at + (out > at ? 1 : -1));
}

static int next(const struct pdl_net *net, int at, int dst)
{
    const struct hammingmesh *h = net->shape;

    if (at >= h->nhosts) {
        int line = at - h->nhosts, axis = line >= h->size[1];
        int to = edge(h, coordinate(h, dst, axis), axis);

        return axis ? line - h->size[1] + h->size[0] * to
                    : to + h->size[0] * line;
    }
    return along(h, at, coordinate(h, at, 0) == coordinate(h, dst, 0), dst);
}

static int route(const struct pdl_net *net, int src, int dst, int *links)
{
    const struct hammingmesh *h = net->shape;

    return net_graph_walk(net, &h->graph, next, src, dst, links);
}

/* Wires to the next on the board, cables from its edges to the switch. */
static void lay(const struct hammingmesh *h, int host, int axis,
                struct net_cables *c)
{
    int at = coordinate(h, host, axis), in = at % h->board[axis];

    if (in < h->board[axis] - 1)
        net_inside(c, net_cable(c, host, moved(h, host, axis, at + 1), 1));
    if (h->boards[axis] > 1 && in == 0)
        net_cable(c, host, switch_of(h, host, axis), 1);
    if (h->boards[axis] > 1 && in == h->board[axis] - 1)
        net_cable(c, host, switch_of(h, host, axis), 1);
}

static enum pdl_status build(pdl_arena *a, const struct pdl_topo_values *v,
                             struct pdl_net *net, struct pdl_err *err)
{
    const struct net_dims *dims = &v->v[DIMS].dims, *board = &v->v[BOARD].dims;
    struct hammingmesh *h = PDL_NEW(a, struct hammingmesh, 1);
    struct net_cables c;

    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "hammingmesh: out of memory");
    if (dims->n != 2 || board->n != 2)
        return pdl_fail(err, PDL_EPARSE,
                        "hammingmesh: boards and accelerators have two "
                        "dimensions, like 16x16,board=2x2");
    for (int i = 0; i < 2; i++) {
        h->boards[i] = (int)dims->d[i];
        h->board[i] = (int)board->d[i];
        h->size[i] = h->boards[i] * h->board[i];
    }
    net_cables_init(&c, a, v, net, err);
    net_cables_counts(&c, (int64_t)h->size[0] * h->size[1],
                      (int64_t)h->size[0] + h->size[1],
                      3 * (int64_t)h->size[0] * h->size[1]);
    h->nhosts = net->nhosts;
    for (int host = 0; c.status == PDL_OK && host < h->nhosts; host++)
        for (int axis = 0; axis < 2; axis++)
            lay(h, host, axis, &c);
    net->route = route;
    net->shape = h;
    return net_finish_graph(a, &c, &h->graph);
}

const struct pdl_topo net_hammingmesh = {
    .name = "hammingmesh",
    .group = PDL_TOPO_GRID,
    .summary = "boards of accelerators, a switch for every row and column",
    .source = "Hoefler et al., SC 2022",
    .example = "hammingmesh:4x4,board=2x2",
    .params = params,
    .nparams = sizeof params / sizeof params[0],
    .build = build,
};
