/* paradl/design.h - which machine to build, buy or rent.
 *
 * A question is a mix of workloads, a space of designs and constraints. Every
 * design gets the best plan of each workload (the search of the job room,
 * shared between designs), and from it time, money, energy, carbon and a bill
 * of materials. Prices are data (prices/NAME.yaml, doc/formats/prices.md): one
 * that is missing is named, none is guessed. */
#ifndef PARADL_DESIGN_H
#define PARADL_DESIGN_H

#include "paradl/base.h"
#include "paradl/job.h"
#include "paradl/system.h"

PDL_BEGIN

/* ---- prices ------------------------------------------------------------ */

/* Money, power, failures and carbon: what a name means is in the table of
 * pdl_price_key_at, where it comes from is said with every one. */
struct pdl_price_item {
    const char *item;        /* "rent.h100-80g", "switch", "carbon.france" */
    double value, low, high; /* low and high: value where not given */
    const char *kind;        /* list, spot, assumed, published */
    const char *date, *source;
};
struct pdl_prices {
    const char *name, *title, *currency;
    const struct pdl_price_item *item;
    int n;
};

struct pdl_price_key {
    const char *name; /* "rent." is followed by a name */
    const char *unit; /* "per PE and hour" */
    bool money;       /* in the currency of the file */
    double least;     /* of its value and what it is drawn from */
};
const struct pdl_price_key *pdl_price_key_at(int i); /* NULL past the end */

/* The built-in ones; NULL past the end. text is the YAML. */
const struct pdl_builtin *pdl_prices_builtin(int i);
/* By the name of a built-in, or from a file (NAME.yaml, NAME.yml). */
enum pdl_status pdl_prices_open(pdl_arena *a, const char *name,
                                struct pdl_prices *out, struct pdl_err *err);
enum pdl_status pdl_prices_read(pdl_arena *a, struct pdl_bytes in,
                                const char *name, struct pdl_prices *out,
                                struct pdl_err *err);
/* NULL: it has none. */
const struct pdl_price_item *pdl_price_find(const struct pdl_prices *p,
                                            const char *item);

/* ---- the question ------------------------------------------------------ */

/* What is to be trained, from the beginning to the end. */
struct pdl_workload {
    const char *name, *model, *framework, *precision, *optimizer, *dim;
    int64_t batch;
    double tokens, samples, steps; /* one of them: the whole run */
    double weight;                 /* runs of it in the mix */
    double deadline_s;             /* 0: none */
};

/* One machine as it was written. */
struct pdl_design_text {
    const char *label;
    const char *system;  /* "dgx-h100:nic=4x50GB/s" */
    const char *network; /* "fat-tree:taper=2"; NULL: as it is described */
    int64_t pes;
    /* Equal sites far apart (0: one). Gradients are exchanged between them in
     * every step, or every site trains by itself, and they meet after so many
     * steps (DiLoCo). */
    int64_t sites, local_steps;
    /* Grows: so long after its beginning it is this machine of the question
     * (0: never). */
    int then;
    double after_s;
    double spares; /* part of the nodes that wait for others to fail */
};

enum pdl_design_goal {
    PDL_DESIGN_COST,
    PDL_DESIGN_TIME,
    PDL_DESIGN_ENERGY,
    PDL_DESIGN_CARBON,
    PDL_NDESIGN_GOALS
};
const char *pdl_design_goal_name(enum pdl_design_goal g);

struct pdl_question {
    const char *name;
    const struct pdl_workload *workload;
    int nworkloads;
    const struct pdl_design_text *design;
    int ndesigns, nmachines; /* behind the designs: what they grow to */
    double budget, power_w;  /* 0: none; budget: to buy, or of all runs */
    int64_t racks;           /* 0: any number */
    int64_t delivery;        /* PEs that can be had, spares too; 0: any */
    bool rent;               /* else buy */
    double years, utilisation;
    double rack_w;      /* what a rack can draw */
    double spares;      /* of designs that do not say */
    double repair_s;    /* of a node that failed; 0: others are always there */
    const char *region; /* of carbon.REGION */
    enum pdl_design_goal goal;
    const char *prices;                      /* as pdl_prices_open takes it */
    double site_bytes_per_s, site_latency_s; /* of a site to all others */
};

/* From YAML (doc/formats/design.md). */
enum pdl_status pdl_question_read(pdl_arena *a, struct pdl_bytes in,
                                  const char *name, struct pdl_question *out,
                                  struct pdl_err *err);
/* Defaults for a question that is put together by hand. */
void pdl_question_init(struct pdl_question *out);

/* ---- networks ---------------------------------------------------------- */

/* A family makes a network for any number of nodes. */
struct pdl_family {
    const char *name, *summary, *params;
};
const struct pdl_family *pdl_family_at(int i); /* NULL past the end */

/* The network of one plane, how many planes, and what it makes of the
 * machine's levels. */
struct pdl_fabric {
    const char *spec;       /* TOPOLOGY of one plane; NULL: none */
    int64_t planes, places; /* hosts of a plane */
    double link_bytes_per_s;
    struct pdl_tier tier[8];
    int ntiers;
};
/* "family:key=value,...", or a TOPOLOGY, for a machine of so many nodes. */
enum pdl_status pdl_fabric_make(pdl_arena *a, const char *network,
                                const struct pdl_system *sys, int64_t nodes,
                                struct pdl_fabric *out, struct pdl_err *err);

