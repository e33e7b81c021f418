/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions on a chain as clauses of a strategy: the layers of each way that
 * there is of treating a layer, joined by '+'. Neighbours that are made again
 * stay blocks of their own. */
#include "oracle/offload/chain.h"

/* Bits of a way. */
enum { AGAIN = 1, AWAY = 2, HOST = 4, WAYS = 8 };

static int way_of(const struct chain *c, const struct pdl_karma_plan *p,
                  int node)
{
    int unit = c->unit[node];
    int g = p->host && c->states.n > 0 ? c->states.of_unit[unit] : -1;
    enum pdl_karma_choice choice = p->choice[unit];
    enum pdl_karma_again again = pdl_karma_again(choice);
    bool away = choice == PDL_KARMA_SWAP || choice == PDL_KARMA_BOTH ||
                choice == PDL_KARMA_REST;

    return (again == PDL_KARMA_ALL || (again == PDL_KARMA_SOME && c->part[node])
                ? AGAIN
                : 0) |
           (away ? AWAY : 0) | (g >= 0 && p->host[g] ? HOST : 0);
}

static const char *layers_of(const struct chain *c,
                             const struct pdl_karma_plan *p, int way)
{
    const struct pdl_node *node = c->whole->nodes;
    struct pdl_buf b;
    const char *text;

    pdl_buf_init(&b);
    for (int i = 0; i < c->whole->nnodes; i++) {
        int to = i;

        if (way_of(c, p, i) != way)
            continue;
        while (to + 1 < c->whole->nnodes && way_of(c, p, to + 1) == way &&
               (!(way & AGAIN) || c->unit[to + 1] == c->unit[i]))
            to++;
        pdl_printf(&b.sink, "%s%s..%s", b.len > 0 ? "+" : "", node[i].name,
                   node[to].name);
        i = to;
    }
    text = b.len > 0 ? pdl_arena_strdup(c->arena, b.text) : "";
    pdl_buf_free(&b);
    return text;
}

enum pdl_status oracle_chain_write(const struct chain *c,
                                   const struct pdl_karma_plan *p,
                                   struct pdl_strategy *s, struct pdl_err *err)
{
    int64_t ahead = p->ahead * (int64_t)c->each; /* plans count groups */
    bool moves = false;

    *s = *c->plain;
    for (int way = 1; way < WAYS; way++) {
        struct pdl_clause x = {.layers = layers_of(c, p, way),
                               .own_recompute = (way & AGAIN) != 0,
                               .offload = (way & AWAY) != 0,
                               .offload_optimizer = (way & HOST) != 0};

        if (!x.layers)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (!*x.layers)
            continue;
        x.recompute = x.own_recompute ? PDL_RECOMPUTE_FULL : PDL_RECOMPUTE_NONE;
        moves = moves || x.offload;
        s->clause[s->nclauses++] = x;
    }
    s->prefetch = moves && ahead > 1 ? ahead : 0;
    return PDL_OK;
}

enum pdl_status oracle_chain_all(const struct chain *c,
                                 enum pdl_karma_choice which,
                                 struct pdl_strategy *s, struct pdl_err *err)
{
    enum pdl_karma_choice *choice =
        PDL_NEW(c->arena, enum pdl_karma_choice, c->n + 1);

    if (!choice)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->n; i++)
        choice[i] = which;
    return oracle_chain_write(
        c, &(struct pdl_karma_plan){.choice = choice, .ahead = 1}, s, err);
}
