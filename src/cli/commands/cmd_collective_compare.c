/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl collective compare: every algorithm of a collective on networks and
 * at sizes, simulated and ranked. */
#include "cli/output/collective_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
#define AT(field) offsetof(struct cli_compare_options, field)
static const struct pdl_opt opts[] = {
    {"topology", 't', PDL_OPT_TEXT, AT(topology), "TOPOLOGY[;...]", NULL,
     "the networks, with ';' between them; {p} and {p/8} in them are the "
     "number of ranks and an eighth of it"},
    {"size", 's', PDL_OPT_TEXT, AT(size), "BYTES[,BYTES...]|A..B", NULL,
     "bytes of each rank's buffer; A..B doubles"},
    {"algorithms", 'a', PDL_OPT_TEXT, AT(algorithms), "ALGORITHM[;...]", NULL,
     "only these, with their parameters"},
    {"ranks", 'n', PDL_OPT_TEXT, AT(ranks), "P[,P...]|A..B", NULL,
     "numbers of ranks (one a host); A..B doubles"},
    {"density", 0, PDL_OPT_NUM, AT(density), "Q", NULL,
     "share of non-zeros; compares the sparse algorithms too"},
    {"all", 0, PDL_OPT_FLAG, AT(all), NULL, NULL,
     "on many ranks, also simulate to its end what cannot be the fastest"},
    {"links", 0, PDL_OPT_FLAG, AT(links), NULL, NULL,
     "bytes on each link by the fastest at the last size, in the JSON"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
#undef AT
// clang-format on

/* The next item of a list; advances *at; NULL at the end. */
static char *next_item(pdl_arena *a, const char **at, char mark)
{
    const char *from = *at;
    size_t n;

    if (!from || !*from)
        return NULL;
    n = strcspn(from, (char[]){mark, '\0'});
    *at = from[n] ? from + n + 1 : NULL;
    return pdl_arena_strndup(a, from, n);
}

static void refuse(struct cli_comparison *c, struct cli_comparison_row *row,
                   const char *why)
{
    pthread_mutex_lock(&c->lock);
    row->refused = pdl_arena_strdup(c->arena, why);
    pthread_mutex_unlock(&c->lock);
}

static enum pdl_status simulate(struct cli_comparison *c,
                                const struct pdl_net *net,
                                const struct pdl_sim_config *config,
                                struct cli_comparison_row *row, pdl_arena *a,
                                struct pdl_sim_result *out, struct pdl_err *err)
{
    struct cli_job_size size = {row->ranks, row->bytes, c->o->density};
    struct pdl_traffic traffic;
    struct pdl_coll_job job;
    int *hosts;
    enum pdl_status st =
        cli_job_make(a, c->collective, row->algorithm, net, &size, &job, err);

    if (st == PDL_OK)
        st = cli_map_ranks(a, net, job.nranks, NULL, 0, &hosts, err);
    if (st != PDL_OK)
        return st;
    pdl_coll_traffic(&job, hosts, &traffic);
    return pdl_sim_run(a, net, &traffic, config, out, err);
}

/* bytes: also those of every link, or NULL. PDL_EINTR: later than until_s. */
static enum pdl_status run_one(struct cli_comparison *c,
                               const struct pdl_net *net, double until_s,
                               struct cli_comparison_row *row, int64_t *bytes)
{
    const struct pdl_sim_config config = {
        .bounds = true, .links = bytes != NULL, .until_s = until_s};
    pdl_arena *a = pdl_arena_create((size_t)16 << 30);
    struct pdl_err err = {"", ""};
    struct pdl_sim_result sim;
    enum pdl_status st = a ? simulate(c, net, &config, row, a, &sim, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "no memory");

    if (st == PDL_OK) {
        row->time_s = sim.time_s;
        row->lower_s = sim.bounds.lower_s;
        row->messages = sim.messages;
        for (int i = 0; bytes && i < net->nlinks; i++)
            bytes[i] = sim.links[i].bytes;
    } else if (st != PDL_EINTR) {
        refuse(c, row, err.msg);
    }
    pdl_arena_destroy(a);
    return st;
}

/* What a row takes at least: its messages do not see each other, and a link
 * carries all it carries. PDL_EINTR: more than until_s. */
static enum pdl_status bound_one(struct cli_comparison *c,
                                 const struct pdl_net *net, double until_s,
                                 struct cli_comparison_row *row)
{
    const struct pdl_sim_config config = {
        .share = PDL_SHARE_NONE, .links = true, .until_s = until_s};
    pdl_arena *a = pdl_arena_create((size_t)16 << 30);
    struct pdl_err err = {"", ""};
    struct pdl_sim_result sim;
    enum pdl_status st = a ? simulate(c, net, &config, row, a, &sim, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "no memory");

    if (st == PDL_OK) {
        row->lower_s = sim.time_s;
        for (int i = 0; i < net->nlinks; i++)
            row->lower_s = fmax(row->lower_s,
                                sim.links[i].load / net->links[i].bytes_per_s);
    } else if (st != PDL_EINTR) {
        refuse(c, row, err.msg);
    }
    pdl_arena_destroy(a);
    return st;
}

/* A network and so many ranks on it. */
struct place {
    const struct pdl_net *net;
    const char *topology;
    int ranks;
};

static enum pdl_status add_row(struct cli_comparison *c, const struct place *at,
                               int64_t bytes, const char *spec,
                               struct pdl_err *err)
{
    struct cli_comparison_row *row = &c->rows[c->nrows];

    if (c->nrows == MAX_ROWS)
        return pdl_fail(err, PDL_EINVAL, "more than %d simulations", MAX_ROWS);
    c->nrows++;
    *row = (struct cli_comparison_row){
        .topology = at->topology,
        .algorithm = spec,
        .bytes = bytes,
        .ranks = at->ranks ? at->ranks : at->net->nhosts};
    return PDL_OK;
}

/* From this number of ranks on what cannot be the fastest is left: where flows
 * share links every message is an event, and one algorithm may take minutes. */
enum { MANY_RANKS = 256, FEW_MESSAGES = 200000, MANY_MESSAGES = 30000000 };

struct batch {
    struct cli_comparison *c;
    const struct pdl_net *net;
    int first;
    double best_s; /* so far; 0: none, or all are simulated to their end */
    bool prune;
};

static double best_of(struct batch *b, double time_s)
{
    double best_s;

    pthread_mutex_lock(&b->c->lock);
    if (b->prune && time_s > 0 && (b->best_s == 0 || time_s < b->best_s))
        b->best_s = time_s;
    best_s = b->best_s;
    pthread_mutex_unlock(&b->c->lock);
    return best_s;
}

static void leave_row(struct cli_comparison *c, struct cli_comparison_row *row,
                      double least_s)
{
    char text[160], least[32];

    snprintf(text, sizeof text, "%.80s: at least %s, not the fastest",
             row->algorithm,
             pdl_unit_format(least_s, PDL_UNIT_SECONDS, least, sizeof least));
    refuse(c, row, text);
}

/* Raises the floor of a row with many messages by what its links carry. */
static void raise_floor(struct batch *b, struct cli_comparison_row *row)
{
    struct cli_job_size size = {row->ranks, row->bytes, b->c->o->density};
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    struct pdl_err err = {"", ""};
    struct pdl_coll_job job;

    /* what can be folded is simulated sooner than it is listed */
    if (a &&
        cli_job_make(a, b->c->collective, row->algorithm, b->net, &size, &job,
                     &err) == PDL_OK &&
        !(job.alg->turns && b->net->turns.n > 0))
        row->floor_s =
            fmax(row->floor_s, pdl_coll_links_floor(b->net, &job, a));
    pdl_arena_destroy(a);
}

/* Whether the row may still be the fastest. */
static bool may_win(struct batch *b, struct cli_comparison_row *row)
{
    double best_s = best_of(b, 0);

    if (best_s > 0 && row->floor_s < best_s && row->lower_s == 0 &&
        row->messages > FEW_MESSAGES && row->messages < MANY_MESSAGES)
        raise_floor(b, row);
    if (best_s > 0 && row->floor_s >= best_s)
        row->lower_s = row->floor_s;
    else if (b->prune && row->lower_s == 0 &&
             bound_one(b->c, b->net, best_s, row) == PDL_EINTR)
        row->lower_s = best_s;
    best_s = best_of(b, 0);
    if (!row->refused && best_s > 0 && row->lower_s >= best_s)
        leave_row(b->c, row, row->lower_s);
    return !row->refused;
}

static bool run_row(void *ctx, int64_t i)
{
    struct batch *b = ctx;
    struct cli_comparison *c = b->c;
    struct cli_comparison_row *row = &c->rows[b->first + i];
    double until_s;

    if (may_win(b, row)) {
        until_s = best_of(b, 0);
        if (run_one(c, b->net, until_s, row, NULL) == PDL_EINTR)
            leave_row(c, row, until_s);
        else
            (void)best_of(b, row->refused ? 0 : row->time_s);
    }
    pthread_mutex_lock(&c->lock);
    pdl_progress_step(&c->progress, ++c->done);
    pthread_mutex_unlock(&c->lock);
    return true;
}

/* The bound of a row that has few messages. */
static bool bound_row(void *ctx, int64_t i)
{
    struct batch *b = ctx;
    struct cli_comparison_row *row = &b->c->rows[b->first + i];

    if (row->messages <= FEW_MESSAGES)
        (void)bound_one(b->c, b->net, 0, row);
    return true;
}

/* How many messages, about, and a bound, before anything is simulated. */
static void estimate(struct batch *b, struct cli_comparison_row *row)
{
    struct cli_job_size size = {row->ranks, row->bytes, b->c->o->density};
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    struct pdl_err err = {"", ""};
    struct pdl_coll_job job;

    if (a && cli_job_make(a, b->c->collective, row->algorithm, b->net, &size,
                          &job, &err) == PDL_OK) {
        row->messages = pdl_coll_nsteps(&job, 0) * job.nranks;
        row->floor_s = pdl_coll_ranks_floor(b->net, &job, a);
    }
    pdl_arena_destroy(a);
}

/* Those with a bound by it, then those with many messages. */
static int by_promise(const void *x, const void *y)
{
    const struct cli_comparison_row *a = x, *b = y;

    if ((a->lower_s == 0) != (b->lower_s == 0))
        return a->lower_s == 0 ? 1 : -1;
    if (a->lower_s != b->lower_s)
        return a->lower_s < b->lower_s ? -1 : 1;
    if (a->messages != b->messages)
        return a->messages < b->messages ? -1 : 1;
    return strcmp(a->algorithm, b->algorithm);
}

static void run_batch(struct batch *b)
{
    struct cli_comparison_row *rows = b->c->rows + b->first;
    int n = b->c->nrows - b->first;

    for (int i = 0; b->prune && i < n; i++)
        estimate(b, &rows[i]);
    if (b->prune) {
        pdl_parallel(n, 0, bound_row, b);
        qsort(rows, (size_t)n, sizeof *rows, by_promise);
    }
    pdl_parallel(n, 0, run_row, b);
}

static int by_time(const void *x, const void *y)
{
    const struct cli_comparison_row *a = x, *b = y;

    if (!a->refused != !b->refused)
        return a->refused ? 1 : -1;
    if (a->time_s != b->time_s)
        return a->time_s < b->time_s ? -1 : 1;
    return strcmp(a->algorithm, b->algorithm);
}

/* A name that no algorithm has is a slip; one that does not run here is a
 * row. */
static enum pdl_status known(struct cli_comparison *c, struct pdl_err *err)
{
    const char *list = c->o->algorithms, *spec;

    while ((spec = next_item(c->arena, &list, ';')) != NULL) {
        struct pdl_coll_job job = {.nranks = 2};
        struct pdl_err inner = {"", ""};

        if (!cli_is_program(spec) &&
            pdl_alg_parse(c->collective, spec, &job, &inner) != PDL_OK) {
            pdl_fail(err, PDL_EINVAL, "%s", inner.msg);
            if (*inner.hint)
                pdl_hint(err, "%s", inner.hint);
            return PDL_EINVAL;
        }
    }
    if (!(c->o->density >= 0 && c->o->density <= 1))
        return pdl_fail(err, PDL_EINVAL, "--density is a share, from 0 to 1");
    return PDL_OK;
}

/* All algorithms on one network at one size, on all cores, fastest first. */
static enum pdl_status compare_at(struct cli_comparison *c,
                                  const struct place *at, int64_t bytes,
                                  struct pdl_err *err)
{
    int first = c->nrows;
    const char *list = c->o->algorithms, *spec;
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && (spec = next_item(c->arena, &list, ';')) != NULL)
        st = add_row(c, at, bytes, spec, err);
    for (int i = 0; !c->o->algorithms && pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);

        if (st == PDL_OK && strcmp(alg->collective->name, c->collective) == 0 &&
            (!alg->sparse || c->o->density > 0))
            st = add_row(c, at, bytes, alg->name, err);
    }
    if (st == PDL_OK)
        run_batch(&(struct batch){
            .c = c,
            .net = at->net,
            .first = first,
            .prune = !c->o->all &&
                     (at->ranks ? at->ranks : at->net->nhosts) >= MANY_RANKS});
    qsort(c->rows + first, (size_t)(c->nrows - first), sizeof *c->rows,
          by_time);
    for (int i = first; i < c->nrows; i++)
        c->rows[i].best = c->rows[first].time_s;
    return st;
}

