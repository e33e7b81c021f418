/* SPDX-License-Identifier: Apache-2.0
 *
 * WebDataset: tar files (POSIX ustar, GNU long names) in which the entries
 * KEY.jpg and KEY.cls, one after the other, are a sample; cls holds the number
 * of its class in decimal. Entries of other names are passed over. A folder's
 * tar files are read in the order of their names; those that begin with "val"
 * or "test" are the test split. Files stay mapped, only their headers are read
 * when the data set is opened. */
#include "images.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BLOCK = 512, MOST_LABEL = 1 << 24, MOST_FILES = 65536 };

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
    char link[100], magic[8], owner[32], group[32], major[8], minor[8];
    char prefix[155], rest[12];
};

/* Octal, or the base-256 of GNU. -1: neither. */
static int64_t number(const char *text, size_t n)
{
    int64_t v = 0;
    size_t i = 0;

    if ((unsigned char)text[0] == 0x80) {
        for (i = n - 8; i < n; i++)
            v = (int64_t)((uint64_t)v << 8 | (unsigned char)text[i]);
        return v;
    }
    while (i < n && text[i] == ' ')
        i++;
    if (i == n || text[i] < '0' || text[i] > '7')
        return -1;
    for (; i < n && text[i] >= '0' && text[i] <= '7'; i++) {
        if (v > INT64_MAX / 8 - 1)
            return -1;
        v = 8 * v + (text[i] - '0');
    }
    return v;
}

static bool sum_is_right(const struct header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    int64_t sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= offsetof(struct header, sum) &&
                       i < offsetof(struct header, type)
                   ? ' '
                   : p[i];
    return number(h->sum, sizeof h->sum) == sum;
}

static bool is_end(const struct header *h)
{
    const char *p = (const char *)h;

    for (size_t i = 0; i < BLOCK; i++)
        if (p[i])
            return false;
    return true;
}

/* A sample that is being put together. */
struct gathering {
    char key[1024];
    struct pdl_bytes image;
    int32_t label; /* -1: not seen */
};

static enum pdl_status finish(pdl_io *io, const char *name, int split,
                              struct gathering *g, struct pdl_err *err)
{
    struct io_image x = {.path = name, .data = g->image, .label = g->label};
    enum pdl_status st = PDL_OK;

    if (g->image.data && g->label < 0)
        st = pdl_fail(err, PDL_EPARSE, "%s: %.200s.jpg has no .cls beside it",
                      name, g->key);
    else if (g->image.data)
        st = io_images_add(io, split, &x, err);
    *g = (struct gathering){.label = -1};
    return st;
}

static enum pdl_status take_label(struct pdl_bytes in, const char *name,
                                  struct gathering *g, struct pdl_err *err)
{
    char text[16] = "";
    int64_t v;

    if (in.len < sizeof text) {
        memcpy(text, in.data, in.len);
        text[strcspn(text, "\r\n \t")] = '\0';
    }
    if (in.len >= sizeof text ||
        pdl_int_parse(text, 0, MOST_LABEL, &v, NULL) != PDL_OK)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: %.200s.cls is no number of a class", name, g->key);
    g->label = (int32_t)v;
    return PDL_OK;
}

/* The key ends at the first dot of the last part of the name. */
static enum pdl_status take_entry(pdl_io *io, const char *file, int split,
                                  const char *entry, struct pdl_bytes in,
                                  struct gathering *g, struct pdl_err *err)
{
    const char *slash = strrchr(entry, '/');
    const char *dot = strchr(slash ? slash : entry, '.');
    size_t n = dot ? (size_t)(dot - entry) : 0;
    enum pdl_status st = PDL_OK;

    if (!dot || n >= sizeof g->key)
        return PDL_OK;
    if (strlen(g->key) != n || memcmp(g->key, entry, n) != 0) {
        st = finish(io, file, split, g, err);
        memcpy(g->key, entry, n);
        g->key[n] = '\0';
    }
    if (st == PDL_OK && strcasecmp(dot, ".cls") == 0)
        st = take_label(in, file, g, err);
    if (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0)
        g->image = in;
    return st;
}

