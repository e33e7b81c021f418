/* SPDX-License-Identifier: Apache-2.0
 *
 * The last cache before memory, as the kernel tells it. sysconf adds up what
 * the caches of a whole package have, and of that a virtual machine has one. */
#include "base_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX = 16 };

/* The first line of a file about one of the caches; false: there is none. */
static bool line_of(const char *folder, int index, const char *file, char *out,
                    int size)
{
    char path[4096];
    bool ok;
    FILE *f;

    if (snprintf(path, sizeof path, "%s/index%d/%s", folder, index, file) >=
        (int)sizeof path)
        return false;
    f = fopen(path, "r");
    ok = f && fgets(out, size, f);
    if (f)
        fclose(f);
    return ok;
}

/* "0-3,8-11" are eight. */
static int count_list(const char *list)
{
    int n = 0, first, last, used;

    while (sscanf(list, "%d%n", &first, &used) == 1) {
        list += used;
        last = first;
        if (sscanf(list, "-%d%n", &last, &used) == 1)
            list += used;
        n += last >= first ? last - first + 1 : 0;
        list += *list == ',';
    }
    return n;
}

static int64_t bytes_of(const char *text)
{
    int64_t n = 0;
    char unit = 0;

    if (sscanf(text, "%" SCNd64 "%c", &n, &unit) < 1 || n < 0 || n > 1 << 30)
        return 0;
    return n << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

static struct pdl_cache told_by_library(void)
{
    int64_t n = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return (struct pdl_cache){.bytes = n > 0 ? n : 0, .cpus = pdl_cores()};
}

struct pdl_cache pdl_last_cache(const char *folder)
{
    struct pdl_cache c = {.cpus = 0};
    int level = 0, best = 1;
    char text[4096];

    for (int i = 0; i < MAX_INDEX; i++) {
        if (!line_of(folder, i, "level", text, sizeof text) ||
            sscanf(text, "%d", &level) != 1 || level <= best ||
            !line_of(folder, i, "size", text, sizeof text) ||
            bytes_of(text) == 0)
            continue;
        best = level;
        c.bytes = bytes_of(text);
        c.cpus = line_of(folder, i, "shared_cpu_list", text, sizeof text)
                     ? count_list(text)
                     : 1;
    }
    c.cpus = c.cpus < 1 ? 1 : c.cpus;
    return c.bytes > 0 ? c : told_by_library();
}
