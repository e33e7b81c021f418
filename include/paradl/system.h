/* paradl/system.h - a machine as a value: what one processing element (PE)
 * can do, how PEs sit in a node, how nodes are joined, and where each fact
 * comes from.
 *
 * A description is plain data in the caller's arena. It comes from a built-in
 * (systems/NAME.yaml, compiled in), from a user's YAML file, or from an
 * importer; doc/formats/system.md is the file format. Numbers are SI base
 * units; 0 means "not known" wherever 0 is not a sensible value, and every
 * rate is per direction.
 *
 * Nominal and measured stand side by side and are never mixed: bytes_per_s is
 * the line rate, measured_bytes_per_s what a benchmark reached (0: nobody
 * measured). The oracle's "ideal" parameters are the former, its "empirical"
 * ones the latter where known. */
#ifndef PARADL_SYSTEM_H
#define PARADL_SYSTEM_H

#include "paradl/base.h"

PDL_BEGIN

/* ---- the processing element ------------------------------------------- */

#define PDL_PRECISION_LIST(X)        \
    X(FP64, "fp64", 8)               \
    X(FP64_TENSOR, "fp64_tensor", 8) \
    X(FP32, "fp32", 4)               \
    X(TF32, "tf32", 4)               \
    X(FP16, "fp16", 2)               \
    X(BF16, "bf16", 2)               \
    X(FP8, "fp8", 1)                 \
    X(FP4, "fp4", 0.5)               \
    X(INT8, "int8", 1)

enum pdl_precision {
#define X(id, name, bytes) PDL_PREC_##id,
    PDL_PRECISION_LIST(X)
#undef X
        PDL_NPRECISIONS
};

const char *pdl_precision_name(enum pdl_precision p);
double pdl_precision_bytes(enum pdl_precision p); /* of one item in memory */
/* PDL_NPRECISIONS when there is none of that name. */
enum pdl_precision pdl_precision_find(const char *name);

/* One measured operator: what the calibration writes and the oracle's
 * empirical parameters read. dims are the local shape in the order the
 * operator documents (conv: n c h w f k stride pad; matmul: m n k). Either
 * seconds or efficiency (of the peak of that precision) is given. */
enum { PDL_PROFILE_DIMS = 12 };

struct pdl_profile_row {
    const char *op, *pass; /* "conv", "forward" */
    const char *precision; /* "fp32"; NULL: any */
    const int64_t *dims;
    int64_t ndims;
    double seconds, efficiency; /* one of them is > 0 */
};

/* How kernels reach the rates above: the named parameters of the oracle's
 * empirical mode, fitted by "calibrate --fit"; 0 reads as the default that
 * doc/formats/system.md gives. */
struct pdl_kernels {
    /* part of the sustained matrix rate that convolution's inner loop reaches,
     * by pass and precision; above 1 where that rate hides fixed costs */
    double conv_forward[PDL_NPRECISIONS], conv_data[PDL_NPRECISIONS],
        conv_weights[PDL_NPRECISIONS];
    double conv_tile_s, matmul_tile_s; /* fixed time of one wave of tiles */
    double conv_epilogue,
        matmul_epilogue; /* exposed part of the output write */
    double tile_fill;    /* part of a wave that a half-empty one saves */
    double vector_tile;  /* least filters of a tile without matrix units */
    double pad_cost;     /* copies of a tensor whose channels are not aligned */
    double unaligned_batched; /* FLOP/s of batched products whose rows are not
                                 a multiple of 16 bytes; 0: not known */
    double attention_forward, attention_backward; /* of the peak, long rows */
    /* the same at most of FlashAttention 2, where newer kernels reach more; and
     * what is left of the part that still older ones reach elsewhere; 0: all */
    double flash2_forward, flash2_backward, attention_older;
    /* part of the streaming rate that normalisation reaches, counting x twice
     * and y forward, x and dy twice and dx backward */
    double batch_norm_forward[PDL_NPRECISIONS],
        batch_norm_backward[PDL_NPRECISIONS],
        layer_norm_forward[PDL_NPRECISIONS];
    double norm_row_s; /* share of a row's fixed time that all units show */
    /* One call through an eager framework while the device waits for it:
     * what a layer measured alone shows beyond its kernels. */
    double call_s, call_conv_s, call_conv_data_s, call_conv_weights_s,
        call_backward_s;
};

