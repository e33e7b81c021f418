/* paradl/plan.h - what every processing element (PE) computes, keeps, sends
 * and frees in one training step.
 *
 * A strategy is text; a mesh gives its axes to ranks; a placement says which
 * part of a tensor a rank holds; boxes are those parts as numbers. */
#ifndef PARADL_PLAN_H
#define PARADL_PLAN_H

#include "paradl/base.h"
#include "paradl/model.h"

PDL_BEGIN

/* ---- strategy ---------------------------------------------------------- */

/* In the order the planner writes them: first slowest, last closest PEs. */
#define PDL_AXIS_LIST(X)                                \
    X(PIPE, "pipe", "stages of layers")                 \
    X(DATA, "data", "samples")                          \
    X(EXPERT, "expert", "experts of a mixture")         \
    X(CONTEXT, "context", "positions of a sequence")    \
    X(SPATIAL, "spatial", "depth, height and width")    \
    X(FILTER, "filter", "outputs of a weighted layer")  \
    X(CHANNEL, "channel", "inputs of a weighted layer") \
    X(TENSOR, "tensor", "heads, feed-forward width, vocabulary")

enum pdl_axis {
#define X(name, text, what) PDL_AXIS_##name,
    PDL_AXIS_LIST(X)
#undef X
        PDL_NAXES
};
const char *pdl_axis_name(enum pdl_axis axis);

enum { PDL_MAX_TERMS = PDL_NAXES, PDL_MAX_CLAUSES = 32 };

/* "@h100:2*3+a100:2*1" after an axis: so many of its ranks, in their order, lie
 * on nodes of a group of the machine, and each has so many shares of the
 * samples. 0: not said. */
struct pdl_term_part {
    const char *group;
    int64_t count, share;
};

/* "spatial=2x2" has two sizes, every other axis one. */
struct pdl_term {
    enum pdl_axis axis;
    int nsizes;
    int64_t size[3];
    int nparts; /* pipe and data: 0: wherever they come to lie */
    const struct pdl_term_part *part;
};

/* What backward reads of forward and is made again. */
enum pdl_recompute {
    PDL_RECOMPUTE_NONE,
    PDL_RECOMPUTE_SELECTIVE,    /* the attention core */
    PDL_RECOMPUTE_SELECTIVE_OP, /* every second matmul */
    PDL_RECOMPUTE_FULL,
};

/* The axes of some layers: a name, a range "conv1..pool5", a glob, an operator
 * "@conv", or "*". */
struct pdl_clause {
    const char *layers; /* "*": the whole model */
    int nterms;
    struct pdl_term term[PDL_MAX_TERMS];
    bool own_recompute; /* these layers choose for themselves */
    enum pdl_recompute recompute;
    /* in the host's memory: what they keep for backward, and what the
     * optimizer keeps for their weights */
    bool offload, offload_optimizer;
    const char *compress; /* of their gradients; "none"; NULL: as all */
};

/* Choices that are words; the parser, the printer and the messages read one
 * table (src/plan/strategy.c). 0 is the default everywhere. */
enum pdl_schedule {
    PDL_SCHEDULE_1F1B,
    PDL_SCHEDULE_GPIPE,
    PDL_SCHEDULE_INTERLEAVED,
    PDL_SCHEDULE_ZB_H1,
    PDL_SCHEDULE_ZB_H2,
    PDL_SCHEDULE_DUALPIPE,
    PDL_SCHEDULE_ZB_V,
};
/* Layers that let activations wait, chosen by the oracle: the first, as few as
 * it takes; or what is fastest, recomputation among it. */
enum pdl_swap { PDL_SWAP_NONE, PDL_SWAP_AUTO, PDL_SWAP_KARMA };
enum pdl_bn { PDL_BN_SPATIAL, PDL_BN_LOCAL, PDL_BN_SYNC };
enum pdl_context_kind { PDL_CONTEXT_RING, PDL_CONTEXT_A2A, PDL_CONTEXT_GATHER };
enum pdl_context_order { PDL_ORDER_ZIGZAG, PDL_ORDER_PLAIN };

struct pdl_strategy {
    int nclauses;
    struct pdl_clause clause[PDL_MAX_CLAUSES];