static void name_of(const struct header *h, const struct pdl_bytes *longer,
                    char *out, size_t size)
{
    if (longer->data)
        snprintf(out, size, "%.*s",
                 (int)(longer->len < size ? longer->len : size - 1),
                 longer->data);
    else if (memcmp(h->magic, "ustar", 6) == 0 && h->prefix[0])
        snprintf(out, size, "%.155s/%.100s", h->prefix, h->name);
    else
        snprintf(out, size, "%.100s", h->name);
}

static void find_most(const pdl_io *io, int split, int64_t from, int32_t *most)
{
    const struct io_images *s = io->state;

    for (int64_t i = from; i < s->split[split].n; i++)
        if (s->split[split].image[i].label > *most)
            *most = s->split[split].image[i].label;
}

enum pdl_status io_tar_index(pdl_io *io, struct pdl_bytes in, const char *name,
                             int split, int32_t *most, struct pdl_err *err)
{
    struct gathering g = {.label = -1};
    struct pdl_bytes longer = {NULL, 0};
    const struct io_images *s = io->state;
    int64_t before = split < 0 ? 0 : s->split[split].n;
    enum pdl_status st = PDL_OK;
    size_t at = 0;

    while (st == PDL_OK && at + BLOCK <= in.len) {
        struct header h;
        struct pdl_bytes body;
        char entry[1024];
        int64_t size;

        memcpy(&h, in.data + at, sizeof h);
        if (is_end(&h))
            break;
        size = number(h.size, sizeof h.size);
        if (!sum_is_right(&h) || size < 0 ||
            (uint64_t)size > in.len - at - BLOCK)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: no whole tar file: damaged at byte %zu", name,
                            at);
        body = (struct pdl_bytes){in.data + at + BLOCK, (size_t)size};
        at += BLOCK + ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
        if (h.type == 'L') {
            longer = body;
            continue;
        }
        name_of(&h, &longer, entry, sizeof entry);
        longer = (struct pdl_bytes){NULL, 0};
        if (h.type == '0' || h.type == '\0')
            st = take_entry(io, name, split, entry, body, &g, err);
    }
    if (st == PDL_OK)
        st = finish(io, name, split, &g, err);
    if (st == PDL_OK && split >= 0)
        find_most(io, split, before, most);
    return st;
}

/* ---- files ------------------------------------------------------------ */

static bool tar_probe(const struct io_source *src)
{
    const struct header *h =
        (const struct header *)(const void *)src->head.data;

    for (int i = 0; i < src->nnames; i++)
        if (io_has_suffix(src->name[i], ".tar"))
            return true;
    return !src->folder && !src->packed && src->head.len >= BLOCK &&
           memcmp(h->magic, "ustar", 5) == 0;
}

static enum pdl_status add_file(pdl_io *io, const char *path, const char *name,
                                int32_t *most, struct pdl_err *err)
{
    struct io_images *s = io->state;
    bool test = strncmp(name, "val", 3) == 0 || strncmp(name, "test", 4) == 0;
    struct pdl_bytes *map;
    enum pdl_status st;

    if (!path)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    if (s->nmaps == MOST_FILES)
        return pdl_fail(err, PDL_EPARSE, "%s: too many files", io->path);
    map = realloc(s->map, ((size_t)s->nmaps + 1) * sizeof *map);
    if (!map)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    s->map = map;
    st = pdl_file_map(path, &s->map[s->nmaps], err);
    if (st != PDL_OK)
        return st;
    return io_tar_index(io, s->map[s->nmaps++], path,
                        io_split(io, test ? "test" : "train"), most, err);
}

static enum pdl_status tar_open(pdl_io *io, const struct io_source *src,
                                struct pdl_err *err)
{
    int32_t most = -1;
    enum pdl_status st = PDL_OK;

    if (!io_images_new(io, err))
        return PDL_ENOMEM;
    (void)io_split(io, "train"); /* is the first */
    if (!src->folder)
        st = add_file(io, io->path, "train", &most, err);
    for (int i = 0; i < src->nnames && st == PDL_OK; i++)
        if (io_has_suffix(src->name[i], ".tar"))
            st = add_file(io, io_join(io->arena, src->path, src->name[i]),
                          src->name[i], &most, err);
    return st == PDL_OK ? io_images_describe(io, most + 1, err) : st;
}

const struct io_format io_format_webdataset = {
    .pub = {"webdataset", "tar files of KEY.jpg and KEY.cls"},
    .probe = tar_probe,
    .open = tar_open,
};
