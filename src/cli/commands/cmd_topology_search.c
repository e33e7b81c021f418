/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl topology search: which network of so many hosts, with which
 * algorithms, serves a traffic fastest at which cost. */
#include "cli/cli_priv.h"
#include "paradl/design.h"
#include "paradl/net.h"
#include "paradl/tune.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZES = 16, MOST_RIVALS = 32, MAX_FILE = 512 << 20 };

struct options {
    int64_t hosts, radix, node, threads;
    const char *collective, *size, *plan, *against, *also, *duplex, *bw;
    const char *prices;
    double latency_s;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"hosts", 'n', PDL_OPT_COUNT, AT(hosts), "N", NULL, "how many hosts (of a plan: its ranks)"},
    {"radix", 0, PDL_OPT_COUNT, AT(radix), "R", NULL, "ports of a switch at most (64)"},
    {"collective", 0, PDL_OPT_TEXT, AT(collective), "NAME", NULL, "that all hosts do together (allreduce)"},
    {"size", 's', PDL_OPT_TEXT, AT(size), "BYTES[,BYTES...]", NULL, "of each host's buffer; every size is a question of its own"},
    {"plan", 0, PDL_OPT_TEXT, AT(plan), "FILE.plan", NULL, "instead: what a step of this plan sends, all groups of an axis at once"},
    {"node", 0, PDL_OPT_COUNT, AT(node), "N", NULL, "ranks of a plan that other links join: what they send each other is left out (1)"},
    {"against", 0, PDL_OPT_TEXT, AT(against), "TOPOLOGY[+ALGORITHM][;...]", NULL, "say for each of these what costs no more and is faster"},
    {"also", 0, PDL_OPT_TEXT, AT(also), "TOPOLOGY[;...]", NULL, "look at these too"},
    {"bandwidth", 0, PDL_OPT_TEXT, AT(bw), "RATE", NULL, "of a cable (12.5GB/s)"},
    {"latency", 0, PDL_OPT_TIME, AT(latency_s), "TIME", NULL, "of a cable (1us)"},
    {"prices", 0, PDL_OPT_TEXT, AT(prices), "FILE", NULL, "what switches and cables cost, public or a file (default: as 'topology show')"},
    {"duplex", 0, PDL_OPT_TEXT, AT(duplex), "HOW", "full|shared", "the rate of a cable is of each way, or of both together (full)"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL, "default: all cores"},
};
// clang-format on
#undef AT

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

struct search {
    pdl_arena *arena;
    const struct pdl_args *args;
    const struct options *o;
    struct pdl_progress progress;
    struct pdl_network_ask ask;
    struct pdl_network_rival rival[MOST_RIVALS];
    int nrivals;
    struct pdl_network_prices prices;
    const char *currency;
    const char *left;
    struct pdl_json *json; /* NULL: text */
};

static bool go_on(void *ctx, int64_t done, int64_t total)
{
    struct search *s = ctx;

    s->progress.total = total;
    pdl_progress_step(&s->progress, done);
    return !interrupted;
}

/* ---- the question ------------------------------------------------------- */

/* The next item of a list; NULL at the end. */
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

static enum pdl_status too_many(const char *option, struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL, "%s: more than %d networks", option,
                    MOST_RIVALS);
}

static enum pdl_status read_lists(struct search *s, struct pdl_err *err)
{
    const char *at = s->o->against,
               **more = PDL_NEW(s->arena, const char *, MOST_RIVALS);
    char *one;

    if (!more)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    while ((one = next_item(s->arena, &at, ';')) != NULL) {
        char *plus = strrchr(one, '+');

        if (s->nrivals == MOST_RIVALS)
            return too_many("--against", err);
        if (plus)
            *plus = '\0';
        s->rival[s->nrivals++] = (struct pdl_network_rival){
            .spec = one, .algorithm = plus ? plus + 1 : NULL};
    }
    at = s->o->also;
    while ((one = next_item(s->arena, &at, ';')) != NULL) {
        if (s->ask.nmore == MOST_RIVALS)
            return too_many("--also", err);
        more[s->ask.nmore++] = one;
    }
    s->ask.more = more;
    return PDL_OK;
}

