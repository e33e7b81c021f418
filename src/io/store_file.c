/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a store. Its room on the disk is taken when it is made or grows,
 * so a disk that is full says so then and not in the middle of an epoch. It is
 * mapped, and locked for as long as somebody has it open to write: a second
 * job is refused, a process that dies leaves no lock behind. */
#include "store.h"

#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char MAGIC[8] = {'P', 'D', 'L', 'S', 'T', 'O', 'R', 'E'};
static const uint32_t ORDER = 0x01020304;
/* Slots are counted with 32 bits. */
static const int64_t MOST_SLOTS = INT32_MAX / 4, MOST_BYTES = (int64_t)1 << 40;

/* ---- headers ------------------------------------------------------------ */

int64_t io_store_file_bytes(const struct store_header *h)
{
    int64_t slots, lines, all;

    if (!pdl_mul64(h->capacity, h->record_bytes, &slots) ||
        !pdl_mul64(h->capacity, (int64_t)sizeof(struct store_line), &lines) ||
        !pdl_add64(slots, lines, &all) ||
        !pdl_add64(all, (int64_t)2 * STORE_HEADER, &all))
        return -1;
    return all;
}

static uint64_t sum_of(const struct store_header *h)
{
    return XXH3_64bits(h, offsetof(struct store_header, sum));
}

static bool is_field(const struct store_field *f)
{
    int64_t n = 1;

    if (f->rank < 0 || f->rank > PDL_DATA_RANK || f->elem[7] != '\0' ||
        !io_elem_find(f->elem))
        return false;
    for (int d = 0; d < f->rank; d++)
        if (f->dim[d] < 1 || !pdl_mul64(n, f->dim[d], &n))
            return false;
    return n <= MOST_BYTES;
}

static int64_t field_bytes(const struct store_field *f)
{
    int64_t n = io_elem_find(f->elem)->bytes;

    for (int d = 0; d < f->rank; d++)
        n *= f->dim[d];
    return n;
}

/* The input, then the target, then up to seven bytes. */
static bool is_sound(const struct store_header *h)
{
    if (!is_field(&h->input) || !is_field(&h->target) || h->samples < 1 ||
        h->capacity < 0 || h->capacity > MOST_SLOTS || h->record_bytes < 1 ||
        h->record_bytes > MOST_BYTES || h->record_bytes % 8 != 0 ||
        h->split[sizeof h->split - 1] != '\0' ||
        h->format[sizeof h->format - 1] != '\0' || h->classes < 0 ||
        h->classes > INT32_MAX)
        return false;
    return field_bytes(&h->input) + field_bytes(&h->target) <=
               h->record_bytes &&
           io_store_file_bytes(h) > 0;
}

/* One of the two copies; false: it is none. */
static bool take_copy(struct pdl_bytes in, size_t at, struct store_header *out)
{
    struct store_header h;

    if (in.len < at + sizeof h)
        return false;
    memcpy(&h, in.data + at, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0 || h.sum != sum_of(&h) ||
        h.order != ORDER || h.version != STORE_VERSION || !is_sound(&h))
        return false;
    *out = h;
    return true;
}

/* Why neither copy can be used. */
static enum pdl_status refuse(struct pdl_bytes in, const char *path,
                              struct pdl_err *err)
{
    struct store_header h;

    memset(&h, 0, sizeof h);
    memcpy(&h, in.data, in.len < sizeof h ? in.len : sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof MAGIC) != 0)
        return pdl_fail(err, PDL_EPARSE, "%s: is no store of samples", path);
    if (h.order != ORDER)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: a store of a machine with another byte order",
                        path);
    if (h.version != STORE_VERSION)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: a store of version %u; this program knows %d",
                        path, h.version, STORE_VERSION);
    pdl_fail(err, PDL_EPARSE, "%s: the header of this store is damaged", path);
    pdl_hint(err, "remove the file: its samples come again from the source");
    return PDL_EPARSE;
}

enum pdl_status io_store_parse(struct pdl_bytes in, int64_t file_bytes,
                               const char *path, struct store_header *out,
                               struct pdl_err *err)
{
    struct store_header a, b;
    bool has_a = take_copy(in, 0, &a), has_b = take_copy(in, STORE_HEADER, &b);

    if (!has_a && !has_b)
        return refuse(in, path, err);
    *out = has_b && (!has_a || b.generation > a.generation) ? b : a;
    if (file_bytes < io_store_file_bytes(out)) {
        pdl_fail(err, PDL_EPARSE,
                 "%s: is truncated: %lld bytes of %lld are there", path,
                 (long long)file_bytes, (long long)io_store_file_bytes(out));
        pdl_hint(err, "remove the file: its samples come again from the "
                      "source");
        return PDL_EPARSE;
    }
    return PDL_OK;
}

static void write_header(struct pdl_store *s)
{
    unsigned char *to;

    if (!s->map)
        return;
    s->h.generation++;
    s->h.sum = sum_of(&s->h);
    to = s->map + (s->h.generation % 2) * STORE_HEADER;
    memcpy(to, &s->h, sizeof s->h);
}

/* ---- the file ------------------------------------------------------------ */

