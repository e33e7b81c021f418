/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose folder of checkpoints it is. One run a folder: checkpoints of two
 * runs in one place are told apart by nothing but their step, and the newer
 * run's would be pruned for the older one's. So every checkpoint names its
 * owner, a folder with somebody else's is refused, and whoever writes holds a
 * lock (flock) on DIR/lock. The lock belongs to an open descriptor: the kernel
 * gives it back whichever way the process ends. The text of the file says who
 * holds it, and after a restart whose folder it was. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char LOCK[] = "lock";

struct pdl_ckpt_lock {
    char dir[4096];
    int at, fd;
    uint64_t owner;
};

/* What a lock says of its holder. */
struct holder {
    uint64_t owner, job;
    int64_t pid;
    char host[128], since[64];
};

/* ---- the text ---- */

static bool hex_of(const struct pdl_doc *d, uint64_t *out)
{
    char *end = NULL;

    if (!d || d->kind != PDL_DOC_SCALAR || strlen(d->text) != 16)
        return false;
    *out = strtoull(d->text, &end, 16);
    return end && !*end;
}

static void copy_text(const struct pdl_doc *d, char *to, size_t size)
{
    snprintf(to, size, "%s", d && d->kind == PDL_DOC_SCALAR ? d->text : "?");
    for (; *to; to++)
        if ((unsigned char)*to < ' ' || *to == 127)
            *to = '?';
}

/* False: no text, or none of ours; h is then of nobody. */
static bool read_holder(int fd, const char *dir, struct holder *h)
{
    char text[4096];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    pdl_arena *a = pdl_arena_create(1 << 20);
    const struct pdl_doc *d = NULL;
    bool ok;

    *h = (struct holder){.host = "?", .since = "?"};
    text[n > 0 ? n : 0] = '\0';
    ok = a && n > 0 &&
         pdl_doc_json(a, (struct pdl_bytes){text, (size_t)n}, dir, &d, NULL) ==
             PDL_OK &&
         d->kind == PDL_DOC_MAP && hex_of(pdl_doc_get(d, "owner"), &h->owner) &&
         hex_of(pdl_doc_get(d, "job"), &h->job);
    if (ok) {
        const struct pdl_doc *pid = pdl_doc_get(d, "pid");

        if (!pid || pdl_doc_int(pid, 0, INT32_MAX, &h->pid, NULL) != PDL_OK)
            h->pid = 0;
        copy_text(pdl_doc_get(d, "host"), h->host, sizeof h->host);
        copy_text(pdl_doc_get(d, "since"), h->since, sizeof h->since);
    }
    pdl_arena_destroy(a);
    return ok;
}

static void put_hex(struct pdl_json *j, const char *key, uint64_t v)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, v);
    pdl_json_kstr(j, key, text);
}

/* In place: the file is the lock. On a full disk it says nothing, and holds
 * all the same. */
static void write_holder(const pdl_ckpt_lock *l, const struct pdl_ckpt_claim *c)
{
    char host[128] = "?", since[64];
    time_t now = time(NULL);
    struct pdl_json j;
    struct pdl_buf b;
    struct tm t;

    (void)gethostname(host, sizeof host - 1);
    gmtime_r(&now, &t);
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &t);
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_schema(&j, "lock");
    put_hex(&j, "owner", l->owner);
    put_hex(&j, "job", c->job);
    pdl_json_kint(&j, "pid", getpid());
    pdl_json_kstr(&j, "host", host);
    pdl_json_kstr(&j, "since", since);
    pdl_json_kstr(&j, "model", c->model ? c->model : "");
    pdl_json_end(&j);
    if (!b.sink.failed && ftruncate(l->fd, 0) == 0 &&
        lseek(l->fd, 0, SEEK_SET) == 0 && io_write_all(l->fd, b.text, b.len))
        (void)fsync(l->fd);
    pdl_buf_free(&b);
}

/* ---- the lock ---- */

