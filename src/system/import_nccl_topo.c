/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or the files clouds ship): system
 * > cpu > pci > gpu{nvlink} | nic > net. Files of clouds are a skeleton of
 * PCI devices without gpu and net elements; the PCI class then tells GPUs
 * (0x0302, 0x0300) from NICs (0x0200, 0x0207) and bridges (0x0604). Entities
 * are refused before they can be expanded; an external DTD is never read. */
#include "system_priv.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, MAX_DEPTH = 64, MAX_GPUS = 256, MAX_LINKS = 8192 };

struct gpu {
    char busid[24];
    int sm, bridge;
    unsigned device;
    double pcie;
};

struct nvlink {
    int gpu, count;
    char target[24];
    bool to_switch;
};

struct reader {
    const char *name;
    struct pdl_err *err;
    enum pdl_status status;
    XML_Parser parser;
    int depth;
    /* the open elements: what kind of PCI device, which bridge above */
    struct {
        unsigned class;
        int gpu, bridge;
    } open[MAX_DEPTH];
    int bridges;
    struct gpu gpus[MAX_GPUS];
    int ngpus;
    struct nvlink *links; /* MAX_LINKS */
    int nlinks;
    int64_t sockets, pci_nics, nets, unclassed;
    double net_rate;
};

static void stop(struct reader *r, const char *fmt, const char *arg)
{
    char text[200];

    if (r->status != PDL_OK)
        return;
    snprintf(text, sizeof text, "%s%.60s", fmt, arg);
    r->status = pdl_fail(
        r->err, PDL_EPARSE, "%s:%lu:%lu: %s", r->name,
        (unsigned long)XML_GetCurrentLineNumber(r->parser),
        (unsigned long)XML_GetCurrentColumnNumber(r->parser) + 1, text);
    XML_StopParser(r->parser, XML_FALSE);
}

static const char *attr(const char **attrs, const char *name)
{
    for (; *attrs; attrs += 2)
        if (strcmp(attrs[0], name) == 0)
            return attrs[1];
    return "";
}

/* "32.0 GT/s PCIe" times lanes: 8b/10b up to 5 GT/s, 128b/130b above. */
static double pcie_rate(const char **attrs)
{
    double gt = pdl_strtod(attr(attrs, "link_speed"), NULL);
    long width = strtol(attr(attrs, "link_width"), NULL, 10);

    if (!(gt > 0 && gt <= 1000) || width < 1 || width > 32)
        return 0;
    return gt * 1e9 / 8 * (double)width * (gt <= 5 ? 0.8 : 128.0 / 130);
}

static bool is_gpu(unsigned class)
{
    return class >> 8 == 0x0302 || class >> 8 == 0x0300;
}

static bool is_nic(unsigned class)
{
    return class >> 8 == 0x0200 || class >> 8 == 0x0207;
}

static void start_pci(struct reader *r, const char **attrs)
{
    const char *text = attr(attrs, "class");
    unsigned class = (unsigned)strtoul(text, NULL, 16);
    struct gpu *g;

    r->open[r->depth].class = class;
    r->unclassed += !*text;
    if (class >> 8 == 0x0604)
        r->open[r->depth].bridge = ++r->bridges;
    if (is_nic(class))
        r->pci_nics++;
    if (!is_gpu(class))
        return;
    if (r->ngpus == MAX_GPUS) {
        stop(r, "more GPUs than a node can have", "");
        return;
    }
    g = &r->gpus[r->ngpus];
    *g = (struct gpu){.bridge = r->open[r->depth].bridge,
                      .pcie = pcie_rate(attrs)};
    snprintf(g->busid, sizeof g->busid, "%s", attr(attrs, "busid"));
    g->device = (unsigned)strtoul(attr(attrs, "device"), NULL, 16);
    r->open[r->depth].gpu = r->ngpus++;
}

static void start_nvlink(struct reader *r, const char **attrs)
{
    unsigned tclass = (unsigned)strtoul(attr(attrs, "tclass"), NULL, 16);
    long count = strtol(attr(attrs, "count"), NULL, 10);
    struct nvlink *l;
    int gpu = r->open[r->depth].gpu;

    if (gpu < 0 || count < 1 || count > 64 || r->nlinks == MAX_LINKS) {
        stop(r, gpu < 0 ? "nvlink outside a gpu" : "nvlink: bad count ",
             gpu < 0 ? "" : attr(attrs, "count"));
        return;
    }
    l = &r->links[r->nlinks++];
    *l = (struct nvlink){.gpu = gpu, .count = (int)count};
    l->to_switch = tclass >> 8 == 0x0680;
    snprintf(l->target, sizeof l->target, "%s", attr(attrs, "target"));
}