/* Runs the fastest of the last size once more, and looks at the links. */
static void measure_heat(struct cli_comparison *c, const struct pdl_net *net,
                         int first)
{
    struct cli_comparison_heat *h = &c->heats[c->nheats];
    int64_t *bytes;

    if (first >= c->nrows || c->rows[first].refused || c->nheats == MAX_HEATS ||
        net->nlinks > MAX_HEAT_LINKS)
        return;
    bytes = PDL_NEW(c->arena, int64_t, net->nlinks + 1);
    if (!bytes)
        return;
    *h = (struct cli_comparison_heat){&c->rows[first], bytes, net->nlinks};
    run_one(c, net, 0, &c->rows[first], bytes);
    c->nheats++;
}

/* The number that "{p}" or "{p/8}" of n characters stands for. */
static enum pdl_status number_of(const char *text, size_t n, int ranks,
                                 int64_t *out, struct pdl_err *err)
{
    char by[16] = "1";
    int64_t divisor;
    enum pdl_status st;

    if (strncmp(text, "{p/", 3) == 0 && text[n - 1] == '}' && n < sizeof by)
        snprintf(by, sizeof by, "%.*s", (int)n - 4, text + 3);
    else if (strncmp(text, "{p}", 3) != 0)
        return pdl_fail(err, PDL_EPARSE,
                        "'%.20s' in a topology is neither {p} nor {p/8}", text);
    st = pdl_int_parse(by, 1, 1 << 30, &divisor, err);
    if (st != PDL_OK)
        return st;
    if (!ranks)
        return pdl_fail(err, PDL_EINVAL, "%.*s in a topology needs --ranks",
                        (int)n, text);
    if (ranks % divisor)
        return pdl_fail(err, PDL_EINVAL,
                        "%.*s in a topology: %d ranks do not divide", (int)n,
                        text, ranks);
    *out = ranks / divisor;
    return PDL_OK;
}