static enum pdl_status refuse_held(const pdl_ckpt_lock *l, struct pdl_err *err)
{
    struct holder h;
    enum pdl_status st;

    if (read_holder(l->fd, l->dir, &h))
        st = pdl_fail(err, PDL_EINVAL,
                      "%.300s: in use by process %lld on %s since %s", l->dir,
                      (long long)h.pid, h.host, h.since);
    else
        st = pdl_fail(err, PDL_EINVAL, "%.300s: in use by another run", l->dir);
    pdl_hint(err, "another --checkpoint DIR, or --beside");
    return st;
}

/* 0, or why not: EWOULDBLOCK where somebody else has it. */
static int lock(int fd, double until)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        if (pdl_clock_s() > until)
            return EWOULDBLOCK;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    return 0;
}

/* The file, and the folder itself, which stays whoever removes the file; where
 * folders cannot be locked the file does. */
static enum pdl_status take(pdl_ckpt_lock *l, double patience_s,
                            struct pdl_sink *notes, struct pdl_err *err)
{
    double until = pdl_clock_s() + patience_s;
    struct stat sb;
    int why;

    l->fd =
        openat(l->at, LOCK,
               O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return pdl_fail(
            err, PDL_EIO, "%.300s/%s: %s", l->dir, LOCK,
            errno == ELOOP ? "is a symbolic link" : strerror(errno));
    if (fstat(l->fd, &sb) != 0 || !S_ISREG(sb.st_mode))
        return pdl_fail(err, PDL_EIO, "%.300s/%s: is no file", l->dir, LOCK);
    why = lock(l->fd, until);
    if (why == 0 && lock(l->at, until) == EWOULDBLOCK)
        why = EWOULDBLOCK;
    if (why == EWOULDBLOCK)
        return refuse_held(l, err);
    if (why != 0 && notes)
        pdl_printf(notes,
                   "%s cannot be locked (%s): see that no other run writes "
                   "there\n",
                   l->dir, strerror(why));
    return PDL_OK;
}

/* ---- whose checkpoints ---- */

struct census {
    int folders, owners;
    int64_t step; /* the newest */
    uint64_t owner[2];
    char model[128];
};

static void count(struct census *n, const pdl_ckpt *c)
{
    if (!*n->model)
        snprintf(n->model, sizeof n->model, "%s", c->state.model);
    if (c->owner == 0 || (n->owners > 0 && c->owner == n->owner[0]) ||
        (n->owners > 1 && c->owner == n->owner[1]))
        return;
    if (n->owners < 2)
        n->owner[n->owners] = c->owner;
    n->owners++;
}

static enum pdl_status take_census(const pdl_ckpt_lock *l, struct census *n,
                                   struct pdl_err *err)
{
    int64_t *step;
    enum pdl_status st =
        io_ckpt_steps(l->at, l->dir, false, &step, &n->folders, err);

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < n->folders; i++) {
        pdl_ckpt *c = NULL;

        if (io_ckpt_open_step(l->at, l->dir, step[i], &c, NULL) == PDL_OK)
            count(n, c);
        pdl_ckpt_close(c);
    }
    n->step = n->folders > 0 ? step[0] : -1;
    free(step);
    return PDL_OK;
}

static enum pdl_status refuse_foreign(const pdl_ckpt_lock *l,
                                      const struct census *n,
                                      struct pdl_err *err)
{
    pdl_fail(err, PDL_EINVAL,
             "%.300s: holds checkpoints of another run (%.60s%sup to step "
             "%" PRId64 ")",
             l->dir, n->model, *n->model ? ", " : "", n->step);
    pdl_hint(err, "--resume goes on with it; another folder begins anew "
                  "(train --beside finds one)");
    return PDL_EINVAL;
}

static uint64_t fresh_owner(void)
{
    uint64_t v = 0;

    while (v == 0)
        if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v)
            v = (uint64_t)(pdl_clock_s() * 1e6) ^ (uint64_t)getpid() << 44;
    return v;
}

