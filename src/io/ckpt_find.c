/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoint to resume from, which to remove, and how often to write
 * one. There is no file that points at the newest: a pointer can be stale or
 * early, the folders themselves cannot.
 *
 * The interval: J. Daly, "A higher order estimate of the optimum checkpoint
 * interval for restart dumps", Future Generation Computer Systems 22, 2006,
 * equation 37; capped as CheckFreq does (J. Mohan et al., FAST 2021). */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The step of "step-N" (or "step-N.tmp"), -1 for any other name. */
static int64_t step_of(const char *name, bool temporary)
{
    int64_t v = 0;
    const char *p = name + 5;

    if (strncmp(name, "step-", 5) != 0 || *p < '0' || *p > '9' ||
        (*p == '0' && p[1] >= '0' && p[1] <= '9'))
        return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if (!pdl_mul64(v, 10, &v) || !pdl_add64(v, *p - '0', &v))
            return -1;
    return strcmp(p, temporary ? ".tmp" : "") == 0 ? v : -1;
}

static int downwards(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static bool grow(int64_t **step, int n, int *cap)
{
    int64_t *grown;

    if (n < *cap)
        return true;
    *cap = *cap ? 2 * *cap : 16;
    grown = realloc(*step, (size_t)*cap * sizeof **step);
    if (grown)
        *step = grown;
    return grown != NULL;
}

enum pdl_status io_ckpt_steps(int at, const char *dir, bool temporary,
                              int64_t **out, int *n, struct pdl_err *err)
{
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), cap = 0;
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    enum pdl_status st = PDL_OK;
    struct dirent *e;
    int64_t *step = NULL;

    *n = 0;
    *out = NULL;
    if (!d && fd >= 0)
        close(fd);
    if (!d)
        return io_sys_fail(err, dir);
    while (st == PDL_OK && (e = readdir(d)) != NULL) {
        int64_t s = step_of(e->d_name, temporary);

        if (s >= 0 && !grow(&step, *n, &cap))
            st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", dir);
        else if (s >= 0)
            step[(*n)++] = s;
    }
    closedir(d);
    if (st != PDL_OK) {
        free(step);
        return st;
    }
    if (step)
        qsort(step, (size_t)*n, sizeof *step, downwards);
    *out = step;
    return PDL_OK;
}

enum pdl_status io_ckpt_open_step(int at, const char *dir, int64_t step,
                                  pdl_ckpt **out, struct pdl_err *err)
{
    char path[4096], name[40];
    pdl_ckpt *c = NULL;
    enum pdl_status st;

    snprintf(name, sizeof name, "step-%" PRId64, step);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    st = io_ckpt_open(at, name, path, &c, err);
    if (st == PDL_OK && c->state.step != step)
        st = pdl_fail(err, PDL_EPARSE, "%s: it is of step %" PRId64, path,
                      c->state.step);
    if (st != PDL_OK) {
        pdl_ckpt_close(c);
        return st;
    }
    *out = c;
    return PDL_OK;
}

static enum pdl_status open_good(int at, const char *dir, int64_t step,
                                 bool deep, pdl_ckpt **out, struct pdl_err *err)
{
    pdl_ckpt *c = NULL;
    enum pdl_status st = io_ckpt_open_step(at, dir, step, &c, err);

    if (st == PDL_OK && deep)
        st = pdl_ckpt_verify(c, err);
    if (st == PDL_OK)
        *out = c;
    else
        pdl_ckpt_close(c);
    return st;
}

static enum pdl_status newest(int at, const char *dir, int64_t before,
                              bool deep, pdl_ckpt **out, struct pdl_sink *notes,
                              struct pdl_err *err)
{
    int64_t *step;
    int n, seen = 0;
    enum pdl_status st = io_ckpt_steps(at, dir, false, &step, &n, err);
    struct pdl_err why = {"", ""};
    pdl_ckpt *c = NULL;

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && !c; i++) {
        if (step[i] >= before)
            continue;
        seen++;
        if (open_good(at, dir, step[i], deep, &c, &why) != PDL_OK && notes)
            pdl_printf(notes, "checkpoint %" PRId64 " is passed over: %s\n",
                       step[i], why.msg);
    }
    free(step);
    if (!c && seen > 0)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: none of %d checkpoints is good; the last: %.300s",
                        dir, seen, why.msg);
    *out = c;
    return PDL_OK;
}

enum pdl_status pdl_ckpt_latest(const char *dir, int64_t before, bool deep,
                                pdl_ckpt **out, struct pdl_sink *notes,
                                struct pdl_err *err)
{
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum pdl_status st;

    if (at < 0 && errno == ENOENT) { /* a folder that is not there has none */
        *out = NULL;
        return PDL_OK;
    }
    if (at < 0)
        return io_sys_fail(err, dir);
    st = newest(at, dir, before, deep, out, notes, err);
    close(at);
    return st;
}

/* ---- removal ---- */

/* First renamed, so that what is half removed is no checkpoint. */
static enum pdl_status remove_step(int at, const char *dir, int64_t step,
                                   struct pdl_err *err)
{
    char name[40], away[48], path[4096];

    snprintf(name, sizeof name, "step-%" PRId64, step);
    snprintf(away, sizeof away, "%s.tmp", name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    (void)io_remove_folder(at, away, path, NULL);
    if (renameat(at, name, at, away) != 0)
        return io_sys_fail(err, path);
    return io_remove_folder(at, away, path, err);
}

static enum pdl_status remove_leftovers(int at, const char *dir,
                                        int64_t writing, struct pdl_err *err)
{
    int64_t *step;
    int n;
    enum pdl_status st = io_ckpt_steps(at, dir, true, &step, &n, err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && st == PDL_OK; i++) {
        char name[40], path[4096];

        snprintf(name, sizeof name, "step-%" PRId64 ".tmp", step[i]);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        if (step[i] < writing)
            st = io_remove_folder(at, name, path, err);
    }
    free(step);
    return st;
}

/* What cannot be read is not known to be ours and stays. */
static enum pdl_status remove_old(int at, const struct pdl_ckpt_writer *w,
                                  struct pdl_err *err)
{
    int64_t *step;
    int n, good = 0;
    enum pdl_status st = io_ckpt_steps(at, w->dir, false, &step, &n, err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && st == PDL_OK; i++) {
        pdl_ckpt *c = NULL;
        bool ours =
            io_ckpt_open_step(at, w->dir, step[i], &c, NULL) == PDL_OK &&
            (c->owner == 0 || c->owner == w->owner);

        pdl_ckpt_close(c);
        if (ours && good++ >= w->keep)
            st = remove_step(at, w->dir, step[i], err);
    }
    free(step);
    return st;
}

enum pdl_status pdl_ckpt_prune(const struct pdl_ckpt_writer *w, int64_t writing,
                               struct pdl_err *err)
{
    int at = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum pdl_status st = PDL_OK;

    if (at < 0)
        return io_sys_fail(err, w->dir);
    if (w->keep > 0)
        st = remove_old(at, w, err);
    if (st == PDL_OK)
        st = remove_leftovers(at, w->dir, writing, err);
    close(at);
    return st;
}
