/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of topologies and the parser of their notation:
 *
 *     name[:value][,key=value]...      torus:8x8x16,bw=25GB/s
 *
 * A value without a key is the generator's first parameter; bw, lat and
 * duplex are understood by all of them. A value in parentheses may hold a
 * whole topology. */
#include "topo_priv.h"

#include "paradl/system.h"

#include <string.h>

/* To add one: its file, its line in topo_priv.h, its line here. The command
 * line and the tests walk this table. */
static const struct pdl_topo *const topos[] = {
    &net_fat_tree,
    &net_torus,
    &net_mesh,
    &net_dragonfly,
    &net_dragonfly_direct,
    &net_star,
    &net_leaf_spine,
    &net_rack_tree,
    &net_rail,
    &net_nodes,
    &net_hyperx,
    &net_hammingmesh,
    &net_full2d,
    &net_dln,
    &net_dln2d,
    &net_dln_x,
    &net_random,
    &net_kautz,
    &net_hybrid_optical,
    &net_tsubame3,
    &net_nvcluster,
    &net_dragonfly_gpu,
    &net_dln_gpu,
    &net_tree_gpu,
    &net_abci,
    &net_dgx1_cluster,
    &net_dgx2_cluster,
};
enum { NTOPOS = sizeof topos / sizeof topos[0] };

enum { BW, LAT, DUPLEX, PATHS, FAIL, SLOW };
enum { MAX_FILE = 128 << 20 };

// clang-format off
const struct pdl_param pdl_topo_common[] = {
    {"bw", PDL_PARAM_RATE, "12.5GB/s", 0, 0, NULL,
     "rate of one cable, each way"},
    {"lat", PDL_PARAM_TIME, "1us", 0, 0, NULL, "latency of one cable"},
    {"duplex", PDL_PARAM_CHOICE, "full", 0, 0, "full|shared",
     "one capacity each way, or one for both"},
    {"paths", PDL_PARAM_CHOICE, "single", 0, 0,
     "single|ecmp|adaptive|valiant|ugal", "which ways a pair of hosts has"},
    {"fail", PDL_PARAM_TEXT, "", 0, 0, NULL,
     "cables that are gone: s0-s5+s7, or 3@SEED drawn"},
    {"slow", PDL_PARAM_TEXT, "", 0, 0, NULL,
     "cables of less rate: s0-s5/10, or 3/10@SEED drawn"},
};
// clang-format on
const int pdl_ntopo_common = sizeof pdl_topo_common / sizeof pdl_topo_common[0];

const char *pdl_topo_group_name(enum pdl_topo_group group)
{
    static const char *const names[PDL_NTOPO_GROUPS] = {
        [PDL_TOPO_TREE] = "trees of switches",
        [PDL_TOPO_GRID] = "grids: tori, meshes, fully connected lines",
        [PDL_TOPO_SHORT] = "short ways: dragonflies, shortcuts, random graphs",
        [PDL_TOPO_OPTICAL] = "optical networks",
        [PDL_TOPO_CLUSTER] = "clusters of GPU nodes, as papers measured them",
    };

    return names[group];
}

const struct pdl_topo *pdl_topo_at(int i)
{
    return i >= 0 && i < NTOPOS ? topos[i] : NULL;
}

static const struct pdl_topo *find_topo(const char *name)
{
    for (int i = 0; i < NTOPOS; i++)
        if (strcmp(topos[i]->name, name) == 0)
            return topos[i];
    return NULL;
}

const struct net_value *net_value(const struct pdl_topo_values *v,
                                  const char *name)
{
    for (int i = 0; i < v->topo->nparams; i++)
        if (strcmp(v->topo->params[i].name, name) == 0)
            return &v->v[i];
    return NULL;
}

/* ---- values ------------------------------------------------------------ */

enum pdl_status net_dims_parse(const char *text, int64_t min, int64_t max,
                               struct net_dims *out, struct pdl_err *err)
{
    struct net_dims dims = {.n = 0};
    const char *p = text;
    char one[32];

    for (;;) {
        size_t len = strcspn(p, "x");
        enum pdl_status st;

        if (len >= sizeof one)
            return pdl_fail(err, PDL_EPARSE, "'%.40s' is not a whole number",
                            p);
        if (dims.n == NET_MAX_DIMS)
            return pdl_fail(err, PDL_EPARSE,
                            "'%.40s' has more than %d dimensions", text,
                            NET_MAX_DIMS);
        memcpy(one, p, len);
        one[len] = '\0';
        st = pdl_int_parse(one, min, max, &dims.d[dims.n], err);
        if (st != PDL_OK)
            return st;
        dims.n++;
        if (!p[len])
            break;
        p += len + 1;
    }
    *out = dims;
    return PDL_OK;
}