static void start_net(struct reader *r, const char **attrs)
{
    double speed = pdl_strtod(attr(attrs, "speed"), NULL) * 1e6 / 8;

    r->nets++;
    if (speed > 0 && speed < 1e16 && (r->net_rate == 0 || speed < r->net_rate))
        r->net_rate = speed;
}

static void root_element(struct reader *r, const char *tag)
{
    if (strcmp(tag, "system") == 0)
        return;
    if (strcmp(tag, "graphs") == 0)
        stop(r,
             "this is a file of NCCL graphs (NCCL_GRAPH_FILE), not a "
             "topology (NCCL_TOPO_DUMP_FILE)",
             "");
    else
        stop(r, "expected <system>, found ", tag);
}

static void XMLCALL start(void *ctx, const char *tag, const char **attrs)
{
    struct reader *r = ctx;

    if (r->depth + 1 >= MAX_DEPTH) {
        stop(r, "nested too deep", "");
        return;
    }
    if (r->depth == 0)
        root_element(r, tag);
    r->depth++;
    r->open[r->depth] = r->open[r->depth - 1];
    if (strcmp(tag, "cpu") == 0)
        r->sockets++;
    else if (strcmp(tag, "pci") == 0)
        start_pci(r, attrs);
    else if (strcmp(tag, "gpu") == 0 && r->open[r->depth].gpu >= 0)
        r->gpus[r->open[r->depth].gpu].sm =
            (int)strtol(attr(attrs, "sm"), NULL, 10);
    else if (strcmp(tag, "nvlink") == 0)
        start_nvlink(r, attrs);
    else if (strcmp(tag, "net") == 0)
        start_net(r, attrs);
}

static void XMLCALL end(void *ctx, const char *tag)
{
    (void)tag;
    ((struct reader *)ctx)->depth--;
}

static void XMLCALL entity(void *ctx, const XML_Char *name, int is_parameter,
                           const XML_Char *value, int length,
                           const XML_Char *base, const XML_Char *system_id,
                           const XML_Char *public_id, const XML_Char *notation)
{
    (void)is_parameter, (void)value, (void)length, (void)base, (void)system_id;
    (void)public_id, (void)notation;
    stop(ctx, "XML entities are not accepted: ", name);
}

static enum pdl_status parse(struct reader *r, struct pdl_bytes in)
{
    r->parser = XML_ParserCreate(NULL);
    if (!r->parser)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", r->name);
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, start, end);
    XML_SetEntityDeclHandler(r->parser, entity);
    if (XML_Parse(r->parser, in.data, (int)in.len, 1) != XML_STATUS_OK &&
        r->status == PDL_OK)
        r->status =
            pdl_fail(r->err, PDL_EPARSE, "%s:%lu:%lu: %s", r->name,
                     (unsigned long)XML_GetCurrentLineNumber(r->parser),
                     (unsigned long)XML_GetCurrentColumnNumber(r->parser) + 1,
                     XML_ErrorString(XML_GetErrorCode(r->parser)));
    XML_ParserFree(r->parser);
    r->parser = NULL;
    return r->status;
}

/* ---- what was seen ----------------------------------------------------- */

/* PCI device numbers of NVIDIA (pci.ids). */
static const struct {
    unsigned device;
    const char *pe;
} devices[] = {
    {0x15f9, "p100-16g"}, {0x1db1, "v100-16g"}, {0x1db5, "v100-32g"},
    {0x1db8, "v100-32g"}, {0x20b0, "a100-40g"}, {0x20b2, "a100-80g"},
    {0x2330, "h100-80g"}, {0x2335, "h200"},     {0x2901, "b200"},
};

static const struct {
    int sm;
    const char *arch;
} archs[] = {{60, "pascal"},
             {70, "volta"},
             {80, "ampere"},
             {90, "hopper"},
             {100, "blackwell"}};

