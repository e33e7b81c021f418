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
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Steps in a folder, largest first; a folder that is not there has none. */
static enum pdl_status list_steps(const char *dir, bool temporary,
                                  int64_t **out, int *n, struct pdl_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int64_t *step = NULL, *grown;
    int cap = 0;

    *n = 0;
    *out = NULL;
    if (!d && errno == ENOENT)
        return PDL_OK;
    if (!d)
        return pdl_fail(err, PDL_EIO, "%s: %s", dir, strerror(errno));
    while ((e = readdir(d)) != NULL) {
        int64_t s = step_of(e->d_name, temporary);

        if (s < 0)
            continue;
        if (*n == cap) {
            cap = cap ? 2 * cap : 16;
            grown = realloc(step, (size_t)cap * sizeof *step);
            if (!grown) {
                free(step);
                closedir(d);
                return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", dir);
            }
            step = grown;
        }
        step[(*n)++] = s;
    }
    closedir(d);
    if (step)
        qsort(step, (size_t)*n, sizeof *step, downwards);
    *out = step;
    return PDL_OK;
}

static enum pdl_status open_step(const char *dir, int64_t step, bool deep,
                                 pdl_ckpt **out, struct pdl_err *err)
{
    char path[4096];
    pdl_ckpt *c = NULL;
    enum pdl_status st;

    snprintf(path, sizeof path, "%s/step-%" PRId64, dir, step);
    st = pdl_ckpt_open(path, &c, err);
    if (st == PDL_OK && c->state.step != step)
        st = pdl_fail(err, PDL_EPARSE, "%s: it is of step %" PRId64, path,
                      c->state.step);
    if (st == PDL_OK && deep)
        st = pdl_ckpt_verify(c, err);
    if (st != PDL_OK) {
        pdl_ckpt_close(c);
        return st;
    }
    *out = c;
    return PDL_OK;
}

enum pdl_status pdl_ckpt_latest(const char *dir, int64_t before, bool deep,
                                pdl_ckpt **out, struct pdl_sink *notes,
                                struct pdl_err *err)
{
    int64_t *step;
    int n, seen = 0;
    enum pdl_status st = list_steps(dir, false, &step, &n, err);
    struct pdl_err why = {"", ""};
    pdl_ckpt *c = NULL;

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && !c; i++) {
        if (step[i] >= before)
            continue;
        seen++;
        if (open_step(dir, step[i], deep, &c, &why) != PDL_OK && notes)
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

/* ---- removal ---- */

/* First renamed, so that what is half removed is no checkpoint. */
static enum pdl_status remove_step(const char *dir, int64_t step,
                                   struct pdl_err *err)
{
    char path[4096], away[4096];

    snprintf(path, sizeof path, "%s/step-%" PRId64, dir, step);
    snprintf(away, sizeof away, "%s/step-%" PRId64 ".tmp", dir, step);
    (void)io_remove_folder(away, NULL);
    if (rename(path, away) != 0)
        return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
    return io_remove_folder(away, err);
}

static enum pdl_status remove_leftovers(const char *dir, int64_t writing,
                                        struct pdl_err *err)
{
    int64_t *step;
    int n;
    enum pdl_status st = list_steps(dir, true, &step, &n, err);
    char path[4096];

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && st == PDL_OK; i++) {
        snprintf(path, sizeof path, "%s/step-%" PRId64 ".tmp", dir, step[i]);
        if (step[i] < writing)
            st = io_remove_folder(path, err);
    }
    free(step);
    return st;
}

enum pdl_status pdl_ckpt_prune(const char *dir, int keep, int64_t writing,
                               struct pdl_err *err)
{
    int64_t *step;
    int n, good = 0;
    enum pdl_status st = list_steps(dir, false, &step, &n, err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n && st == PDL_OK && keep > 0; i++) {
        pdl_ckpt *c = NULL;

        if (good >= keep)
            st = remove_step(dir, step[i], err);
        else if (open_step(dir, step[i], false, &c, NULL) == PDL_OK)
            good++;
        pdl_ckpt_close(c);
    }
    free(step);
    return st == PDL_OK ? remove_leftovers(dir, writing, err) : st;
}
