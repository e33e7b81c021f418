/* paradl/coll.h - collective algorithms as data.
 *
 * An algorithm is a pure function: step s of rank r, for a job of given size.
 * A step holds no callbacks, so the same steps can be proved, priced,
 * simulated, printed and executed, in any order and without listing them.
 *
 * Each rank has numbered buffers, each cut into equal chunks (chunk c of n of
 * count items is [floor(c*count/n), floor((c+1)*count/n)) ). A message is up
 * to three spans of chunks; the receiver's spans list as many chunks of the
 * same sizes, and the i-th chunk sent becomes the i-th chunk received.
 * Messages from one rank to another match in the order of the sender's and
 * the receiver's step numbers.
 *
 * Buffer 0 holds the input. The collective says which buffer holds the result
 * (0 when it works in place); the others start as zeros. */
#ifndef PARADL_COLL_H
#define PARADL_COLL_H

#include "paradl/base.h"
#include "paradl/net.h"

PDL_BEGIN

/* ---- steps ------------------------------------------------------------ */

/* n runs of `run` chunks, the i-th starting at first + i*stride, all modulo
 * the number of chunks of the buffer. */
struct pdl_span {
    int buf;
    int64_t first, run, stride, n;
};

enum pdl_act {
    PDL_ACT_COPY,   /* what arrives overwrites */
    PDL_ACT_REDUCE, /* what arrives is added */
};

enum { PDL_STEP_SPANS = 3, PDL_STEP_AFTER = 4 };

/* A step starts when the steps it waits for are complete, and is complete
 * when its own send and its own receive are. What it sends is what the spans
 * held before anything of the same step arrived. A step that neither sends
 * nor receives joins the ones it waits for. */
struct pdl_step {
    int send_to, recv_from; /* -1: none; own rank (both): a local copy */
    int nsend, nrecv;       /* spans */
    struct pdl_span send[PDL_STEP_SPANS], recv[PDL_STEP_SPANS];
    enum pdl_act act;
    /* Sparse algorithms: how many ranks' contributions each chunk of the
     * message unites; 0: a dense message. */
    int send_terms, recv_terms;
    int nafter; /* earlier steps of this rank it waits for */
    int64_t after[PDL_STEP_AFTER];
};

/* ---- jobs ------------------------------------------------------------- */

struct pdl_alg;
struct pdl_coll_program;

enum { PDL_COLL_BUFS = 4 };

struct pdl_coll_buf {
    int64_t count;  /* elements */
    int64_t chunks; /* equal chunks it is cut into */
};

/* What may follow an algorithm's name: "ring-ring:k=4". 0: not given; after
 * pdl_coll_setup the value in use. Which of them an algorithm takes is in its
 * table of keys. */
struct pdl_coll_params {
    int64_t k;        /* ranks per node */
    int64_t root;     /* broadcast */
    int64_t segments; /* pipelined algorithms */
    int64_t p, q;     /* DLN: 2^p ports a switch, 2^q switches */
    int64_t g;        /* ranks per port */
    int64_t shift;    /* SHD: the bit whose ranks are shifted */
    int64_t x, y, z;  /* extents of a torus, a grid of ranks */
    int64_t d;        /* Kautz degree */
    int64_t round;    /* pairwise exchange: which pairing */
};

struct pdl_coll_job {
    const struct pdl_alg *alg;
    int nranks;
    int64_t count;  /* elements of buffer 0 on every rank */
    int elem_bytes; /* 4 for float32 */
    double density; /* share of non-zeros of each input; 0 or 1: dense */
    /* Time of a rank for each byte that arrived, added or put in its place,
     * before it goes on: dense ones, those of pairs of index and value. */
    double dense_s_per_byte, pairs_s_per_byte;
    struct pdl_coll_params params;
    const struct pdl_coll_program *program; /* algorithms read from text */

    /* written by pdl_coll_setup */
    int nbufs;
    struct pdl_coll_buf buf[PDL_COLL_BUFS];
    int64_t aux[8]; /* the algorithm's own derived numbers */
};

/* What an algorithm costs without contention: T = rounds*alpha +
 * bytes*beta + reduced*gamma on the critical path. */
struct pdl_coll_cost {
    double rounds, bytes, reduced;
};

/* ---- collectives and algorithms --------------------------------------- */

