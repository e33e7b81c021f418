/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl validate --collective: a collective measured here (by paradl-run, as
 * `paradl bench` does it), beside what the system's file says it takes and
 * beside the simulation of the same program on the system's network.
 *
 * The simulation knows links, not memory: on one node, where the ranks read
 * each other's memory instead of sending, its time is that of the messages the
 * program would send. What the oracle uses is the projection. */
#include "cli/commands/validate_collective.h"

#include "options/bench_options.h" /* of src/run */
#include "paradl/coll.h"
#include "paradl/oracle.h"
#include "paradl/system.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ROUNDS: starts of all ranks. What ranks that share processors and caches
 * take depends on where the kernel puts them, and it puts them once a start. */
enum { MAX_ROWS = 64, ROUNDS = 3 };

struct row {
    int64_t bytes;
    const char *algorithm;
    double round_s[ROUNDS];          /* ascending */
    double measured_s;               /* the middle one */
    double projected_s, simulated_s; /* 0: not known */
    bool fitted; /* the system was measured at this very point */
};

struct comparison {
    const struct cli_collective_options *o;
    pdl_arena *a;
    struct pdl_system sys;
    const struct pdl_net *net; /* NULL: the system has none */
    int ranks, n;
    struct row row[MAX_ROWS];
};

static enum pdl_status measure(struct comparison *c, const struct pdl_doc **out,
                               struct pdl_err *err)
{
    struct bench_options opts = {
        .ranks = c->ranks,
        .size = c->o->size ? c->o->size : "1536B..48MiB",
        .algorithm = c->o->algorithm,
        .seconds = (c->o->seconds > 0 ? c->o->seconds : 0.3) / ROUNDS,
    };
    struct pdl_args args = {
        .opts = &opts, .npos = 1, .pos = {c->o->collective}, .json = true};
    struct pdl_buf text;
    char *copy = NULL;
    enum pdl_status st;

    if (!c->o->algorithm)
        cli_bench_as_trained(&opts, c->o->collective);
    pdl_buf_init(&text);
    st = cli_capture(&cli_bench, &args, c->ranks, &text, err);
    if (st == PDL_OK) {
        copy = pdl_arena_strndup(c->a, text.text ? text.text : "", text.len);
        if (!copy)
            st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    if (st == PDL_OK)
        st = pdl_doc_json(c->a, (struct pdl_bytes){copy, text.len},
                          "measurement", out, err);
    pdl_buf_free(&text);
    return st;
}

/* Was this size on this many ranks among what the file was made from? */
static bool was_fitted(const struct comparison *c, int64_t bytes)
{
    for (int64_t i = 0; i < c->sys.ncollectives; i++) {
        const struct pdl_collective_fit *f = &c->sys.collectives[i];

        if (strcmp(f->op, c->o->collective) != 0 || f->pes != c->ranks)
            continue;
        for (int64_t k = 0; k < f->ntimes; k++)
            if (f->times[k].n > 0 && f->times[k].v[0] == bytes)
                return true;
    }
    return false;
}

static void simulate(struct comparison *c, struct row *r)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    struct pdl_sim_result result;
    struct pdl_traffic traffic;
    struct pdl_coll_job job;

    if (a && c->net && c->net->nhosts >= c->ranks &&
        pdl_coll_job_make(c->o->collective, r->algorithm, c->ranks,
                          r->bytes / 4, 4, &job, NULL) == PDL_OK) {
        pdl_coll_traffic(&job, NULL, &traffic);
        if (pdl_sim_run(a, c->net, &traffic, &config, &result, NULL) == PDL_OK)
            r->simulated_s = result.time_s;
    }
    pdl_arena_destroy(a);
}