/* What is bought. Money is in the currency of the prices. */
struct pdl_materials {
    int64_t nodes, spare_nodes, racks;
    int64_t planes, switches, ports, near_cables, far_cables, optics;
    double near_m, far_m, longest_m, link_bytes_per_s;
    double nodes_cost, switch_cost, cable_cost, rack_cost, facility_cost;
    double capital;            /* all of them; 0: rented */
    double nodes_w, network_w; /* at most */
    double spares_w;           /* what spare nodes draw, idle */
    double facility_w;         /* with cooling */
};

/* ---- the answer -------------------------------------------------------- */

enum pdl_design_how {
    PDL_DESIGN_SEARCHED, /* its space of plans */
    PDL_DESIGN_SAME,     /* another design has the same rates */
    PDL_DESIGN_BOUNDED,  /* a plan of a design that is nowhere slower, which is
                            no more than `gap` slower here than there */
    PDL_DESIGN_BETWEEN,  /* between two machines that were searched: the best of
                            their plans; no plan is faster by more than `gap` */
    PDL_DESIGN_OPEN      /* stopped before */
};

/* One workload on one machine. */
struct pdl_design_run {
    enum pdl_design_how how;
    const char *strategy; /* NULL: nothing fits, see reason */
    const char *reason;
    double gap; /* no plan is faster by more than this part */
    struct pdl_projection x;
    double spread; /* half of the 80 % interval of the step, in logarithms */
    double steps, tokens, state_bytes; /* state: what a checkpoint saves */
    double exchange_s; /* between sites that train by themselves, a step */
    struct pdl_goodput run;
    double waiting;           /* part of it without enough nodes */
    double cost, kwh, co2_kg; /* of one run */
};

struct pdl_design_point {
    const struct pdl_design_text *text;
    struct pdl_system sys;    /* of one job */
    int64_t jobs;             /* one, or one a site */
    struct pdl_fabric fabric; /* of a site */
    struct pdl_materials bill;
    struct pdl_design_run *run;       /* one a workload */
    double time_s, cost, kwh, co2_kg; /* of the mix */
    double part; /* of the mix, done as this machine; then it grows */
    /* Bought: what the mix costs to rent, and above which utilisation it is
     * cheaper to buy; 0: not known. */
    double rent_cost, even;
    const char *excluded;   /* the constraint it breaks, by how much; NULL */
    double excess;          /* how many times what the constraint allows */
    bool complete;          /* every workload has a plan */
    bool front;             /* nothing beats it in time, cost and energy */
    double wins, near_best; /* part of draws in which it is the best, or within
                               5 % of it */
    double keeps; /* part of draws in which it keeps the constraints */
};

/* A constraint of the question. */
struct pdl_design_limit {
    const char *name; /* "power", "deadline of gpt3-175b" */
    int what;
    double allowed;
    enum pdl_unit unit;
    int broken, alone; /* designs that break it; and no other */
    double nearest;    /* of the latter: so many times what is allowed */
};

/* What a change of one number does to the recommended design. */
struct pdl_design_change {
    const char *what; /* "memory bandwidth +10 %" */
    double value;     /* the goal then, over what it is */
};
/* Where another design becomes the best. */
struct pdl_design_flip {
    const char *what; /* "price of rent.h100-80g" */
    double factor;    /* on it */
    int winner;       /* index of the design then */
};

struct pdl_answer_stats {
    int64_t runs, searched, same, bounded, between, priced, remembered;
    double seconds;
};

struct pdl_designs {
    const struct pdl_question *question;
    struct pdl_prices prices;
    bool *used;                     /* which of them a design asks for */
    struct pdl_design_point *point; /* of nmachines; n are designs */
    int n, nmachines;
    int *order; /* best first by the goal; what is excluded last */
    struct pdl_design_limit *limit;
    int nlimits;
    int nfit; /* complete and within the constraints */
    bool tie; /* the best is not within 5 % of the best in 80 % of draws */
    bool stopped;
    struct pdl_design_change *change;
    int nchanges;
    struct pdl_design_flip *flip;
    int nflips;
    const char
        *unpriced; /* parameters that no price depends on: "mem, pe.l2" */
    struct pdl_answer_stats stats;
};

struct pdl_design_options {
    bool exhaustive;  /* search every design, share only equal ones */
    double tolerance; /* of a bound that settles a design; 0: 1 % */
    double between;   /* gap up to which a plan of machines on both sides is
                         taken without a search; 0: 30 % */
    int threads;      /* 0: all cores */
    int draws;        /* 0: 2000 */
    uint64_t seed;
    const char *memo; /* file with plans found before, which is kept up to
                         date; NULL: none */
    /* called now and then from one thread at a time; false stops */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};

/* Everything in *out lives in the arena. */
enum pdl_status pdl_design(pdl_arena *a, const struct pdl_question *q,
                           const struct pdl_design_options *opt,
                           struct pdl_designs *out, struct pdl_err *err);

PDL_END
#endif