/* Puts numbers in place of {p} and {p/N}. */
static enum pdl_status expand(struct cli_comparison *c, const char *text,
                              int ranks, const char **out, struct pdl_err *err)
{
    struct pdl_buf b;
    enum pdl_status st = PDL_OK;

    pdl_buf_init(&b);
    while (*text && st == PDL_OK) {
        size_t plain = strcspn(text, "{"), n;
        int64_t number = 0;

        pdl_printf(&b.sink, "%.*s", (int)plain, text);
        text += plain;
        if (!*text)
            break;
        n = strcspn(text, "}");
        n += text[n] == '}';
        st = number_of(text, n, ranks, &number, err);
        pdl_printf(&b.sink, "%" PRId64, number);
        text += n;
    }
    *out = pdl_arena_strdup(c->arena, b.text ? b.text : "");
    pdl_buf_free(&b);
    return st;
}

/* "64KiB", or "4KiB..64MiB", which doubles. */
static enum pdl_status read_sizes(const char *text, int64_t *first,
                                  int64_t *last, struct pdl_err *err)
{
    const char *dots = strstr(text, "..");
    char low[32];
    enum pdl_status st;

    snprintf(low, sizeof low, "%.*s", dots ? (int)(dots - text) : 31, text);
    st = pdl_bytes_parse(low, first, err);
    *last = *first;
    if (st == PDL_OK && dots)
        st = pdl_bytes_parse(dots + 2, last, err);
    if (st == PDL_OK && (*first < 1 || *last < *first))
        st = pdl_fail(err, PDL_EINVAL, "--size: '%.40s' is no range of sizes",
                      text);
    return st;
}