struct pdl_pe {
    const char *name, *title, *vendor;
    const char *arch; /* "volta", "ampere", "hopper", "blackwell", ... */
    /* Data-sheet peak without sparsity, and the rate large matrix products
     * were measured to reach (power and clock included). */
    double peak_flop_per_s[PDL_NPRECISIONS];
    double matmul_flop_per_s[PDL_NPRECISIONS];
    int64_t memory_bytes;
    double memory_usable; /* part a job can have; 1 when not known */
    double memory_bytes_per_s;
    double memory_efficiency; /* of the above, reached by streaming kernels */
    int64_t l2_bytes;
    int64_t units; /* SMs, CUs, cores: what a wave of tiles fills */
    double clock_hz, sustained_hz;
    struct pdl_kernels kernels;
    double interference; /* part of it that the kernels of a collective hold,
                            and that computation beside them lacks */
    double launch_s;     /* fixed device time of one kernel */
    double host_call_s;  /* host time to issue one kernel, no framework */
    double idle_w, peak_w;
    double price_per_hour; /* in the system's currency */
    const struct pdl_profile_row *profile;
    int64_t nprofile;
    const char *const *sources, *const *unverified;
    int64_t nsources, nunverified;
};

/* The rate to plan with: measured where it is, else the peak times the
 * efficiency given (a guess the caller owns); 0 when neither is known. */
double pdl_pe_matmul_rate(const struct pdl_pe *pe, enum pdl_precision p,
                          double guess);

/* ---- the node --------------------------------------------------------- */

enum pdl_link_shape {
    PDL_LINKS_NONE,       /* PEs reach each other through the host */
    PDL_LINKS_ALL_TO_ALL, /* a direct link between every two */
    PDL_LINKS_SWITCH,     /* every PE to a non-blocking switch */
    PDL_LINKS_GRAPH,      /* pairs[] says which and how many */
    PDL_LINKS_FABRIC,     /* none of its own: the network joins the PEs */
    PDL_NLINK_SHAPES
};

const char *pdl_link_shape_name(enum pdl_link_shape s);

struct pdl_ints {
    const int64_t *v;
    int64_t n;
};

struct pdl_node_links {
    const char *type;        /* "NVLink3" */
    int64_t shape;           /* enum pdl_link_shape */
    double bytes_per_s;      /* of one PE, all its links */
    double pair_bytes_per_s; /* between two PEs; 0: from shape (see below) */
    double link_bytes_per_s; /* of one cable of pairs[] */
    double measured_bytes_per_s; /* ring bus bandwidth inside a full node */
    double latency_s, measured_latency_s; /* one message, PE to PE */
    bool reduces;                         /* the switch adds (NVLink SHARP) */
    double reduce_bytes_per_s;    /* measured allreduce bus bandwidth with it */
    const struct pdl_ints *pairs; /* rows of [a, b, number of cables] */
    int64_t npairs;
};

struct pdl_nics {
    const char *type;
    int64_t count;               /* in a node */
    double bytes_per_s;          /* of one */
    double measured_bytes_per_s; /* of one, in a large collective */
    double latency_s;            /* of one adapter */
    bool direct; /* reads and writes PE memory (GPUDirect RDMA) */
    const struct pdl_ints *pes; /* row i: the PEs next to NIC i; may be none */
    int64_t npes;
};

struct pdl_host {
    const char *title;
    int64_t sockets, cores; /* cores of the whole node */
    int64_t machines; /* with an operating system each, as the trays of a rack;
                         0: the node is one */
    int64_t memory_bytes;
    double memory_bytes_per_s;
    double pcie_bytes_per_s, pcie_latency_s; /* host to one PE */
    int64_t pes_per_switch;   /* PEs that share one PCIe switch; 0: none */
    double out_bytes_per_s;   /* one PE to host, where that is another rate */
    double copy_interference; /* of a copy's time computing lacks beside it */
    /* A message between PEs through host memory (MPI without GPUDirect):
     * what one of them takes beyond the wire. */
    double staged_latency_s, staged_bytes_per_s;
};

