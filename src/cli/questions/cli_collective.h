/* Shared by the commands on collectives; collective.c. */
#ifndef CLI_COLLECTIVE_H
#define CLI_COLLECTIVE_H

#include "cli/cli_priv.h"
#include "paradl/coll.h"

/* "file.coll": a program, not the name of an algorithm. */
bool cli_is_program(const char *name);
enum pdl_status cli_program_read(pdl_arena *a, const char *path,
                                 struct pdl_coll_job *job, struct pdl_err *err);
/* The collective that was named, or the first that has the algorithm. */
const char *cli_collective_of(const char *spec, const char *collective);
/* "8" or "1..64". */
enum pdl_status cli_ranks_parse(const char *text, int *first, int *last,
                                struct pdl_err *err);
/* mapping: linear (NULL), random, reverse, or a file of host numbers. */
enum pdl_status cli_map_ranks(pdl_arena *a, const struct pdl_net *net,
                              int nranks, const char *mapping, int64_t seed,
                              int **hosts, struct pdl_err *err);

struct cli_job_size {
    int ranks;
    int64_t bytes;
    double density; /* 0: dense */
};
/* A job from what was typed, settled for the network (NULL: none). */
enum pdl_status cli_job_make(pdl_arena *a, const char *collective,
                             const char *spec, const struct pdl_net *net,
                             const struct cli_job_size *size,
                             struct pdl_coll_job *job, struct pdl_err *err);

/* Execution traces of Chakra, a file a rank; chakra.c. FILE.0.et is the first
 * rank's, and those of others are beside it. */
bool cli_is_chakra(const char *name);
struct cli_chakra {
    const char *path, *groups, *algorithm; /* options; NULL: not given */
    const struct pdl_net *net;
};
enum pdl_status cli_chakra_read(pdl_arena *a, const struct cli_chakra *what,
                                struct pdl_traffic *out,
                                struct pdl_chakra_count *count,
                                struct pdl_err *err);
/* PREFIX.0.et and so on. */
enum pdl_status cli_chakra_write(const char *prefix,
                                 const struct pdl_traffic *t,
                                 struct pdl_err *err);

/* More of a simulation; simulate_detail.c. */
void cli_path_print(const struct pdl_path *path, pdl_arena *a);
void cli_path_json(struct pdl_json *j, const struct pdl_path *path);
void cli_timeline_print(const struct pdl_sim_result *r);
void cli_timeline_json(struct pdl_json *j, const struct pdl_sim_result *r);

#endif