static enum pdl_status lock_file(struct pdl_store *s, struct pdl_err *err)
{
    if (flock(s->fd, (s->writable ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
        return PDL_OK;
    if (errno != EWOULDBLOCK)
        return io_sys_fail(err, s->path);
    pdl_fail(err, PDL_EINVAL, "%s: another job uses this store", s->path);
    pdl_hint(err, "give each job a folder of its own");
    return PDL_EINVAL;
}

static enum pdl_status map_file(struct pdl_store *s, struct pdl_err *err)
{
    int64_t bytes = io_store_file_bytes(&s->h);
    int how = s->writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *at;

    if (s->map)
        munmap(s->map, s->map_bytes);
    s->map = NULL;
    at = mmap(NULL, (size_t)bytes, how, MAP_SHARED, s->fd, 0);
    if (at == MAP_FAILED)
        return io_sys_fail(err, s->path);
    s->map = at;
    s->map_bytes = (size_t)bytes;
    s->line = (struct store_line *)(void *)io_store_slot(s, s->h.capacity);
    return PDL_OK;
}

static enum pdl_status reserve(struct pdl_store *s, int64_t bytes,
                               struct pdl_err *err)
{
    int e = posix_fallocate(s->fd, 0, bytes);
    char size[32];

    if (e == 0)
        return PDL_OK;
    pdl_fail(err, PDL_EIO, "%s: no room for %s of samples: %s", s->path,
             pdl_unit_format((double)bytes, PDL_UNIT_BYTES, size, sizeof size),
             strerror(e));
    return PDL_EIO;
}

static enum pdl_status make_file(struct pdl_store *s, struct pdl_err *err)
{
    int64_t bytes = io_store_file_bytes(&s->h);
    enum pdl_status st = reserve(s, bytes, err);

    memcpy(s->h.magic, MAGIC, sizeof MAGIC);
    s->h.version = STORE_VERSION;
    s->h.order = ORDER;
    if (st == PDL_OK)
        st = map_file(s, err);
    if (st == PDL_OK) {
        for (int64_t i = 0; i < s->h.capacity; i++)
            s->line[i].sample = -1;
        write_header(s);
        write_header(s); /* both copies */
    } else {
        (void)unlink(s->path); /* it is ours: O_EXCL made it, and locked */
    }
    return st;
}

static enum pdl_status read_header(struct pdl_store *s, struct pdl_err *err)
{
    char head[2 * STORE_HEADER];
    struct pdl_bytes in = {head, 0};
    struct stat sb;
    ssize_t got;

    if (fstat(s->fd, &sb) != 0)
        return io_sys_fail(err, s->path);
    if (!S_ISREG(sb.st_mode))
        return pdl_fail(err, PDL_EIO, "%s: not a regular file", s->path);
    got = pread(s->fd, head, sizeof head, 0);
    if (got < 0)
        return io_sys_fail(err, s->path);
    in.len = (size_t)got;
    return io_store_parse(in, sb.st_size, s->path, &s->h, err);
}

/* Whoever made it was killed before it had a header. */
static bool is_unborn(int fd)
{
    static const char zero[8];
    char a[8] = {0}, b[8] = {0};

    return pread(fd, a, sizeof a, 0) >= 0 &&
           pread(fd, b, sizeof b, STORE_HEADER) >= 0 &&
           memcmp(a, zero, sizeof zero) == 0 &&
           memcmp(b, zero, sizeof zero) == 0;
}

enum pdl_status io_store_open_file(struct pdl_store *s, bool create,
                                   struct pdl_err *err)
{
    int how =
        (s->writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    bool made = false;
    enum pdl_status st;

    s->fd = open(s->path, how);
    if (s->fd < 0 && errno == ENOENT && create) {
        s->fd = open(s->path, how | O_CREAT | O_EXCL, 0666);
        made = s->fd >= 0;
    }
    if (s->fd < 0)
        return io_sys_fail(err, s->path);
    st = lock_file(s, err);
    if (st != PDL_OK)
        return st;
    if (made || (create && is_unborn(s->fd)))
        return make_file(s, err);
    st = read_header(s, err);
    return st == PDL_OK ? map_file(s, err) : st;
}

/* The new index is written behind the new slots before the header says so.
 * Where it lies over the old one and the process is killed just then, samples
 * fail their checksums and come from elsewhere. */
enum pdl_status io_store_set_capacity(struct pdl_store *s, int64_t capacity,
                                      struct pdl_err *err)
{
    struct store_header was = s->h;
    int64_t old = was.capacity, both = old < capacity ? old : capacity;
    struct store_line *lines;
    enum pdl_status st = PDL_OK;

    if (capacity == old)
        return PDL_OK;
    s->h.capacity = capacity;
    if (capacity > MOST_SLOTS || io_store_file_bytes(&s->h) < 0) {
        s->h = was;
        return pdl_fail(err, PDL_EINVAL, "%s: %lld samples are too many",
                        s->path, (long long)capacity);
    }
    lines = malloc((size_t)(capacity + 1) * sizeof *lines);
    if (!lines)
        st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", s->path);
    for (int64_t i = 0; lines && i < capacity; i++)
        lines[i] = i < both ? s->line[i] : (struct store_line){-1, 0};
    if (st == PDL_OK && capacity > old)
        st = reserve(s, io_store_file_bytes(&s->h), err);
    if (st == PDL_OK && capacity > old)
        st = map_file(s, err);
    if (st == PDL_OK) {
        memcpy(io_store_slot(s, capacity), lines,
               (size_t)capacity * sizeof *lines);
        write_header(s);
        st = map_file(s, err);
    } else {
        s->h = was;
    }
    free(lines);
    if (st == PDL_OK && capacity < old &&
        ftruncate(s->fd, io_store_file_bytes(&s->h)) != 0)
        st = io_sys_fail(err, s->path);
    return st;
}

void io_store_close_file(struct pdl_store *s)
{
    if (s->map)
        munmap(s->map, s->map_bytes);
    if (s->fd >= 0)
        close(s->fd);
    s->map = NULL;
    s->fd = -1;
}

unsigned char *io_store_slot(const struct pdl_store *s, int64_t slot)
{
    return s->map + (int64_t)2 * STORE_HEADER + slot * s->h.record_bytes;
}
