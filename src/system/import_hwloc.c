/* SPDX-License-Identifier: Apache-2.0
 *
 * hwloc XML, read by libhwloc: packages, cores, memory, GPUs with their model
 * and the NVLinkBandwidth matrix that its NVML backend measures (MB/s). The
 * hwloc 2 library refuses files of version 3, and resolves whatever entities
 * its XML parser does; both are caught before it sees the file. */
#include "system_priv.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 << 20, MAX_GPUS = 256 };

static bool contains(struct pdl_bytes in, const char *word)
{
    return memmem(in.data, in.len, word, strlen(word)) != NULL;
}

static enum pdl_status screen(struct pdl_bytes in, const char *name,
                              struct pdl_err *err)
{
    if (in.len == 0 || in.len > MAX_FILE)
        return pdl_fail(err, PDL_EPARSE, "%s: %s", name,
                        in.len ? "larger than 16 MiB" : "the file is empty");
    if (memchr(in.data, '\0', in.len))
        return pdl_fail(err, PDL_EPARSE, "%s: not a text file", name);
    if (contains(in, "<!ENTITY"))
        return pdl_fail(err, PDL_EPARSE, "%s: XML entities are not accepted",
                        name);
    if (contains(in, "<topology version=\"3")) {
        pdl_fail(err, PDL_EPARSE,
                 "%s: hwloc XML of version 3, the library "
                 "here reads version 2",
                 name);
        pdl_hint(err, "write it with lstopo --export-xml-flags v2 out.xml");
        return PDL_EPARSE;
    }
    if (!contains(in, "<topology"))
        return pdl_fail(err, PDL_EPARSE,
                        "%s: no <topology>: not an hwloc "
                        "file",
                        name);
    return PDL_OK;
}

static enum pdl_status load(struct pdl_bytes in, const char *name,
                            hwloc_topology_t *out, struct pdl_err *err)
{
    hwloc_topology_t topo = NULL;
    char *copy;
    int bad;

    if (hwloc_topology_init(&topo) != 0)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    /* the length it wants counts a final zero byte */
    copy = malloc(in.len + 1);
    if (!copy) {
        hwloc_topology_destroy(topo);
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    }
    memcpy(copy, in.data, in.len);
    copy[in.len] = '\0';
    bad = hwloc_topology_set_xmlbuffer(topo, copy, (int)in.len + 1);
    bad = bad ||
          hwloc_topology_set_io_types_filter(topo, HWLOC_TYPE_FILTER_KEEP_ALL);
    bad = bad || hwloc_topology_load(topo);
    free(copy);
    if (bad) {
        hwloc_topology_destroy(topo);
        return pdl_fail(err, PDL_EPARSE, "%s: libhwloc cannot read it", name);
    }
    *out = topo;
    return PDL_OK;
}

/* The GPUs, by the first backend that lists any. */
static int find_gpus(hwloc_topology_t topo, hwloc_obj_t *gpus)
{
    static const char *const backends[] = {"nvml", "cuda", "rsmi"};
    int n = 0;

    for (size_t b = 0; b < sizeof backends / sizeof backends[0] && n == 0; b++)
        for (hwloc_obj_t o = hwloc_get_next_osdev(topo, NULL); o;
             o = hwloc_get_next_osdev(topo, o))
            if (o->name &&
                strncmp(o->name, backends[b], strlen(backends[b])) == 0 &&
                n < MAX_GPUS)
                gpus[n++] = o;
    return n;
}

static int index_of(hwloc_obj_t *gpus, int n, hwloc_obj_t o)
{
    for (int i = 0; i < n; i++)
        if (gpus[i] == o)
            return i;
    return -1;
}

static double cable_rate(const char *model)
{
    return model && strcmp(model, "p100-16g") == 0 ? 20e9 : 25e9;
}

static enum pdl_status add_pair(pdl_arena *a, struct system_seen_node *seen,
                                int x, int y, double rate, struct pdl_err *err)
{
    int64_t *v = PDL_NEW(a, int64_t, 3);

    if (!v)
        return system_no_memory(err, "hwloc");
    v[0] = x;
    v[1] = y;
    v[2] = (int64_t)(rate / seen->link_bytes_per_s + 0.5);
    if (v[2] > 0 && v[2] < 1000)
        seen->pairs[seen->npairs++] = (struct pdl_ints){v, 3};
    return PDL_OK;
}

