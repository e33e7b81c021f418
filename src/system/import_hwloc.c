/* SPDX-License-Identifier: Apache-2.0
 *
 * hwloc XML of version 2 (lstopo out.xml): packages, cores, memory, GPUs with
 * their model, and the NVLinkBandwidth matrix of hwloc's NVML backend (MB/s
 * between GPUs, NVSwitches and POWER packages). Read with expat: libhwloc 2.9
 * dereferences null pointers on files that are well-formed but make no sense,
 * and a file must not be able to crash us. The few elements needed here are
 * those of hwloc2.dtd; a test compares the result with libhwloc's. */
#include "system_priv.h"

#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FILE = 16 << 20,
    MAX_DEPTH = 128,
    MAX_GPUS = 256,
    MAX_OBJECTS = 512, /* of a matrix */
    MAX_TEXT = 1 << 16,
    OPENFABRICS = 3, /* osdev_type */
};

static const char *const backends[] = {"nvml", "cuda", "rsmi"};
enum { NBACKENDS = sizeof backends / sizeof backends[0] };

struct gpu {
    int backend;
    int64_t id;
    double pcie;
    const char *model;
};

struct reader {
    pdl_arena *a;
    const char *name;
    struct pdl_err *err;
    enum pdl_status status;
    XML_Parser parser;
    int depth;
    struct {
        int gpu; /* the object is this one, or -1 */
        double pcie;
    } open[MAX_DEPTH + 1];
    struct gpu gpus[MAX_GPUS];
    int ngpus;
    int64_t sockets, cores, memory, nics;
    /* the matrix */
    bool inside;
    int objects, nindexes, nvalues;
    char kind[MAX_OBJECTS]; /* first letter of the type: O, P(CI), p(ackage) */
    int64_t ids[MAX_OBJECTS];
    double *values;
    char kind_of_all;
    char *text; /* of the element being read */
    size_t len;
};

static void refuse(struct reader *r, const char *what, const char *hint)
{
    if (r->status != PDL_OK)
        return;
    r->status =
        pdl_fail(r->err, PDL_EPARSE, "%s:%lu: %s", r->name,
                 (unsigned long)XML_GetCurrentLineNumber(r->parser), what);
    if (*hint)
        pdl_hint(r->err, "%s", hint);
    XML_StopParser(r->parser, XML_FALSE);
}

static void starve(struct reader *r)
{
    if (r->status == PDL_OK)
        r->status = system_no_memory(r->err, r->name);
    XML_StopParser(r->parser, XML_FALSE);
}

static const char *attr(const char **attrs, const char *name)
{
    for (; *attrs; attrs += 2)
        if (strcmp(attrs[0], name) == 0)
            return attrs[1];
    return "";
}

/* ---- objects ----------------------------------------------------------- */

static void start_osdev(struct reader *r, const char **attrs)
{
    const char *name = attr(attrs, "name");

    r->nics += strtol(attr(attrs, "osdev_type"), NULL, 10) == OPENFABRICS;
    for (int b = 0; b < NBACKENDS; b++) {
        if (strncmp(name, backends[b], strlen(backends[b])) != 0)
            continue;
        if (r->ngpus == MAX_GPUS) {
            refuse(r, "more GPUs than a node can have", "");
            return;
        }
        r->gpus[r->ngpus] =
            (struct gpu){.backend = b,
                         .id = strtoll(attr(attrs, "gp_index"), NULL, 10),
                         .pcie = r->open[r->depth].pcie};
        r->open[r->depth].gpu = r->ngpus++;
    }
}

static void start_object(struct reader *r, const char **attrs)
{
    const char *type = attr(attrs, "type");
    double bytes = pdl_strtod(attr(attrs, "local_memory"), NULL);

    r->open[r->depth].gpu = -1;
    r->sockets += strcmp(type, "Package") == 0;
    r->cores += strcmp(type, "Core") == 0;
    if (strcmp(type, "NUMANode") == 0 && bytes > 0 && bytes < 1e15)
        r->memory += (int64_t)bytes;
    if (strcmp(type, "PCIDev") == 0) {
        double rate = pdl_strtod(attr(attrs, "pci_link_speed"), NULL) * 1e9;

        r->open[r->depth].pcie = rate > 0 && rate < 1e13 ? rate : 0;
    }
    if (strcmp(type, "OSDev") == 0)
        start_osdev(r, attrs);
}

static void start_info(struct reader *r, const char **attrs)
{
    int gpu = r->open[r->depth].gpu;

    if (gpu < 0 || strcmp(attr(attrs, "name"), "GPUModel") != 0)
        return;
    r->gpus[gpu].model = pdl_arena_strdup(r->a, attr(attrs, "value"));
    if (!r->gpus[gpu].model)
        starve(r);
}

/* ---- the matrix -------------------------------------------------------- */

static char letter(const char *type)
{
    return (char)(strncmp(type, "OSDev", 5) == 0     ? 'O'
                  : strncmp(type, "PCIDev", 6) == 0  ? 'P'
                  : strncmp(type, "Package", 7) == 0 ? 'p'
                                                     : '-');
}