struct pdl_storage {
    const char *type;
    int64_t capacity_bytes;
    double bytes_per_s; /* node-local: of the node; shared: of the system */
    double node_bytes_per_s; /* shared: what one node can draw */
    double round_trip_s;     /* to open a file: to its server and back */
    double latency_s;        /* of that server for an open: one at a time */
    double contention_s;     /* more for every other PE that opens one too */
    double file_s; /* shared: to open and read a small file, over all clients */
};

struct pdl_node_desc {
    int64_t pes;
    struct pdl_node_links links;
    struct pdl_nics nics;
    struct pdl_host host;
    struct pdl_storage storage; /* node-local */
    double idle_w, peak_w;      /* without the PEs */
};

/* ---- the network ------------------------------------------------------ */

struct pdl_pair {
    const char *key, *value;
};

/* A level above the node as the file gives it. Rates left out (0) follow the
 * NICs, so that nic=4x25GB/s changes every level. */
struct pdl_tier {
    const char *name;
    int64_t nodes; /* in one group; 0: all of the system */
    double bytes_per_s, measured_bytes_per_s; /* of one PE */
    double flow_bytes_per_s;                  /* of one message */
    double latency_s, measured_latency_s;
    double oversubscription; /* >= 1 */
    double switch_w;         /* power of the level's switches, per node */
};

/* One measured collective, with the line fitted through it:
 * seconds = alpha_s + bytes / bytes_per_s (bytes as nccl-tests counts them),
 * off by at most max_error (relative) over the sizes it was fitted to. */
struct pdl_collective_fit {
    const char *op, *library, *source;
    int64_t pes, nodes;
    double alpha_s, bytes_per_s, max_error, min_bytes, max_bytes;
    double bus_bytes_per_s; /* largest bus bandwidth seen */
    /* rows of [bytes, nanoseconds] or [bytes, nanoseconds, signals that a rank
     * waits for, bytes that it copies or combines] */
    const struct pdl_ints *times;
    int64_t ntimes;
};

struct pdl_network {
    const char *topology; /* type: "fat-tree", "torus", "dragonfly", "abci" */
    const struct pdl_pair *params; /* the rest, as text, for the net room */
    int64_t nparams;
    const char *library; /* whose collectives run: "nccl", "mpi", ... */
    double layer_step_s; /* the same of a layer's collective; 0: as it */
    double step_s; /* measured time of one ring step that leaves a node; 0:
                      each level's own */
    double sync_s; /* of one collective that the host waits for */
    const struct pdl_tier *tiers;
    int64_t ntiers;
};

/* ---- the system ------------------------------------------------------- */

/* A measured fact that belongs to no other field. */
struct pdl_fact {
    const char *name;
    double value;
    const char *unit, *note;
};

/* Derived: how two PEs whose nearest common group is this one exchange a
 * message. levels[0] is the node; the last one holds every PE. The rates are
 * what one PE can inject; when every PE of the group sends across this level
 * at once, divide them by oversubscription. */
struct pdl_level {
    const char *name;
    int64_t pes;                              /* in one group of this level */
    double bytes_per_s, measured_bytes_per_s; /* of one PE */
    double flow_bytes_per_s;                  /* of one message alone */
    double latency_s, measured_latency_s;
    double oversubscription;
};

/* How well a fitted parameter is known: 80 % within exp(+-spread). Parameters
 * of one move are off together; 0: this one by itself. */
struct pdl_spread {
    const char *parameter;
    double spread;
    int64_t move;
};

/* Nodes whose PEs are of another kind, in the order of the nodes. */
struct pdl_pe_group {
    struct pdl_pe pe;
    int64_t nodes;
    int64_t group; /* 1 + the group of the machine they are of; 0: none */
};

/* Nodes that another system describes, part of a machine with several kinds
 * of them. */
