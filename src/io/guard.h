/* Reading what is mapped, though it may shrink (guard.c):
 *
 *     struct io_guard *g = io_guard_begin();
 *     if (sigsetjmp(g->jump, 0) == 0)
 *         st = ...read...;
 *     else
 *         st = io_guard_fail(io, g, err);
 *     io_guard_end(g);
 */
#ifndef IO_GUARD_H
#define IO_GUARD_H

#include "io_priv.h"

#include <setjmp.h>
#include <signal.h>

struct io_guard {
    sigjmp_buf jump;
    volatile sig_atomic_t on;
    const void *volatile at;
};

struct io_guard *io_guard_begin(void);
void io_guard_end(struct io_guard *g);
enum pdl_status io_guard_fail(const pdl_io *io, const struct io_guard *g,
                              struct pdl_err *err);
/* The file that holds this place; the data set's path where none does. */
const char *io_file_at(const pdl_io *io, const void *at);

#endif
