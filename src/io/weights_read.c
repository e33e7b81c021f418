/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of safetensors files by name and box: one file, or an index that
 * names the file of each tensor. Files are opened for each read and never
 * held whole. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INDEX = 256 << 20, MAX_FILES = 4096 };

struct weight {
    struct pdl_ckpt_tensor pub;
    int file;
    int64_t at; /* in the file */
};

struct pdl_weights {
    pdl_arena *arena;
    const char *path;
    const char **file;
    int nfiles;
    struct weight *weight; /* by name */
    int n, cap;
};

static enum pdl_status no_memory(const pdl_weights *w, struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", w->path);
}

static enum pdl_status add(pdl_weights *w, int file,
                           const struct pdl_safetensors *h, struct pdl_err *err)
{
    if (w->n + h->ntensors > w->cap) {
        int cap = 2 * (w->n + h->ntensors);
        void *grown = pdl_arena_grow(w->arena, w->weight, (size_t)w->n,
                                     (size_t)cap, sizeof *w->weight);

        if (!grown)
            return no_memory(w, err);
        w->weight = grown;
        w->cap = cap;
    }
    for (int i = 0; i < h->ntensors; i++) {
        const struct pdl_safetensor *t = &h->tensor[i];
        struct weight *x = &w->weight[w->n++];

        x->pub = (struct pdl_ckpt_tensor){.name = t->name,
                                          .dtype = t->dtype,
                                          .rank = t->rank,
                                          .bytes = t->end - t->begin};
        memcpy(x->pub.dim, t->dim, sizeof t->dim);
        x->file = file;
        x->at = h->data_at + t->begin;
    }
    return PDL_OK;
}

static enum pdl_status add_file(pdl_weights *w, const char *path,
                                struct pdl_err *err)
{
    struct pdl_safetensors h;
    struct pdl_bytes map;
    enum pdl_status st = pdl_file_map(path, &map, err);

    if (st != PDL_OK)
        return st;
    st = pdl_safetensors_header(w->arena, map, (int64_t)map.len, path, &h, err);
    pdl_file_unmap(&map);
    if (st == PDL_OK)
        st = add(w, w->nfiles, &h, err);
    if (st == PDL_OK)
        w->file[w->nfiles++] = path;
    return st;
}

/* ---- the index ---- */

static enum pdl_status add_named(pdl_weights *w, const struct pdl_doc *d,
                                 struct pdl_err *err)
{
    const char *slash = strrchr(w->path, '/'), *path;
    int folder = slash ? (int)(slash - w->path) + 1 : 0;

    if (d->kind != PDL_DOC_SCALAR || strchr(d->text, '/') || *d->text == '.')
        return pdl_doc_fail(d, err, "a file outside this folder");
    path = pdl_arena_printf(w->arena, "%.*s%s", folder, w->path, d->text);
    if (!path)
        return no_memory(w, err);
    for (int i = 0; i < w->nfiles; i++)
        if (strcmp(w->file[i], path) == 0)
            return PDL_OK;
    if (w->nfiles == MAX_FILES)
        return pdl_doc_fail(d, err, "more than %d files", MAX_FILES);
    return add_file(w, path, err);
}

static enum pdl_status open_index(pdl_weights *w, const struct pdl_doc **out,
                                  struct pdl_err *err)
{
    const struct pdl_doc *root = NULL, *map;
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(w->arena, w->path, MAX_INDEX, &in, err);

    if (st == PDL_OK)
        st = pdl_doc_json(w->arena, in, w->path, &root, err);
    if (st != PDL_OK)
        return st;
    map = root->kind == PDL_DOC_MAP ? pdl_doc_get(root, "weight_map") : NULL;
    if (!map || map->kind != PDL_DOC_MAP)
        return pdl_doc_fail(root, err, "no weight_map");
    for (const struct pdl_doc *d = map->child; d && st == PDL_OK; d = d->next)
        st = add_named(w, d, err);
    *out = map;
    return st;
}

/* ---- opening ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->pub.name,
                  ((const struct weight *)b)->pub.name);
}

/* Of a folder: the file that transformers would take. */
static enum pdl_status find_in_folder(pdl_weights *w, struct pdl_err *err)
{
    static const char *const names[] = {"model.safetensors",
                                        "model.safetensors.index.json"};
    struct stat info;

    if (stat(w->path, &info) != 0 || !S_ISDIR(info.st_mode))
        return PDL_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path =
            pdl_arena_printf(w->arena, "%s/%s", w->path, names[i]);

        if (!path)
            return no_memory(w, err);
        if (stat(path, &info) == 0) {
            w->path = path;
            return PDL_OK;
        }
    }
    pdl_fail(err, PDL_EIO, "%s: has neither %s nor %s", w->path, names[0],
             names[1]);
    return PDL_EIO;
}