    enum pdl_schedule schedule;
    int64_t micro_batches;  /* m of pipe; 0: not given */
    int64_t virtual_stages; /* v of interleaved; 0: not given */
    const char *cuts;       /* at=conv3+fc6 of pipe: the first layer of each
                               stage but the first; NULL: cut by work */
    bool seq;               /* tensor=8+seq */
    enum pdl_context_kind context_kind;
    enum pdl_context_order context_order;
    double imbalance;         /* expert=8(imbalance=1.3): tokens of the busiest
                                 rank over the mean; 0: all have as many */
    int64_t zero, zero_group; /* zero=3:8; group 0: whole */
    enum pdl_recompute recompute;
    bool save_gathered;  /* save=gathered */
    bool memory_paper;   /* memory=paper: no reuse */
    bool exchange_paper; /* exchange=paper: as the closed forms assume */
    enum pdl_swap swap;
    bool offload_optimizer, offload_activations;
    int64_t prefetch;     /* groups that a copy has time for; 0: one */
    int64_t accumulate;   /* 0: not given */
    int64_t bucket_bytes; /* 0: default */
    bool no_overlap;
    const char *allreduce; /* NULL: auto; of every ALLREDUCE */
    const char *compress;  /* "topk:0.01"; NULL: none */
    enum pdl_bn bn;
    int64_t bn_groups; /* of a micro-batch, each with statistics of its own;
                          0: as many as ranks */
};

/* Parses the notation of the command line, e.g.
 * "pipe=8(1f1b,m=64),data=8,tensor=8+seq,zero=1" or
 * "*: data=16; conv1..pool5: spatial=4; fc6..fc8: filter=4". Messages give
 * the column. Whether the implementation exists is not decided here. */
enum pdl_status pdl_strategy_parse(pdl_arena *a, const char *text,
                                   struct pdl_strategy *out,
                                   struct pdl_err *err);
/* The shortest text that parses to the same strategy. */
void pdl_strategy_print(const struct pdl_strategy *s, struct pdl_sink *out);
/* The groups of layers whose copies go together: of each node; how many. */
int pdl_plan_groups(const struct pdl_model *m, int *group);
/* Do activations, of all layers or of some, wait in the host's memory? */
bool pdl_strategy_offloads(const struct pdl_strategy *s);
/* Are the optimizer's states of any layer there? */
bool pdl_strategy_hosts_states(const struct pdl_strategy *s);
/* Are gradients of any layer compressed? And of these: how; NULL: not. */
bool pdl_strategy_compresses(const struct pdl_strategy *s);
const char *pdl_strategy_compression(const struct pdl_strategy *s, int clause);
bool pdl_strategy_equal(const struct pdl_strategy *a,
                        const struct pdl_strategy *b);

/* ---- mesh -------------------------------------------------------------- */

enum { PDL_MAX_FACTORS = 16 };

/* Ranks are numbered row-major over the factors: the last is fastest. Each
 * term of each clause owns a run of factors. */
struct pdl_mesh {
    int nfactors;
    int64_t factor[PDL_MAX_FACTORS];
    int64_t pes; /* their product */
    /* factors [first, first + count) of size k of term t of clause c; terms
     * of "*" come first in every other clause's own list */
    struct pdl_mesh_term {
        enum pdl_axis axis;
        int dim; /* which size: spatial 0..2, else 0 */
        int first, count;
        int64_t size;
    } term[PDL_MAX_CLAUSES][2 * (PDL_MAX_TERMS + 2)];
    int nterms[PDL_MAX_CLAUSES];
    /* Samples that are not dealt evenly: the shares of the ranks along factor
     * `dealt`, as the strategy has them (and where it keeps them). */
    int dealt, nparts; /* nparts 0: all have as many */
    const struct pdl_term_part *part;
};

/* The common refinement of all clauses (specs: mesh). Refused: clauses whose
 * products differ, sizes that cannot be refined. */
enum pdl_status pdl_mesh_make(const struct pdl_strategy *s,
                              struct pdl_mesh *out, struct pdl_err *err);
/* The same for one model: a tensor axis that is a multiple of the groups of
 * heads that share keys has two factors, the groups (far) and the ranks among
 * which the queries of one group are dealt (close). */
enum pdl_status pdl_mesh_for(const struct pdl_strategy *s,
                             const struct pdl_model *m, struct pdl_mesh *out,
                             struct pdl_err *err);
/* Coordinate of a rank in factor f, and the rank of coordinates. */
int64_t pdl_mesh_coord(const struct pdl_mesh *m, int64_t rank, int f);
/* Part i of `parts` of n samples in units, which these factors cut, by the
 * shares of the mesh; pdl_split where all have as many. */
void pdl_mesh_split(const struct pdl_mesh *m, uint32_t factors, int64_t n,
                    int64_t unit, int64_t parts, int64_t i, int64_t *lo,
                    int64_t *hi);
/* Ranks of the group of `rank` over a set of factors (bit mask), in rank
 * order; returns how many, writes at most max. */
int64_t pdl_mesh_group(const struct pdl_mesh *m, int64_t rank, uint32_t factors,
                       int64_t *ranks, int64_t max);

/* ---- boxes ------------------------------------------------------------- */

/* struct pdl_box is base's: checkpoints and readers of data cut boxes too. */