/* The number of `text` in "a|b|c"; -1 when it is none of them. */
static int choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int i = 0;

    for (const char *p = choices;; p++, i++) {
        size_t n = strcspn(p, "|");

        if (n == len && memcmp(p, text, n) == 0)
            return i;
        p += n;
        if (!*p)
            return -1;
    }
}

static enum pdl_status quantity(const struct pdl_param *p, const char *text,
                                double *out, struct pdl_err *err)
{
    bool rate = p->kind == PDL_PARAM_RATE;
    enum pdl_status st = pdl_unit_parse(
        text, rate ? PDL_UNIT_BYTES_S : PDL_UNIT_SECONDS, out, err);

    if (st != PDL_OK)
        return st;
    if (rate ? !(*out > 0) : !(*out >= 0))
        return pdl_fail(err, PDL_EPARSE, "'%.40s' must be %s", text,
                        rate ? "more than 0" : "0 or more");
    return PDL_OK;
}

static enum pdl_status value_parse(const struct pdl_param *p, const char *text,
                                   struct net_value *out, struct pdl_err *err)
{
    switch (p->kind) {
    case PDL_PARAM_INT:
        return pdl_int_parse(text, p->min, p->max, &out->i, err);
    case PDL_PARAM_DIMS:
        return net_dims_parse(text, p->min, p->max, &out->dims, err);
    case PDL_PARAM_RATE:
    case PDL_PARAM_TIME:
        return quantity(p, text, &out->x, err);
    case PDL_PARAM_BYTES:
        return pdl_bytes_parse(text, &out->i, err);
    case PDL_PARAM_CHOICE:
        out->i = choice(p->choices, text);
        if (out->i < 0)
            return pdl_fail(err, PDL_EPARSE, "'%.40s' is none of %s", text,
                            p->choices);
        out->text = text;
        return PDL_OK;
    case PDL_PARAM_TEXT:
        out->text = text;
        return PDL_OK;
    }
    return pdl_fail(err, PDL_EINVAL, "unknown kind of parameter");
}

/* Common parameters land in named fields. */
static void set_common(struct pdl_topo_values *v, int which,
                       const struct net_value *val, bool given)
{
    if (which == BW) {
        v->bytes_per_s = val->x;
        v->bw_given = given;
    } else if (which == LAT) {
        v->latency_s = val->x;
        v->lat_given = given;
    } else if (which == DUPLEX) {
        v->shared = val->i == 1;
        v->duplex_given = given;
    } else if (which == FAIL) {
        v->fail = val->text;
    } else if (which == SLOW) {
        v->slow = val->text;
    } else {
        v->spread = (enum pdl_path_spread)val->i;
    }
}

/* Every default set; what must be given is zero. */
static enum pdl_status default_values(const struct pdl_topo *topo,
                                      struct pdl_topo_values *v,
                                      struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    memset(v, 0, sizeof *v);
    v->topo = topo;
    for (int i = 0; i < topo->nparams && st == PDL_OK; i++)
        if (topo->params[i].value)
            st = value_parse(&topo->params[i], topo->params[i].value, &v->v[i],
                             err);
    for (int i = 0; i < pdl_ntopo_common && st == PDL_OK; i++) {
        struct net_value val = {.given = false};

        st = value_parse(&pdl_topo_common[i], pdl_topo_common[i].value, &val,
                         err);
        set_common(v, i, &val, false);
    }
    return st;
}

/* ---- the notation ------------------------------------------------------ */

struct reader {
    pdl_arena *arena;
    const struct pdl_topo *topo;
    struct pdl_topo_values *v;
    unsigned common_seen;
    struct pdl_err *err;
};

static enum pdl_status unknown_key(struct reader *rd, const char *key)
{
    struct pdl_suggest s;
    enum pdl_status st =
        pdl_fail(rd->err, PDL_EPARSE, "%s: unknown parameter '%.40s'",
                 rd->topo->name, key);

