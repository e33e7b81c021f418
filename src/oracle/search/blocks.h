/* Shared by block_plans.c, block_keep.c, block_program.c and block_prices.c:
 * the small plans that pieces are read off. */
#ifndef ORACLE_PIECES_PRIV_H
#define ORACLE_PIECES_PRIV_H

#include "oracle/search/point.h"

enum {
    WRITTEN = 64,
    STAGES = 3,
    MAX_LANES = 8,
    WORK_BLOCKS = 3,
    UPDATE_BLOCKS = 5, /* stages of more may be rolled */
    ZEROS = 4          /* none, 1, 2, 3 */
};

/* Which form, or piece. Of micro and data 0 stands for any. */
struct key {
    int64_t blocks, micro, data;
    enum pdl_recompute recompute;
    int zero;
    bool update; /* what is wanted of it: exchange and update */
    bool many;   /* micro-batches */
    bool staged; /* pipe > 1 */
    bool shared; /* data > 1 */
    bool activations, optimizer;
    bool split; /* backward in two tasks */
    bool
        folded; /* first and last stage are on one lane; the form is the same */
};

/* A small plan, on the mesh of a large one. */
struct block_plan {
    struct pdl_model model;
    struct pdl_segment segments[8];
    struct pdl_strategy strategy;
    struct pdl_plan_sizer *sizer;
    struct pdl_plan plan; /* the sizer's */
    struct pdl_plan_stage stages[STAGES];
    struct pdl_plan_item items[STAGES * (3 * STAGE_PARTS + 1)];
    struct oracle_changed changed;
    struct oracle o;
    const bool *inside;
    int64_t *size;
    int rounds;          /* of a stage, that are written */
    int *round, *tensor; /* of each tensor of these: the round of its block (-1:
                            outside) and the model's tensor */
};

/* What was made once, by what it is and of what: pieces of a mesh (of a key and
 * a kind of lane); what a form costs there; what it costs and holds on any. One
 * that was not made yet has neither, or is refused. */
enum made_kind {
    MADE_WORK,
    MADE_UPDATE,
    MADE_PRICED,   /* of a form; folded */
    MADE_CARRIED,  /* of a form, a kind of lane */
    MADE_COMPUTED, /* of a form, samples */
    MADE_LIVED,    /* of a form, samples, ranks */
    MADE_STEPS     /* of a form, blocks */
};
struct made_of {
    enum made_kind kind;
    int64_t what, second, third;
};
struct made {
    struct made *next;
    struct made_of of;
    void *it;
    const char *refused;
};
enum { MADE_SLOTS = 64 };
struct memo {
    struct made *slot[MADE_SLOTS];
};
/* block_prices.c: its place; NULL: out of memory */
struct made *oracle_made(struct memo *m, pdl_arena *a, struct made_of of);

/* Prices of forward's and backward's kinds of operations: those that no mesh
 * changes, or those of weights that travel, which no number of samples does. */
struct pass_prices {
    struct stream_price *price[2];
};
struct lived {
    struct stage_live *at[PLACES_WITH_WORK]; /* by slot */
};

/* Kinds of operations of a pass: an operation of each. */
struct kinds {
    int n;
    int *op;   /* of each kind */
    int *kind; /* of each operation of the plan; shared by passes */
};

/* Steps of an update of so many blocks; those that gather from all blocks have
 * kinds of their own. */
struct steps {
    int64_t blocks;
    struct pdl_plan plan; /* with as many, rolled if the form is */
    int n[PLACES_WITH_WORK];
    struct stream_step *list[PLACES_WITH_WORK];
    int nlonger, *longer;
};

struct block_form {
    struct block_form *next;
    struct key key;
    int64_t id;           /* 1, 2, ...; addresses are used again */
    int64_t code;         /* of the key: forms of other codes have another */
    struct block_plan *s; /* NULL: refused */
    const char *refused;
    int64_t aim, micro;    /* mesh and samples that it is set to */
    struct kinds kinds[3]; /* by enum phase */
    struct stage_passes shape[PLACES_WITH_WORK];
    bool large; /* it may be gone when the next one is made */
};

/* Small plans that were lowered, pieces that were priced, and how long both
 * took. */
struct effort {
    int64_t lowered, priced;
    double seconds;
};

