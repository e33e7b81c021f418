/* label.c: what decisions so far are, for all that follow: a few numbers. */
#ifndef KARMA_LABEL_H
#define KARMA_LABEL_H

#include "karma_priv.h"

/* Smaller is better in each. */
enum {
    KARMA_NOW,  /* computing, after the last block that has chosen */
    KARMA_LAST, /* the link to the host is free */
    KARMA_ENTER,
    KARMA_LINK,
    KARMA_BYTES, /* that stay until backward */
    KARMA_HOST,
    /* of the last blocks, the newest first */
    KARMA_OUTS, /* its copy out is done; 0: none */
    KARMA_ATS = KARMA_OUTS + PDL_KARMA_AHEAD, /* B */
    KARMA_INS = KARMA_ATS + PDL_KARMA_AHEAD,  /* seconds of its copy in */
    KARMA_LEFT = KARMA_INS + PDL_KARMA_AHEAD, /* bytes that are still here */
    KARMA_NUMBERS = KARMA_LEFT + PDL_KARMA_AHEAD
};

struct karma_label {
    double x[KARMA_NUMBERS];
};

struct karma_way {
    const struct pdl_karma *k;
    const struct karma_update *update;
    int ahead;
};

void karma_label_begin(const struct karma_way *w, struct karma_label *l);
/* Block j chooses; offset: what is added to all that is still to come. */
void karma_label_add(const struct karma_way *w, struct karma_label *l, int j,
                     enum pdl_karma_choice c, double offset);
/* All have chosen: the step. */
double karma_label_end(const struct karma_way *w, const struct karma_label *l);
/* The clocks of bound.c; forward and backward: seconds of the blocks that are
 * still to choose. */
void karma_label_clocks(const struct karma_way *w, const struct karma_label *l,
                        double forward, double backward, double *t);

#endif
