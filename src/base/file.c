/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: read whole with a bound, mapped, inflated, and written so that a
 * crash leaves the old file or the new one. */
#include "paradl/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static enum pdl_status sys_fail(struct pdl_err *err, const char *path)
{
    return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
}

static enum pdl_status open_file(const char *path, int flags, int *fd,
                                 struct stat *sb, struct pdl_err *err)
{
    int f = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (f < 0)
        return sys_fail(err, path);
    errno = 0;
    if (fstat(f, sb) == 0 && S_ISDIR(sb->st_mode))
        errno = EISDIR;
    if (errno) {
        enum pdl_status st = sys_fail(err, path);

        close(f);
        return st;
    }
    *fd = f;
    return PDL_OK;
}

/* Reads to the end into a growing malloc'ed buffer: pipes have no size, and
 * the size of a file may lie. */
static enum pdl_status read_all(int fd, const char *path, size_t max,
                                char **data, size_t *len, struct pdl_err *err)
{
    size_t cap = 0, n = 0;
    char *buf = NULL, *grown;
    enum pdl_status st = PDL_OK;
    ssize_t got = 1;

    while (got != 0) {
        if (n == cap) {
            cap = cap ? 2 * cap : 16384;
            grown = realloc(buf, cap);
            if (!grown) {
                st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
                goto out;
            }
            buf = grown;
        }
        got = read(fd, buf + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            st = sys_fail(err, path);
            goto out;
        }
        n += (size_t)got;
        if (n > max) {
            st = pdl_fail(err, PDL_EPARSE, "%s: larger than %zu bytes", path,
                          max);
            goto out;
        }
    }
    *data = buf;
    *len = n;
    buf = NULL;
out:
    free(buf);
    return st;
}

enum pdl_status pdl_file_read(pdl_arena *a, const char *path, size_t max,
                              struct pdl_bytes *out, struct pdl_err *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct stat sb;
    enum pdl_status st;
    char *buf = NULL, *copy;
    size_t len = 0;
    int fd = STDIN_FILENO;

    if (!standard) {
        st = open_file(path, 0, &fd, &sb, err);
        if (st != PDL_OK)
            return st;
    }
    st = read_all(fd, standard ? "standard input" : path, max, &buf, &len, err);
    if (!standard)
        close(fd);
    if (st != PDL_OK)
        return st;
    copy = pdl_arena_strndup(a, buf, len);
    free(buf);
    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    *out = (struct pdl_bytes){copy, len};
    return PDL_OK;
}

enum pdl_status pdl_file_map(const char *path, struct pdl_bytes *out,
                             struct pdl_err *err)
{
    struct stat sb;
    enum pdl_status st;
    void *p;
    int fd;

    /* a pipe would be waited for until somebody writes */
    st = open_file(path, O_NONBLOCK, &fd, &sb, err);
    if (st != PDL_OK)
        return st;
    if (!S_ISREG(sb.st_mode)) {
        close(fd);
        return pdl_fail(err, PDL_EIO, "%s: not a regular file", path);
    }
    if (sb.st_size == 0) {
        close(fd);
        *out = (struct pdl_bytes){NULL, 0};
        return PDL_OK;
    }
    p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        st = sys_fail(err, path);
    close(fd);
    if (st != PDL_OK)
        return st;
    *out = (struct pdl_bytes){p, (size_t)sb.st_size};
    return PDL_OK;
}

void pdl_file_unmap(struct pdl_bytes *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->len);
    *map = (struct pdl_bytes){NULL, 0};
}

static enum pdl_status inflate_member(z_stream *z, const char *name, size_t max,
                                      struct pdl_buf *b, struct pdl_err *err)
{
    char chunk[16384];
    int rc = Z_OK;

    while (rc != Z_STREAM_END) {
        z->next_out = (unsigned char *)chunk;
        z->avail_out = sizeof chunk;
        rc = inflate(z, Z_NO_FLUSH);
        if (rc == Z_BUF_ERROR)
            return pdl_fail(err, PDL_EPARSE, "%s: the gzip data ends early",
                            name);
        if (rc == Z_MEM_ERROR)
            return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
        if (rc != Z_OK && rc != Z_STREAM_END)
            return pdl_fail(err, PDL_EPARSE, "%s: damaged gzip data", name);
        pdl_put(&b->sink, chunk, sizeof chunk - z->avail_out);
        if (b->len > max)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: inflates to more than %zu bytes", name, max);
        if (b->sink.failed)
            return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    }
    return PDL_OK;
}