/* Part i of p of n items in units of u: m = ceil(n/u) units are dealt as
 * evenly as floors allow; the last unit may be short, parts may be empty. */
void pdl_split(int64_t n, int64_t unit, int64_t parts, int64_t i, int64_t *lo,
               int64_t *hi);

/* A window along one dimension: kernel k, stride q, dilation e, padding a at
 * the low end, x items in, y items out. */
struct pdl_window {
    int64_t kernel, stride, dilation, pad;
    int64_t in, out;
};
/* Input items that output items [lo, hi) read, cut to the input. */
void pdl_window_reads(const struct pdl_window *w, int64_t lo, int64_t hi,
                      int64_t *first, int64_t *last);
/* Output items that read input items [lo, hi), cut to the output: what
 * backward-data needs of the gradient. */
void pdl_window_readers(const struct pdl_window *w, int64_t lo, int64_t hi,
                        int64_t *first, int64_t *last);

/* ---- the plan ---------------------------------------------------------- */

/* Where a tensor is, factor by factor: the dimension the factor shards (0 is
 * N for activations), or one of these. Of a partial tensor every rank has a
 * summand (or a candidate for the maximum); an allreduce of one adds up (or
 * takes the largest). */
enum { PDL_REPLICATED = -1, PDL_PARTIAL = -2, PDL_PARTIAL_MAX = -3 };

struct pdl_place {
    int8_t at[PDL_MAX_FACTORS];
};

#define PDL_PLAN_KIND_LIST(X)     \
    X(INPUT, "input")             \
    X(LABEL, "label")             \
    X(ACTIVATION, "activation")   \
    X(GRADIENT, "gradient")       \
    X(WEIGHT, "weight")           \
    X(WEIGHT_GRADIENT, "dweight") \
    X(STATE, "state")             \
    X(STATISTIC, "statistic")

enum pdl_plan_kind {
#define X(name, text) PDL_PLAN_##name,
    PDL_PLAN_KIND_LIST(X)
#undef X
};

/* A halo frame: the box in this dimension is what a window needs, not what
 * the split owns. READS: input items read by the rank's outputs; READERS:
 * outputs that read the rank's inputs. */
enum pdl_frame_kind { PDL_FRAME_NONE, PDL_FRAME_READS, PDL_FRAME_READERS };

struct pdl_frame {
    enum pdl_frame_kind kind;
    struct pdl_window window;
};
/* What most tensors have: no halo in any dimension. */
extern const struct pdl_frame pdl_no_frames[PDL_BOX_DIMS];

struct pdl_plan_tensor {
    const char *name; /* "conv1.y", "conv1.y.halo", "d(conv1.y)" */
    enum pdl_plan_kind kind;
    enum pdl_dtype dtype;
    int ndims;
    int64_t dim[PDL_BOX_DIMS];
    int64_t unit[PDL_BOX_DIMS]; /* of the split; 0 reads as 1 */
    struct pdl_place place;
    const struct pdl_frame *frame; /* [PDL_BOX_DIMS]; pdl_no_frames: none */
    int model_tensor;              /* -1: none */
    int stage;
    int round; /* rolled plans: of the rounds written, the one whose layers
                  made it; -1: none */
    bool host; /* in the memory of the PE's host: COPY_OUT and COPY_IN move it,
                  and an UPDATE of it runs there */
    /* Of every `of` items of its box a rank has `some`, on average: tokens
     * that visit its experts. An ALLTOALLV brings them from the ranks that
     * own them, or adds up what the experts say of them. Or: blocks of keys
     * that a ROTATE brings one after the other, or adds up, of which it has
     * `some` at a time. 0: has them all. */
    int64_t some, of;
};

#define PDL_PLAN_OP_LIST(X)             \
    X(COMPUTE, "compute")               \
    X(ALLREDUCE, "allreduce")           \
    X(REDUCE_SCATTER, "reduce-scatter") \
    X(ALLGATHER, "allgather")           \
    X(ALLTOALL, "alltoall")             \
    X(ALLTOALLV, "alltoallv")           \
    X(HALO, "halo")                     \
    X(ROTATE, "rotate")                 \
    X(SLICE, "slice")                   \
    X(SEND, "send")                     \
    X(RECV, "recv")                     \
    X(ADD, "add")                       \
    X(UPDATE, "update")                 \
    X(COPY_OUT, "copy-out")             \
    X(COPY_IN, "copy-in")               \
    X(FREE, "free")

enum pdl_plan_op_kind {
#define X(name, text) PDL_PLAN_OP_##name,
    PDL_PLAN_OP_LIST(X)
#undef X
};
const char *pdl_plan_op_name(enum pdl_plan_op_kind kind);

