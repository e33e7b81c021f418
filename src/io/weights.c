/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in safetensors files: written for others to read, read for fine
 * tuning and comparison. The header's rules are the model room's
 * (pdl_safetensors_header); here are the data.
 *
 * A file is written beside its name, synced and renamed. Tensors are laid out
 * with wide types first, so that each starts at a multiple of its size, and
 * the header is padded to eight bytes, as the reference implementation does.
 * Above max_file_bytes there are several files and NAME.index.json, in the
 * form of Hugging Face's transformers, which is written last. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SUFFIX[] = ".safetensors";

/* ---- out ---- */

struct out {
    const char *path;
    const struct pdl_shard *tensor;
    int n;
    const struct pdl_weights_options *opt;
    struct pdl_err *err;
    pdl_arena *arena;
    int *file; /* of each tensor */
    int nfiles;
    int64_t *bytes; /* of each tensor */
};

static enum pdl_status no_memory(const struct out *o)
{
    return pdl_fail(o->err, PDL_ENOMEM, "%s: out of memory", o->path);
}

/* Deals tensors to files in order. */
static enum pdl_status deal(struct out *o)
{
    int64_t limit = o->opt->max_file_bytes, used = 0;

    o->file = PDL_NEW(o->arena, int, o->n + 1);
    o->bytes = PDL_NEW(o->arena, int64_t, o->n + 1);
    if (!o->file || !o->bytes)
        return no_memory(o);
    for (int i = 0; i < o->n; i++) {
        const struct pdl_shard *t = &o->tensor[i];
        struct pdl_box whole = {.ndims = t->rank};
        const char *type;

        memcpy(whole.hi, t->dim, sizeof t->dim);
        if (t->rank < 0 || t->rank > PDL_MAX_RANK ||
            !pdl_safetensors_type(t->dtype, &type) ||
            !io_box_bytes(&whole, t->dtype, &o->bytes[i]))
            return pdl_fail(o->err, PDL_EINVAL,
                            "%s: '%s' has a type or size that cannot be saved",
                            o->path, t->name);
        if (limit > 0 && used > 0 && o->bytes[i] > limit - used) {
            o->nfiles++;
            used = 0;
        }
        o->file[i] = o->nfiles;
        if (!pdl_add64(used, o->bytes[i], &used))
            return pdl_fail(o->err, PDL_EINVAL, "%s: too large", o->path);
    }
    o->nfiles++;
    return PDL_OK;
}

/* The name of file k: of many, "model-00001-of-00003.safetensors". */
static const char *file_name(const struct out *o, int k)
{
    int stem = (int)(strlen(o->path) - strlen(SUFFIX));

    if (o->nfiles == 1)
        return o->path;
    return pdl_arena_printf(o->arena, "%.*s-%05d-of-%05d%s", stem, o->path,
                            k + 1, o->nfiles, SUFFIX);
}

/* Tensors of file k, wide types first, else in the order given. */
static int layout(const struct out *o, int k, int *order)
{
    int n = 0;

    for (int bits = 64; bits >= 4; bits /= 2)
        for (int i = 0; i < o->n; i++)
            if (o->file[i] == k && pdl_dtype_bits(o->tensor[i].dtype) == bits)
                order[n++] = i;
    return n;
}

static void put_header(const struct out *o, const int *order, int n,
                       struct pdl_buf *b)
{
    struct pdl_json j;
    int64_t at = 0;
    const char *const *m = o->opt->metadata;

    pdl_json_init(&j, &b->sink);
    j.compact = true;
    pdl_json_object(&j);
    if (m && *m) {
        pdl_json_key(&j, "__metadata__");
        pdl_json_object(&j);
        for (; m[0] && m[1]; m += 2)
            pdl_json_kstr(&j, m[0], m[1]);
        pdl_json_end(&j);
    }
    for (int k = 0; k < n; k++) {
        const struct pdl_shard *t = &o->tensor[order[k]];
        const char *type = "";

        (void)pdl_safetensors_type(t->dtype, &type);
        pdl_json_key(&j, t->name);
        pdl_json_object(&j);
        pdl_json_kstr(&j, "dtype", type);
        pdl_json_key(&j, "shape");
        pdl_json_array(&j);
        for (int d = 0; d < t->rank; d++)
            pdl_json_int(&j, t->dim[d]);
        pdl_json_end(&j);
        pdl_json_key(&j, "data_offsets");
        pdl_json_array(&j);
        pdl_json_int(&j, at);
        pdl_json_int(&j, at += o->bytes[order[k]]);
        pdl_json_end(&j);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    if (b->len > 0 && b->text[b->len - 1] == '\n')
        b->text[--b->len] = '\0'; /* padding is blanks only */
    while (b->len % 8 != 0 && !b->sink.failed)
        pdl_puts(&b->sink, " ");
}

static enum pdl_status write_tensor(const struct out *o, int fd, int i,
                                    const char *path)
{
    const void *data = o->tensor[i].data;
    void *made = NULL;
    enum pdl_status st = PDL_OK;

    if (!data && o->bytes[i] > 0) {
        made = malloc((size_t)o->bytes[i]);
        if (!made)
            return no_memory(o);
        data = made;
        st = o->opt->fill ? o->opt->fill(o->opt->ctx, i, made, o->err)
                          : pdl_fail(o->err, PDL_EINVAL, "%s: '%s' has no data",
                                     path, o->tensor[i].name);
    }
    if (st == PDL_OK && !io_write_all(fd, data, (size_t)o->bytes[i]))
        st = pdl_fail(o->err, PDL_EIO, "%s: %s", path, strerror(errno));
    free(made);
    return st;
}

static enum pdl_status write_body(const struct out *o, int fd, int k,
                                  const char *path)
{
    int *order = PDL_NEW(o->arena, int, o->n + 1);
    unsigned char head[8];
    struct pdl_buf b;
    enum pdl_status st = PDL_OK;
    int n;

    if (!order)
        return no_memory(o);
    n = layout(o, k, order);
    pdl_buf_init(&b);
    put_header(o, order, n, &b);
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)b.len >> (8 * i));
    if (b.sink.failed)
        st = no_memory(o);
    else if (!io_write_all(fd, head, 8) || !io_write_all(fd, b.text, b.len))
        st = pdl_fail(o->err, PDL_EIO, "%s: %s", path, strerror(errno));
    pdl_buf_free(&b);
    for (int i = 0; i < n && st == PDL_OK; i++)
        st = write_tensor(o, fd, order[i], path);
    if (st == PDL_OK && fsync(fd) != 0)
        st = pdl_fail(o->err, PDL_EIO, "%s: %s", path, strerror(errno));
    return st;
}