/* What a chunk of the result must hold. */
struct pdl_want {
    enum { PDL_WANT_ANYTHING, PDL_WANT_ONE, PDL_WANT_ALL } what;
    int from;      /* ONE: this rank's input ... */
    int64_t chunk; /* ... of this chunk (ALL: summed over all ranks) */
};

struct pdl_collective {
    const char *name, *summary;
    int result; /* the buffer the result is in */
    /* Is chunk c of buffer 0 an input of this rank? */
    bool (*holds)(const struct pdl_coll_job *job, int rank, int64_t c);
    struct pdl_want (*wants)(const struct pdl_coll_job *job, int rank,
                             int64_t c);
};

struct pdl_alg_key {
    const char *name;
    size_t offset; /* into struct pdl_coll_params */
    int64_t min, max;
    const char *help;
};

struct pdl_alg {
    const struct pdl_collective *collective;
    const char *name, *summary, *source;
    const char *steps, *bytes; /* of one rank, for people: "2(P-1)" */
    const char *limits;        /* which jobs it refuses; "" none */
    const struct pdl_alg_key *keys;
    int nkeys;
    bool sparse; /* messages are as long as their non-zeros need */
    bool pairs;  /* pairs of index and value also where dense is shorter */
    const void *family; /* which of those that share their functions */
    /* Refuses with a reason, or settles the parameters that were not given
     * and says which buffers it needs. */
    enum pdl_status (*setup)(struct pdl_coll_job *job, struct pdl_err *err);
    int64_t (*nsteps)(const struct pdl_coll_job *job, int rank);
    void (*step)(const struct pdl_coll_job *job, int rank, int64_t s,
                 struct pdl_step *out);
    /* How many steps from s on have, on every rank, the same peers and the
     * same number of chunks as step s, each waiting exactly for the one
     * before. NULL: 1. */
    int64_t (*alike)(const struct pdl_coll_job *job, int64_t s);
    /* Step s of any rank comes after all its steps up to s - window. NULL:
     * 1, each step waits for the one before. */
    int64_t (*window)(const struct pdl_coll_job *job);
    /* Which turns of the ranks (net.h) change nothing, where all chunks are
     * equal. NULL: none. */
    void (*turns)(const struct pdl_coll_job *job, struct pdl_turns *out);
    void (*cost)(const struct pdl_coll_job *job, struct pdl_coll_cost *out);
};

const struct pdl_collective *pdl_collective_at(int i); /* NULL past the end */
const struct pdl_collective *pdl_collective_find(const char *name);
const struct pdl_alg *pdl_alg_at(int i); /* NULL past the end */
const struct pdl_alg *pdl_alg_find(const char *collective, const char *name);

/* Reads "ring-ring:k=4" into job->alg and job->params; the message of an
 * unknown name has a did-you-mean. */
enum pdl_status pdl_alg_parse(const char *collective, const char *spec,
                              struct pdl_coll_job *job, struct pdl_err *err);
/* Is there such an algorithm, with such parameters? (of plans' options) */
enum pdl_status pdl_alg_known(const char *collective, const char *spec,
                              struct pdl_err *err);
/* Checks the job and lets the algorithm settle it. PDL_EINVAL and a reason
 * when it does not run on this many ranks or elements. */
enum pdl_status pdl_coll_setup(struct pdl_coll_job *job, struct pdl_err *err);
/* Both: a job ready to use. */
enum pdl_status pdl_coll_job_make(const char *collective, const char *spec,
                                  int nranks, int64_t count, int elem_bytes,
                                  struct pdl_coll_job *job,
                                  struct pdl_err *err);

int64_t pdl_coll_nsteps(const struct pdl_coll_job *job, int rank);
void pdl_coll_step(const struct pdl_coll_job *job, int rank, int64_t s,
                   struct pdl_step *out);
/* Elements of one chunk, of spans, and bytes on the wire of a message. */
int64_t pdl_coll_chunk_begin(const struct pdl_coll_buf *buf, int64_t c);
int64_t pdl_coll_span_chunks(const struct pdl_span *spans, int n);
int64_t pdl_coll_span_count(const struct pdl_coll_job *job,
                            const struct pdl_span *spans, int n);
int64_t pdl_coll_send_bytes(const struct pdl_coll_job *job,
                            const struct pdl_step *step);