/* One operation, the same on all ranks of a stage; what is local follows from
 * the boxes of its tensors. A COMPUTE that is cut by an exchange (batch norm's
 * statistics, a bias after a partial sum) has parts 0 and 1. The loss (node
 * -1) of classes that are cut has three: y -> largest value; y, label,
 * largest -> sum of exponentials and value of the right class; y, label,
 * largest, sums -> gradient. Otherwise it is y, label -> gradient. */
struct pdl_plan_op {
    enum pdl_plan_op_kind kind;
    enum pdl_pass pass; /* COMPUTE */
    int part;
    int node; /* of the model; -1: none */
    int nin, nout;
    const int *in, *out; /* plan tensors */
    uint32_t group;      /* factors whose ranks take part */
    int round;           /* rolled plans: as of tensors */
    /* ALLREDUCE: by which algorithm (coll.h), as the strategy says; NULL: who
     * prices or runs it chooses */
    const char *algorithm;
    /* ALLREDUCE of weights' gradients: how they travel ("int8"); NULL: whole */
    const char *compress;
};

/* How gradients may travel (compress=), what is known of each, and the number
 * that follows its name. comm.h does it. */
enum pdl_compress_kind {
    PDL_COMPRESS_NONE,
    PDL_COMPRESS_TOPK,
    PDL_COMPRESS_INT8,
    PDL_COMPRESS_BF16,
    PDL_COMPRESS_FP16,
    PDL_COMPRESS_SIGN,
    PDL_COMPRESS_POWERSGD,
    PDL_COMPRESS_LOSSLESS,
    PDL_NCOMPRESS
};
struct pdl_compression {
    enum pdl_compress_kind kind;
    double value; /* topk: the share that is sent; powersgd: the rank */
};
const char *pdl_compress_name(enum pdl_compress_kind kind);
/* "topk:0.01"; false: there is none like that. NULL is NONE. */
bool pdl_compress_parse(const char *text, struct pdl_compression *out);

/* Operations in order; an item is run `repeat` times (a repeated block). */
struct pdl_plan_item {
    int first_op, nops;
    int64_t repeat;
    int segment; /* of the model */
};

/* A gradient that joined its bucket. */
struct pdl_plan_push {
    int stage, round;
    uint32_t group; /* the bucket's: factors over whose ranks it is summed */
    int64_t bytes;
    bool full; /* it filled the bucket */
};

/* A rolled plan is the plan of a shorter network. Of a segment that the model
 * repeats only some rounds are written, under their own names: in each run of
 * them 2 width + 1 units of `period` rounds, which are alike under a shift by
 * one, and what lies before and after. The middle unit is there `repeat`
 * times. Programs are three items, the middle one that unit; backward comes
 * to the units from the last.
 * An operation of the middle unit, in round r, that reads the unit before or
 * after reads round r - 1 or r + 1 of it. An operation of no unit that reads
 * all of them side by side (a bucket that is never full) reads every round. */
struct pdl_plan_roll {
    const struct pdl_model *model; /* all rounds */
    int segment, width, period;
    const int *fallback_round; /* of each fallback; -1: none */
    /* gradients as they joined their buckets; none: it was read from a file */
    const struct pdl_plan_push *pushes;
    int npushes, ngroups;
    const struct pdl_plan_units {
        int first;      /* of the rounds written: the first unit's first */
        int64_t repeat; /* of the middle unit */
    } * groups;
};

struct pdl_plan_stage {
    int first_node, nnodes;
    int first_forward, nforward;   /* items */
    int first_backward, nbackward; /* items */
    int first_update, nupdate;     /* items: gradient exchange, update */
};

/* Which position of a sequence stands at which place of what a context axis
 * cuts (src/plan/deal.c). Boxes are of places. ranks 0: every position at its
 * own place; else zigzag, of 2 ranks runs of positions rank r of so many has
 * the runs r and 2 ranks - 1 - r, so that a causal mask leaves all of them as
 * much work. */
struct pdl_deal {
    int64_t positions, ranks;
};
int64_t pdl_deal_position(const struct pdl_deal *d, int64_t place);
/* How many places, from this one on and before `end`, have positions that
 * follow each other. */
int64_t pdl_deal_run(const struct pdl_deal *d, int64_t place, int64_t end);
/* Do the places [lo,hi) have ever later positions? Their mean position. */
bool pdl_deal_ascends(const struct pdl_deal *d, int64_t lo, int64_t hi);
double pdl_deal_mean(const struct pdl_deal *d, int64_t lo, int64_t hi);

/* Operations that follow each other and may be one kernel: a normalisation with
 * the additions and the rectifier around it, a product with the sum it is added
 * to. Whether they are is the backend's choice. */
enum { PDL_GROUP_OPS = 4 };
struct pdl_plan_group {
    const char *name; /* "batch_norm+add+relu" */
    int n, op[PDL_GROUP_OPS];
};