/* One size of one round, sorted in among those of the rounds before. */
static enum pdl_status read_row(struct comparison *c, const struct pdl_doc *d,
                                int round, struct row *r, struct pdl_err *err)
{
    const struct pdl_doc *bytes = pdl_doc_get(d, "bytes");
    const struct pdl_doc *ours = pdl_doc_get(d, "ours_s");
    const struct pdl_doc *name = pdl_doc_get(d, "algorithm");
    enum pdl_status st = PDL_OK;
    double s;
    int k = round;

    if (!bytes || !ours || !name || r == c->row + MAX_ROWS)
        return pdl_doc_fail(d, err, "not a result of bench");
    st = pdl_doc_int(bytes, 0, INT64_MAX, &r->bytes, err);
    if (st == PDL_OK)
        st = pdl_doc_num(ours, PDL_UNIT_NONE, 0, 1e9, &s, err);
    if (st == PDL_OK)
        st = pdl_doc_str(name, &r->algorithm, err);
    if (st != PDL_OK)
        return st;
    for (; k > 0 && r->round_s[k - 1] > s; k--)
        r->round_s[k] = r->round_s[k - 1];
    r->round_s[k] = s;
    return PDL_OK;
}

static enum pdl_status measure_round(struct comparison *c, int round,
                                     struct pdl_err *err)
{
    const struct pdl_doc *doc = NULL, *rows;
    enum pdl_status st = measure(c, &doc, err);

    if (st != PDL_OK)
        return st;
    rows = pdl_doc_get(doc, "results");
    if (!rows || rows->kind != PDL_DOC_LIST)
        return pdl_doc_fail(doc, err, "not a result of bench");
    c->n = 0;
    for (const struct pdl_doc *d = rows->child; st == PDL_OK && d; d = d->next)
        st = read_row(c, d, round, &c->row[c->n++], err);
    return st;
}

static void finish_row(struct comparison *c, struct row *r)
{
    r->measured_s = r->round_s[ROUNDS / 2];
    r->fitted = was_fitted(c, r->bytes);
    if (!pdl_collective_seconds(&c->sys, c->o->collective, c->ranks, r->bytes,
                                &r->projected_s))
        r->projected_s = 0;
    simulate(c, r);
}

/* The system's network, its nodes with as many PEs as there are ranks: what
 * messages take does not depend on who shares a processor. */
static void make_network(struct comparison *c)
{
    struct pdl_system wide = c->sys;
    const char *spec = NULL;

    if (wide.nodes > 0 && wide.nodes * wide.node.pes < c->ranks)
        wide.node.pes = (c->ranks + wide.nodes - 1) / wide.nodes;
    if (pdl_system_topology(c->a, &wide, &spec, NULL) != PDL_OK ||
        pdl_net_make(c->a, spec, &c->net, NULL) != PDL_OK)
        c->net = NULL;
}

static enum pdl_status compare(struct comparison *c, struct pdl_err *err)
{
    enum pdl_status st = pdl_system_open(c->a, c->o->system, &c->sys, err);

    if (st != PDL_OK)
        return st;
    make_network(c);
    for (int round = 0; st == PDL_OK && round < ROUNDS; round++)
        st = measure_round(c, round, err);
    for (int i = 0; st == PDL_OK && i < c->n; i++)
        finish_row(c, &c->row[i]);
    return st;
}

/* ---- output ------------------------------------------------------------ */