static enum pdl_status write_file(const struct out *o, int k)
{
    const char *path = file_name(o, k);
    char *tmp = path ? pdl_arena_printf(o->arena, "%s.tmp", path) : NULL;
    enum pdl_status st;
    int fd;

    if (!tmp)
        return no_memory(o);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return pdl_fail(o->err, PDL_EIO, "%s: %s", tmp, strerror(errno));
    st = write_body(o, fd, k, tmp);
    close(fd);
    if (st == PDL_OK && rename(tmp, path) != 0)
        st = pdl_fail(o->err, PDL_EIO, "%s: %s", path, strerror(errno));
    if (st != PDL_OK)
        unlink(tmp);
    return st;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static enum pdl_status write_index(const struct out *o)
{
    const char *path = pdl_arena_printf(o->arena, "%s.index.json", o->path);
    struct pdl_json j;
    struct pdl_buf b;
    int64_t total = 0;
    enum pdl_status st;

    if (!path)
        return no_memory(o);
    for (int i = 0; i < o->n; i++)
        total += o->bytes[i];
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_object(&j);
    pdl_json_key(&j, "metadata");
    pdl_json_object(&j);
    pdl_json_kint(&j, "total_size", total);
    pdl_json_end(&j);
    pdl_json_key(&j, "weight_map");
    pdl_json_object(&j);
    for (int i = 0; i < o->n; i++) {
        const char *name = file_name(o, o->file[i]);

        pdl_json_kstr(&j, o->tensor[i].name, name ? base_name(name) : NULL);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
    st = b.sink.failed ? no_memory(o)
                       : pdl_file_write(path, b.text, b.len, o->err);
    pdl_buf_free(&b);
    return st;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pdl_status check_names(const struct out *o)
{
    const char **name = PDL_NEW(o->arena, const char *, o->n + 1);

    if (!name)
        return no_memory(o);
    for (int i = 0; i < o->n; i++)
        name[i] = o->tensor[i].name;
    qsort(name, (size_t)o->n, sizeof *name, by_text);
    for (int i = 0; i < o->n; i++)
        if (strcmp(name[i], "__metadata__") == 0 ||
            (i > 0 && strcmp(name[i], name[i - 1]) == 0))
            return pdl_fail(o->err, PDL_EINVAL,
                            "%s: two tensors, or a forbidden one: '%s'",
                            o->path, name[i]);
    return PDL_OK;
}

enum pdl_status pdl_weights_write(const char *path,
                                  const struct pdl_shard *tensors, int n,
                                  const struct pdl_weights_options *opt,
                                  struct pdl_err *err)
{
    static const struct pdl_weights_options usual = {.metadata = NULL};
    struct out o = {path, tensors,
                    n,    opt ? opt : &usual,
                    err,  pdl_arena_create(PDL_ARENA_DEFAULT),
                    NULL, 0,
                    NULL};
    size_t len = strlen(path);
    enum pdl_status st;

    if (!o.arena)
        return no_memory(&o);
    if (len <= strlen(SUFFIX) ||
        strcmp(path + len - strlen(SUFFIX), SUFFIX) != 0)
        st = pdl_fail(err, PDL_EINVAL, "%s: the name must end in %s", path,
                      SUFFIX);
    else
        st = check_names(&o);
    if (st == PDL_OK)
        st = deal(&o);
    for (int k = 0; k < o.nfiles && st == PDL_OK; k++)
        st = write_file(&o, k);
    if (st == PDL_OK && o.nfiles > 1)
        st = write_index(&o);
    pdl_arena_destroy(o.arena);
    return st;
}