struct pdl_plan {
    const struct pdl_model *model; /* what its operations name */
    /* what it was lowered from: FLOPs and weights of a sample are its */
    const struct pdl_model *given;
    const struct pdl_strategy *strategy;
    const struct pdl_mesh *mesh;
    struct pdl_deal deal; /* of dimension 1, where pdl_plan_dealt says so */
    int64_t batch; /* samples of a step, over all PEs and micro-batches */
    int64_t micro_batches; /* of each copy of the network: schedules */
    int ntensors, nops, nitems, nstages;
    const struct pdl_plan_tensor *tensors;
    const struct pdl_plan_op *ops;
    const struct pdl_plan_item *items;
    const struct pdl_plan_stage *stages;
    const int *forward_op; /* of each node: its first forward operation */
    const struct pdl_plan_group *groups;
    const int *group;  /* of each operation: its group, or -1 */
    const bool *inner; /* of each tensor: nobody but its group sees it */
    uint32_t pipe_factors;
    int lanes;      /* ranks along them: schedule.c */
    int nfallbacks; /* "fc6: spatial replicated" */
    const char *const *fallbacks;
    const struct pdl_plan_roll *roll; /* NULL: all rounds are written */
};

/* Where a pipeline is cut: by work, of transformers between blocks; between
 * repeated blocks, as many to each stage where that can be, what lies before
 * and after them goes to the ends, else by work (Megatron, torchtitan); or as
 * many as an even cut rounded up, to one stage after the other, so that the
 * last gets what is left (DeepSpeed). */
enum pdl_split { PDL_SPLIT_WORK, PDL_SPLIT_BLOCKS, PDL_SPLIT_GREEDY };

/* PEs of unequal speed, in the order of ranks: the first `pes` of them, and so
 * on. */
struct pdl_speed {
    int64_t pes;
    double speed;
};

struct pdl_plan_options {
    int64_t batch;
    enum pdl_dtype dtype; /* of activations and weights */
    bool allow_empty;
    bool gather_classes; /* the loss has all classes on every rank */
    bool rolled;         /* for those who ask for either: repeated blocks are */
    enum pdl_split split;
    /* a part of a network: inputs that other layers make, which want their
     * gradient, by tensor of a model without repeated blocks; NULL: none */
    const bool *inner;
    /* stages are cut in proportion to the slowest PE of each; NULL: all
     * equal */
    const struct pdl_speed *speeds;
    int nspeeds;
    /* refuses an algorithm of a collective that does not exist (coll.h's
     * pdl_alg_known); NULL: every name is taken */
    enum pdl_status (*knows)(const char *collective, const char *algorithm,
                             struct pdl_err *err);
};

/* Lowers model x strategy into the operations of one training step. Refused
 * with a reason: what the papers' limits forbid (batch smaller than the data
 * axis, an axis larger than the index it cuts, the layer named), a role named
 * for a layer that has no such index, notation not implemented yet. */
enum pdl_status pdl_plan_lower(pdl_arena *a, const struct pdl_model *model,
                               const struct pdl_strategy *strategy,
                               const struct pdl_plan_options *opt,
                               const struct pdl_plan **out,
                               struct pdl_err *err);
/* The same with repeated blocks rolled where all of them are lowered alike;
 * else, and where clauses name layers, it is written out (roll is NULL). */
enum pdl_status pdl_plan_lower_rolled(pdl_arena *a,
                                      const struct pdl_model *model,
                                      const struct pdl_strategy *strategy,
                                      const struct pdl_plan_options *opt,
                                      const struct pdl_plan **out,
                                      struct pdl_err *err);
/* Writes all rounds: what pdl_plan_lower makes of the same. A plan that is
 * not rolled is returned as it is. */
enum pdl_status pdl_plan_unroll(pdl_arena *a, const struct pdl_plan *p,
                                const struct pdl_plan **out,
                                struct pdl_err *err);
/* The tensors of all rounds of a plan, rolled or not, by the numbers that they
 * have when it is unrolled, without unrolling it. */
struct pdl_plan_rounds;
enum pdl_status pdl_plan_rounds_open(pdl_arena *a, const struct pdl_plan *p,
                                     const struct pdl_plan_rounds **out,
                                     struct pdl_err *err);
int pdl_plan_rounds_tensors(const struct pdl_plan_rounds *r);
/* What an operation reads, or makes, the visit-th time (from 0) that its item
 * is run. Returns how many; ids NULL: only that. */
int pdl_plan_rounds_ids(const struct pdl_plan_rounds *r, int op, int64_t visit,
                        bool outputs, int *ids);
/* The same rolled plan of a longer network, or a shorter one: the middle unit
 * of every group comes so many times more. Refused where it would come less
 * than twice, and where buckets would be full elsewhere. What does not depend
 * on it is shared with p; so are names, which in rounds after that unit are
 * p's. */