static enum pdl_status read_plan(struct search *s, struct pdl_err *err)
{
    struct pdl_plan_head head;
    const struct pdl_plan *plan = NULL;
    struct pdl_demand *d = NULL;
    struct pdl_bytes in;
    int n = 0;
    enum pdl_status st =
        pdl_file_read(s->arena, s->o->plan, MAX_FILE, &in, err);

    if (st == PDL_OK)
        st = pdl_plan_read(s->arena, in, s->o->plan, NULL, &head, &plan, err);
    if (st == PDL_OK)
        st = pdl_plan_demands(s->arena, plan, s->o->node > 0 ? s->o->node : 1,
                              &d, &n, &s->left, err);
    if (st != PDL_OK)
        return st;
    s->ask.demand = d;
    s->ask.ndemands = n;
    if (s->ask.hosts == 0)
        s->ask.hosts = (int)plan->mesh->pes;
    return PDL_OK;
}

/* A longer cable has an optic at each end. */
static enum pdl_status read_prices(struct search *s, struct pdl_err *err)
{
    const struct {
        const char *item;
        double *to;
        double times;
    } items[] = {{"switch", &s->prices.port, 1},
                 {"copper", &s->prices.near, 1},
                 {"optic", &s->prices.far, 2},
                 {"fibre", &s->prices.metre, 1}};
    struct pdl_prices p;
    enum pdl_status st;

    s->currency = "$";
    if (!s->o->prices)
        return PDL_OK;
    st = pdl_prices_open(s->arena, s->o->prices, &p, err);
    for (size_t i = 0; i < sizeof items / sizeof items[0] && st == PDL_OK;
         i++) {
        const struct pdl_price_item *x = pdl_price_find(&p, items[i].item);

        if (x)
            *items[i].to = items[i].times * x->value;
        else
            st = pdl_fail(err, PDL_EINVAL, "prices '%.60s' have no '%s'",
                          p.name, items[i].item);
    }
    if (st != PDL_OK)
        return st;
    s->currency = p.currency;
    s->ask.prices = &s->prices;
    return PDL_OK;
}

static enum pdl_status settle(struct search *s, struct pdl_err *err)
{
    const struct options *o = s->o;
    enum pdl_status st = PDL_OK;

    s->ask = (struct pdl_network_ask){
        .hosts = (int)(o->hosts < 1 << 30 ? o->hosts : 1 << 30),
        .radix = (int)(o->radix > 0 ? fmin((double)o->radix, 1e6) : 64),
        .shared = o->duplex && strcmp(o->duplex, "shared") == 0,
        .bytes_per_s = 12.5e9,
        .latency_s = pdl_opt_given(&cli_topology_search, s->args, "latency")
                         ? o->latency_s
                         : 1e-6,
        .threads = (int)fmin((double)o->threads, 4096),
        .progress = go_on,
        .ctx = s,
        .interrupt = &interrupted};
    if (o->bw)
        st = pdl_unit_parse(o->bw, PDL_UNIT_BYTES_S, &s->ask.bytes_per_s, err);
    if (st == PDL_OK && !(s->ask.bytes_per_s > 0))
        st = pdl_fail(err, PDL_EINVAL, "--bandwidth '%.40s' is no rate", o->bw);
    if (st == PDL_OK)
        st = read_prices(s, err);
    return st == PDL_OK ? read_lists(s, err) : st;
}

/* ---- the answer --------------------------------------------------------- */

static const char *unit(const struct search *s, double v, enum pdl_unit u)
{
    char buf[32];
    const char *text =
        pdl_arena_strdup(s->arena, pdl_unit_format(v, u, buf, sizeof buf));

    return text ? text : "";
}