/* One network, one number of ranks, all sizes. */
static enum pdl_status compare_sizes(struct cli_comparison *c, const char *text,
                                     int ranks, struct pdl_err *err)
{
    struct place at = {.ranks = ranks};
    const char *sizes = c->o->size, *size;
    enum pdl_status st = expand(c, text, ranks, &at.topology, err);
    int first = c->nrows;

    if (st == PDL_OK)
        st = pdl_net_make(c->arena, at.topology, &at.net, err);
    while (st == PDL_OK && (size = next_item(c->arena, &sizes, ',')) != NULL) {
        int64_t bytes = 0, last = 0;

        st = read_sizes(size, &bytes, &last, err);
        for (; st == PDL_OK && bytes <= last; bytes *= 2) {
            first = c->nrows;
            st = compare_at(c, &at, bytes, err);
        }
    }
    if (st == PDL_OK && (c->o->links || c->o->report) &&
        ranks == c->points[c->npoints - 1])
        measure_heat(c, at.net, first);
    return st;
}

static enum pdl_status compare(struct cli_comparison *c, struct pdl_err *err)
{
    const char *nets = c->o->topology, *text;
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && (text = next_item(c->arena, &nets, ';')) != NULL)
        for (int i = 0; st == PDL_OK && i < c->npoints; i++)
            st = compare_sizes(c, text, c->points[i], err);
    return st;
}