struct pdl_node_group {
    const char *name, *system; /* name: the system's where none is given */
    int64_t nodes;
    const struct pdl_system *whole; /* that system, as large as all groups */
};

struct pdl_system {
    const char *name, *title;
    const char *hosts;   /* host list, when imported: "n[1-4]" */
    int64_t nodes;       /* as asked for */
    int64_t built_nodes; /* as published; 0: a design of any size */
    bool grown;          /* nodes was raised above what was described */
    struct pdl_pe pe;    /* of all nodes, or of those after pe_groups */
    const struct pdl_pe_group *pe_groups;
    int64_t npe_groups;
    const struct pdl_node_group *groups; /* then pe_groups say where they are */
    int64_t ngroups;
    struct pdl_node_desc node;
    struct pdl_network network;
    struct pdl_storage storage; /* the shared file system */
    const char *currency;
    double projection_error; /* 80 % of projections are within exp(+-this) of
                                runs a fit did not see; 0: not known */
    const struct pdl_spread *spreads; /* of fitted parameters */
    int64_t nspreads;
    const struct pdl_collective_fit *collectives;
    int64_t ncollectives;
    const struct pdl_fact *measured;
    int64_t nmeasured;
    const char *const *sources, *const *unverified;
    int64_t nsources, nunverified;
    /* What parameters and growth changed, in sentences. */
    const char *const *notes;
    int64_t nnotes;
    const struct pdl_level *levels; /* derived; see pdl_system_update */
    int nlevels;
};

/* A SYSTEM as people name it: a built-in ("abci-v100"), a built-in with
 * parameters ("dgx-a100:nodes=48,nic=4x12.5GB/s"), or a file "*.yaml", which
 * takes them as well ("here.yaml:pe.memory=8GiB"). */
enum pdl_status pdl_system_open(pdl_arena *a, const char *name,
                                struct pdl_system *out, struct pdl_err *err);
/* From text in memory; name is for messages. */
enum pdl_status pdl_system_read(pdl_arena *a, struct pdl_bytes in,
                                const char *name, struct pdl_system *out,
                                struct pdl_err *err);
/* Sets one parameter; pdl_system_update must follow. Keys: nodes, pe,
 * pes_per_node, nic, mem, PRECISION_matmul, PRECISION_peak, or the dotted
 * path of any number in the file ("node.links.latency"). */
enum pdl_status pdl_system_set(pdl_arena *a, struct pdl_system *sys,
                               const char *key, const char *value,
                               struct pdl_err *err);
/* Derives levels[] and checks; after any change by hand. */
enum pdl_status pdl_system_update(pdl_arena *a, struct pdl_system *sys,
                                  struct pdl_err *err);
/* PEs of a machine with an operating system of its own: of a node, or of a tray
 * of one (host.machines). */
int64_t pdl_system_machine_pes(const struct pdl_system *sys);
/* Makes room for this many PEs: a smaller system grows, sets grown and says
 * so in notes. */
enum pdl_status pdl_system_for_pes(pdl_arena *a, struct pdl_system *sys,
                                   int64_t pes, struct pdl_err *err);
/* Invariants that every description keeps. PDL_EINVAL names the first one
 * that is broken. */
enum pdl_status pdl_system_check(const struct pdl_system *sys,
                                 struct pdl_err *err);
/* The file again, complete (PE and all): reading it gives the same system and
 * writing that gives the same text. */
void pdl_system_write(const struct pdl_system *sys, struct pdl_sink *out);
/* The same as fields of the open JSON object, SI base units, the unit in the
 * name (memory_bytes, latency_s, bandwidth_bytes_per_s). */
void pdl_system_json(const struct pdl_system *sys, struct pdl_json *j);

static inline int64_t pdl_system_pes(const struct pdl_system *sys)
{
    return sys->nodes * sys->node.pes;
}

/* The kind of PE that a node has. */
const struct pdl_pe *pdl_system_pe(const struct pdl_system *sys, int64_t node);

/* The group that a node is of; -1: there are none, or it is beyond them. */
int64_t pdl_system_group(const struct pdl_system *sys, int64_t node);

/* The index into levels[] of the smallest group that holds both PEs, PEs
 * being numbered node by node. */
