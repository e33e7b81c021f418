/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a checkpoint, rank 0: waits until it sees the parts of all ranks (in
 * the file system: a background thread must not talk to other ranks), joins
 * them to manifest.json and renames the folder to step-N.
 *
 * Parts carry the number of the run that wrote them: those a dead run left
 * for the same step are not taken for ours, and are removed with everything
 * else that the manifest does not name. An older step-N is exchanged with the
 * new one in one call. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double USUAL_TIMEOUT_S = 600;

/* The run's number stands at the beginning of a part: looked for while
 * waiting, so that a stale part is not parsed again and again. */
static bool is_ours(const struct io_work *k, const char *name)
{
    char head[256], want[40];
    int fd = openat(k->tmp, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;

    if (fd >= 0)
        close(fd);
    snprintf(want, sizeof want, "\"run\": \"%016" PRIx64 "\"", k->w->run);
    return n > 0 && memmem(head, (size_t)n, want, strlen(want));
}

/* True when the part of a rank is there and of this run. */
static bool read_part(struct io_work *k, int rank, struct pdl_ckpt *part)
{
    struct pdl_ckpt c = {.arena = k->c.arena, .fd = -1};
    char name[32];
    struct pdl_bytes in;

    snprintf(name, sizeof name, "part-%05d.json", rank);
    if (!is_ours(k, name) ||
        io_read_file(k->c.arena, k->tmp, name, name, &in, NULL) != PDL_OK ||
        io_manifest_parse(&c, in, name, false, NULL) != PDL_OK)
        return false;
    *part = c;
    return c.run == k->w->run && c.state.step == k->c.state.step &&
           c.state.nranks == k->w->nranks && c.nfiles == 1 &&
           c.chunk_bytes == k->c.chunk_bytes;
}

static enum pdl_status wait_for_parts(struct io_work *k, struct pdl_ckpt *part)
{
    double limit = k->w->timeout_s > 0 ? k->w->timeout_s : USUAL_TIMEOUT_S;
    double start = pdl_clock_s();
    long pause_ns = 1000000;

    for (int r = 0; r < k->w->nranks;) {
        if (read_part(k, r, &part[r])) {
            r++;
            continue;
        }
        if (k->w->cancel && *k->w->cancel)
            return pdl_fail(k->err, PDL_EINTR, "%s: another rank has no part",
                            k->temporary);
        if (pdl_clock_s() - start > limit)
            return pdl_fail(k->err, PDL_EIO,
                            "%s: no part of rank %d after %g s", k->temporary,
                            r, limit);
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        if (pause_ns < 50000000)
            pause_ns *= 2;
    }
    return PDL_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct io_tensor *x = a, *y = b;
    int c = strcmp(x->pub.name, y->pub.name);

    return c ? c : x->shard[0].file - y->shard[0].file;
}

static bool same(const struct pdl_ckpt_tensor *a,
                 const struct pdl_ckpt_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

/* Tensors of the same name, already side by side, become one. */
static enum pdl_status join(struct io_work *k)
{
    struct io_tensor *t = k->c.tensor;
    int n = 0;

    for (int i = 0, j; i < k->c.ntensors; i = j) {
        struct io_shard *all;
        struct io_tensor one = t[i];

        for (j = i;
             j < k->c.ntensors && strcmp(t[j].pub.name, one.pub.name) == 0; j++)
            if (!same(&t[j].pub, &one.pub))
                return pdl_fail(k->err, PDL_EINVAL,
                                "'%s' has different shapes on two ranks",
                                one.pub.name);
        all = PDL_NEW(k->c.arena, struct io_shard, j - i);
        if (!all)
            return io_ckpt_no_memory(k->w, k->err);
        for (int s = i; s < j; s++)
            all[s - i] = t[s].shard[0];
        one.nshards = j - i;
        one.shard = all;
        if (!io_tiles(all, one.nshards, one.pub.dim, one.pub.rank))
            return pdl_fail(k->err, PDL_EINVAL,
                            "the shards of '%s' are not the whole of it",
                            one.pub.name);
        t[n++] = one;
    }
    k->c.ntensors = n;
    return PDL_OK;
}

static enum pdl_status gather(struct io_work *k, struct pdl_ckpt *part)
{
    int64_t total = 0;

    for (int r = 0; r < k->w->nranks; r++)
        total += part[r].ntensors;
    k->c.file = PDL_NEW(k->c.arena, struct io_file, k->w->nranks);
    k->c.tensor = PDL_NEW(k->c.arena, struct io_tensor, total + 1);
    if (!k->c.file || !k->c.tensor)
        return io_ckpt_no_memory(k->w, k->err);
    for (int r = 0; r < k->w->nranks; r++) {
        k->c.file[k->c.nfiles++] = part[r].file[0];
        for (int i = 0; i < part[r].ntensors; i++) {
            part[r].tensor[i].shard[0].file = r;
            k->c.tensor[k->c.ntensors++] = part[r].tensor[i];
        }
    }
    qsort(k->c.tensor, (size_t)k->c.ntensors, sizeof *k->c.tensor, by_name);
    return join(k);
}

/* Removes what the manifest does not name: parts, and files of dead runs. */
static void sweep(const struct io_work *k)
{
    int fd = io_open_folder(k->dir, k->temporary_name);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        bool ours = e->d_name[0] == '.' &&
                    (!e->d_name[1] || strcmp(e->d_name, "..") == 0);

        ours |= strcmp(e->d_name, "manifest.json") == 0;
        for (int i = 0; i < k->c.nfiles && !ours; i++)
            ours = strcmp(e->d_name, k->c.file[i].name) == 0;
        if (!ours)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

/* The one moment: before it the checkpoint is not there, after it it is. */
static enum pdl_status publish(struct io_work *k)
{
    struct stat sb;
    bool old = fstatat(k->dir, k->name, &sb, AT_SYMLINK_NOFOLLOW) == 0;

    if (!io_sync(k->tmp))
        return io_sys_fail(k->err, k->temporary);
    if (renameat2(k->dir, k->temporary_name, k->dir, k->name,
                  old ? RENAME_EXCHANGE : 0) != 0)
        return io_sys_fail(k->err, k->c.path);
    io_ckpt_at(k->w, PDL_CKPT_RENAMED);
    if (!io_sync(k->dir))
        return io_sys_fail(k->err, k->w->dir);
    return old ? io_remove_folder(k->dir, k->temporary_name, k->temporary,
                                  k->err)
               : PDL_OK;
}

static enum pdl_status commit(struct io_work *k)
{
    struct pdl_ckpt *part = PDL_NEW(k->c.arena, struct pdl_ckpt, k->w->nranks);
    enum pdl_status st;

    if (!part)
        return io_ckpt_no_memory(k->w, k->err);
    st = wait_for_parts(k, part);
    if (st == PDL_OK)
        st = gather(k, part);
    if (st != PDL_OK)
        return st;
    io_ckpt_at(k->w, PDL_CKPT_GATHERED);
    st = io_ckpt_text(k, "manifest.json");
    if (st != PDL_OK)
        return st;
    io_ckpt_at(k->w, PDL_CKPT_MANIFEST);
    sweep(k);
    return publish(k);
}

enum pdl_status pdl_ckpt_commit(const struct pdl_ckpt_writer *w,
                                const struct pdl_ckpt_state *s,
                                struct pdl_err *err)
{
    struct io_work k;
    enum pdl_status st = io_ckpt_begin(&k, w, s, err);

    if (st == PDL_OK) {
        st = commit(&k);
        if (st != PDL_OK) /* others' parts take room that may be wanted */
            (void)io_remove_folder(k.dir, k.temporary_name, k.temporary, NULL);
    }
    io_ckpt_end(&k);
    if (st != PDL_OK)
        return st;
    io_ckpt_at(w, PDL_CKPT_DURABLE);
    st = pdl_ckpt_prune(w, s->step, err);
    if (st == PDL_OK)
        io_ckpt_at(w, PDL_CKPT_PRUNED);
    return st;
}