    pdl_suggest_init(&s, key);
    for (int i = 0; i < rd->topo->nparams; i++)
        pdl_suggest_try(&s, rd->topo->params[i].name);
    for (int i = 0; i < pdl_ntopo_common; i++)
        pdl_suggest_try(&s, pdl_topo_common[i].name);
    if (pdl_suggest_best(&s))
        pdl_hint(rd->err, "did you mean '%s'?", pdl_suggest_best(&s));
    return st;
}

/* A value's own message gets the parameter's name in front. */
static enum pdl_status named(struct reader *rd, const struct pdl_param *p,
                             const char *text, struct net_value *out)
{
    struct pdl_err inner = {"", ""};
    enum pdl_status st = value_parse(p, text, out, &inner);

    if (st != PDL_OK) {
        pdl_fail(rd->err, st, "%s: %s: %.300s", rd->topo->name, p->name,
                 inner.msg);
        if (*inner.hint)
            pdl_hint(rd->err, "%s", inner.hint);
    }
    return st;
}

static enum pdl_status twice(struct reader *rd, const char *key)
{
    return pdl_fail(rd->err, PDL_EPARSE, "%s: '%s' is set twice",
                    rd->topo->name, key);
}

static enum pdl_status set(struct reader *rd, const char *key, const char *text)
{
    const struct pdl_topo *t = rd->topo;
    struct net_value val = {.given = true};
    enum pdl_status st;

    for (int i = 0; i < t->nparams; i++) {
        if (strcmp(t->params[i].name, key) != 0)
            continue;
        if (rd->v->v[i].given)
            return twice(rd, key);
        st = named(rd, &t->params[i], text, &val);
        rd->v->v[i] = val;
        return st;
    }
    for (int i = 0; i < pdl_ntopo_common; i++) {
        if (strcmp(pdl_topo_common[i].name, key) != 0)
            continue;
        if (rd->common_seen & (1u << i))
            return twice(rd, key);
        rd->common_seen |= 1u << i;
        st = named(rd, &pdl_topo_common[i], text, &val);
        if (st == PDL_OK)
            set_common(rd->v, i, &val, true);
        return st;
    }
    return unknown_key(rd, key);
}

/* Cuts text at the next comma outside parentheses; NULL at the end. */
static char *cut(char *text)
{
    int depth = 0;

    for (; *text; text++) {
        depth += (*text == '(') - (*text == ')');
        if (*text == ',' && depth <= 0) {
            *text = '\0';
            return text + 1;
        }
    }
    return NULL;
}

static void unwrap(char **text)
{
    size_t len = strlen(*text);

    if (len >= 2 && (*text)[0] == '(' && (*text)[len - 1] == ')') {
        (*text)[len - 1] = '\0';
        (*text)++;
    }
}

static enum pdl_status read_items(struct reader *rd, char *text)
{
    for (int n = 0; text; n++) {
        char *next = cut(text), *eq = text + strcspn(text, "=(");
        enum pdl_status st;

        if (!*text)
            return pdl_fail(rd->err, PDL_EPARSE, "%s: empty parameter",
                            rd->topo->name);
        if (*eq == '=') {
            char *val = eq + 1;

            *eq = '\0';
            unwrap(&val);
            st = set(rd, text, val);
        } else if (n == 0 && rd->topo->nparams > 0) {
            unwrap(&text);
            st = set(rd, rd->topo->params[0].name, text);
        } else {
            return pdl_fail(rd->err, PDL_EPARSE,
                            "%s: '%.40s' is not written key=value",
                            rd->topo->name, text);
        }
        if (st != PDL_OK)
            return st;
        text = next;
    }
    return PDL_OK;
}

static enum pdl_status unknown_topo(const char *name, struct pdl_err *err)
{
    struct pdl_suggest s;
    enum pdl_status st = pdl_fail(err, PDL_EPARSE, "no topology '%.60s'", name);