static double relative(double p, double m)
{
    return p > 0 && m > 0 ? fabs(p - m) / m : NAN;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    if (n == 0)
        return NAN;
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double row_error(const struct row *r)
{
    return relative(r->projected_s, r->measured_s);
}

/* How far a round is from the middle one, as the other two say: no projection
 * can be expected to be nearer than that. */
static double row_noise(const struct row *r)
{
    return (r->round_s[ROUNDS - 1] - r->round_s[0]) / 2 / r->measured_s;
}

/* Of the rows nobody fitted; NAN: none. */
static double median_of(const struct comparison *c,
                        double (*what)(const struct row *r))
{
    double v[MAX_ROWS];
    int n = 0;

    for (int i = 0; i < c->n; i++)
        if (!c->row[i].fitted && !isnan(what(&c->row[i])))
            v[n++] = what(&c->row[i]);
    return median(v, n);
}

static void time_cell(struct pdl_table *t, double s)
{
    char buf[32];

    if (s > 0)
        pdl_table_cell(t, "%s",
                       pdl_unit_format(s, PDL_UNIT_SECONDS, buf, sizeof buf));
    else
        pdl_table_cell(t, "-");
}

static void print_text(const struct comparison *c)
{
    static const struct pdl_column columns[] = {
        {"bytes", true},     {"algorithm", false}, {"measured", true},
        {"noise", true},     {"projected", true},  {"error", true},
        {"simulated", true}, {"", false},
    };
    struct pdl_sink *out = cli_out();
    double error = median_of(c, row_error);
    struct pdl_table t;

    pdl_printf(out, "%s on %d ranks of this machine against %s\n",
               c->o->collective, c->ranks, c->sys.name);
    pdl_table_init(&t, c->a, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->row[i];
        double e = row_error(r);

        pdl_table_cell(&t, "%" PRId64, r->bytes);
        pdl_table_cell(&t, "%s", r->algorithm);
        time_cell(&t, r->measured_s);
        pdl_table_cell(&t, "%.0f %%", 100 * row_noise(r));
        time_cell(&t, r->projected_s);
        if (isnan(e))
            pdl_table_cell(&t, "-");
        else
            pdl_table_cell(&t, "%.0f %%", 100 * e);
        time_cell(&t, r->simulated_s);
        pdl_table_cell(&t, r->fitted ? "fitted" : "");
    }
    pdl_table_print(&t, cli_width(), out);
    if (isnan(error))
        pdl_puts(out, "the system's file has no times of this collective;\n"
                      "'paradl calibrate' measures them\n");
    else
        pdl_printf(out,
                   "median error of what was not fitted: %.1f %% (noise of "
                   "the measurement: %.1f %%)\n",
                   100 * error, 100 * median_of(c, row_noise));
}

static void known(struct pdl_json *w, const char *key, double v)
{
    pdl_json_knum(w, key, v > 0 ? v : NAN);
}

static void print_json(const struct comparison *c)
{
    struct pdl_json w;

    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "validate-collective");
    pdl_json_kstr(&w, "collective", c->o->collective);
    pdl_json_kstr(&w, "system", c->sys.name);
    pdl_json_kint(&w, "pes", c->ranks);
    pdl_json_key(&w, "rows");
    pdl_json_array(&w);
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->row[i];

        pdl_json_row(&w);
        pdl_json_kint(&w, "bytes", r->bytes);
        pdl_json_kstr(&w, "algorithm", r->algorithm);
        known(&w, "measured_s", r->measured_s);
        known(&w, "projected_s", r->projected_s);
        known(&w, "simulated_s", r->simulated_s);
        pdl_json_knum(&w, "accuracy", 1 - row_error(r));
        pdl_json_knum(&w, "noise", row_noise(r));
        pdl_json_kbool(&w, "fitted", r->fitted);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_knum(&w, "median_error", median_of(c, row_error));
    pdl_json_knum(&w, "median_noise", median_of(c, row_noise));
    pdl_json_end(&w);
}

int cli_validate_collective(const struct cli_collective_options *o, bool json)
{
    struct comparison c = {.o = o, .ranks = o->ranks ? (int)o->ranks : 2};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc;

    if (!o->system || o->ranks < 0 || o->ranks > 100000) {
        pdl_fail(&err, PDL_EINVAL,
                 "validate --collective needs --system SYSTEM "
                 "and a number of ranks");
        pdl_hint(&err, "'paradl calibrate -o here.yaml' writes this machine's");
        return cli_usage(&err);
    }
    st = cli_bench_names(o->collective, o->algorithm, c.ranks, &err);
    if (st != PDL_OK)
        return cli_fail(st, &err);
    c.a = pdl_arena_create(PDL_ARENA_DEFAULT);
    st = c.a ? compare(&c, &err) : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        rc = EXIT_OK;
        if (json)
            print_json(&c);
        else
            print_text(&c);
    }
    pdl_arena_destroy(c.a);
    return rc;
}