/* After the lock: may this run have the folder, and as whom? */
static enum pdl_status settle_owner(pdl_ckpt_lock *l,
                                    const struct pdl_ckpt_claim *c,
                                    struct pdl_err *err)
{
    struct census n = {.folders = 0};
    enum pdl_status st = take_census(l, &n, err);
    struct holder h;

    if (st != PDL_OK)
        return st;
    /* of another job: this one died before it had the folder */
    if (c->again && read_holder(l->fd, l->dir, &h) && h.job == c->job) {
        if (n.owners > 0 && (n.owners > 1 || n.owner[0] != h.owner))
            return pdl_fail(err, PDL_EINVAL,
                            "%.300s: was taken by another run meanwhile",
                            l->dir);
        l->owner = h.owner;
        return PDL_OK;
    }
    if (!c->resume && n.folders > 0)
        return refuse_foreign(l, &n, err);
    if (n.owners > 1) {
        pdl_fail(err, PDL_EINVAL,
                 "%.300s: holds checkpoints of %d runs (%016" PRIx64
                 ", %016" PRIx64 "%s)",
                 l->dir, n.owners, n.owner[0], n.owner[1],
                 n.owners > 2 ? " ..." : "");
        pdl_hint(err, "move those of all but one away");
        return PDL_EINVAL;
    }
    l->owner = n.owners == 1 ? n.owner[0] : fresh_owner();
    return PDL_OK;
}

/* ---- all together ---- */

static enum pdl_status claim(pdl_ckpt_lock *l, const struct pdl_ckpt_claim *c,
                             struct pdl_sink *notes, struct pdl_err *err)
{
    enum pdl_status st;

    if (mkdir(l->dir, 0777) != 0 && errno != EEXIST)
        return io_sys_fail(err, l->dir);
    l->at = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->at < 0)
        return io_sys_fail(err, l->dir);
    st = take(l, c->patience_s, notes, err);
    if (st == PDL_OK)
        st = settle_owner(l, c, err);
    if (st == PDL_OK)
        write_holder(l, c);
    return st;
}

static void let_go(pdl_ckpt_lock *l)
{
    if (l->fd >= 0)
        close(l->fd);
    if (l->at >= 0)
        close(l->at);
    l->fd = l->at = -1;
}

enum pdl_status pdl_ckpt_claim(const struct pdl_ckpt_claim *c,
                               pdl_ckpt_lock **out, struct pdl_sink *notes,
                               struct pdl_err *err)
{
    enum { MOST = 1000 };
    pdl_ckpt_lock *l = calloc(1, sizeof *l);
    enum pdl_status st = PDL_EINVAL;

    if (!l)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", c->dir);
    for (int i = 1; st == PDL_EINVAL && i < (c->beside ? MOST : 2); i++) {
        size_t n = strlen(c->dir);

        l->at = l->fd = -1;
        while (n > 1 && c->dir[n - 1] == '/')
            n--;
        if (i == 1)
            snprintf(l->dir, sizeof l->dir, "%s", c->dir);
        else
            snprintf(l->dir, sizeof l->dir, "%.*s-%d", (int)n, c->dir, i);
        st = claim(l, c, notes, err);
        if (st == PDL_OK && i > 1 && notes)
            pdl_printf(notes, "%s is another run's: checkpoints go to %s\n",
                       c->dir, l->dir);
        if (st != PDL_OK)
            let_go(l);
    }
    if (st == PDL_OK)
        *out = l;
    else
        free(l);
    return st;
}

const char *pdl_ckpt_lock_dir(const pdl_ckpt_lock *l)
{
    return l->dir;
}

uint64_t pdl_ckpt_lock_owner(const pdl_ckpt_lock *l)
{
    return l->owner;
}

void pdl_ckpt_release(pdl_ckpt_lock *l)
{
    if (l)
        let_go(l);
    free(l);
}