/* "halving-doubling", or one of each demand. */
static const char *ways(const struct search *s,
                        const struct pdl_network_point *n)
{
    const char *text = "";

    for (int k = 0; k < s->ask.ndemands && text; k++) {
        int first = 0; /* demand that has this one's */

        while (first < k && (!n->by[first] || !n->by[k] ||
                             strcmp(n->by[first], n->by[k]) != 0))
            first++;
        if (first == k && n->by[k] && *n->by[k])
            text = pdl_arena_printf(s->arena, "%s%s%s", text, *text ? "," : "",
                                    n->by[k]);
    }
    return text ? text : "";
}

static void front_text(const struct search *s, const struct pdl_networks *r)
{
    char cost[16];
    const struct pdl_column columns[] = {{"NETWORK", false}, {cost, true},
                                         {"SWITCHES", true}, {"PORTS", true},
                                         {"TIME", true},     {"BY", false}};
    struct pdl_table t;

    snprintf(cost, sizeof cost, "k%.8s", s->currency);
    pdl_table_init(&t, s->arena, columns, 6);
    t.whole = 1;
    for (int i = 0; i < r->n; i++) {
        const struct pdl_network_point *n = &r->list[i];

        if (!n->front)
            continue;
        pdl_table_cell(&t, "%s", n->spec);
        pdl_table_cell(&t, "%.1f", n->cost / 1e3);
        pdl_table_cell(&t, "%lld%s", (long long)n->switches,
                       n->direct ? "+" : "");
        pdl_table_cell(&t, "%d", n->radix);
        pdl_table_cell(&t, "%s", unit(s, n->seconds, PDL_UNIT_SECONDS));
        pdl_table_cell(&t, "%s", ways(s, n));
    }
    pdl_table_print(&t, cli_text_width(), cli_out());
    for (int i = 0; i < r->n; i++)
        if (r->list[i].front && r->list[i].direct) {
            cli_say(2, "+: hosts pass messages on, and are charged as switches "
                       "of their ports and one");
            break;
        }
}

static void rival_text(const struct search *s, const struct pdl_networks *r,
                       const struct pdl_network_rival *v)
{
    const struct pdl_network_point *w =
        v->winner < 0 ? NULL : &r->list[v->winner];

    if (!isfinite(v->is.seconds)) {
        cli_say(2, "%s: not looked at", v->spec);
        return;
    }
    if (!w) {
        cli_say(2,
                "%s, %s: %.1f k%.8s, %s; nothing that costs no more is faster",
                v->spec, ways(s, &v->is), v->is.cost / 1e3, s->currency,
                unit(s, v->is.seconds, PDL_UNIT_SECONDS));
        return;
    }
    cli_say(
        2,
        "%s, %s: %.1f k%.8s, %s; beaten by %s, %s: %.1f k%.8s, %s (%+.0f %%)",
        v->spec, ways(s, &v->is), v->is.cost / 1e3, s->currency,
        unit(s, v->is.seconds, PDL_UNIT_SECONDS), w->spec, ways(s, w),
        w->cost / 1e3, s->currency, unit(s, w->seconds, PDL_UNIT_SECONDS),
        100 * (w->seconds / v->is.seconds - 1));
}

/* Of a group, or of a rank that sends, that has the least. */
static int64_t least_of(const struct pdl_demand *d)
{
    bool send = strcmp(d->collective, "send") == 0;
    int n = send ? d->groups * d->members : d->groups;
    int64_t least = d->bytes;

    for (int i = 0; i < n && d->each; i++)
        if (d->each[i] > 0 && d->each[i] < least)
            least = d->each[i];
    return least;
}

static void demand_text(const struct search *s, const struct pdl_demand *d)
{
    const char *most = unit(s, (double)d->bytes, PDL_UNIT_BYTES),
               *least = unit(s, (double)least_of(d), PDL_UNIT_BYTES);
    bool equal = strcmp(least, most) == 0;

    cli_say(4, "  %s: %s%s%s%s%s", d->name, equal ? "" : least,
            equal ? "" : " to ", most,
            d->times == 1
                ? ""
                : pdl_arena_printf(s->arena, ", %.0f times", d->times),
            d->groups == 1
                ? ""
                : pdl_arena_printf(s->arena, ", %d groups at once", d->groups));
}

