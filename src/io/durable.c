/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders that are on the disk when a function returns. Names are
 * looked up in an open folder and symbolic links are never followed: a link
 * that somebody put where a checkpoint goes leads nowhere. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum pdl_status io_sys_fail(struct pdl_err *err, const char *path)
{
    return pdl_fail(err, PDL_EIO, "%s: %s", path,
                    errno == ELOOP ? "is a symbolic link" : strerror(errno));
}

int io_open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR) { /* what the kernel says of links, too */
        struct stat sb;

        errno = fstatat(at, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISLNK(sb.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    }
    return fd;
}

/* Other ranks may be first. A link in the way is removed, not what it points
 * at: the name is ours. */
int io_make_folder(int at, const char *name)
{
    int fd = -1;

    for (int tries = 0; fd < 0 && tries < 3; tries++) {
        if (mkdirat(at, name, 0777) != 0 && errno != EEXIST)
            return -1;
        fd = io_open_folder(at, name);
        if (fd < 0 && (errno != ELOOP || unlinkat(at, name, 0) != 0))
            return -1;
    }
    return fd;
}

bool io_sync(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL;
}

bool io_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

int io_create(int at, const char *name)
{
    if (unlinkat(at, name, 0) != 0 && errno != ENOENT)
        return -1;
    return openat(at, name,
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

bool io_write_file(int at, const char *name, const void *data, size_t len)
{
    char fresh[300];
    int fd, saved;
    bool ok;

    snprintf(fresh, sizeof fresh, "%.250s.new", name);
    fd = io_create(at, fresh);
    ok = fd >= 0 && io_write_all(fd, data, len) && fsync(fd) == 0;
    saved = errno;
    if (fd >= 0 && close(fd) != 0 && ok)
        ok = false, saved = errno;
    if (ok && renameat(at, fresh, at, name) == 0)
        return true;
    saved = ok ? errno : saved;
    (void)unlinkat(at, fresh, 0);
    errno = saved;
    return false;
}

enum pdl_status io_read_at(int fd, const char *path, int64_t at, void *dst,
                           int64_t n, struct pdl_err *err)
{
    char *p = dst;

    while (n > 0) {
        ssize_t got = pread(fd, p, (size_t)n, at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_sys_fail(err, path);
        if (got == 0)
            return pdl_fail(err, PDL_EPARSE, "%s: the file ends early", path);
        p += got;
        at += got;
        n -= got;
    }
    return PDL_OK;
}

enum pdl_status io_read_file(pdl_arena *a, int at, const char *name,
                             const char *path, struct pdl_bytes *out,
                             struct pdl_err *err)
{
    enum { MOST = 1 << 30 };
    int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    enum pdl_status st = PDL_OK;
    struct stat sb;
    char *text = NULL;

    if (fd < 0 || fstat(fd, &sb) != 0)
        st = io_sys_fail(err, path);
    else if (!S_ISREG(sb.st_mode) || sb.st_size > MOST)
        st = pdl_fail(err, PDL_EPARSE, "%s: no file, or too large", path);
    if (st == PDL_OK) {
        text = pdl_arena_alloc(a, (size_t)sb.st_size + 1, 1);
        st = text ? io_read_at(fd, path, 0, text, sb.st_size, err)
                  : pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    }
    if (st == PDL_OK) {
        text[sb.st_size] = '\0';
        *out = (struct pdl_bytes){text, (size_t)sb.st_size};
    }
    if (fd >= 0)
        close(fd);
    return st;
}

enum pdl_status io_remove_folder(int at, const char *name, const char *path,
                                 struct pdl_err *err)
{
    int fd = io_open_folder(at, name);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;

    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) /* the link itself */
        return unlinkat(at, name, 0) == 0 ? PDL_OK : io_sys_fail(err, path);
    if (fd < 0)
        return errno == ENOENT ? PDL_OK : io_sys_fail(err, path);
    while (d && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(fd, e->d_name, 0);
    if (d)
        closedir(d);
    else
        close(fd);
    if (unlinkat(at, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return io_sys_fail(err, path);
    return PDL_OK;
}
