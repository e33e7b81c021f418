/* Figures for the page of `make paper`: where $PDL_PAPER_LIST names a file, every
 * one goes there as a line: group, what, unit, ours, the reference, what it may be
 * off, the command that computes it. */
#ifndef PAPER_FIGURE_H
#define PAPER_FIGURE_H

#include <stdio.h>
#include <stdlib.h>

static inline void figure(const char *group, const char *what, const char *unit,
                          double ours, double reference, double allowed,
                          const char *command)
{
    const char *path = getenv("PDL_PAPER_LIST");
    FILE *f = path ? fopen(path, "a") : NULL;

    if (!f)
        return;
    fprintf(f, "%s\t%s\t%s\t%.9g\t%.9g\t%g\t%s\n", group, what, unit, ours,
            reference, allowed, command);
    fclose(f);
}

#endif
