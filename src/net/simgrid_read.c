/* SPDX-License-Identifier: Apache-2.0
 *
 * SimGrid platform files in: one <cluster> (flat with or without a backbone,
 * TORUS, FAT_TREE, DRAGONFLY), or hosts, routers, links, flat clusters and
 * routes in zones (simgrid_listing.c). A single cluster's attributes are
 * written as one of our own topology texts and made from it, so the same
 * limits and messages hold. Loopback links, speeds and cores are of no interest
 * to a network and are skipped; anything else that would change routes (routes
 * that bypass others, peers with coordinates) is refused.
 *
 * Nothing is fetched: the DOCTYPE's DTD is not read, and a file that declares
 * entities is refused, so that none can grow. */
#include "simgrid_priv.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_VALUE = 1024 };

enum attribute {
    TOPOLOGY,
    PARAMETERS,
    RADICAL,
    BW,
    LAT,
    SHARING,
    BB_BW,
    BB_LAT,
    BB_SHARING,
    LIMITER,
    NATTRIBUTES
};

static const char *const names[NATTRIBUTES] = {
    "topology",
    "topo_parameters",
    "radical",
    "bw",
    "lat",
    "sharing_policy",
    "bb_bw",
    "bb_lat",
    "bb_sharing_policy",
    "limiter_link",
};

struct reader {
    pdl_arena *arena;
    XML_Parser xml;
    const char *file;
    const char *value[NATTRIBUTES]; /* of the cluster; NULL: absent */
    int line, col, depth;
    bool found;
    struct net_listing *listing;
    enum pdl_status status;
    struct pdl_err *err;
};

#define AT "%s:%d:%d: "

static void stop(struct reader *rd, const char *what, const char *name)
{
    if (rd->status == PDL_OK)
        rd->status =
            pdl_fail(rd->err, PDL_EPARSE, AT "%.200s%.40s", rd->file,
                     (int)XML_GetCurrentLineNumber(rd->xml),
                     (int)XML_GetCurrentColumnNumber(rd->xml) + 1, what, name);
    XML_StopParser(rd->xml, XML_FALSE);
}

static void cluster(struct reader *rd, const XML_Char **atts)
{
    rd->found = true;
    rd->line = (int)XML_GetCurrentLineNumber(rd->xml);
    rd->col = (int)XML_GetCurrentColumnNumber(rd->xml) + 1;
    for (; *atts; atts += 2)
        for (int i = 0; i < NATTRIBUTES; i++) {
            if (strcmp(names[i], atts[0]) != 0)
                continue;
            if (strlen(atts[1]) > MAX_VALUE) {
                stop(rd, "too long a value of ", names[i]);
                return;
            }
            rd->value[i] = pdl_arena_strdup(rd->arena, atts[1]);
            if (!rd->value[i])
                rd->status = PDL_ENOMEM;
        }
}

static void platform(struct reader *rd, const XML_Char **atts)
{
    for (; *atts; atts += 2)
        if (strcmp(atts[0], "version") == 0 && atts[1][0] != '4')
            stop(rd, "platform version 4 is read, not ", atts[1]);
}

static void stop_listing(struct reader *rd, const struct pdl_err *why)
{
    if (net_listing_status(rd->listing) == PDL_ENOMEM)
        rd->status = PDL_ENOMEM;
    stop(rd, why->msg, "");
}

static void XMLCALL on_start(void *ctx, const XML_Char *name,
                             const XML_Char **atts)
{
    static const char *const skipped[] = {"config", "prop", "disk"};
    struct reader *rd = ctx;
    struct pdl_err inner = {"", ""};
    bool listed = net_listing_start(rd->listing, name, atts, &inner);

    if (++rd->depth > MAX_DEPTH) {
        stop(rd, "nested too deep", "");
        return;
    }
    if ((rd->depth == 1) != (strcmp(name, "platform") == 0)) {
        stop(rd, "not a SimGrid platform: element ", name);
        return;
    }
    if (rd->depth == 1) {
        platform(rd, atts);
        return;
    }
    if (net_listing_status(rd->listing) != PDL_OK) {
        stop_listing(rd, &inner);
        return;
    }
    if (strcmp(name, "cluster") == 0 && !rd->found)
        cluster(rd, atts);
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
        listed = listed || strcmp(name, skipped[i]) == 0;
    if (!listed)
        stop(rd, "this element of a platform is not read: ", name);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct reader *rd = ctx;
    struct pdl_err inner = {"", ""};

    net_listing_end(rd->listing, name, &inner);
    if (net_listing_status(rd->listing) != PDL_OK)
        stop_listing(rd, &inner);
    rd->depth--;
}

