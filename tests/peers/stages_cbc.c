/* Writes the choice of stages, strategies and savings of one pipeline as a
 * linear program, and our optimum as its first comment;
 * tests/peers/layers_cbc.sh gives both to CBC. A flow of one unit along the
 * chain: a variable for each pair of neighbouring choices in one stage or
 * across two; seconds of every stage are below a variable, bytes below the
 * room. */
#include "cbc.h"
#include "oracle/bylayer/stage_choice.h"

#include <math.h>
#include <stdio.h>

struct arc {
    int i, a, b, s, begins; /* segment i with choice b, after a */
    double seconds, bytes;
};

static void nothing(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static bool least(void *ctx, const struct oracle_chain_answer *x)
{
    double *best = ctx;

    *best = x->cost < *best ? x->cost : *best;
    return true;
}

/* Arcs into segment i in stage s; the first segment's come from nowhere. */
static int arcs_of(const struct oracle_chain *c, struct arc *out)
{
    int n = 0;

    for (int i = 0; i < c->n; i++)
        for (int s = 0; s < c->stages; s++)
            for (int a = 0; a < (i ? c->k : 1); a++)
                for (int b = 0; b < c->k; b++)
                    for (int t = 0; t < (i && c->send[i] && s ? 2 : 1); t++) {
                        int at = i * c->k + b;
                        struct arc x = {i, a, b, s, t, c->run[at], 0};

                        if (i > 0 && c->pair[i])
                            x.seconds += c->pair[i][a * c->k + b];
                        x.seconds += t ? c->send[i][a] : 0;
                        x.bytes = c->state[at] + c->in_flight[s] * c->keep[at];
                        if (isfinite(x.seconds) && (i > 0 || s == 0))
                            out[n++] = x;
                    }
    return n;
}

static void conserve(const struct oracle_chain *c, const struct arc *x, int n)
{
    for (int i = 0; i + 1 < c->n; i++)
        for (int s = 0; s < c->stages; s++)
            for (int b = 0; b < c->k; b++) {
                printf(" f%d_%d_%d:", i, s, b);
                for (int k = 0; k < n; k++)
                    if (x[k].i == i && x[k].s == s && x[k].b == b)
                        printf(" + x%d\n", k);
                    else if (x[k].i == i + 1 && x[k].a == b &&
                             x[k].s - x[k].begins == s)
                        printf(" - x%d\n", k);
                printf(" + 0 zero = 0\n");
            }
}

static void limits(const struct oracle_chain *c, const struct arc *x, int n)
{
    for (int s = 0; s < c->stages; s++) {
        printf(" t%d:", s);
        for (int k = 0; k < n; k++)
            if (x[k].s == s)
                printf(" + %.17g x%d\n", 1e3 * x[k].seconds, k);
        printf(" - slowest <= 0\n m%d:", s);
        for (int k = 0; k < n; k++)
            if (x[k].s == s)
                printf(" + %.17g x%d\n", x[k].bytes / 1e6, k);
        printf(" + 0 zero <= %.17g\n", c->room / 1e6);
    }
}

static void write_program(const struct oracle_chain *c, const struct arc *x,
                          int n)
{
    printf("Minimize\n cost: %.17g slowest\n", c->each);
    for (int k = 0; k < n; k++)
        printf(" + %.17g x%d\n", 1e3 * c->fill * x[k].seconds, k);
    printf("Subject To\n start:");
    for (int k = 0; k < n; k++)
        if (x[k].i == 0)
            printf(" + x%d\n", k);
    printf(" = 1\n end:");
    for (int k = 0; k < n; k++)
        if (x[k].i == c->n - 1 && x[k].s == c->stages - 1)
            printf(" + x%d\n", k);
    printf(" = 1\n");
    conserve(c, x, n);
    limits(c, x, n);
    printf("Binary\n");
    for (int k = 0; k < n; k++)
        printf(" x%d\n", k);
    printf("End\n");
}

/* MODEL PES BATCH STRATEGY ROOM-IN-MB */
int main(int argc, char **argv)
{
    struct question q;
    struct oracle_stages s = {.note = nothing, .exact = true};
    struct pdl_strategy base;
    double best = INFINITY;
    struct arc *arcs;
    int64_t room;
    bool exact;
    int n;

    if (argc != 6)
        return 2;
    if (ask(argv, &q) != PDL_OK ||
        pdl_int_parse(argv[5], 1, 1 << 30, &room, &q.err) != PDL_OK)
        goto failed;
    s.room = (double)room * 1e6;
    s.x = (struct oracle_layers){
        .arena = q.arena, .oracle = &q.oracle, .sys = &q.sys};
    if (pdl_strategy_parse(q.arena, argv[4], &base, &q.err) != PDL_OK ||
        oracle_units_make(q.arena, q.model, &s.x.units, &q.err) != PDL_OK ||
        !oracle_stages_of(&s, &q.opt, &base) ||
        oracle_layers_space(&s.x, 0, &exact, &q.err) != PDL_OK ||
        oracle_layers_stages(&s, &q.err) != PDL_OK)
        goto failed;
    oracle_chain_solve(q.arena, s.chain, least, &best, &exact);
    arcs = PDL_NEW(
        q.arena, struct arc,
        2 * (int64_t)s.chain->n * s.chain->stages * s.chain->k * s.chain->k);
    if (!arcs)
        goto failed;
    n = arcs_of(s.chain, arcs);
    printf("\\ %.12g %d segments %d candidates %d stages %d arcs %s\n",
           1e3 * best, s.chain->n, s.chain->k, s.chain->stages, n,
           exact ? "exact" : "not-exact");
    write_program(s.chain, arcs, n);
    pdl_arena_destroy(q.arena);
    return 0;
failed:
    fprintf(stderr, "stages_cbc: %s\n", q.err.msg);
    pdl_arena_destroy(q.arena);
    return 1;
}