enum pdl_status pdl_plan_stretch(pdl_arena *a, const struct pdl_plan *p,
                                 int64_t more, const struct pdl_plan **out,
                                 struct pdl_err *err);
/* The same rolled plan, but that operations which read all rounds side by side
 * name a tensor as often as there are rounds of it: their bytes are right. */
enum pdl_status pdl_plan_write_gathers(pdl_arena *a, const struct pdl_plan *p,
                                       const struct pdl_plan **out,
                                       struct pdl_err *err);
/* The same plan with other numbers, without lowering it again: equal to what
 * pdl_plan_lower makes of them. Refused where that might have other operations;
 * they are shared with p, which must outlive it. */
struct pdl_plan_size {
    int64_t data;          /* ranks along the data axis */
    int64_t samples;       /* of a micro-batch, over all PEs */
    int64_t micro_batches; /* of a step */
    int64_t lanes;         /* of the mesh, for the same stages; 0: as it is */
};
/* One that is set again and again, in place: what it says holds until then. */
struct pdl_plan_sizer;
enum pdl_status pdl_plan_sizer_open(pdl_arena *a, const struct pdl_plan *p,
                                    struct pdl_plan_sizer **out,
                                    struct pdl_err *err);
enum pdl_status pdl_plan_sizer_set(struct pdl_plan_sizer *x,
                                   const struct pdl_plan_size *to,
                                   struct pdl_err *err);
const struct pdl_plan *pdl_plan_sizer_plan(const struct pdl_plan_sizer *x);
enum pdl_status pdl_plan_resize(pdl_arena *a, const struct pdl_plan *p,
                                const struct pdl_plan_size *to,
                                const struct pdl_plan **out,
                                struct pdl_err *err);
/* "backward-data conv1", "allreduce conv1.weight": one operation for people.
 * Returns buf. */
const char *pdl_plan_op_text(const struct pdl_plan *p, int op, char *buf,
                             size_t size);
/* Gradients are exchanged once so many bytes of them have come together. */
int64_t pdl_plan_bucket_bytes(const struct pdl_strategy *s);
/* The model with its repeated blocks written out, as lowering sees it; itself
 * where none is repeated. */
enum pdl_status pdl_plan_expand(pdl_arena *a, const struct pdl_model *model,
                                const struct pdl_model **out,
                                struct pdl_err *err);
/* Are two layers of one repeated block, by their names ("layers.17.attn.q")?
 * What is made again is chosen by block. */
bool pdl_same_block(const char *a, const char *b);
/* Repeated blocks of each of `stages` stages, as lowering cuts the model. */
enum pdl_status pdl_plan_blocks(pdl_arena *a, const struct pdl_model *model,
                                int64_t stages, enum pdl_split split,
                                int64_t *blocks, struct pdl_err *err);
/* The redistribution of one tensor alone, by the rules that lowering follows:
 * from how `from` lies on the mesh to the placement `to`, cut in `unit`s. The
 * plan has one stage, whose forward items are the operations (none where it
 * lies so already). The strategy is kept for what prices ask of it. */
enum pdl_status pdl_plan_move(pdl_arena *a, const struct pdl_strategy *strategy,
                              const struct pdl_mesh *mesh,
                              const struct pdl_plan_tensor *from,
                              const struct pdl_place *to, const int64_t *unit,
                              const struct pdl_plan **out, struct pdl_err *err);
/* The part of a tensor that a rank of its stage holds. */
void pdl_plan_box(const struct pdl_plan *p, int tensor, int64_t rank,
                  struct pdl_box *box);
/* Does dimension 1 of the tensor count places, not positions? */
bool pdl_plan_dealt(const struct pdl_plan *p, int tensor);
/* Items it really has there, on average (some of a box). */
int64_t pdl_plan_elements(const struct pdl_plan *p, int tensor, int64_t rank);
/* What one operation costs this rank: FLOPs (2 per multiply-add, of the local
 * contraction) and the bytes its operands and results occupy. Of collectives:
 * read_bytes is this rank's input, write_bytes its result. */
void pdl_plan_op_work(const struct pdl_plan *p, int op, int64_t rank,
                      struct pdl_work *out);
/* What the time of a local operation depends on: its operator and pass, FLOPs
 * and bytes, of contractions also what must be equal for two of them to be
 * alike (kernel, stride, groups) and extents (samples, channels, filters,
 * pixels, in whole tiles where kernels compute whole tiles). False: it is not
 * local, or copies a part (pdl_plan_copies): not the operator of its name. */