static enum pdl_status
read_matrix(pdl_arena *a, const struct hwloc_distances_s *d, hwloc_obj_t *gpus,
            int n, struct system_seen_node *seen, struct pdl_err *err)
{
    double to_switch = 0;
    enum pdl_status st = PDL_OK;

    seen->pairs = PDL_NEW(a, struct pdl_ints, n * n);
    if (!seen->pairs)
        return system_no_memory(err, "hwloc");
    for (unsigned i = 0; i < d->nbobjs; i++) {
        int x = index_of(gpus, n, d->objs[i]);

        for (unsigned k = 0; k < d->nbobjs && x >= 0 && st == PDL_OK; k++) {
            double rate = (double)d->values[i * d->nbobjs + k] * 1e6;
            int y = index_of(gpus, n, d->objs[k]);

            if (i == k || rate <= 0)
                continue;
            if (x == 0 && y < 0 && d->objs[k]->type == HWLOC_OBJ_PCI_DEVICE)
                to_switch += rate;
            /* POWER: NVLinks to the host */
            if (x == 0 && d->objs[k]->type == HWLOC_OBJ_PACKAGE &&
                rate > seen->pcie_bytes_per_s)
                seen->pcie_bytes_per_s = rate;
            if (y > x)
                st = add_pair(a, seen, x, y, rate, err);
        }
    }
    if (seen->npairs == 0)
        seen->switch_links =
            (int64_t)(to_switch / seen->link_bytes_per_s + 0.5);
    return st;
}

static enum pdl_status read_links(pdl_arena *a, hwloc_topology_t topo,
                                  hwloc_obj_t *gpus, int n,
                                  struct system_seen_node *seen,
                                  struct pdl_err *err)
{
    struct hwloc_distances_s *d = NULL;
    unsigned count = 1;
    enum pdl_status st = PDL_OK;

    if (n == 0 ||
        hwloc_distances_get_by_name(topo, "NVLinkBandwidth", &count, &d, 0) ||
        count == 0)
        return PDL_OK;
    seen->link_bytes_per_s = cable_rate(seen->model);
    st = read_matrix(a, d, gpus, n, seen, err);
    hwloc_distances_release(topo, d);
    return st;
}

static void read_gpu(hwloc_obj_t gpu, struct system_seen_node *seen,
                     pdl_arena *a)
{
    const char *model = hwloc_obj_get_info_by_name(gpu, "GPUModel");
    hwloc_obj_t pci = gpu->parent;

    if (model) {
        seen->model = pdl_pe_of_model(model);
        seen->model_text = pdl_arena_strdup(a, model);
    }
    if (pci && pci->type == HWLOC_OBJ_PCI_DEVICE)
        seen->pcie_bytes_per_s = (double)pci->attr->pcidev.linkspeed * 1e9;
    if (!(seen->pcie_bytes_per_s >= 0 && seen->pcie_bytes_per_s < 1e13))
        seen->pcie_bytes_per_s = 0;
}

static int64_t at_least_0(int n)
{
    return n > 0 ? n : 0;
}

static int64_t count_nics(hwloc_topology_t topo)
{
    int64_t n = 0;

    for (hwloc_obj_t o = hwloc_get_next_osdev(topo, NULL); o;
         o = hwloc_get_next_osdev(topo, o))
        n += o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    return n < 1024 ? n : 0;
}

static enum pdl_status describe(pdl_arena *a, hwloc_topology_t topo,
                                const char *name, struct pdl_system *sys,
                                struct pdl_err *err)
{
    struct system_seen_node seen = {.gpus = 0};
    hwloc_obj_t gpus[MAX_GPUS], root = hwloc_get_root_obj(topo);
    int n = find_gpus(topo, gpus);
    enum pdl_status st;

    seen.gpus = n;
    seen.sockets =
        at_least_0(hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_PACKAGE));
    seen.cores = at_least_0(hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_CORE));
    if (root->total_memory < (hwloc_uint64_t)1e18)
        seen.memory_bytes = (int64_t)root->total_memory;
    seen.nics = count_nics(topo);
    if (n > 0)
        read_gpu(gpus[0], &seen, a);
    st = read_links(a, topo, gpus, n, &seen, err);
    if (st == PDL_OK)
        st = system_seen_apply(a, &seen, sys, err);
    if (st == PDL_OK && n == 0)
        st = system_add_text(a, &sys->unverified, &sys->nunverified, err,
                             "node.pes: hwloc saw no GPU (was it built with "
                             "NVML or ROCm?)");
    if (st == PDL_OK)
        st = system_add_text(a, &sys->sources, &sys->nsources, err,
                             "hwloc XML: %s", name);
    return st;
}

static enum pdl_status run(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err)
{
    hwloc_topology_t topo = NULL;
    enum pdl_status st = screen(in, name, err);

    (void)how;
    if (st == PDL_OK)
        st = load(in, name, &topo, err);
    if (st != PDL_OK)
        return st;
    st = describe(a, topo, name, sys, err);
    hwloc_topology_destroy(topo);
    return st;
}

const struct pdl_importer system_import_hwloc = {
    .name = "hwloc",
    .summary = "hwloc XML (lstopo out.xml): cores, memory, GPUs, NVLinks",
    .run = run,
};
