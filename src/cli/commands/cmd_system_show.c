/* SPDX-License-Identifier: Apache-2.0
 *
 * system show. The text fits 80 columns, piped or not. */
#include "cli/cli_priv.h"
#include "paradl/system.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 14 };

/* ---- text -------------------------------------------------------------- */

/* A label and text, broken at blanks to the width. */
static void put_wrapped(struct pdl_sink *out, const char *label,
                        const char *text)
{
    int col = INDENT;

    pdl_printf(out, "%-*s", INDENT, label);
    for (const char *blank = ""; *text; blank = " ") {
        int len = (int)strcspn(text, " ");

        if (*blank && col + 1 + len > WIDTH) {
            pdl_printf(out, "\n%*s", INDENT, "");
            col = INDENT;
            blank = "";
        }
        pdl_printf(out, "%s%.*s", blank, len, text);
        col += len + (*blank != '\0');
        text += len;
        text += strspn(text, " ");
    }
    pdl_puts(out, "\n");
}

/* Sentences made of pieces that are there only when known. */
struct words {
    char text[1024];
};

/* Appends the pattern with its %s replaced. */
static void say(struct words *w, const char *pattern, const char *value)
{
    int head = (int)strcspn(pattern, "%");
    size_t n = strlen(w->text);

    snprintf(w->text + n, sizeof w->text - n, "%s%.*s%s%s", n ? ", " : "", head,
             pattern, value, pattern[head] ? pattern + head + 2 : "");
}

static void say_num(struct words *w, const char *fmt, double v,
                    enum pdl_unit unit)
{
    char buf[40];

    if (v > 0)
        say(w, fmt, pdl_unit_format(v, unit, buf, sizeof buf));
}

static void say_count(struct words *w, const char *fmt, int64_t v)
{
    char buf[40];

    if (v <= 0)
        return;
    snprintf(buf, sizeof buf, "%lld", (long long)v);
    say(w, fmt, buf);
}

/* ---- show ------------------------------------------------------------- */

static void show_rates(struct pdl_sink *out, const char *label,
                       const double *rates)
{
    struct words w = {""};

    for (int p = 0; p < PDL_NPRECISIONS; p++) {
        char fmt[40];

        snprintf(fmt, sizeof fmt, "%s %%s",
                 pdl_precision_name((enum pdl_precision)p));
        say_num(&w, fmt, rates[p], PDL_UNIT_FLOP_S);
    }
    put_wrapped(out, label, *w.text ? w.text : "not known");
}

static void show_pe(struct pdl_sink *out, const struct pdl_pe *pe)
{
    struct words w = {""};
    bool measured = false;

    say(&w, "%s", pe->name);
    if (pe->title)
        say(&w, "%s", pe->title);
    put_wrapped(out, "PE", w.text);
    show_rates(out, "  peak", pe->peak_flop_per_s);
    for (int p = 0; p < PDL_NPRECISIONS; p++)
        measured = measured || pe->matmul_flop_per_s[p] > 0;
    if (measured)
        show_rates(out, "  sustained", pe->matmul_flop_per_s);
    w.text[0] = '\0';
    say_num(&w, "%s", (double)pe->memory_bytes, PDL_UNIT_BYTES);
    if (pe->memory_usable < 1)
        say_num(&w, "%s for a job",
                (double)pe->memory_bytes * pe->memory_usable, PDL_UNIT_BYTES);
    say_num(&w, "%s", pe->memory_bytes_per_s, PDL_UNIT_BYTES_S);
    put_wrapped(out, "  memory", *w.text ? w.text : "not known");
    w.text[0] = '\0';
    say_count(&w, "%s units", pe->units);
    say_num(&w, "%s", pe->clock_hz, PDL_UNIT_HERTZ);
    say_num(&w, "L2 %s", (double)pe->l2_bytes, PDL_UNIT_BYTES);
    say_num(&w, "launch %s", pe->launch_s, PDL_UNIT_SECONDS);
    say_num(&w, "%s", pe->peak_w, PDL_UNIT_WATT);
    say_count(&w, "%s profiled operators", pe->nprofile);
    if (*w.text)
        put_wrapped(out, "  chip", w.text);
}