struct oracle_block_plans {
    const struct oracle_family *f;
    struct oracle_point mesh;   /* all but pipe and data */
    pdl_arena *arena, *scratch; /* scratch: empty when a small plan is made */
    pdl_arena *large; /* of forms of many blocks; NULL: there is none */
    bool lent;        /* arena: what was made for other meshes may go */
    struct block_form *forms;
    struct memo memo; /* of forms, whatever the mesh */
    int64_t made;     /* forms */
    int64_t last, at; /* that which was aimed last, and the mesh at */
    /* shared by all of them: of that mesh, of all, of that form */
    struct oracle_wire *wires;
    struct oracle_quickest *quickest;
    struct oracle_seen *seen;
    struct effort effort;
    int64_t meshes;
    const struct pdl_model *whole;            /* blocks written out */
    const struct pdl_model *written[WRITTEN]; /* few of them */
    struct oracle_cuts cuts;                  /* where the family has none */
};

/* Lanes whose groups cross the same wires are of one kind. */
struct lanes {
    int n;
    int *of;                  /* of each lane */
    int64_t first[MAX_LANES]; /* lane of each kind */
};

struct oracle_mesh {
    struct oracle_block_plans *forms;
    const struct oracle_family *f;
    struct oracle_point mesh;
    int64_t id; /* 1, 2, ... */
    pdl_arena *arena;
    struct memo memo;
    struct lanes lanes[LANE_KINDS];
    struct oracle_ranks alike[ZEROS]; /* by what ranks keep of weights */
    struct rank_slots ranks[ZEROS];
    bool known[ZEROS];
    const char *refused; /* why lanes could not be told */
};

/* block_prices.c: ranks of a kind of lane */
void oracle_lane_ranks(const struct lanes *x, const struct block_plan *s,
                       int kind, struct oracle_ranks *r);
/* block_passes.c: a piece; its prices */
enum pdl_status oracle_make_work(struct oracle_mesh *p, struct key *k,
                                 int64_t micro, int lane,
                                 struct stage_works *out, struct pdl_err *err);
bool oracle_price_works(struct oracle_mesh *p, struct stage_works *w);
/* block_exchange.c: of every kind of lane */
enum pdl_status oracle_make_update(struct oracle_mesh *p, struct key *k,
                                   int64_t blocks, struct stage_exchanges *out,
                                   struct pdl_err *err);

/* block_keep.c: what is wanted of it if that is its update (NULL: out of
 * memory); a small plan of one that is lowered */
const struct pdl_plan *oracle_only_update(pdl_arena *a,
                                          const struct pdl_plan *p);
enum pdl_status oracle_keep_plan(struct oracle_block_plans *g,
                                 struct block_plan *s,
                                 const struct pdl_plan *plan,
                                 struct pdl_err *err);
/* block_plans.c: all of a key but its samples and ranks */
int64_t oracle_key_code(const struct key *k);
/* The network of so many blocks, written out once */
const struct pdl_model *oracle_written_out(struct oracle_block_plans *g,
                                           const struct pdl_model *few,
                                           int64_t blocks, struct pdl_err *err);
/* block_plans.c: a form of an update that so many blocks follow from; NULL:
 * none is known */
const struct block_form *oracle_find_rolled_form(const struct oracle_mesh *p,
                                                 const struct key *k,
                                                 int64_t blocks);
/* The form of a key, its samples and its mesh set. */
enum pdl_status oracle_find_block_form(struct oracle_mesh *p, struct key *k,
                                       int64_t micro, struct block_form **out,
                                       struct pdl_err *err);
/* The same of a form that was found before; false: it has no such size. */
bool oracle_aim_block_form(struct oracle_mesh *p, struct block_form *m,
                           int64_t micro);

/* block_program.c */
/* Tells operations of a pass apart by what they cost. */
bool oracle_form_number(struct oracle_block_plans *g, struct block_form *m,
                        enum phase phase);
/* The operations of a form told apart. */
bool oracle_form_work(struct oracle_block_plans *g, struct block_form *m);
/* The update of so many blocks; NULL: it has to be lowered as it is (or there
 * is no memory). */
const struct steps *oracle_form_steps(struct oracle_block_plans *g,
                                      struct block_form *m, int64_t blocks);
/* How many blocks more a rolled form is stretched by, in periods; false: by no
 * whole number of them. */
bool oracle_form_stretch(const struct block_form *m, int64_t blocks,
                         int64_t *more);

#endif
