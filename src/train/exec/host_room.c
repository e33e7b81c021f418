/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may still have of the host's memory: what the kernel calls
 * available, and what the groups that it is in (cgroup v2, from its own to the
 * root's) leave. Memory that is asked for beyond that is not refused: the
 * process is killed when it touches it. */
#include "train/exec/far.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

int64_t train_host_room(bool *by_group)
{
    static const char root[] = "/sys/fs/cgroup";
    char path[4096];
    int64_t least = available();

    *by_group = false;
    if (!own_group(root, path, sizeof path))
        return least;
    while (strlen(path) >= strlen(root)) {
        int64_t most = number_in(path, "memory.max");
        int64_t now = number_in(path, "memory.current");
        char *cut = strrchr(path, '/');

        if (most >= 0 && now >= 0 && most - now < least) {
            least = most > now ? most - now : 0;
            *by_group = true;
        }
        if (!cut)
            break;
        *cut = '\0';
    }
    return least;
}