static void XMLCALL on_entity(void *ctx, const XML_Char *name, int parameter,
                              const XML_Char *value, int len,
                              const XML_Char *base, const XML_Char *system,
                              const XML_Char *public, const XML_Char *notation)
{
    (void)parameter;
    (void)value;
    (void)len;
    (void)base;
    (void)system;
    (void)public;
    (void)notation;
    stop(ctx, "entities are not allowed: ", name);
}

/* ---- the cluster's attributes as a topology text ----------------------- */

static enum pdl_status bad(struct reader *rd, int attribute, const char *what)
{
    return pdl_fail(rd->err, PDL_EPARSE, AT "%s: %.200s", rd->file, rd->line,
                    rd->col, names[attribute], what);
}

/* SimGrid's units, of which old files leave the base unit out. */
static enum pdl_status quantity(struct reader *rd, int attribute,
                                enum pdl_unit unit, double *out)
{
    const char *text = rd->value[attribute] ? rd->value[attribute] : "";
    size_t len = strlen(text);
    struct pdl_err inner = {"", ""};
    char full[64];
    enum pdl_status st;

    if (len == 0)
        return bad(rd, attribute, "is missing");
    if (len > 40)
        return bad(rd, attribute, "is too long");
    snprintf(full, sizeof full, "%s%s", text,
             text[len - 1] < '0' || text[len - 1] > '9' ? ""
             : unit == PDL_UNIT_SECONDS                 ? "s"
                                                        : "B/s");
    st = pdl_unit_parse(full, unit, out, &inner);
    if (st == PDL_OK && !(*out >= 0))
        return bad(rd, attribute, "is negative");
    return st == PDL_OK ? st : bad(rd, attribute, inner.msg);
}

static enum pdl_status count_radical(struct reader *rd, int64_t *out)
{
    if (!rd->value[RADICAL] || !*rd->value[RADICAL])
        return bad(rd, RADICAL, "is missing");
    *out = net_radical_count(rd->value[RADICAL]);
    return *out < 0 ? bad(rd, RADICAL, "is not like 0-15") : PDL_OK;
}

/* Parts of topo_parameters between semicolons, commas as x. */
static int parts(const char *text, char out[5][MAX_VALUE + 1])
{
    int n = 0;
    size_t len = 0;

    for (;; text++) {
        if (*text == ' ')
            continue;
        if (*text == ';' || !*text) {
            out[n++][len] = '\0';
            len = 0;
            if (!*text || n == 5)
                return *text ? 6 : n;
            continue;
        }
        out[n][len++] = *text == ',' ? 'x' : *text;
    }
}

static char *torus(struct reader *rd, char p[5][MAX_VALUE + 1], int n)
{
    struct net_dims dims;

    if (n != 1 || net_dims_parse(p[0], 1, NET_MAX_HOSTS, &dims, NULL))
        return NULL;
    return pdl_arena_printf(rd->arena, "torus:%s", p[0]);
}

static char *fat_tree(struct reader *rd, char p[5][MAX_VALUE + 1], int n)
{
    struct net_dims d[4];

    if (n != 4)
        return NULL;
    for (int i = 0; i < 4; i++)
        if (net_dims_parse(p[i], 1, NET_MAX_HOSTS, &d[i], NULL) != PDL_OK ||
            d[i].n != (i == 0 ? 1 : d[0].d[0]))
            return NULL;
    return pdl_arena_printf(rd->arena, "fat-tree:down=%s,up=%s,links=%s", p[1],
                            p[2], p[3]);
}