static void text(const struct search *s, const struct pdl_networks *r)
{
    cli_say(2, "%d hosts, switches of at most %d ports, cables of %s%s, %s:",
            s->ask.hosts, s->ask.radix,
            unit(s, s->ask.bytes_per_s, PDL_UNIT_BYTES_S),
            s->ask.shared ? " both ways together" : " each way",
            unit(s, s->ask.latency_s, PDL_UNIT_SECONDS));
    for (int k = 0; k < s->ask.ndemands; k++)
        demand_text(s, &s->ask.demand[k]);
    front_text(s, r);
    for (int i = 0; i < s->nrivals; i++)
        rival_text(s, r, &s->rival[i]);
    cli_say(2, "%d networks%s", r->n,
            r->stopped ? "; stopped before the end" : "");
    if (s->left)
        cli_say(2, "note: left out of the plan's traffic: %s", s->left);
}

static void json_network(struct search *s, const struct pdl_network_point *n)
{
    struct pdl_json *w = s->json;

    pdl_json_kstr(w, "topology", n->spec);
    pdl_json_knum(w, "cost", n->cost);
    pdl_json_kint(w, "switches", n->switches);
    pdl_json_kint(w, "cables", n->cables);
    pdl_json_kint(w, "radix", n->radix);
    pdl_json_kbool(w, "direct", n->direct);
    pdl_json_knum(w, "time_s", n->seconds);
    pdl_json_key(w, "demands");
    pdl_json_array(w);
    for (int k = 0; k < s->ask.ndemands; k++) {
        pdl_json_row(w);
        pdl_json_kstr(w, "algorithm", n->by[k]);
        pdl_json_knum(w, "time_s", n->each[k]);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void json_demands(struct search *s)
{
    struct pdl_json *w = s->json;

    pdl_json_key(w, "traffic");
    pdl_json_array(w);
    for (int k = 0; k < s->ask.ndemands; k++) {
        const struct pdl_demand *d = &s->ask.demand[k];

        pdl_json_row(w);
        pdl_json_kstr(w, "name", d->name);
        pdl_json_kstr(w, "collective", d->collective);
        pdl_json_kint(w, "members", d->members);
        pdl_json_kint(w, "groups", d->groups);
        pdl_json_kint(w, "bytes", d->bytes);
        pdl_json_kint(w, "least_bytes", least_of(d));
        pdl_json_knum(w, "times", d->times);
        pdl_json_end(w);
    }
    pdl_json_end(w);
}

static void json_answer(struct search *s, const struct pdl_networks *r)
{
    struct pdl_json *w = s->json;

    pdl_json_object(w);
    pdl_json_kstr(w, "currency", s->o->prices ? s->currency : "USD");
    json_demands(s);
    pdl_json_key(w, "front");
    pdl_json_array(w);
    for (int i = 0; i < r->n; i++) {
        if (!r->list[i].front)
            continue;
        pdl_json_object(w);
        json_network(s, &r->list[i]);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_key(w, "against");
    pdl_json_array(w);
    for (int i = 0; i < s->nrivals; i++) {
        int won = s->rival[i].winner;

        if (!isfinite(s->rival[i].is.seconds)) /* stopped before */
            continue;
        pdl_json_object(w);
        json_network(s, &s->rival[i].is);
        pdl_json_kstr(w, "winner", won < 0 ? NULL : r->list[won].spec);
        pdl_json_end(w);
    }
    pdl_json_end(w);
    pdl_json_kint(w, "networks", r->n);
    pdl_json_kbool(w, "stopped", r->stopped);
    pdl_json_end(w);
}

static enum pdl_status answer(struct search *s, const struct pdl_args *args,
                              struct pdl_err *err)
{
    struct pdl_networks r = {.n = 0};
    enum pdl_status st;

    pdl_progress_start(&s->progress, cli_stderr(),
                       !args->quiet && cli_progress(), "networks", 0);
    st = pdl_network_search(s->arena, &s->ask, s->rival, s->nrivals, &r, err);
    pdl_progress_end(&s->progress);
    if (st == PDL_OK && s->json)
        json_answer(s, &r);
    else if (st == PDL_OK)
        text(s, &r);
    return st;
}

/* Each size is a traffic of its own. */
static enum pdl_status by_sizes(struct search *s, const struct pdl_args *args,
                                struct pdl_err *err)
{
    const char *at = s->o->size, *name = s->o->collective;
    struct pdl_demand d = {.collective = name ? name : "allreduce",
                           .members = s->ask.hosts,
                           .groups = 1,
                           .times = 1};
    enum pdl_status st = PDL_OK;
    char *one;

    d.name = d.collective;
    s->ask.demand = &d;
    s->ask.ndemands = 1;
    while (st == PDL_OK && !interrupted &&
           (one = next_item(s->arena, &at, ',')) != NULL) {
        double bytes = 0;

        st = pdl_unit_parse(one, PDL_UNIT_BYTES, &bytes, err);
        if (st == PDL_OK && !(bytes >= 1 && bytes < 1e15))
            st = pdl_fail(err, PDL_EINVAL, "--size '%.40s' is no size", one);
        d.bytes = (int64_t)bytes;
        if (st == PDL_OK)
            st = answer(s, args, err);
    }
    s->ask.demand = NULL;
    return st;
}

static enum pdl_status run(struct search *s, const struct pdl_args *args,
                           struct pdl_err *err)
{
    enum pdl_status st = settle(s, err);

    if (st == PDL_OK && !s->o->plan)
        return by_sizes(s, args, err);
    if (st == PDL_OK)
        st = read_plan(s, err);
    return st == PDL_OK ? answer(s, args, err) : st;
}

static int search(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create((size_t)16 << 30);
    struct search s = {.arena = a, .args = args, .o = o};
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    struct pdl_json w;
    struct pdl_buf b;

    if (!o->plan == !o->size || (o->size && o->hosts < 1)) {
        pdl_fail(&err, PDL_EINVAL,
                 "topology search needs --hosts and --size, or --plan");
        pdl_hint(&err, "see 'paradl topology search --help'");
        pdl_arena_destroy(a);
        return cli_usage(&err);
    }
    pdl_buf_init(&b);
    interrupted = 0;
    signal(SIGINT, on_interrupt);
    if (args->json) {
        pdl_json_init(&w, &b.sink);
        pdl_json_schema(&w, "topology-search");
        pdl_json_kint(&w, "radix", o->radix > 0 ? o->radix : 64);
        pdl_json_key(&w, "answers");
        pdl_json_array(&w);
        s.json = &w;
    }
    st = a ? run(&s, args, &err) : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    signal(SIGINT, SIG_DFL);
    if (st == PDL_OK && args->json) {
        pdl_json_end(&w);
        pdl_json_end(&w);
        pdl_put(cli_out(), b.text, b.len);
    }
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
    return st != PDL_OK  ? cli_fail(st, &err)
           : interrupted ? EXIT_INTR
                         : EXIT_OK;
}

const struct pdl_cmd cli_topology_search = {
    .name = "topology search",
    .args = "",
    .min_pos = 0,
    .max_pos = 0,
    .summary = "which network and algorithms serve a traffic, at which cost",
    .text = "Makes networks of so many hosts of switches with so many ports "
            "(fat trees of any taper, DLN and 2-D DLN, HyperX, dragonflies, "
            "tori, random graphs, Kautz, ...; where there are several shortest "
            "ways also with adaptive routes), simulates the traffic on each "
            "under every algorithm, and prints those that are faster than all "
            "that cost less, the fastest of each cost. The traffic is one "
            "collective of all hosts, or "
            "what a step of a plan sends: operations one after the other, all "
            "groups of each at once. Cost is that of 'topology "
            "show', or what --prices say.",
    .example = "paradl topology search --hosts 32 --radix 16 --size 1MiB",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = search,
};