int pdl_system_level(const struct pdl_system *sys, int64_t a, int64_t b);
/* ... and that holds a block of this many consecutive PEs from 0. */
int pdl_system_level_of(const struct pdl_system *sys, int64_t pes);
/* Rate between two PEs of one node; 0 when no link joins them. */
double pdl_node_pair_rate(const struct pdl_node_desc *node, int64_t a,
                          int64_t b);

/* The network as a TOPOLOGY of the command line ("nodes:nodes=32,pes=8,...",
 * "torus:16x16x16,..."), one host a PE, node by node; see
 * src/system/topology.c for what is approximated. */
enum pdl_status pdl_system_topology(pdl_arena *a, const struct pdl_system *sys,
                                    const char **out, struct pdl_err *err);
/* Extents of the torus that so many of its PEs are, the first runs fastest: as
 * described, or as even ones as their number allows; how many. 0: the network
 * is no torus. */
enum { PDL_TORUS_DIMS = 8 };
int pdl_system_torus(const struct pdl_system *sys, int64_t pes,
                     int64_t dims[PDL_TORUS_DIMS]);
/* Puts measured rates and latencies in the place of the nominal ones of
 * levels[], where there are any. */
enum pdl_status pdl_system_measured(pdl_arena *a, struct pdl_system *sys,
                                    struct pdl_err *err);

/* The built-ins, sorted by name; NULL past the end. text is the YAML. */
struct pdl_builtin {
    const char *name, *text;
    size_t len;
};
const struct pdl_builtin *pdl_system_builtin(int i);
const struct pdl_builtin *pdl_pe_builtin(int i);
/* Reads a PE of the library by name, with a did-you-mean. */
enum pdl_status pdl_pe_open(pdl_arena *a, const char *name, struct pdl_pe *out,
                            struct pdl_err *err);
/* The library's PE that a driver calls this ("NVIDIA A100-SXM4-40GB",
 * "Tesla V100-SXM3-32GB-H"); NULL when none matches. */
const char *pdl_pe_of_model(const char *model);

/* ---- NCCL's own latency and rate tables ------------------------------- */

/* Software latency of NCCL's algorithms and protocols: base + hops of each
 * kind, as its tuner has them (src/graph/tuning.cc). base 0: none given. */
struct pdl_nccl_latency {
    const char *algorithm, *protocol;
    double base_s, nvlink_hop_s, pci_hop_s, net_hop_s;
};
/* Row i, or NULL past the end. */
const struct pdl_nccl_latency *pdl_nccl_latency(int i);

/* What the tuner assumes of an architecture; the three columns are 1, 2 and
 * 4 or more nodes. A channel is a ring or a tree of its own. */
struct pdl_nccl_rates {
    const char *arch;
    double nvlink_bytes_per_s; /* of one link */
    double ll_bytes_per_s[3];
    /* of a channel: tree, ring and tree by LL128, NVLS tree */
    double tree_bytes_per_s[3], ring_ll128_bytes_per_s,
        tree_ll128_bytes_per_s[3], nvls_tree_bytes_per_s[3];
    double nvls_part;         /* of a channel's rate that NVLS reaches */
    const double *near, *far; /* rates of channels tried in and between nodes,
                                  GB/s, down to 0 */
};
const struct pdl_nccl_rates *pdl_nccl_rates(const char *arch); /* or NULL */
/* Part of its rate that a tree reaches, by size: 64 B, 128 B, ... */
enum { PDL_NCCL_TREE_SIZES = 24 };
const double *pdl_nccl_tree_part(const char *protocol); /* or NULL */

/* One way that NCCL has for a collective, and the time that its tuner would
 * expect: latency_s + bytes / bytes_per_s. Channels as a simple search finds
 * them (doc/collectives.md). */
struct pdl_nccl_way {
    const char *algorithm, *protocol;
    double seconds, latency_s, bytes_per_s;
    int channels;
    double channel_bytes_per_s;
};
enum { PDL_NCCL_WAYS = 16 };
/* All ways of allreduce, allgather, reduce-scatter or broadcast, the quickest,
 * which NCCL takes, first. per_node ranks are on each node (0: as many as it
 * has); bytes of each rank's whole buffer. */