    pdl_suggest_init(&s, name);
    for (int i = 0; i < NTOPOS; i++)
        pdl_suggest_try(&s, topos[i]->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl topology list' shows them");
    return st;
}

static enum pdl_status all_given(const struct pdl_topo_values *v,
                                 struct pdl_err *err)
{
    for (int i = 0; i < v->topo->nparams; i++)
        if (!v->topo->params[i].value && !v->v[i].given) {
            enum pdl_status st =
                pdl_fail(err, PDL_EPARSE, "%s: '%s' is missing", v->topo->name,
                         v->topo->params[i].name);

            pdl_hint(err, "write it like %s", v->topo->example);
            return st;
        }
    return PDL_OK;
}

/* paths=, and routing=ecmp of the generators that have it. */
static enum pdl_path_spread spread_of(const struct pdl_topo_values *v)
{
    for (int i = 0; i < v->topo->nparams; i++) {
        const struct pdl_param *p = &v->topo->params[i];

        if (v->spread == PDL_SPREAD_NONE && p->kind == PDL_PARAM_CHOICE &&
            v->v[i].i == choice(p->choices, "ecmp"))
            return PDL_SPREAD_HASH;
    }
    return v->spread;
}

static enum pdl_status build_net(pdl_arena *a, const struct pdl_topo_values *v,
                                 const char *spec, const struct pdl_net **out,
                                 struct pdl_err *err)
{
    struct pdl_topo_values *keep = PDL_NEW(a, struct pdl_topo_values, 1);
    struct pdl_net *net = PDL_NEW(a, struct pdl_net, 1);
    const struct pdl_net *made;
    enum pdl_status st;

    if (!keep || !net)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", v->topo->name);
    *keep = *v;
    net->topo = v->topo;
    net->values = keep;
    net->spec = pdl_arena_strdup(a, spec);
    if (!net->spec)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", v->topo->name);
    made = net;
    st = v->topo->build(a, keep, net, err);
    if (st == PDL_OK && (*v->fail || *v->slow))
        st = net_harm(a, net, v->fail, v->slow, &made, err);
    if (st == PDL_OK && spread_of(v) != PDL_SPREAD_NONE)
        st = net_spread(a, made, spread_of(v), &made, err);
    if (st == PDL_OK)
        *out = made;
    return st;
}

enum pdl_status net_make_at(pdl_arena *a, const char *spec, int depth,
                            const struct pdl_net **out, struct pdl_err *err)
{
    size_t len = strcspn(spec, ":");
    char *text = pdl_arena_strdup(a, spec), *items;
    struct pdl_topo_values v;
    struct reader rd = {.arena = a, .v = &v, .err = err};
    enum pdl_status st;

    if (!text)
        return pdl_fail(err, PDL_ENOMEM, "topology: out of memory");
    items = text[len] ? text + len + 1 : NULL;
    text[len] = '\0';
    rd.topo = find_topo(text);
    if (!rd.topo)
        return unknown_topo(text, err);
    st = default_values(rd.topo, &v, err);
    if (st == PDL_OK && items)
        st = read_items(&rd, items);
    if (st == PDL_EPARSE && err && !*err->hint)
        pdl_hint(err, "write it like %s", rd.topo->example);
    if (st == PDL_OK)
        st = all_given(&v, err);
    v.depth = depth;
    return st == PDL_OK ? build_net(a, &v, spec, out, err) : st;
}

static enum pdl_status read_file(pdl_arena *a, const char *path,
                                 const struct pdl_net **out,
                                 struct pdl_err *err)
{
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(a, path, MAX_FILE, &in, err);

    return st == PDL_OK ? pdl_net_read_simgrid(a, in, path, out, err) : st;
}

/* "system:NAME": the network of a SYSTEM, as the system room writes it;
 * "measured:NAME": with the rates and latencies that were measured. */
static enum pdl_status of_system(pdl_arena *a, const char *name, bool measured,
                                 const struct pdl_net **out,
                                 struct pdl_err *err)
{
    struct pdl_system *sys = PDL_NEW(a, struct pdl_system, 1);
    const char *text = NULL;
    enum pdl_status st;

    if (!sys)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_system_open(a, name, sys, err);
    if (st == PDL_OK && measured)
        st = pdl_system_measured(a, sys, err);
    if (st == PDL_OK)
        st = pdl_system_topology(a, sys, &text, err);
    return st == PDL_OK ? net_make_at(a, text, 0, out, err) : st;
}

enum pdl_status pdl_net_make(pdl_arena *a, const char *spec,
                             const struct pdl_net **out, struct pdl_err *err)
{
    size_t len = strlen(spec);

    if (len > 4096)
        return pdl_fail(err, PDL_EPARSE, "topology: more than 4096 characters");
    if (strncmp(spec, "system:", 7) == 0)
        return of_system(a, spec + 7, false, out, err);
    if (strncmp(spec, "measured:", 9) == 0)
        return of_system(a, spec + 9, true, out, err);
    if (len > 4 && strcmp(spec + len - 4, ".xml") == 0)
        return read_file(a, spec, out, err);
    return net_make_at(a, spec, 0, out, err);
}