/* "64", "48,96", "64..1024". */
static enum pdl_status read_points(struct cli_comparison *c,
                                   struct pdl_err *err)
{
    const char *list = c->o->ranks, *item;
    enum pdl_status st = PDL_OK;

    c->points[0] = 0;
    c->npoints = !list;
    while (st == PDL_OK && (item = next_item(c->arena, &list, ',')) != NULL) {
        int first, last;

        st = cli_ranks_parse(item, &first, &last, err);
        for (int64_t p = first; st == PDL_OK && p <= last; p *= 2) {
            if (c->npoints == MAX_POINTS)
                return pdl_fail(err, PDL_EINVAL,
                                "more than %d numbers of ranks", MAX_POINTS);
            c->points[c->npoints++] = (int)p;
        }
    }
    if (st == PDL_OK && c->npoints == 0)
        return pdl_fail(err, PDL_EINVAL, "--ranks is empty");
    return st;
}

static int report(const struct cli_comparison *c)
{
    struct pdl_buf json;
    int rc;

    pdl_buf_init(&json);
    cli_comparison_json(c, &json.sink);
    rc = cli_report(&json, c->o->report);
    pdl_buf_free(&json);
    return rc;
}

static int run(const struct pdl_args *args)
{
    const struct cli_compare_options *o = args->opts;
    struct cli_comparison c = {.collective = args->pos[0],
                               .o = o,
                               .args = args,
                               .lock = PTHREAD_MUTEX_INITIALIZER};
    int rc = EXIT_OK;
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;

    if (!o->topology || !*o->topology || !o->size || !*o->size) {
        pdl_fail(&err, PDL_EINVAL,
                 "collective compare needs --topology and --size");
        pdl_hint(&err, "for example: %s", cli_collective_compare.example);
        return cli_usage(&err);
    }
    if (!pdl_collective_find(c.collective)) {
        struct pdl_coll_job none = {.alg = NULL};

        return cli_fail(pdl_alg_parse(c.collective, "", &none, &err), &err);
    }
    c.arena = pdl_arena_create((size_t)16 << 30);
    c.rows =
        c.arena ? PDL_NEW(c.arena, struct cli_comparison_row, MAX_ROWS) : NULL;
    if (!c.rows) {
        pdl_arena_destroy(c.arena);
        return EXIT_BUG;
    }
    st = known(&c, &err);
    if (st == PDL_OK)
        st = read_points(&c, &err);
    if (st != PDL_OK) {
        pdl_arena_destroy(c.arena);
        return cli_fail(st, &err);
    }
    pdl_progress_start(&c.progress, cli_stderr(),
                       !args->quiet && cli_progress(), "simulations", 0);
    st = compare(&c, &err);
    pdl_progress_end(&c.progress);
    if (st == PDL_OK && args->json)
        cli_comparison_json(&c, cli_out());
    else if (st == PDL_OK)
        cli_comparison_text(&c);
    if (st == PDL_OK && o->report)
        rc = report(&c);
    pdl_arena_destroy(c.arena);
    return st == PDL_OK ? rc : cli_fail(st, &err);
}

const struct pdl_cmd cli_collective_compare = {
    .name = "collective compare",
    .args = "COLLECTIVE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "which algorithm is fastest on a network at a size",
    .text = "Simulates every algorithm of the collective on every network "
            "and at every size given, and ranks them; with --ranks also on "
            "several numbers of ranks, the first hosts of the network or a "
            "network made for each of them (dln:switches={p/4},hosts=4). "
            "Algorithms that do not run there are listed with the reason; so "
            "are, on 256 ranks or more, those that a lower bound, or the part "
            "simulated so far, shows not to be the fastest.",
    .example = "paradl collective compare allreduce --topology torus:4x4 "
               "--size 64KiB,16MiB",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct cli_compare_options),
    .run = run,
};