/* A gzip file is one member after another; zeros may pad its end (RFC 1952,
 * and what tape drives left). */
static enum pdl_status inflate_all(z_stream *z, const char *name, size_t max,
                                   struct pdl_buf *b, struct pdl_err *err)
{
    enum pdl_status st = inflate_member(z, name, max, b, err);

    while (st == PDL_OK && z->avail_in > 0 && *z->next_in == 0x1f) {
        inflateReset(z);
        st = inflate_member(z, name, max, b, err);
    }
    for (; st == PDL_OK && z->avail_in > 0; z->next_in++, z->avail_in--)
        if (*z->next_in != 0)
            st = pdl_fail(err, PDL_EPARSE, "%s: rubbish after the gzip data",
                          name);
    return st;
}

enum pdl_status pdl_gunzip(pdl_arena *a, struct pdl_bytes in, const char *name,
                           size_t max, struct pdl_bytes *out,
                           struct pdl_err *err)
{
    z_stream z = {0};
    struct pdl_buf b;
    enum pdl_status st;
    char *copy;

    if (in.len < 2 || (unsigned char)in.data[0] != 0x1f ||
        (unsigned char)in.data[1] != 0x8b) {
        if (in.len > max)
            return pdl_fail(err, PDL_EPARSE, "%s: larger than %zu bytes", name,
                            max);
        *out = in;
        return PDL_OK;
    }
    if (in.len > UINT32_MAX)
        return pdl_fail(err, PDL_EPARSE, "%s: too large", name);
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    pdl_buf_init(&b);
    z.next_in = (unsigned char *)(uintptr_t)in.data;
    z.avail_in = (unsigned)in.len;
    st = inflate_all(&z, name, max, &b, err);
    inflateEnd(&z);
    if (st == PDL_OK) {
        copy = pdl_arena_strndup(a, b.text ? b.text : "", b.len);
        if (copy)
            *out = (struct pdl_bytes){copy, b.len};
        else
            st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    }
    pdl_buf_free(&b);
    return st;
}

static bool write_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* The rename itself is only safe once the folder is on disk too. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(dir);
}

/* A file of a new name beside path. The kernel applies the umask; asking for
 * it, as mkstemp would make us, is not safe with threads. */
static int make_temporary(char *name, size_t size, const char *path)
{
    enum { TRIES = 100 };
    int fd = -1;

    for (int i = 0; fd < 0 && i < TRIES; i++) {
        snprintf(name, size, "%s.%ld.%d", path, (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* Writes, syncs and closes; false with errno set when any of it failed. */
static bool fill(int fd, const void *data, size_t len, const struct stat *old)
{
    bool ok = (!old || fchmod(fd, old->st_mode & 07777) == 0) &&
              write_all(fd, data, len) && fsync(fd) == 0;
    int saved = errno;

    if (close(fd) != 0 && ok)
        return false;
    errno = saved;
    return ok;
}

static enum pdl_status replace(const char *path, const struct stat *old,
                               const void *data, size_t len,
                               struct pdl_err *err)
{
    size_t size = strlen(path) + 40;
    char *tmp = malloc(size);
    enum pdl_status st = PDL_OK;
    int fd;

    if (!tmp)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    fd = make_temporary(tmp, size, path);
    if (fd < 0) {
        st = sys_fail(err, path);
    } else if (!fill(fd, data, len, old) || rename(tmp, path) != 0) {
        st = sys_fail(err, path);
        unlink(tmp);
    } else {
        sync_folder(path);
    }
    free(tmp);
    return st;
}

/* A device or a pipe must not become a file. */
static enum pdl_status write_in_place(const char *path, const void *data,
                                      size_t len, struct pdl_err *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write_all(fd, data, len);
    enum pdl_status st = ok ? PDL_OK : sys_fail(err, path);

    if (fd >= 0 && close(fd) != 0 && ok)
        st = sys_fail(err, path);
    return st;
}

enum pdl_status pdl_file_write(const char *path, const void *data, size_t len,
                               struct pdl_err *err)
{
    char *target = NULL;
    enum pdl_status st;
    struct stat sb;

    if (stat(path, &sb) != 0)
        return replace(path, NULL, data, len, err);
    if (!S_ISREG(sb.st_mode))
        return write_in_place(path, data, len, err);
    target = realpath(path, NULL); /* through symbolic links */
    if (!target || access(target, W_OK) != 0)
        st = sys_fail(err, path);
    else
        st = replace(target, &sb, data, len, err);
    free(target);
    return st;
}