int64_t pdl_coll_recv_bytes(const struct pdl_coll_job *job,
                            const struct pdl_step *step);
/* Expected bytes of a stream of `count` elements that unites `terms` inputs
 * of density q (SparCML streams: a length, then values, or index and value
 * pairs while that is shorter). */
double pdl_coll_sparse_bytes(int64_t count, int elem_bytes, double q,
                             int terms);

/* Columns of the two factors by which PowerSGD sends a matrix, of at most
 * `rank`; 0: it is sent as it is, because factors would save less than half
 * (as PyTorch's hook decides). */
int64_t pdl_coll_factors(int64_t rows, int64_t cols, int64_t rank);

/* ---- proof ------------------------------------------------------------ */

struct pdl_coll_proof {
    int64_t steps;          /* of the rank that has most */
    int64_t messages;       /* between different ranks */
    int64_t max_rank_bytes; /* sent by the rank that sends most */
    int ports;              /* most sends a rank has open at a time */
    bool exact; /* by sets; false: by random labels (see verify.c) */
};

/* Proves that the job ends with the right contents on every rank whatever
 * order its steps take: PDL_EWRONG and the first thing that is wrong. */
enum pdl_status pdl_coll_verify(const struct pdl_coll_job *job,
                                struct pdl_coll_proof *proof,
                                struct pdl_err *err);

/* ---- execution in one process ----------------------------------------- */

enum pdl_coll_type { PDL_COLL_INT64, PDL_COLL_FLOAT64 };

/* Runs every rank's program on real buffers: bufs[rank*nbufs + b] has
 * job->buf[b].count elements of 8 bytes. The order of the steps is any legal
 * one, drawn from the seed. PDL_EWRONG when it comes to a stop. */
enum pdl_status pdl_coll_exec(const struct pdl_coll_job *job,
                              enum pdl_coll_type type, void *const *bufs,
                              uint64_t seed, struct pdl_err *err);

/* ---- programs as text ------------------------------------------------- */

/* Every step of every rank, listed: an algorithm for one number of ranks. */
struct pdl_coll_program {
    struct pdl_alg alg; /* its collective and name */
    int nranks;
    int nbufs;
    struct pdl_coll_buf buf[PDL_COLL_BUFS];
    struct pdl_coll_params params; /* what the collective needs (root ...) */
    int elem_bytes;
    double density;
    int64_t *nsteps;         /* of each rank */
    struct pdl_step **steps; /* of each rank */
};

enum pdl_status pdl_coll_list(const struct pdl_coll_job *job, pdl_arena *a,
                              struct pdl_coll_program **out,
                              struct pdl_err *err);
/* A job that runs the program, at the size it was listed for. Another count
 * may be set before pdl_coll_setup where it divides. */
void pdl_coll_program_job(const struct pdl_coll_program *prog,
                          struct pdl_coll_job *job);
/* rank < 0: all ranks. */
void pdl_coll_print(const struct pdl_coll_job *job, int rank,
                    struct pdl_sink *out);
enum pdl_status pdl_coll_parse(pdl_arena *a, struct pdl_bytes text,
                               const char *name, struct pdl_coll_program **out,
                               struct pdl_err *err);
/* The XML that MSCCL's runtime loads. */
enum pdl_status pdl_coll_print_msccl(const struct pdl_coll_job *job,
                                     struct pdl_sink *out, struct pdl_err *err);

/* An allreduce that switches add up on its way, in so many trees (0: as many as
 * a node has ranks, 1 where there is one node or none): its time, bounds and
 * loads. PDL_EINVAL where no switch joins all ranks. */
enum pdl_status pdl_coll_in_network(pdl_arena *a, const struct pdl_net *net,
                                    int nranks, int64_t bytes, int *trees,
                                    struct pdl_sim_result *out,
                                    struct pdl_err *err);

/* ---- cost, contention, traffic ---------------------------------------- */

/* The closed form; false when the algorithm has none. */
bool pdl_coll_closed_form(const struct pdl_coll_job *job,
                          struct pdl_coll_cost *out);

/* One round: the messages whose longest chain of earlier messages on their
 * own rank has the same length. */
