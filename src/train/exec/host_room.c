/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may still have of the host's memory: what the kernel calls
 * available, and what the groups that it is in (cgroup v2, from its own to the
 * root's) leave. What a group keeps of files counts as its own, but goes before
 * anybody is refused. Memory that is asked for beyond that is not refused: the
 * process is killed when it touches it. */
#include "paradl/plan.h"
#include "paradl/train.h"
#include "train/exec/far.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file that is a number; -1: it is not there, or says "max". */
static int64_t number_in(const char *folder, const char *file)
{
    char path[4096];
    int64_t v = -1;
    FILE *f;

    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return -1;
    f = fopen(path, "r");
    if (!f)
        return -1;
    if (fscanf(f, "%" SCNd64, &v) != 1)
        v = -1;
    fclose(f);
    return v;
}

/* What the kernel takes back of a group without being asked: pages of files. */
static int64_t pages_of_files(const char *folder)
{
    char path[4096], line[256];
    int64_t sum = 0, v;
    FILE *f = NULL;

    if (snprintf(path, sizeof path, "%s/memory.stat", folder) <
        (int)sizeof path)
        f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "inactive_file %" SCNd64, &v) == 1 ||
            sscanf(line, "active_file %" SCNd64, &v) == 1)
            sum += v;
    if (f)
        fclose(f);
    return sum;
}

static int64_t available(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    int64_t kib = -1;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNd64, &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib < 0 ? INT64_MAX : kib * 1024;
}

/* The path of the own group; false: there is none. */
static bool own_group(const char *root, char *path, size_t n)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[2048];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, "0::/", 4) == 0 &&
                snprintf(path, n, "%s%s", root, line + 3) < (int)n;
    }
    if (f)
        fclose(f);
    return found;
}

int64_t train_group_room(const char *root, char *path)
{
    int64_t least = INT64_MAX;

    while (strlen(path) >= strlen(root)) {
        int64_t most = number_in(path, "memory.max");
        int64_t now = number_in(path, "memory.current");
        char *cut = strrchr(path, '/');

        if (most >= 0 && now >= 0) {
            int64_t kept = now - pages_of_files(path), left;

            left = most - (kept > 0 ? kept : 0);
            if (left < least)
                least = left > 0 ? left : 0;
        }
        if (!cut)
            break;
        *cut = '\0';
    }
    return least;
}

int64_t train_host_room(bool *by_group)
{
    static const char root[] = "/sys/fs/cgroup";
    char path[4096];
    int64_t all = available(), group = INT64_MAX;

    if (own_group(root, path, sizeof path))
        group = train_group_room(root, path);
    *by_group = group < all;
    return *by_group ? group : all;
}

int64_t pdl_trainer_host_left(void)
{
    bool by_group;

    return train_host_room(&by_group);
}

/* ---- all ranks of a host --- */

enum { NUMBERS = 4 };

/* What a rank wants of its host, and what it sees there: so many numbers. */
struct wish {
    int64_t bytes, room, by_group, host;
};

static int64_t this_host(void)
{
    char name[256] = "";

    (void)gethostname(name, sizeof name - 1);
    return (int64_t)pdl_plan_hash((struct pdl_bytes){name, strlen(name)});
}

static enum pdl_status refuse(const struct wish *w, int ranks,
                              struct pdl_err *err)
{
    char want[32], have[32], of[32] = "";

    if (ranks > 1)
        snprintf(of, sizeof of, " of %d ranks", ranks);
    pdl_unit_format((double)w->bytes, PDL_UNIT_BYTES, want, sizeof want);
    pdl_unit_format((double)w->room, PDL_UNIT_BYTES, have, sizeof have);
    pdl_fail(err, PDL_ENOMEM,
             "%s%s are to wait in the host's memory, which has %s left%s", want,
             of, have, w->by_group ? " (a limit of its cgroup)" : "");
    pdl_hint(err,
             "--system SYSTEM:node.host.memory=%s has --memory decide "
             "with that",
             have);
    return PDL_ENOMEM;
}

enum pdl_status train_host_ask(pdl_comm *c, int64_t bytes, int64_t room,
                               bool by_group, struct pdl_err *err)
{
    int size = pdl_comm_size(c), ranks = 0;
    struct wish *all = calloc((size_t)size, sizeof *all);
    struct wish sum = {bytes, room, by_group, this_host()};
    enum pdl_status st;

    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for copies");
    st = pdl_comm_allgather(c, &sum, all, NUMBERS * (int64_t)size, PDL_COMM_I64,
                            err);
    sum.bytes = 0;
    for (int r = 0; r < size && st == PDL_OK; r++) {
        if (all[r].host != sum.host)
            continue;
        ranks += all[r].bytes > 0;
        sum.bytes += all[r].bytes;
        if (all[r].room < sum.room) {
            sum.room = all[r].room;
            sum.by_group = all[r].by_group;
        }
    }
    free(all);
    return st != PDL_OK || sum.bytes <= sum.room ? st
                                                 : refuse(&sum, ranks, err);
}