static const char *model_of(const struct gpu *g)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (devices[i].device == g->device && g->device)
            return devices[i].pe;
    return NULL;
}

static int find_gpu(const struct reader *r, const char *busid)
{
    for (int i = 0; i < r->ngpus; i++)
        if (strcmp(r->gpus[i].busid, busid) == 0)
            return i;
    return -1;
}

/* Every cable is listed from both ends; the lower end counts. */
static enum pdl_status join(pdl_arena *a, const struct reader *r,
                            struct system_seen_node *seen, struct pdl_err *err)
{
    struct pdl_ints *pairs = PDL_NEW(a, struct pdl_ints, r->nlinks);
    int64_t to_switch = 0;

    if (!pairs)
        return system_no_memory(err, r->name);
    for (int i = 0; i < r->nlinks; i++) {
        const struct nvlink *l = &r->links[i];
        int peer = find_gpu(r, l->target);
        int64_t *v;

        if (l->to_switch && l->gpu == 0)
            to_switch += l->count;
        if (l->to_switch || peer <= l->gpu)
            continue; /* a switch, the other end, or the GPU itself */
        v = PDL_NEW(a, int64_t, 3);
        if (!v)
            return system_no_memory(err, r->name);
        v[0] = l->gpu;
        v[1] = peer;
        v[2] = l->count;
        pairs[seen->npairs++] = (struct pdl_ints){v, 3};
    }
    seen->pairs = pairs;
    seen->switch_links = to_switch;
    return PDL_OK;
}

static void collect(const struct reader *r, struct system_seen_node *seen)
{
    int most = 0;

    seen->gpus = r->ngpus;
    seen->sockets = r->sockets;
    seen->nics = r->nets > 0 ? r->nets : r->pci_nics;
    seen->nic_bytes_per_s = r->net_rate;
    seen->pcie_bytes_per_s = r->gpus[0].pcie;
    seen->model = model_of(&r->gpus[0]);
    for (int i = 0; i < r->ngpus; i++) {
        int same = 0;

        for (int k = 0; k < r->ngpus; k++)
            same += r->gpus[k].bridge == r->gpus[i].bridge;
        if (r->gpus[i].bridge > 0 && same > most)
            most = same;
        if (model_of(&r->gpus[i]) != seen->model)
            seen->model = NULL; /* mixed: no library entry means both */
    }
    seen->pes_per_switch = most;
}

static enum pdl_status describe(pdl_arena *a, const struct reader *r,
                                struct pdl_system *sys, struct pdl_err *err)
{
    struct system_seen_node seen = {.gpus = 0};
    enum pdl_status st;

    if (r->ngpus == 0)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: no GPU (PCI class 0x0302) in this file%s", r->name,
                        r->unclassed > 0 ? ", its devices have no class" : "");
    collect(r, &seen);
    st = join(a, r, &seen, err);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (archs[i].sm == r->gpus[0].sm && !sys->pe.arch)
            sys->pe.arch = archs[i].arch;
    if (st == PDL_OK)
        st = system_seen_apply(a, &seen, sys, err);
    if (st == PDL_OK && r->nlinks == 0 && sys->node.links.bytes_per_s == 0 &&
        r->ngpus > 1)
        st = system_add_text(a, &sys->unverified, &sys->nunverified, err,
                             "node.links: the file is a PCI skeleton without "
                             "NVLinks; there may be some");
    if (st == PDL_OK)
        st = system_add_text(a, &sys->sources, &sys->nsources, err,
                             "NCCL topology: %s", r->name);
    return st;
}

static enum pdl_status run(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err)
{
    struct reader *r = PDL_NEW(a, struct reader, 1);
    struct nvlink *links = PDL_NEW(a, struct nvlink, MAX_LINKS);
    enum pdl_status st;

    (void)how;
    if (!r || !links)
        return system_no_memory(err, name);
    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d MiB", name,
                        MAX_FILE >> 20);
    r->name = name;
    r->err = err;
    r->links = links;
    r->open[0].gpu = -1;
    st = parse(r, in);
    return st == PDL_OK ? describe(a, r, sys, err) : st;
}

const struct pdl_importer system_import_nccl_topo = {
    .name = "nccl-topo",
    .summary = "NCCL's topology XML: GPUs, NVLinks, NICs, PCIe of a node",
    .run = run,
};
