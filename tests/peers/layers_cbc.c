/* Writes the choice of strategies by layer of one question as a linear
 * program, and our optimum as its first comment; tests/peers/layers_cbc.sh
 * gives both to CBC. One variable for each unit and candidate, one for each
 * pair of neighbours and candidates (its sums on both sides are the units'
 * variables): the local polytope, with units' variables binary. */
#include "cbc.h"

#include <math.h>
#include <stdio.h>

static void terms(const struct oracle_choice *c)
{
    printf("Minimize\n cost:");
    for (int u = 0; u < c->n; u++)
        for (int a = 0; a < c->k; a++)
            if (isfinite(c->own[u * c->k + a]))
                printf(" + %.17g x%d_%d\n", 1e3 * c->own[u * c->k + a], u, a);
    for (int e = 0; e < c->npairs; e++)
        for (int i = 0; i < c->k * c->k; i++)
            if (isfinite(c->pair[e].cost[i]))
                printf(" + %.17g y%d_%d\n", 1e3 * c->pair[e].cost[i], e, i);
}

/* The sum of a pair's variables over one side is the other unit's. */
static void side(const struct oracle_choice *c, int e, int a, bool first)
{
    const struct oracle_pair *p = &c->pair[e];
    int u = first ? p->u : p->v;

    printf(" s%d_%d_%d:", e, a, first);
    for (int b = 0; b < c->k; b++) {
        int i = first ? a * c->k + b : b * c->k + a;

        if (isfinite(p->cost[i]))
            printf(" + y%d_%d", e, i);
    }
    if (isfinite(c->own[u * c->k + a]))
        printf(" - x%d_%d", u, a);
    printf(" + 0 zero = 0\n");
}

static void write_program(const struct oracle_choice *c)
{
    terms(c);
    printf("Subject To\n");
    for (int u = 0; u < c->n; u++) {
        printf(" one%d:", u);
        for (int a = 0; a < c->k; a++)
            if (isfinite(c->own[u * c->k + a]))
                printf(" + x%d_%d", u, a);
        printf(" = 1\n");
    }
    for (int e = 0; e < c->npairs; e++)
        for (int a = 0; a < c->k; a++) {
            side(c, e, a, true);
            side(c, e, a, false);
        }
    printf("Binary\n");
    for (int u = 0; u < c->n; u++)
        for (int a = 0; a < c->k; a++)
            if (isfinite(c->own[u * c->k + a]))
                printf(" x%d_%d\n", u, a);
    printf("End\n");
}

/* MODEL PES BATCH PERCENT-OF-EXCHANGE */
int main(int argc, char **argv)
{
    struct question q;
    struct oracle_layers x;
    struct oracle_weights w = {.spare = true};
    struct oracle_choice c;
    double best;
    int64_t percent;
    int *pick;
    bool exact;

    if (argc != 5)
        return 2;
    if (ask(argv, &q) != PDL_OK)
        goto failed;
    x = (struct oracle_layers){
        .arena = q.arena, .oracle = &q.oracle, .opt = &q.opt, .sys = &q.sys};
    if (pdl_int_parse(argv[4], 0, 100, &percent, &q.err) != PDL_OK)
        goto failed;
    w.exposed = (double)percent / 100;
    if (oracle_units_make(q.arena, q.model, &x.units, &q.err) != PDL_OK ||
        oracle_layers_space(&x, 0, &exact, &q.err) != PDL_OK ||
        oracle_layers_price(&x, &q.err) != PDL_OK ||
        oracle_layers_problem(&x, &w, &c, &q.err) != PDL_OK)
        goto failed;
    pick = PDL_NEW(q.arena, int, c.n + 1);
    best = oracle_choice_solve(q.arena, &c, pick, &exact);
    printf("\\ %.12g %d units %d candidates %d pairs %s\n", 1e3 * best, c.n,
           c.k, c.npairs, exact ? "exact" : "not-exact");
    write_program(&c);
    pdl_arena_destroy(q.arena);
    return 0;
failed:
    fprintf(stderr, "layers_cbc: %s\n", q.err.msg);
    pdl_arena_destroy(q.arena);
    return 1;
}