static enum pdl_status open_all(pdl_weights *w, struct pdl_err *err)
{
    size_t n = strlen(w->path);
    bool index = n > 5 && strcmp(w->path + n - 5, ".json") == 0;
    const struct pdl_doc *map = NULL;
    enum pdl_status st;

    w->file = PDL_NEW(w->arena, const char *, MAX_FILES);
    if (!w->file)
        return no_memory(w, err);
    st = index ? open_index(w, &map, err) : add_file(w, w->path, err);
    if (st != PDL_OK)
        return st;
    if (w->n > 0)
        qsort(w->weight, (size_t)w->n, sizeof *w->weight, by_name);
    for (int i = 1; i < w->n; i++)
        if (strcmp(w->weight[i].pub.name, w->weight[i - 1].pub.name) == 0)
            return pdl_fail(err, PDL_EPARSE, "%s: '%.60s' is in two files",
                            w->path, w->weight[i].pub.name);
    for (map = map ? map->child : NULL; map; map = map->next)
        if (pdl_weights_find(w, map->key) < 0)
            return pdl_doc_fail(map, err, "'%.60s' is in none of the files",
                                map->key);
    return PDL_OK;
}

enum pdl_status pdl_weights_open(const char *path, pdl_weights **out,
                                 struct pdl_err *err)
{
    pdl_weights *w = calloc(1, sizeof *w);
    enum pdl_status st = PDL_ENOMEM;

    if (w)
        w->arena = pdl_arena_create((size_t)4 << 30);
    if (w && w->arena)
        w->path = pdl_arena_strdup(w->arena, path);
    if (w && w->path) {
        st = find_in_folder(w, err);
        st = st == PDL_OK ? open_all(w, err) : st;
    } else
        (void)pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    if (st != PDL_OK) {
        pdl_weights_close(w);
        return st;
    }
    *out = w;
    return PDL_OK;
}

void pdl_weights_close(pdl_weights *w)
{
    if (w)
        pdl_arena_destroy(w->arena);
    free(w);
}

int pdl_weights_count(const pdl_weights *w)
{
    return w->n;
}

const struct pdl_ckpt_tensor *pdl_weights_tensor(const pdl_weights *w, int i)
{
    return i >= 0 && i < w->n ? &w->weight[i].pub : NULL;
}

int pdl_weights_find(const pdl_weights *w, const char *name)
{
    struct weight key = {.pub = {.name = name}};
    const struct weight *x = NULL;

    if (w->n > 0)
        x = bsearch(&key, w->weight, (size_t)w->n, sizeof *x, by_name);
    return x ? (int)(x - w->weight) : -1;
}

/* ---- data ---- */

static enum pdl_status read_span(const pdl_weights *w, const struct weight *x,
                                 int64_t from, int64_t bytes, void *dst,
                                 struct pdl_err *err)
{
    const char *path = w->file[x->file];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum pdl_status st;

    if (fd < 0)
        return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
    st = io_read_at(fd, path, x->at + from, dst, bytes, err);
    close(fd);
    return st;
}

enum pdl_status pdl_weights_read(const pdl_weights *w, int tensor,
                                 const struct pdl_box *box, void *dst,
                                 struct pdl_err *err)
{
    const struct weight *x =
        tensor >= 0 && tensor < w->n ? &w->weight[tensor] : NULL;
    int64_t size = x ? pdl_dtype_bits(x->pub.dtype) / 8 : 0, lo, hi;
    struct pdl_box whole = {.ndims = x ? x->pub.rank : 0};
    bool ok = x && box->ndims == x->pub.rank && size > 0;
    enum pdl_status st;
    char *buf;

    for (int d = 0; ok && d < box->ndims; d++) {
        whole.hi[d] = x->pub.dim[d];
        ok = box->lo[d] >= 0 && box->lo[d] <= box->hi[d] &&
             box->hi[d] <= whole.hi[d];
    }
    if (!ok)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: a tensor, type or box that cannot be read",
                        w->path);
    if (pdl_box_empty(box))
        return PDL_OK;
    io_part_span(box, &whole, &lo, &hi);
    if (hi - lo == pdl_box_volume(box)) /* in one piece */
        return read_span(w, x, lo * size, (hi - lo) * size, dst, err);
    buf = malloc((size_t)((hi - lo) * size));
    if (!buf)
        return no_memory(w, err);
    st = read_span(w, x, lo * size, (hi - lo) * size, buf, err);
    if (st == PDL_OK)
        io_copy_part(box, size, &whole, buf, lo, box, dst);
    free(buf);
    return st;
}
