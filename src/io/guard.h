/* Reading what is mapped, though it may shrink (guard.c):
 *
 *     struct io_guard g;
 *     io_guard_begin(&g);
 *     if (sigsetjmp(g.jump, 0) == 0)
 *         st = ...read...;
 *     else
 *         st = io_guard_fail(io, &g, err);
 *     io_guard_end(&g);
 *
 * Who holds a lock meanwhile has a guard of its own inside of that of others.
 */
#ifndef IO_GUARD_H
#define IO_GUARD_H

#include "io_priv.h"

#include <setjmp.h>
#include <signal.h>

struct io_guard {
    sigjmp_buf jump;
    struct io_guard *outer;
    const void *volatile at;
};

void io_guard_begin(struct io_guard *g);
/* The two halves of it: the handler, by a system call, and the place to come
 * back to. */
void io_guard_install(void);
void io_guard_push(struct io_guard *g);
void io_guard_end(const struct io_guard *g);
enum pdl_status io_guard_fail(const pdl_io *io, const struct io_guard *g,
                              struct pdl_err *err);
/* What a file that has become shorter is told of. */
enum pdl_status io_guard_shorter(const char *path, struct pdl_err *err);
/* The file that holds this place; the data set's path where none does. */
const char *io_file_at(const pdl_io *io, const void *at);

#endif
