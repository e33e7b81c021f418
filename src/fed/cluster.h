/* Clusters of clients by the similarity of what they learned (CADIS). */
#ifndef FED_CLUSTER_H
#define FED_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

/* Sums and counts of similarities of each two of n clients, over rounds. */
struct fed_likeness {
    int64_t n;
    double *sum, *count;
};

/* Which are alike: a[i * n + j], 1 on the diagonal. room: n n doubles. Positive
 * similarities are brought to [0, 1] by the least and largest of them, what is
 * above the threshold is alike, and so is who has a common neighbour.
 * threshold <= 0: it is put into the widest gap between them. */
void fed_likeness_join(const struct fed_likeness *x, double threshold,
                       void *room, uint8_t *a);
/* Numbers of clusters, from 0 in the order of their first client; who met
 * nobody gets -1. Returns how many. */
int64_t fed_likeness_label(const struct fed_likeness *x, const uint8_t *a,
                           int32_t *label);

#endif
