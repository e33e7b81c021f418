/* SPDX-License-Identifier: Apache-2.0
 *
 * From the node that a topology file showed to the node of a system. What the
 * file does not say stays as the base system has it; what had to be assumed
 * is listed under unverified. */
#include "system_priv.h"

#include <string.h>

/* One NVLink, one direction, by architecture (vendor data sheets). */
static double nvlink_rate(const char *arch)
{
    static const struct {
        const char *arch;
        double rate;
    } rates[] = {{"pascal", 20e9},
                 {"volta", 25e9},
                 {"ampere", 25e9},
                 {"hopper", 25e9},
                 {"blackwell", 50e9}};

    for (size_t i = 0; arch && i < sizeof rates / sizeof rates[0]; i++)
        if (strcmp(rates[i].arch, arch) == 0)
            return rates[i].rate;
    return 0;
}

#define DOUBT(...) \
    system_add_text(a, &sys->unverified, &sys->nunverified, err, __VA_ARGS__)

static enum pdl_status apply_links(pdl_arena *a,
                                   const struct system_seen_node *seen,
                                   struct pdl_system *sys, struct pdl_err *err)
{
    struct pdl_node_links *l = &sys->node.links;
    double rate = seen->link_bytes_per_s;
    int64_t most = 0;

    if (seen->npairs == 0 && seen->switch_links == 0)
        return PDL_OK;
    if (rate == 0)
        rate = nvlink_rate(sys->pe.arch);
    if (rate == 0)
        return DOUBT("node.links: NVLinks seen, but not how fast they are");
    for (int64_t pe = 0; pe < seen->gpus; pe++) {
        int64_t cables = 0;

        for (int64_t i = 0; i < seen->npairs; i++)
            if (seen->pairs[i].v[0] == pe || seen->pairs[i].v[1] == pe)
                cables += seen->pairs[i].v[2];
        most = cables > most ? cables : most;
    }
    *l = (struct pdl_node_links){.type = "NVLink",
                                 .link_bytes_per_s = rate,
                                 .latency_s = l->latency_s,
                                 .reduces = l->reduces};
    if (seen->switch_links > 0) {
        l->shape = PDL_LINKS_SWITCH;
        l->bytes_per_s = rate * (double)seen->switch_links;
    } else {
        l->shape = PDL_LINKS_GRAPH;
        l->bytes_per_s = rate * (double)most;
        l->pairs = seen->pairs;
        l->npairs = seen->npairs;
    }
    return PDL_OK;
}

static enum pdl_status apply_nics(pdl_arena *a,
                                  const struct system_seen_node *seen,
                                  struct pdl_system *sys, struct pdl_err *err)
{
    struct pdl_nics *n = &sys->node.nics;

    if (seen->nics == 0)
        return PDL_OK;
    n->npes = 0;
    n->count = seen->nics;
    if (seen->nic_bytes_per_s > 0) {
        if (n->bytes_per_s != seen->nic_bytes_per_s)
            n->measured_bytes_per_s = 0;
        n->bytes_per_s = seen->nic_bytes_per_s;
    }
    if (n->bytes_per_s == 0) {
        n->bytes_per_s = system_round(seen->pcie_bytes_per_s);
        if (n->bytes_per_s == 0)
            n->count = 0;
        return DOUBT("node.nics.bandwidth: not in the file; at most the rate "
                     "of PCIe");
    }
    return PDL_OK;
}

static void apply_host(const struct system_seen_node *seen,
                       struct pdl_host *host)
{
    if (seen->sockets > 0)
        host->sockets = seen->sockets;
    if (seen->cores > 0)
        host->cores = seen->cores;
    if (seen->memory_bytes > 0)
        host->memory_bytes = seen->memory_bytes;
    if (seen->pcie_bytes_per_s > 0)
        host->pcie_bytes_per_s = system_round(seen->pcie_bytes_per_s);
    if (seen->pes_per_switch > 0)
        host->pes_per_switch = seen->pes_per_switch;
}

enum pdl_status system_seen_apply(pdl_arena *a,
                                  const struct system_seen_node *seen,
                                  struct pdl_system *sys, struct pdl_err *err)
{
    bool blank = strcmp(sys->pe.name, "unknown") == 0;
    enum pdl_status st = PDL_OK;

    if (seen->model)
        st = pdl_pe_open(a, seen->model, &sys->pe, err);
    else if (blank && seen->model_text)
        sys->pe.title = seen->model_text;
    if (st == PDL_OK && !seen->model && blank)
        st = DOUBT("pe: not known from the file; write it, or import with "
                   "--base SYSTEM");
    if (st != PDL_OK)
        return st;
    if (seen->gpus > 0 && seen->gpus != sys->node.pes) {
        sys->node.pes = seen->gpus;
        sys->node.links = (struct pdl_node_links){.type = NULL};
        sys->node.nics.npes = 0;
    }
    apply_host(seen, &sys->node.host);
    st = apply_links(a, seen, sys, err);
    return st == PDL_OK ? apply_nics(a, seen, sys, err) : st;
}
