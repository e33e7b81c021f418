/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans on their way to paradl-run. */
#include "cli/questions/handover.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum pdl_status cli_handover_open(struct cli_handover *h, struct pdl_err *err)
{
    const char *where = getenv("TMPDIR");

    if (!where || !*where)
        where = "/tmp";
    if (snprintf(h->folder, sizeof h->folder, "%s/paradl-XXXXXX", where) >=
        (int)sizeof h->folder)
        return pdl_fail(err, PDL_ENOENV, "TMPDIR is too long a name");
    return mkdtemp(h->folder) ? PDL_OK
                              : pdl_fail(err, PDL_ENOENV, "%s: %s", h->folder,
                                         strerror(errno));
}

void cli_handover_close(const struct cli_handover *h)
{
    DIR *d = opendir(h->folder);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(h->folder);
}

const char *cli_handover_file(const struct cli_handover *h, pdl_arena *a,
                              const char *name)
{
    return pdl_arena_printf(a, "%s/%s", h->folder, name);
}

enum pdl_status cli_handover_plan(pdl_job *j, const char *path, char hash[17],
                                  struct pdl_err *err)
{
    enum pdl_status st = pdl_job_lower(j, err);
    struct pdl_buf b;

    pdl_buf_init(&b);
    if (st == PDL_OK)
        st = pdl_plan_check(pdl_job_plan(j), err);
    if (st == PDL_OK)
        st = pdl_job_write_plan(j, &b.sink, err);
    if (st == PDL_OK)
        st = pdl_file_write(path, b.text, b.len, err);
    if (st == PDL_OK)
        snprintf(hash, 17, "%016llx",
                 (unsigned long long)pdl_plan_hash(
                     (struct pdl_bytes){b.text, b.len}));
    pdl_buf_free(&b);
    return st;
}

enum pdl_status cli_set_count(pdl_job *j, const char *name, int64_t count,
                              struct pdl_err *err)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)count);
    return pdl_job_set(j, name, count != 0 ? text : NULL, err);
}

enum pdl_status cli_set_flag(pdl_job *j, const char *name, bool flag,
                             struct pdl_err *err)
{
    return pdl_job_set(j, name, flag ? "yes" : NULL, err);
}