static void show_links(struct pdl_sink *out, const struct pdl_node_links *l)
{
    struct words w = {""};

    if (l->shape == PDL_LINKS_NONE) {
        put_wrapped(out, "  links", "none between PEs");
        return;
    }
    say(&w, "%s", l->type ? l->type : "links");
    say(&w, "%s", pdl_link_shape_name((enum pdl_link_shape)l->shape));
    say_num(&w, "%s a PE", l->bytes_per_s, PDL_UNIT_BYTES_S);
    say_num(&w, "%s a pair", l->pair_bytes_per_s, PDL_UNIT_BYTES_S);
    say_num(&w, "%s measured (ring)", l->measured_bytes_per_s,
            PDL_UNIT_BYTES_S);
    say_num(&w, "%s measured (in-switch sum)", l->reduce_bytes_per_s,
            PDL_UNIT_BYTES_S);
    say_num(&w, "latency %s", l->latency_s, PDL_UNIT_SECONDS);
    put_wrapped(out, "  links", w.text);
    w.text[0] = '\0';
    for (int64_t i = 0; i < l->npairs; i++) {
        char pair[64];

        snprintf(pair, sizeof pair, "%lld-%lld x%lld",
                 (long long)l->pairs[i].v[0], (long long)l->pairs[i].v[1],
                 (long long)l->pairs[i].v[2]);
        say(&w, "%s", pair);
    }
    if (*w.text)
        put_wrapped(out, "  cables", w.text);
}

static void show_node(struct pdl_sink *out, const struct pdl_node_desc *node)
{
    const struct pdl_nics *n = &node->nics;
    const struct pdl_host *h = &node->host;
    struct words w = {""};

    say_count(&w, "%s PEs", node->pes);
    say_num(&w, "%s without the PEs", node->peak_w, PDL_UNIT_WATT);
    put_wrapped(out, "Node", w.text);
    show_links(out, &node->links);
    w.text[0] = '\0';
    if (n->count > 0) {
        char buf[40];

        snprintf(
            w.text, sizeof w.text, "%lld x %s", (long long)n->count,
            pdl_unit_format(n->bytes_per_s, PDL_UNIT_BYTES_S, buf, sizeof buf));
        if (n->type)
            say(&w, "%s", n->type);
        say_num(&w, "%s each measured", n->measured_bytes_per_s,
                PDL_UNIT_BYTES_S);
        say_num(&w, "adapter %s", n->latency_s, PDL_UNIT_SECONDS);
        if (n->direct)
            say(&w, "%s", "direct to PE memory");
    }
    put_wrapped(out, "  NICs", *w.text ? w.text : "none");
    w.text[0] = '\0';
    if (h->title)
        say(&w, "%s", h->title);
    say_count(&w, "%s cores", h->cores);
    say_num(&w, "%s", (double)h->memory_bytes, PDL_UNIT_BYTES);
    say_num(&w, "PCIe %s a PE", h->pcie_bytes_per_s, PDL_UNIT_BYTES_S);
    say_count(&w, "%s PEs a PCIe switch", h->pes_per_switch);
    say_num(&w, "staged message %s", h->staged_latency_s, PDL_UNIT_SECONDS);
    put_wrapped(out, "  host", *w.text ? w.text : "not known");
}

static const char *known(double v, enum pdl_unit unit, char *buf, size_t size)
{
    return v > 0 ? pdl_unit_format(v, unit, buf, size) : "-";
}

