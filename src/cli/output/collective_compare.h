/* Algorithms of a collective on networks and at sizes: what is compared, and
 * how it is printed. */
#ifndef CLI_COLLECTIVE_COMPARE_H
#define CLI_COLLECTIVE_COMPARE_H

#include "cli/questions/cli_collective.h"

#include <pthread.h>

struct cli_compare_options {
    const char *topology, *size, *algorithms, *report, *ranks;
    double density;
    bool links, all;
};

enum { MAX_ROWS = 4096, MAX_POINTS = 64 };

struct cli_comparison_row {
    const char *topology, *algorithm, *refused; /* refused: the reason */
    int64_t bytes;
    int ranks;
    double time_s, lower_s;
    double floor_s; /* a bound that is known without a simulation */
    int64_t messages;
    double best; /* time of the fastest of its network and size */
};

/* What the fastest algorithm does to the links of a network. */
struct cli_comparison_heat {
    const struct cli_comparison_row *row;
    const int64_t *bytes;
    int nlinks;
};

enum { MAX_HEATS = 64, MAX_HEAT_LINKS = 200000 };

struct cli_comparison {
    const char *collective;
    const struct cli_compare_options *o;
    const struct pdl_args *args;
    struct cli_comparison_heat heats[MAX_HEATS];
    int nheats;
    pdl_arena *arena;
    struct cli_comparison_row *rows;
    int nrows;
    pthread_mutex_t lock; /* of the arena and the progress */
    struct pdl_progress progress;
    int64_t done;
    int points[MAX_POINTS], npoints; /* numbers of ranks; 0: all hosts */
};

void cli_comparison_json(const struct cli_comparison *c, struct pdl_sink *out);
void cli_comparison_text(const struct cli_comparison *c);

#endif