enum pdl_status pdl_nccl_ways(const struct pdl_system *sys,
                              const char *collective, int64_t ranks,
                              int64_t per_node, int64_t bytes,
                              struct pdl_nccl_way *out, int *n,
                              struct pdl_err *err);

/* ---- importers -------------------------------------------------------- */

/* What an importer may be told besides the file. */
struct pdl_import {
    int64_t np;        /* ranks (OSU prints none); 0: not given */
    int64_t nodes;     /* nodes the ranks ran on; 0: from the file */
    const char *op;    /* collective, where the log does not say it */
    const char *tasks; /* SLURM_TASKS_PER_NODE, for host lists */
};

/* One descriptor an importer. It changes *sys, which holds the base system
 * (or an empty one with one node), and adds to sources and unverified. */
struct pdl_importer {
    const char *name, *summary;
    enum pdl_status (*run)(pdl_arena *a, struct pdl_bytes in, const char *name,
                           const struct pdl_import *how, struct pdl_system *sys,
                           struct pdl_err *err);
};
const struct pdl_importer *pdl_importer_at(int i); /* NULL past the end */

/* A system to import into when no base is named: one node, one unknown PE. */
void pdl_system_blank(struct pdl_system *out);

/* alpha + bytes/rate through measured times. max_error is the largest
 * relative error of the line over the points. */
struct pdl_fit {
    double alpha_s, bytes_per_s, max_error, mean_error;
    int points;
};
/* Minimises the sum of absolute relative errors, with alpha >= 0 (see
 * src/system/fit.c); needs two different sizes. bytes_per_s is 0 when the
 * times do not grow with size. */
enum pdl_status pdl_fit_line(const double *bytes, const double *seconds, int n,
                             struct pdl_fit *out, struct pdl_err *err);

/* Seconds of a collective of so many bytes on so many PEs, read between the
 * measured times (collectives[].times) of the nearest sizes and numbers of
 * PEs; false: it was not measured at all. */
bool pdl_collective_seconds(const struct pdl_system *sys, const char *op,
                            int64_t pes, int64_t bytes, double *out);

/* What one signal of another rank costs where ranks share processors: a
 * process has to give way and get its turn again. From the shortest measured
 * collectives of this kind on more PEs than the node has cores; 0: none. */
double pdl_collective_signal_s(const struct pdl_system *sys, const char *op);

/* Slurm host lists: "gpu[001-004,010],cpu7". Duplicates are kept, zero
 * padding too. At most PDL_MAX_HOSTS names. */
enum { PDL_MAX_HOSTS = 1 << 20 };

struct pdl_hosts {
    const char **names;
    int64_t count;
};
enum pdl_status pdl_hostlist_expand(pdl_arena *a, const char *text,
                                    struct pdl_hosts *out, struct pdl_err *err);
/* The way back: neighbours with the same prefix and width join to ranges. */
enum pdl_status pdl_hostlist_compress(pdl_arena *a, const struct pdl_hosts *in,
                                      const char **out, struct pdl_err *err);
/* By prefix, then by number, so that n2 stands before n10. */
void pdl_hostlist_sort(struct pdl_hosts *hosts);
/* Which hosts hang on which leaf switch: Slurm's topology.conf. */
struct pdl_leaf {
    const char *name;
    struct pdl_hosts hosts;
};
struct pdl_switches {
    int64_t n;
    const struct pdl_leaf *leaf;
};
enum pdl_status pdl_switches_read(pdl_arena *a, struct pdl_bytes in,
                                  const char *name, struct pdl_switches *out,
                                  struct pdl_err *err);
/* The leaf of a host; -1: none. */
int64_t pdl_switches_find(const struct pdl_switches *s, const char *host);

/* SLURM_TASKS_PER_NODE "8(x4),2": one number a node. */
enum pdl_status pdl_tasks_expand(pdl_arena *a, const char *text,
                                 struct pdl_ints *out, struct pdl_err *err);

PDL_END
#endif