enum {
    PDL_KEY_FLOPS,
    PDL_KEY_BYTES,
    PDL_KEY_CLASS,                       /* three numbers */
    PDL_KEY_EXTENTS = PDL_KEY_CLASS + 3, /* up to four */
    PDL_KEY_DIMS = PDL_KEY_EXTENTS + 4,
    PDL_KEY_WIDE = 32 /* channels from which tiles may be transformed */
};
struct pdl_plan_key {
    const char *op, *pass;
    int64_t dims[PDL_KEY_DIMS];
    int ndims;
};
bool pdl_plan_op_key(const struct pdl_plan *p, int op, int64_t rank,
                     struct pdl_plan_key *out);

/* The group of a kind (from 0 on) that begins at op; those of `taken` belong to
 * others (NULL: none). False: there is none, or no such kind. */
bool pdl_plan_group_at(const struct pdl_plan *p,
                       const struct pdl_plan_item *item, int op, int kind,
                       const bool *taken, struct pdl_plan_group *out);
int pdl_plan_group_kinds(void);
/* The key of a group: work of all, bytes of what comes in and goes out. */
bool pdl_plan_group_key(const struct pdl_plan *p,
                        const struct pdl_plan_group *g, int64_t rank,
                        struct pdl_plan_key *out);
/* Bytes of tensor `to` that `rank` gets from `peer`, which holds `from`: the
 * intersection of their boxes, without what the rank has itself. */
int64_t pdl_plan_transfer(const struct pdl_plan *p, int from, int to,
                          int64_t peer, int64_t rank);
/* The same from each of n peers. */
void pdl_plan_transfers(const struct pdl_plan *p, int from, int to,
                        const int64_t *peers, int64_t n, int64_t rank,
                        int64_t *bytes);
/* Does the runtime keep this tensor's channels innermost? Activations with
 * spatial dimensions; weights lie as in files. */
bool pdl_plan_channels_last(const struct pdl_plan *p, int tensor);
/* Does output k take over the memory of input k? An allreduce whose input dies
 * with it is done in place. */
bool pdl_plan_in_place(const struct pdl_plan *p, int op, int k);
/* A move's parts on the n ranks of a group, of which this rank is one. */
struct pdl_plan_members {
    int n, me;
    const int64_t *rank;
    struct pdl_box *in, *out; /* by member */
};
void pdl_plan_members(const struct pdl_plan *p, int op, int k,
                      struct pdl_plan_members *m);
/* The items of member g's input that member `to` takes from it: what it has not
 * itself, and no member before has; of sums all. */
bool pdl_plan_gives(const struct pdl_plan_members *m, bool sum, int g, int to,
                    struct pdl_box *box);
/* Workspaces of so many bytes share a place, which stays in the cache; larger
 * ones are in the arena like tensors. */
enum { PDL_PLAN_SMALL_WORK = 1 << 20 };
/* What a rank copies by itself for a move, from one place of its memory to
 * another: parts that are not one run of bytes are packed to be sent and
 * unpacked when they have come, and what the rank has itself goes to its new
 * place. Groups of more than 64 ranks: nothing is known, all 0. */
struct pdl_plan_copies {
    int64_t bytes, runs; /* copied, and the runs of bytes they are in */
    int64_t summed;      /* bytes of the terms of sums */
    int64_t buffer;      /* bytes for parts on their way */
};
void pdl_plan_copies(const struct pdl_plan *p, int op, int64_t rank,
                     struct pdl_plan_copies *out);
/* For each of n ranks of one stage the first of them (its index) that does the
 * same work: equal local shapes and relative boxes of every tensor; twin: and
 * whose neighbours have equal parts too, so that messages are the same. */
enum pdl_status pdl_plan_alike(pdl_arena *a, const struct pdl_plan *p,
                               const int64_t *ranks, int n, int *like,
                               int *twin);
/* The attention whose keys, values or their gradients a ROTATE moves; -1:
 * none. */
int pdl_plan_rotates_for(const struct pdl_plan *p, int op);
/* The clause of each node (pdl_strategy.clause index), -1: none. */
enum pdl_status pdl_strategy_bind(const struct pdl_strategy *s,
                                  const struct pdl_model *m, int *clause,
                                  struct pdl_err *err);
/* The static checker; EWRONG names the first operation that breaks a rule. */
enum pdl_status pdl_plan_check(const struct pdl_plan *p, struct pdl_err *err);
/* Symbolic execution: runs the plan on all ranks in one process, in exact
 * arithmetic modulo 2^61 - 1, runs the unsharded graph beside it, and compares
 * every weight after the update. For small shapes. EWRONG: they differ, or an
 * operation read what was not there; the message names the first place. */
enum pdl_status pdl_plan_prove(const struct pdl_plan *p, uint64_t seed,
                               struct pdl_err *err);

/* ---- schedules of pipelines ---------------------------------------------- */