static char *dragonfly(struct reader *rd, char p[5][MAX_VALUE + 1], int n)
{
    struct net_dims d[4];

    if (n != 4)
        return NULL;
    for (int i = 0; i < 4; i++)
        if (net_dims_parse(p[i], 1, 65536, &d[i], NULL) != PDL_OK ||
            d[i].n != (i < 3 ? 2 : 1))
            return NULL;
    return pdl_arena_printf(
        rd->arena,
        "dragonfly:groups=%d,blue=%d,chassis=%d,black=%d,routers=%d,green=%d,"
        "nodes=%d",
        (int)d[0].d[0], (int)d[0].d[1], (int)d[1].d[0], (int)d[1].d[1],
        (int)d[2].d[0], (int)d[2].d[1], (int)d[3].d[0]);
}

static const struct form {
    const char *topology;
    char *(*spec)(struct reader *rd, char p[5][MAX_VALUE + 1], int n);
    const char *like;
} forms[] = {
    {"TORUS", torus, "topo_parameters is not like 8,8"},
    {"FAT_TREE", fat_tree, "topo_parameters is not like 2;4,4;1,2;1,2"},
    {"DRAGONFLY", dragonfly, "topo_parameters is not like 3,4;4,3;5,1;2"},
};

static enum pdl_status flat(struct reader *rd, int64_t hosts, char **out)
{
    double bb = 0, bb_lat = 0;
    enum pdl_status st = PDL_OK;
    char rate[64], lat[64];

    if (rd->value[BB_SHARING] && strcmp(rd->value[BB_SHARING], "SHARED") != 0)
        return bad(rd, BB_SHARING, "only SHARED is supported");
    if (!rd->value[BB_BW] || !*rd->value[BB_BW]) {
        *out = pdl_arena_printf(rd->arena, "star:hosts=%lld", (long long)hosts);
        return PDL_OK;
    }
    st = quantity(rd, BB_BW, PDL_UNIT_BYTES_S, &bb);
    if (st == PDL_OK && rd->value[BB_LAT])
        st = quantity(rd, BB_LAT, PDL_UNIT_SECONDS, &bb_lat);
    if (st != PDL_OK)
        return st;
    *out = pdl_arena_printf(
        rd->arena, "star:hosts=%lld,backbone=%s,backbone-lat=%s",
        (long long)hosts,
        pdl_unit_print(bb, PDL_UNIT_BYTES_S, rate, sizeof rate),
        pdl_unit_print(bb_lat, PDL_UNIT_SECONDS, lat, sizeof lat));
    return PDL_OK;
}

/* The text without the links' rates. */
static enum pdl_status shape(struct reader *rd, int64_t hosts, char **out)
{
    const char *topology = rd->value[TOPOLOGY];
    const char *text = rd->value[PARAMETERS] ? rd->value[PARAMETERS] : "";
    char p[5][MAX_VALUE + 1];

    if (!topology || strcmp(topology, "FLAT") == 0)
        return flat(rd, hosts, out);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(topology, forms[i].topology) != 0)
            continue;
        *out = forms[i].spec(rd, p, parts(text, p));
        if (!*out)
            return pdl_fail(rd->err, PDL_EPARSE, AT "%s", rd->file, rd->line,
                            rd->col, forms[i].like);
        return PDL_OK;
    }
    return bad(rd, TOPOLOGY, "none of FLAT, TORUS, FAT_TREE, DRAGONFLY");
}

static enum pdl_status sharing(struct reader *rd, const char **out)
{
    static const struct {
        const char *policy, *duplex;
    } policies[] = {
        {"SPLITDUPLEX", "full"}, {"FULLDUPLEX", "full"}, {"SHARED", "shared"}};
    const char *p = rd->value[SHARING] ? rd->value[SHARING] : "SPLITDUPLEX";

    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(p, policies[i].policy) == 0) {
            *out = policies[i].duplex;
            return PDL_OK;
        }
    return bad(rd, SHARING, "none of SPLITDUPLEX, SHARED");
}

/* ---- the network ------------------------------------------------------- */

static enum pdl_status limit(struct reader *rd, const struct pdl_net **net)
{
    bool switches = (*net)->topo != &net_star;
    struct pdl_err inner = {"", ""};
    double rate = 0;
    enum pdl_status st;

