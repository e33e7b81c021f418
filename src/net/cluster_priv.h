/* Shared by the clusters of GPU nodes of the allreduce papers: the builder of
 * nodes (GPUs, NVLink, PCIe switches), switches whose crossing is a link, and
 * trunks. */
#ifndef CLUSTER_PRIV_H
#define CLUSTER_PRIV_H

#include "topo_priv.h"

/* A pair of GPUs of a node joined by `width` NVLinks. */
struct net_nvlink {
    int a, b, width;
};

/* What the nodes of a cluster are made of. */
struct net_node_kind {
    int gpus, nnvlinks;
    const struct net_nvlink *nvlinks; /* NULL: all hang on an NVSwitch */
    const int *order;                 /* GPUs by rank; NULL: as numbered */
    double nvlink_bytes_per_s, nvlink_s, nvlink_idle_w, nvlink_peak_w;
    double pcie_latency_s; /* GPU to PCIe switch, 16 GB/s */
    double hca_idle_w, hca_peak_w;
    bool hub; /* only the last GPU can be reached through the NVSwitch */
    bool watts_by_width; /* the watts are those of one NVLink of a bundle */
};

struct net_cluster {
    struct net_cables c;
    const struct net_node_kind *kind;
    int nodes;
    int *crossing_of;     /* vertex -> its crossing link, -1 none */
    double rate, latency; /* of a network cable */
};

/* Cables are shared by both directions unless duplex=full was given, as the
 * platforms of the papers have them. */
void net_cluster_init(struct net_cluster *k, pdl_arena *a,
                      const struct pdl_topo_values *v,
                      const struct net_node_kind *kind, int64_t nodes,
                      int64_t extra, struct pdl_net *net, struct pdl_err *err);
/* Switch i outside the nodes. */
int net_cluster_switch(const struct net_cluster *k, int i);
/* Makes crossing switch i cost a link. */
void net_cluster_crossing(struct net_cluster *k, int i, double bytes_per_s,
                          double latency_s);
/* A trunk of `width` network cables from a vertex up to switch i. */
void net_cluster_up(struct net_cluster *k, int vertex, int i, int width,
                    double idle_w, double peak_w);
/* The adapter cable of a PCIe switch up to switch i. */
void net_cluster_hca(struct net_cluster *k, int node, int plx, int i);
enum pdl_status net_cluster_done(struct net_cluster *k, pdl_arena *a,
                                 struct pdl_net *net, struct pdl_err *err);

#endif
