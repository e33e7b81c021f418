/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's topology.conf: which hosts hang on which leaf switch. Of its lines
 * only those with Nodes= count; switches of switches follow from the system.
 *   SwitchName=leaf1 Nodes=n[001-016]
 *   SwitchName=spine Switches=leaf[1-4]
 * Keys are of either case, '#' opens a comment. */
#include "system_priv.h"

#include <string.h>

/* The value of a key on this line, up to the next blank; NULL: it has none. */
static const char *value(pdl_arena *a, const char *line, const char *end,
                         const char *key)
{
    size_t n = strlen(key);

    for (const char *p = line; p + n <= end; p++) {
        const char *stop;

        if ((p > line && p[-1] != ' ' && p[-1] != '\t') ||
            strncasecmp(p, key, n) != 0)
            continue;
        for (stop = p + n;
             stop < end && *stop != ' ' && *stop != '\t' && *stop != '\r';
             stop++)
            ;
        return pdl_arena_strndup(a, p + n, (size_t)(stop - p) - n);
    }
    return NULL;
}

static enum pdl_status add(pdl_arena *a, struct pdl_switches *out,
                           const char *name, const struct pdl_hosts *hosts,
                           struct pdl_err *err)
{
    struct pdl_leaf *list = pdl_arena_grow(
        a, out->leaf, (size_t)out->n, (size_t)out->n + 1, sizeof *out->leaf);

    if (!list)
        return system_no_memory(err, "switches");
    list[out->n++] = (struct pdl_leaf){name, *hosts};
    out->leaf = list;
    return PDL_OK;
}

static enum pdl_status read_line(pdl_arena *a, const char *line,
                                 const char *end, struct pdl_switches *out,
                                 struct pdl_err *err)
{
    const char *comment = memchr(line, '#', (size_t)(end - line));
    const char *name, *nodes;
    struct pdl_hosts hosts;
    enum pdl_status st;

    end = comment ? comment : end;
    name = value(a, line, end, "SwitchName=");
    nodes = value(a, line, end, "Nodes=");
    if (!nodes)
        return PDL_OK;
    st = pdl_hostlist_expand(a, nodes, &hosts, err);
    return st == PDL_OK ? add(a, out, name ? name : "", &hosts, err) : st;
}

enum pdl_status pdl_switches_read(pdl_arena *a, struct pdl_bytes in,
                                  const char *name, struct pdl_switches *out,
                                  struct pdl_err *err)
{
    const char *p = in.data, *end = in.data + in.len;
    struct pdl_err inner = {"", ""};

    *out = (struct pdl_switches){0, NULL};
    for (int line = 1; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        stop = stop ? stop : end;
        if (memchr(p, '\0', (size_t)(stop - p)))
            return pdl_fail(err, PDL_EPARSE, "%s:%d: a zero byte", name, line);
        if (read_line(a, p, stop, out, &inner) != PDL_OK)
            return pdl_fail(err, PDL_EPARSE, "%s:%d: %s", name, line,
                            inner.msg);
        p = stop < end ? stop + 1 : end;
    }
    if (out->n == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: no switch has Nodes=", name);
    return PDL_OK;
}

int64_t pdl_switches_find(const struct pdl_switches *s, const char *host)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->leaf[i].hosts.count; k++)
            if (strcmp(s->leaf[i].hosts.names[k], host) == 0)
                return i;
    return -1;
}