    if (!rd->value[LIMITER] || !*rd->value[LIMITER])
        return PDL_OK;
    st = quantity(rd, LIMITER, PDL_UNIT_BYTES_S, &rate);
    if (st != PDL_OK || rate <= 0)
        return st;
    st = net_limit(rd->arena, *net, rate, switches, net, &inner);
    return st == PDL_OK ? st : bad(rd, LIMITER, inner.msg);
}

static enum pdl_status make(struct reader *rd, const struct pdl_net **out)
{
    double bw = 0, lat = 0;
    int64_t hosts = 0;
    const char *duplex = "full", *spec;
    char *text = NULL, rate[64], time[64];
    const struct pdl_net *net = NULL;
    struct pdl_err inner = {"", ""};
    enum pdl_status st = count_radical(rd, &hosts);

    if (st == PDL_OK)
        st = shape(rd, hosts, &text);
    if (st == PDL_OK)
        st = quantity(rd, BW, PDL_UNIT_BYTES_S, &bw);
    if (st == PDL_OK)
        st = quantity(rd, LAT, PDL_UNIT_SECONDS, &lat);
    if (st == PDL_OK)
        st = sharing(rd, &duplex);
    if (st != PDL_OK)
        return st;
    spec = text ? pdl_arena_printf(
                      rd->arena, "%s,bw=%s,lat=%s,duplex=%s", text,
                      pdl_unit_print(bw, PDL_UNIT_BYTES_S, rate, sizeof rate),
                      pdl_unit_print(lat, PDL_UNIT_SECONDS, time, sizeof time),
                      duplex)
                : NULL;
    if (!spec)
        return pdl_fail(rd->err, PDL_ENOMEM, "%s: out of memory", rd->file);
    st = net_make_at(rd->arena, spec, 0, &net, &inner);
    if (st != PDL_OK)
        return pdl_fail(rd->err, st, AT "%.300s", rd->file, rd->line, rd->col,
                        inner.msg);
    if (net->nhosts != hosts)
        return pdl_fail(rd->err, PDL_EPARSE,
                        AT "radical names %lld hosts, the topology has %d",
                        rd->file, rd->line, rd->col, (long long)hosts,
                        net->nhosts);
    st = limit(rd, &net);
    if (st == PDL_OK)
        *out = net;
    return st;
}

static enum pdl_status parse(struct reader *rd, struct pdl_bytes in)
{
    if (in.len > INT32_MAX)
        return pdl_fail(rd->err, PDL_EPARSE, "%s: too large", rd->file);
    XML_SetUserData(rd->xml, rd);
    XML_SetElementHandler(rd->xml, on_start, on_end);
    XML_SetEntityDeclHandler(rd->xml, on_entity);
    if (XML_Parse(rd->xml, in.data, (int)in.len, 1) == XML_STATUS_ERROR &&
        rd->status == PDL_OK)
        return pdl_fail(rd->err, PDL_EPARSE, AT "%s", rd->file,
                        (int)XML_GetCurrentLineNumber(rd->xml),
                        (int)XML_GetCurrentColumnNumber(rd->xml) + 1,
                        XML_ErrorString(XML_GetErrorCode(rd->xml)));
    if (rd->status == PDL_ENOMEM)
        return pdl_fail(rd->err, PDL_ENOMEM, "%s: out of memory", rd->file);
    return rd->status;
}

enum pdl_status pdl_net_read_simgrid(pdl_arena *a, struct pdl_bytes in,
                                     const char *name,
                                     const struct pdl_net **out,
                                     struct pdl_err *err)
{
    struct reader rd = {.arena = a, .file = name, .err = err};
    const struct net_listed *listed;
    enum pdl_status st;

    if (net_listing_create(a, &rd.listing) != PDL_OK)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    rd.xml = XML_ParserCreate(NULL);
    if (!rd.xml)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    st = parse(&rd, in);
    XML_ParserFree(rd.xml);
    rd.xml = NULL;
    if (st != PDL_OK)
        return st;
    if (net_listing_single(rd.listing))
        return make(&rd, out);
    listed = net_listing_done(rd.listing, name, err);
    return listed ? net_listed_make(listed, name, out, err) : PDL_EPARSE;
}