/* What a lane of a pipeline (the PEs of one place in it) does for one
 * micro-batch in one of its stages. Zero-bubble schedules run the gradients of
 * inputs and those of weights apart. */
enum pdl_task_kind {
    PDL_TASK_FORWARD,
    PDL_TASK_BACKWARD,
    PDL_TASK_INPUT,
    PDL_TASK_WEIGHTS
};
struct pdl_task {
    enum pdl_task_kind kind;
    int stage, micro;
};
struct pdl_tasks {
    enum pdl_schedule schedule;
    int lanes, nstages;
    int64_t micro;
    int64_t n;              /* tasks of each lane */
    struct pdl_task **task; /* of each lane, in their order */
};
enum pdl_status pdl_tasks_make(pdl_arena *a, enum pdl_schedule schedule,
                               int lanes, int nstages, int64_t micro,
                               struct pdl_tasks *out, struct pdl_err *err);
enum pdl_status pdl_plan_tasks(pdl_arena *a, const struct pdl_plan *p,
                               struct pdl_tasks *out, struct pdl_err *err);
/* Every micro-batch passes every stage once each way, on the stage's lane,
 * nothing runs before what it needs, and nobody waits for ever; EWRONG names
 * the first task that breaks a rule. */
enum pdl_status pdl_tasks_check(const struct pdl_tasks *o, struct pdl_err *err);
/* 0: forward, 1: backward or that of inputs, 2: that of weights */
int pdl_task_pass(enum pdl_task_kind kind);
/* The task (pass and stage, of the same micro-batch) that it waits for; false:
 * none. */
bool pdl_task_needs(const struct pdl_tasks *o, const struct pdl_task *t,
                    int *pass, int *stage);
/* Is backward two tasks? */
const char *pdl_schedule_name(enum pdl_schedule s);
bool pdl_schedule_splits(enum pdl_schedule s);
/* Stages of a lane. */
int64_t pdl_schedule_chunks(const struct pdl_strategy *s);
/* Copies of the network, each with the stages that follow the one before's:
 * 2 where micro-batches enter at both ends. A micro-batch of the tasks is then
 * one of each. */
int pdl_schedule_copies(enum pdl_schedule s);
/* The lane of a stage, and the i-th stage of a lane. */
int pdl_schedule_lane(enum pdl_schedule s, int lanes, int stage);
int pdl_schedule_stage(enum pdl_schedule s, int lanes, int lane, int i);
int pdl_plan_lane(const struct pdl_plan *p, int stage);
/* The lane that a rank is on, and the first rank of a lane. */
int pdl_plan_rank_lane(const struct pdl_plan *p, int64_t rank);
int64_t pdl_plan_lane_rank(const struct pdl_plan *p, int lane);

/* ---- plans as text (doc/formats/plan.md) --------------------------------- */

/* What a plan file says besides the plan: where the model comes from, and
 * for which system and arithmetic it was made. NULL: not said. */
struct pdl_plan_head {
    const char *model;  /* MODEL of the command line; NULL: the model's name */
    const char *dim;    /* bindings of symbolic dimensions */
    const char *output; /* "logits": of the model up to a softmax at its end */
    const char *system, *precision, *optimizer;
};
/* One operation a line; at most 1048576 PEs (the sink fails beyond). */
void pdl_plan_print(const struct pdl_plan *p, const struct pdl_plan_head *head,
                    struct pdl_sink *out);
/* Of a plan's text: programs that hand a plan on say it, and the one that
 * runs it compares. */
uint64_t pdl_plan_hash(struct pdl_bytes text);
/* How the reader gets the model that the header names. */
struct pdl_plan_loader {
    enum pdl_status (*load)(void *ctx, pdl_arena *a,
                            const struct pdl_plan_head *head,
                            const struct pdl_model **out, struct pdl_err *err);
    void *ctx;
};
/* Reads it again: parse(print(p)) equals p. loader NULL: pdl_model_load.
 * What the file says and what follows from it (mesh, classes of ranks, FLOPs,
 * bytes) must agree. Run pdl_plan_check on the result: a file can be well
 * formed and wrong. */
enum pdl_status
pdl_plan_parse(pdl_arena *a, struct pdl_bytes in, const char *name,
               const struct pdl_plan_loader *loader, struct pdl_plan_head *head,
               const struct pdl_plan **out, struct pdl_err *err);
/* The same for those who price or run it: a rolled plan is written out. */
enum pdl_status pdl_plan_read(pdl_arena *a, struct pdl_bytes in,
                              const char *name,
                              const struct pdl_plan_loader *loader,
                              struct pdl_plan_head *head,
                              const struct pdl_plan **out, struct pdl_err *err);
/* The same operations on the same tensors of the same model. */
bool pdl_plan_equal(const struct pdl_plan *a, const struct pdl_plan *b);

PDL_END
#endif