struct pdl_coll_round {
    int64_t repeat;     /* this many rounds are the same */
    int64_t flows;      /* messages between different hosts */
    int64_t link_flows; /* on the busiest link */
    double link_s;      /* most bytes / bandwidth of a link */
    double message_s;   /* most bytes / bandwidth of a message alone */
    double latency_s;   /* longest route */
    int64_t bytes;      /* on all links together */
};

/* The rounds of a job on a network; rank r is on host host_of_rank[r] (NULL:
 * r). Rounds do not overlap in this model: T = sum of latency_s + link_s. */
enum pdl_status pdl_coll_contention(const struct pdl_coll_job *job,
                                    const struct pdl_net *net,
                                    const int *host_of_rank, pdl_arena *a,
                                    struct pdl_coll_round **rounds,
                                    int64_t *nrounds, struct pdl_err *err);

/* Seconds that a job takes at least, without a simulation; one rank on a host,
 * in the network's own order. 0: nothing is known. By what the first and the
 * last rank do (microseconds to find out); by what the busiest link carries
 * (every message is made once, and none is kept). */
double pdl_coll_ranks_floor(const struct pdl_net *net,
                            const struct pdl_coll_job *job, pdl_arena *a);
double pdl_coll_links_floor(const struct pdl_net *net,
                            const struct pdl_coll_job *job, pdl_arena *a);

/* Sets parameters of job->alg that were not given to what the network is:
 * ranks per node, extents of a torus, switches of a DLN. Before
 * pdl_coll_setup. */
void pdl_coll_suit(struct pdl_coll_job *job, const struct pdl_net *net);

/* dense_s_per_byte and pairs_s_per_byte of the programs of IPCCC 2019 under
 * SMPI (their host's time scaled by 5e10/7.8e12), settled on the 270 times of
 * its logs, like how far apart its ranks begin (the mean, scaled too). */
#define PDL_SMPI_DENSE_S_PER_BYTE 1.28e-12
#define PDL_SMPI_PAIRS_S_PER_BYTE 4e-12
#define PDL_SMPI_APART_S          1e-6

/* A job as the simulator sees it; job and host_of_rank must outlive it. */
void pdl_coll_traffic(const struct pdl_coll_job *job, const int *host_of_rank,
                      struct pdl_traffic *out);

/* ---- Chakra's execution traces ---------------------------------------- */

/* What was in them, of all ranks together. */
struct pdl_chakra_count {
    int64_t nodes, computations, messages, collectives;
    int64_t untimed; /* computations and memory without a duration: no time */
};

/* Traces of all ranks (doc/simulator.md), a file each, perhaps gzipped. */
struct pdl_chakra {
    int nranks;
    const struct pdl_bytes *file;
    const char *const *name;
    struct pdl_bytes groups; /* JSON: {"name": [rank, ...]}; no data: none */
    const char *groups_name;
    /* Of every collective that has it and where it fits, else the first
     * listed that fits; NULL: always the first. */
    const char *algorithm;
    const struct pdl_net *net; /* for what follows from it; NULL: nothing */
};
enum pdl_status pdl_coll_read_chakra(pdl_arena *a, const struct pdl_chakra *in,
                                     struct pdl_traffic *out,
                                     struct pdl_chakra_count *count,
                                     struct pdl_err *err);

/* One node to write. Times are rounded to microseconds for others, and exact
 * for us. */
struct pdl_chakra_node {
    int64_t id;
    const char *name;
    enum {
        PDL_CHAKRA_NOTHING,
        PDL_CHAKRA_COMPUTE,
        PDL_CHAKRA_SEND,
        PDL_CHAKRA_RECV,
        PDL_CHAKRA_COLLECTIVE,
    } kind;
    double start_s, seconds;
    int64_t stream;                 /* below 0: not said */
    const char *collective, *group; /* of all ranks: no group */
    int rank, peer;
    int64_t bytes, tag;
    int nafter;
    const int64_t *after; /* ids */
};
/* The beginning of every rank's file, and a node behind it. */
enum pdl_status pdl_chakra_begin(struct pdl_sink *out, struct pdl_err *err);
enum pdl_status pdl_chakra_put(const struct pdl_chakra_node *node,
                               struct pdl_sink *out, struct pdl_err *err);
/* What a rank of a traffic does, as messages and computations. */
enum pdl_status pdl_coll_write_chakra(const struct pdl_traffic *t, int rank,
                                      struct pdl_sink *out,
                                      struct pdl_err *err);

PDL_END
#endif