static void show_levels(struct pdl_sink *out, pdl_arena *a,
                        const struct pdl_system *sys)
{
    static const struct pdl_column columns[] = {
        {"  LEVEL", false}, {"PES", true},      {"BW/PE", true},
        {"MEASURED", true}, {"ONE FLOW", true}, {"LATENCY", true},
        {"MEASURED", true}, {"TAPER", true}};
    struct pdl_table t;

    pdl_table_init(&t, a, columns, 8);
    for (int i = 0; i < sys->nlevels; i++) {
        const struct pdl_level *l = &sys->levels[i];
        char b[40];

        pdl_table_cell(&t, "  %.20s", l->name);
        pdl_table_cell(&t, "%lld", (long long)l->pes);
        pdl_table_cell(&t, "%s",
                       known(l->bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
        pdl_table_cell(
            &t, "%s",
            known(l->measured_bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
        pdl_table_cell(
            &t, "%s",
            known(l->flow_bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
        pdl_table_cell(&t, "%s",
                       known(l->latency_s, PDL_UNIT_SECONDS, b, sizeof b));
        pdl_table_cell(
            &t, "%s",
            known(l->measured_latency_s, PDL_UNIT_SECONDS, b, sizeof b));
        pdl_table_cell(&t, "%g:1", l->oversubscription);
    }
    pdl_table_print(&t, WIDTH, out);
}

static void show_network(struct pdl_sink *out, pdl_arena *a,
                         const struct pdl_system *sys)
{
    struct words w = {""};

    say(&w, "%s", sys->network.topology ? sys->network.topology : "not known");
    for (int64_t i = 0; i < sys->network.nparams; i++) {
        char pair[128];

        snprintf(pair, sizeof pair, "%.60s=%.60s", sys->network.params[i].key,
                 sys->network.params[i].value);
        say(&w, "%s", pair);
    }
    put_wrapped(out, "Network", w.text);
    show_levels(out, a, sys);
}

static void show_collectives(struct pdl_sink *out, pdl_arena *a,
                             const struct pdl_system *sys)
{
    static const struct pdl_column columns[] = {
        {"  COLLECTIVE", false}, {"PES", true},       {"NODES", true},
        {"ALPHA", true},         {"BANDWIDTH", true}, {"BUS BW", true},
        {"SIZES", true},         {"MAX ERROR", true}};
    struct pdl_table t;

    if (sys->ncollectives == 0)
        return;
    pdl_puts(out, "Measured\n");
    pdl_table_init(&t, a, columns, 8);
    for (int64_t i = 0; i < sys->ncollectives; i++) {
        const struct pdl_collective_fit *c = &sys->collectives[i];
        char b[40];

        pdl_table_cell(&t, "  %.20s", c->op);
        pdl_table_cell(&t, "%lld", (long long)c->pes);
        if (c->nodes > 0)
            pdl_table_cell(&t, "%lld", (long long)c->nodes);
        else
            pdl_table_cell(&t, "-");
        pdl_table_cell(&t, "%s",
                       known(c->alpha_s, PDL_UNIT_SECONDS, b, sizeof b));
        pdl_table_cell(&t, "%s",
                       known(c->bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
        pdl_table_cell(
            &t, "%s", known(c->bus_bytes_per_s, PDL_UNIT_BYTES_S, b, sizeof b));
        pdl_table_cell(&t, "%lld", (long long)c->ntimes);
        if (c->ntimes > 0)
            pdl_table_cell(&t, "%.1f %%", 100 * c->max_error);
        else
            pdl_table_cell(&t, "-");
    }
    pdl_table_print(&t, WIDTH, out);
}

static void show_texts(struct pdl_sink *out, const char *label,
                       const char *const *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        put_wrapped(out, i ? "" : label, list[i]);
}

static void show_facts(struct pdl_sink *out, const struct pdl_system *sys)
{
    for (int64_t i = 0; i < sys->nmeasured; i++) {
        const struct pdl_fact *f = &sys->measured[i];
        const char *unit = f->unit ? f->unit : "";
        enum pdl_unit kind = strcmp(unit, "B/s") == 0 ? PDL_UNIT_BYTES_S
                             : strcmp(unit, "s") == 0 ? PDL_UNIT_SECONDS
                                                      : PDL_UNIT_NONE;
        char line[512], value[40];

        pdl_unit_format(f->value, kind, value, sizeof value);
        snprintf(line, sizeof line, "%.80s %s%s%.20s%s%.200s", f->name, value,
                 kind == PDL_UNIT_NONE ? " " : "",
                 kind == PDL_UNIT_NONE ? unit : "", f->note ? ": " : "",
                 f->note ? f->note : "");
        put_wrapped(out, i ? "" : "Facts", line);
    }
}

static void show_groups(struct pdl_sink *out, const struct pdl_system *sys)
{
    for (int64_t i = 0; i < sys->ngroups; i++) {
        const struct pdl_node_group *g = &sys->groups[i];
        struct words w = {""};

        say(&w, "%s", g->name);
        say_count(&w, g->nodes == 1 ? "%s node" : "%s nodes", g->nodes);
        say(&w, "of %s", g->system);
        say(&w, "PE %s", g->whole->pe.name);
        put_wrapped(out, i ? "" : "Groups", w.text);
    }
    if (sys->ngroups > 0)
        put_wrapped(out, "",
                    "what follows holds between them: the slowest of "
                    "each; the PE is the last group's");
}

static void show_text(struct pdl_sink *out, pdl_arena *a,
                      const struct pdl_system *sys)
{
    struct words w = {""};

    say(&w, "%s", sys->name);
    if (sys->title)
        say(&w, "%s", sys->title);
    put_wrapped(out, "System", w.text);
    w.text[0] = '\0';
    say_count(&w, sys->nodes == 1 ? "%s node" : "%s nodes", sys->nodes);
    say_count(&w, pdl_system_pes(sys) == 1 ? "%s PE" : "%s PEs",
              pdl_system_pes(sys));
    if (sys->hosts)
        say(&w, "%s", sys->hosts);
    put_wrapped(out, "Size", w.text);
    show_texts(out, "Note", sys->notes, sys->nnotes);
    show_groups(out, sys);
    show_pe(out, &sys->pe);
    show_node(out, &sys->node);
    show_network(out, a, sys);
    show_collectives(out, a, sys);
    show_facts(out, sys);
    show_texts(out, "Sources", sys->sources, sys->nsources);
    show_texts(out, "  of the PE", sys->pe.sources, sys->pe.nsources);
    show_texts(out, "Unverified", sys->unverified, sys->nunverified);
    show_texts(out, "  of the PE", sys->pe.unverified, sys->pe.nunverified);
}

struct show_options {
    bool yaml;
};

static const struct pdl_opt show_opts[] = {
    {"yaml", 0, PDL_OPT_FLAG, offsetof(struct show_options, yaml), NULL, NULL,
     "print the file that describes it, to edit and to use as SYSTEM"},
};

static int system_show(const struct pdl_args *args)
{
    const struct show_options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const char *topology = NULL;
    struct pdl_system sys;
    enum pdl_status st;
    struct pdl_json j;

    if (!a)
        return EXIT_BUG;
    st = pdl_system_open(a, args->pos[0], &sys, &err);
    if (st == PDL_OK && args->json) {
        pdl_json_init(&j, cli_out());
        pdl_json_schema(&j, "system");
        pdl_system_json(&sys, &j);
        if (pdl_system_topology(a, &sys, &topology, NULL) == PDL_OK)
            pdl_json_kstr(&j, "topology", topology);
        pdl_json_end(&j);
    } else if (st == PDL_OK && o->yaml) {
        pdl_system_write(&sys, cli_out());
    } else if (st == PDL_OK) {
        show_text(cli_out(), a, &sys);
    }
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_system_show = {
    .name = "system show",
    .args = "SYSTEM",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a system is made of and where the numbers come from",
    .text = "Prints the processing element, the node, the network and the "
            "levels that follow from them, then the sources and what nobody "
            "has verified. SYSTEM is a built-in name, a name with parameters "
            "(nodes, pe, pes_per_node, nic, mem, bf16_matmul, or the dotted "
            "path of any number of the file, such as node.links.latency), or "
            "a .yaml file.",
    .example = "paradl system show dgx-a100:nodes=48,nic=4x25GB/s",
    .opts = show_opts,
    .nopts = sizeof show_opts / sizeof show_opts[0],
    .opts_size = sizeof(struct show_options),
    .run = system_show,
};