static void start_matrix(struct reader *r, const char **attrs)
{
    long n = strtol(attr(attrs, "nbobjs"), NULL, 10);

    if (strcmp(attr(attrs, "name"), "NVLinkBandwidth") != 0 || r->objects > 0)
        return;
    if (n < 1 || n > MAX_OBJECTS) {
        refuse(r, "a matrix of a strange size", "");
        return;
    }
    r->values = PDL_NEW(r->a, double, n *n);
    if (!r->values) {
        starve(r);
        return;
    }
    r->inside = true;
    r->objects = (int)n;
    r->kind_of_all = letter(attr(attrs, "type"));
}

/* "OSDev:802 PCIDev:449" or, when all are of one type, "802 803". */
static void read_indexes(struct reader *r)
{
    char *save = NULL;

    for (char *t = strtok_r(r->text, " \t\r\n", &save); t;
         t = strtok_r(NULL, " \t\r\n", &save)) {
        const char *colon = strchr(t, ':');

        if (r->nindexes == r->objects) {
            refuse(r, "more indexes than objects", "");
            return;
        }
        r->kind[r->nindexes] = colon ? letter(t) : r->kind_of_all;
        r->ids[r->nindexes++] = strtoll(colon ? colon + 1 : t, NULL, 10);
    }
}

static void read_values(struct reader *r)
{
    char *save = NULL;

    for (char *t = strtok_r(r->text, " \t\r\n", &save); t;
         t = strtok_r(NULL, " \t\r\n", &save)) {
        double v = pdl_strtod(t, NULL) * 1e6;

        if (r->nvalues == r->objects * r->objects) {
            refuse(r, "more values than the matrix has", "");
            return;
        }
        r->values[r->nvalues++] = v > 0 && v < 1e15 ? v : 0;
    }
}

/* ---- expat ------------------------------------------------------------- */

static void check_root(struct reader *r, const char *tag, const char **attrs)
{
    if (strcmp(tag, "topology") != 0)
        refuse(r, "no <topology>: not an hwloc file", "");
    else if (pdl_strtod(attr(attrs, "version"), NULL) >= 3)
        refuse(r, "hwloc XML of version 3, version 2 is needed",
               "write it with lstopo --export-xml-flags v2 out.xml");
    else if (pdl_strtod(attr(attrs, "version"), NULL) < 2)
        refuse(r, "hwloc XML before version 2",
               "write it again with lstopo of hwloc 2");
}

static void XMLCALL start(void *ctx, const char *tag, const char **attrs)
{
    struct reader *r = ctx;

    if (r->depth == 0)
        check_root(r, tag, attrs);
    if (r->depth == MAX_DEPTH) {
        refuse(r, "nested too deep", "");
        return;
    }
    r->depth++;
    r->open[r->depth] = r->open[r->depth - 1];
    r->len = 0;
    if (strcmp(tag, "object") == 0)
        start_object(r, attrs);
    else if (strcmp(tag, "info") == 0)
        start_info(r, attrs);
    else if (strncmp(tag, "distances2", 10) == 0)
        start_matrix(r, attrs);
}

static void XMLCALL chars(void *ctx, const char *text, int len)
{
    struct reader *r = ctx;

    if (!r->inside)
        return;
    if (r->len + (size_t)len >= MAX_TEXT) {
        refuse(r, "too much text in one element", "");
        return;
    }
    memcpy(r->text + r->len, text, (size_t)len);
    r->len += (size_t)len;
}

static void XMLCALL end(void *ctx, const char *tag)
{
    struct reader *r = ctx;

    r->text[r->len] = '\0';
    if (r->inside && strcmp(tag, "indexes") == 0)
        read_indexes(r);
    else if (r->inside && strcmp(tag, "u64values") == 0)
        read_values(r);
    else if (strncmp(tag, "distances2", 10) == 0)
        r->inside = false;
    r->len = 0;
    r->depth--;
}

static void XMLCALL entity(void *ctx, const XML_Char *name, int is_parameter,
                           const XML_Char *value, int length,
                           const XML_Char *base, const XML_Char *system_id,
                           const XML_Char *public_id, const XML_Char *notation)
{
    (void)name, (void)is_parameter, (void)value, (void)length, (void)base;
    (void)system_id, (void)public_id, (void)notation;
    refuse(ctx, "XML entities are not accepted", "");
}

static enum pdl_status parse(struct reader *r, struct pdl_bytes in)
{
    r->parser = XML_ParserCreate(NULL);
    if (!r->parser)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", r->name);
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, start, end);
    XML_SetCharacterDataHandler(r->parser, chars);
    XML_SetEntityDeclHandler(r->parser, entity);
    if (XML_Parse(r->parser, in.data, (int)in.len, 1) != XML_STATUS_OK &&
        r->status == PDL_OK)
        r->status = pdl_fail(r->err, PDL_EPARSE, "%s:%lu: %s", r->name,
                             (unsigned long)XML_GetCurrentLineNumber(r->parser),
                             XML_ErrorString(XML_GetErrorCode(r->parser)));
    XML_ParserFree(r->parser);
    r->parser = NULL;
    return r->status;
}

