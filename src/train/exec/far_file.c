/* SPDX-License-Identifier: Apache-2.0
 *
 * A file as far memory: one thread writes, another reads, each in the order in
 * which it is asked. The blocks of the file are taken when it is opened: a disk
 * that is full says so before the first step. */
#include "train/exec/far.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    struct job *next;
    char *near;
    int64_t at, bytes;
};

struct lane {
    struct train_far_file *f;
    bool out;
    pthread_t thread;
    bool started;
    struct job *first, **last;
    uint64_t asked, done;
};

struct train_far_file {
    int fd;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    int error; /* the first */
    bool error_out;
    char where[200];
    struct lane lane[2]; /* in, out */
};

/* ---- a lane --- */

static int transfer(const struct lane *l, const struct job *j)
{
    int64_t done = 0;

    while (done < j->bytes) {
        size_t n = (size_t)(j->bytes - done);
        ssize_t k = l->out ? pwrite(l->f->fd, j->near + done, n, j->at + done)
                           : pread(l->f->fd, j->near + done, n, j->at + done);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k < 0 ? errno : EIO;
        done += k;
    }
    return 0;
}

static void *work(void *ctx)
{
    struct lane *l = ctx;
    struct train_far_file *f = l->f;

    (void)!pthread_mutex_lock(&f->lock);
    for (;;) {
        struct job *j = l->first;
        int e;

        if (!j && f->stop)
            break;
        if (!j) {
            (void)!pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        (void)!pthread_mutex_unlock(&f->lock);
        e = transfer(l, j);
        (void)!pthread_mutex_lock(&f->lock);
        if (e != 0 && f->error == 0) {
            f->error = e;
            f->error_out = l->out;
        }
        l->first = j->next;
        if (!l->first)
            l->last = &l->first;
        l->done++;
        free(j);
        (void)!pthread_cond_broadcast(&f->changed);
    }
    (void)!pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- the file --- */

enum pdl_status train_far_folder(const char *where, struct pdl_err *err)
{
    struct stat s;

    if (stat(where, &s) != 0)
        return pdl_fail(err, PDL_EIO, "--far '%.200s': %s", where,
                        strerror(errno));
    return S_ISDIR(s.st_mode)
               ? PDL_OK
               : pdl_fail(err, PDL_EIO, "--far '%.200s': is no folder", where);
}

static enum pdl_status open_file(struct train_far_file *f, const char *where,
                                 int64_t rank, int64_t bytes,
                                 struct pdl_err *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/paradl-far-%d.XXXXXX", where,
                     (int)rank);
    int e;

    if (n < 0 || n >= (int)sizeof path)
        return pdl_fail(err, PDL_EINVAL, "--far: the name is too long");
    f->fd = mkstemp(path);
    if (f->fd < 0)
        return pdl_fail(err, PDL_EIO, "--far %.200s: %s", where,
                        strerror(errno));
    (void)!unlink(path);
    e = bytes > 0 ? posix_fallocate(f->fd, 0, bytes) : 0;
    if (e == 0)
        return PDL_OK;
    pdl_fail(err, PDL_EIO, "--far %.200s: no room for %.1f MiB: %s", where,
             (double)bytes / (1 << 20), strerror(e));
    pdl_hint(err, "another folder, a smaller batch, or recompute= instead of "
                  "offload=");
    return PDL_EIO;
}

enum pdl_status train_far_file_open(const char *where, int64_t rank,
                                    int64_t bytes, struct train_far_file **out,
                                    struct pdl_err *err)
{
    struct train_far_file *f = calloc(1, sizeof *f);
    enum pdl_status st;

    if (!f)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for --far");
    f->fd = -1;
    snprintf(f->where, sizeof f->where, "%s", where);
    (void)!pthread_mutex_init(&f->lock, NULL);
    (void)!pthread_cond_init(&f->changed, NULL);
    st = train_far_folder(where, err);
    if (st == PDL_OK)
        st = open_file(f, where, rank, bytes, err);
    for (int i = 0; i < 2 && st == PDL_OK; i++) {
        struct lane *l = &f->lane[i];

        l->f = f;
        l->out = i == 1;
        l->last = &l->first;
        l->started = pthread_create(&l->thread, NULL, work, l) == 0;
        if (!l->started)
            st = pdl_fail(err, PDL_ENOENV, "--far: no thread for copies");
    }
    if (st == PDL_OK)
        *out = f;
    else
        train_far_file_close(f);
    return st;
}

void train_far_file_close(struct train_far_file *f)
{
    if (!f)
        return;
    (void)!pthread_mutex_lock(&f->lock);
    f->stop = true;
    (void)!pthread_cond_broadcast(&f->changed);
    (void)!pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < 2; i++)
        if (f->lane[i].started)
            (void)!pthread_join(f->lane[i].thread, NULL);
    (void)!pthread_cond_destroy(&f->changed);
    (void)!pthread_mutex_destroy(&f->lock);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

/* ---- asking --- */

enum pdl_status train_far_file_copy(struct train_far_file *f, bool out,
                                    char *near, int64_t at, int64_t bytes,
                                    struct pdl_err *err)
{
    struct lane *l = &f->lane[out];
    struct job *j = malloc(sizeof *j);

    if (!j)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a copy");
    *j = (struct job){.near = near, .at = at, .bytes = bytes};
    (void)!pthread_mutex_lock(&f->lock);
    *l->last = j;
    l->last = &j->next;
    l->asked++;
    (void)!pthread_cond_broadcast(&f->changed);
    (void)!pthread_mutex_unlock(&f->lock);
    return PDL_OK;
}

uint64_t train_far_file_record(struct train_far_file *f, bool out)
{
    uint64_t n;

    (void)!pthread_mutex_lock(&f->lock);
    n = f->lane[out].asked;
    (void)!pthread_mutex_unlock(&f->lock);
    return n;
}

enum pdl_status train_far_file_wait(struct train_far_file *f, bool out,
                                    uint64_t ticket, struct pdl_err *err)
{
    int e;

    (void)!pthread_mutex_lock(&f->lock);
    while (f->lane[out].done < ticket)
        (void)!pthread_cond_wait(&f->changed, &f->lock);
    e = f->error;
    out = f->error_out;
    (void)!pthread_mutex_unlock(&f->lock);
    return e == 0 ? PDL_OK
                  : pdl_fail(err, PDL_EIO, "--far %s: %s failed: %s", f->where,
                             out ? "writing" : "reading", strerror(e));
}
