/* A simulated collective: what is asked, what came out, and how it is
 * printed. */
#ifndef CLI_SIMULATE_H
#define CLI_SIMULATE_H

#include "cli/questions/cli_collective.h"

struct cli_simulate_options {
    const char *algorithm, *topology, *mapping, *share, *model, *program,
        *energy, *report, *comm_groups, *chakra;
    int64_t size, ranks, seed, repeat, timeline, groups, channels;
    double density, jitter, start, work;
    bool links, path, exact, strided;
};

/* Everything about one simulation. */
struct cli_simulation {
    const struct pdl_net *net;
    struct pdl_coll_job job; /* of a trace: the number of ranks */
    const char *trace;       /* its file; NULL: a collective */
    struct pdl_traffic traced;
    struct pdl_chakra_count chakra; /* nodes 0: not of Chakra */
    int groups;                /* that do the job at once, each of job.nranks */
    int channels;              /* > 1: the groups are parts of one buffer */
    int *hosts;                /* of all ranks of all groups */
    struct pdl_sim_result sim; /* of one, but links of all `times` */
    int64_t times;
    double jitter_s, start_s, work_s;
    struct pdl_coll_round *rounds;
    int64_t nrounds;
};

/* args: also the command line; NULL: without. */
void cli_simulation_json(const struct cli_simulate_options *o,
                         const struct cli_simulation *r,
                         const struct pdl_args *args, struct pdl_sink *out);
void cli_simulation_text(const struct cli_simulate_options *o,
                         const struct cli_simulation *r, pdl_arena *a);

#endif