/* ---- what was seen ----------------------------------------------------- */

/* Keeps the GPUs of the first backend that lists any. */
static void choose_backend(struct reader *r)
{
    int best = NBACKENDS, n = 0;

    for (int i = 0; i < r->ngpus; i++)
        best = r->gpus[i].backend < best ? r->gpus[i].backend : best;
    for (int i = 0; i < r->ngpus; i++)
        if (r->gpus[i].backend == best)
            r->gpus[n++] = r->gpus[i];
    r->ngpus = n;
}

/* The GPU in this row of the matrix, or -1. */
static int gpu_of(const struct reader *r, int row)
{
    for (int i = 0; i < r->ngpus; i++)
        if (r->kind[row] == 'O' && r->gpus[i].id == r->ids[row])
            return i;
    return -1;
}

static enum pdl_status add_pair(const struct reader *r,
                                struct system_seen_node *seen, int x, int y,
                                double rate)
{
    int64_t *v = PDL_NEW(r->a, int64_t, 3);

    if (!v)
        return system_no_memory(r->err, r->name);
    v[0] = x;
    v[1] = y;
    v[2] = (int64_t)(rate / seen->link_bytes_per_s + 0.5);
    if (v[2] > 0 && v[2] < 1000)
        seen->pairs[seen->npairs++] = (struct pdl_ints){v, 3};
    return PDL_OK;
}

/* One cell: a cable to another GPU, to a switch, or (POWER) to the host. */
static enum pdl_status read_cell(const struct reader *r,
                                 struct system_seen_node *seen, int row,
                                 int column, double *to_switch)
{
    double rate = r->values[row * r->objects + column];
    int x = gpu_of(r, row), y = gpu_of(r, column);

    if (row == column || rate <= 0 || x < 0)
        return PDL_OK;
    if (x == 0 && r->kind[column] == 'P')
        *to_switch += rate;
    if (x == 0 && r->kind[column] == 'p' && rate > seen->pcie_bytes_per_s)
        seen->pcie_bytes_per_s = rate;
    return y > x ? add_pair(r, seen, x, y, rate) : PDL_OK;
}

static enum pdl_status read_matrix(const struct reader *r,
                                   struct system_seen_node *seen)
{
    double to_switch = 0;
    enum pdl_status st = PDL_OK;
    int n = r->objects;

    if (n == 0 || r->nindexes != n || r->nvalues != n * n)
        return PDL_OK;
    seen->pairs = PDL_NEW(r->a, struct pdl_ints, n * n);
    if (!seen->pairs)
        return system_no_memory(r->err, r->name);
    /* one NVLink: Pascal 20 GB/s, Volta to Hopper 25 */
    seen->link_bytes_per_s =
        seen->model && strcmp(seen->model, "p100-16g") == 0 ? 20e9 : 25e9;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n && st == PDL_OK; k++)
            st = read_cell(r, seen, i, k, &to_switch);
    if (seen->npairs == 0)
        seen->switch_links =
            (int64_t)(to_switch / seen->link_bytes_per_s + 0.5);
    return st;
}

static enum pdl_status describe(struct reader *r, struct pdl_system *sys)
{
    struct system_seen_node seen = {.sockets = r->sockets,
                                    .cores = r->cores,
                                    .memory_bytes = r->memory,
                                    .nics = r->nics < 1024 ? r->nics : 0};
    enum pdl_status st;

    choose_backend(r);
    seen.gpus = r->ngpus;
    if (r->ngpus > 0) {
        seen.pcie_bytes_per_s = r->gpus[0].pcie;
        seen.model_text = r->gpus[0].model;
        if (r->gpus[0].model)
            seen.model = pdl_pe_of_model(r->gpus[0].model);
    }
    st = read_matrix(r, &seen);
    if (st == PDL_OK)
        st = system_seen_apply(r->a, &seen, sys, r->err);
    if (st == PDL_OK && r->ngpus == 0)
        st = system_add_text(r->a, &sys->unverified, &sys->nunverified, r->err,
                             "node.pes: hwloc saw no GPU (was it built with "
                             "NVML or ROCm?)");
    if (st == PDL_OK)
        st = system_add_text(r->a, &sys->sources, &sys->nsources, r->err,
                             "hwloc XML: %s", r->name);
    return st;
}

static enum pdl_status run(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err)
{
    struct reader *r = PDL_NEW(a, struct reader, 1);
    char *text = PDL_NEW(a, char, MAX_TEXT);
    enum pdl_status st;

    (void)how;
    if (!r || !text)
        return system_no_memory(err, name);
    if (in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: larger than %d MiB", name,
                        MAX_FILE >> 20);
    r->a = a;
    r->name = name;
    r->err = err;
    r->text = text;
    r->open[0].gpu = -1;
    st = parse(r, in);
    return st == PDL_OK ? describe(r, sys) : st;
}

const struct pdl_importer system_import_hwloc = {
    .name = "hwloc",
    .summary = "hwloc XML (lstopo out.xml): cores, memory, GPUs, NVLinks",
    .run = run,
};
