/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and folders that are on the disk when a function returns. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum pdl_status sys_fail(struct pdl_err *err, const char *path)
{
    return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
}

enum pdl_status io_sync_folder(const char *path, struct pdl_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    enum pdl_status st = ok ? PDL_OK : sys_fail(err, path);

    if (fd >= 0)
        close(fd);
    return st;
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

enum pdl_status io_read_at(int fd, const char *path, int64_t at, void *dst,
                           int64_t n, struct pdl_err *err)
{
    char *p = dst;

    while (n > 0) {
        ssize_t got = pread(fd, p, (size_t)n, at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sys_fail(err, path);
        if (got == 0)
            return pdl_fail(err, PDL_EPARSE, "%s: the file ends early", path);
        p += got;
        at += got;
        n -= got;
    }
    return PDL_OK;
}

enum pdl_status io_remove_folder(const char *path, struct pdl_err *err)
{
    DIR *d = opendir(path);
    struct dirent *e;

    if (!d)
        return errno == ENOENT ? PDL_OK : sys_fail(err, path);
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    if (rmdir(path) != 0 && errno != ENOENT)
        return sys_fail(err, path);
    return PDL_OK;
}
