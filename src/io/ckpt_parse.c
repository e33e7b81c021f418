/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a checkpoint, read: JSON, described in
 * doc/formats/checkpoint.md. The checksum of the text comes first, so that a
 * flipped bit anywhere is seen before a number is believed; then everything
 * that later code multiplies or indexes with is bounded. */
#include "ckpt_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char SUM_KEY[] = "\"xxh3\": \"";
enum {
    DIGITS = 16,
    MAX_FILES = 1 << 20,
    MAX_TENSORS = 1 << 20,
    MAX_CHUNK = 1 << 30
};

struct reader {
    struct pdl_ckpt *c;
    struct pdl_err *err;
};

static enum pdl_status missing(const struct reader *r, const struct pdl_doc *at,
                               const char *key)
{
    return pdl_doc_fail(at, r->err, "'%s' is missing or of the wrong kind",
                        key);
}

static enum pdl_status get_int(const struct reader *r,
                               const struct pdl_doc *map, const char *key,
                               int64_t min, int64_t *out)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d ? pdl_doc_int(d, min, INT64_MAX, out, r->err)
             : missing(r, map, key);
}

/* A list of at most so many, or NULL with the message written. */
static const struct pdl_doc *get_list(const struct reader *r,
                                      const struct pdl_doc *map,
                                      const char *key, int most)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    if (d && d->kind == PDL_DOC_LIST && d->count <= most)
        return d;
    (void)missing(r, map, key);
    return NULL;
}

static bool parse_hex(const struct pdl_doc *d, uint64_t *out)
{
    uint64_t v = 0;

    if (!d || d->kind != PDL_DOC_SCALAR || strlen(d->text) != DIGITS)
        return false;
    for (const char *p = d->text; *p; p++) {
        const char *hex = "0123456789abcdef", *at = strchr(hex, *p);

        if (!at)
            return false;
        v = v << 4 | (uint64_t)(at - hex);
    }
    *out = v;
    return true;
}

static enum pdl_status get_hex(const struct reader *r,
                               const struct pdl_doc *map, const char *key,
                               uint64_t *out)
{
    return parse_hex(pdl_doc_get(map, key), out) ? PDL_OK
                                                 : missing(r, map, key);
}

/* Copies into the arena are not needed: a document lives there already. */
static enum pdl_status get_text(const struct reader *r,
                                const struct pdl_doc *map, const char *key,
                                const char **out)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    if (!d || d->kind != PDL_DOC_SCALAR)
        return missing(r, map, key);
    *out = d->text;
    return PDL_OK;
}

static enum pdl_status get_ints(const struct reader *r,
                                const struct pdl_doc *map, const char *key,
                                int64_t *out, int *n)
{
    const struct pdl_doc *d = get_list(r, map, key, PDL_MAX_RANK);
    enum pdl_status st = d ? PDL_OK : PDL_EPARSE;

    *n = 0;
    for (d = d ? d->child : NULL; d && st == PDL_OK; d = d->next)
        st = pdl_doc_int(d, 0, INT64_MAX, &out[(*n)++], r->err);
    return st;
}

static double number_or_nan(const struct pdl_doc *d)
{
    char *end;

    return d && d->kind == PDL_DOC_SCALAR ? pdl_strtod(d->text, &end)
                                          : (double)NAN;
}

static enum pdl_status read_scalars(const struct reader *r,
                                    const struct pdl_doc *map)
{
    struct pdl_ckpt_state *s = &r->c->state;
    const struct pdl_doc *d = pdl_doc_get(map, "scalars");
    struct pdl_scalar *v;

    if (!d || d->kind != PDL_DOC_MAP)
        return missing(r, map, "scalars");
    v = PDL_NEW(r->c->arena, struct pdl_scalar, d->count + 1);
    if (!v)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    s->scalars = v;
    for (d = d->child; d; d = d->next)
        v[s->nscalars++] = (struct pdl_scalar){d->key, number_or_nan(d)};
    return PDL_OK;
}

/* Older checkpoints have none. */
static enum pdl_status read_settings(const struct reader *r,
                                     const struct pdl_doc *map)
{
    struct pdl_ckpt_state *s = &r->c->state;
    const struct pdl_doc *d = pdl_doc_get(map, "settings");
    struct pdl_setting *v;

    if (!d)
        return PDL_OK;
    if (d->kind != PDL_DOC_MAP)
        return missing(r, map, "settings");
    v = PDL_NEW(r->c->arena, struct pdl_setting, d->count + 1);
    if (!v)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    s->settings = v;
    for (d = d->child; d; d = d->next)
        v[s->nsettings++] = (struct pdl_setting){
            d->key, d->kind == PDL_DOC_SCALAR ? d->text : ""};
    return PDL_OK;
}

static enum pdl_status read_state(const struct reader *r,
                                  const struct pdl_doc *root)
{
    const struct pdl_doc *d = pdl_doc_get(root, "state");
    struct pdl_ckpt_state *s = &r->c->state;
    const struct {
        const char *key;
        int64_t *to;
    } ints[] = {{"step", &s->step},
                {"epoch", &s->epoch},
                {"batch", &s->batch},
                {"samples", &s->samples},
                {"ranks", &s->nranks}};
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"model", &s->model},
                 {"strategy", &s->strategy},
                 {"optimizer", &s->optimizer},
                 {"data", &s->data}};
    enum pdl_status st = PDL_OK;

    if (!d || d->kind != PDL_DOC_MAP)
        return missing(r, root, "state");
    for (size_t i = 0; i < sizeof ints / sizeof ints[0] && st == PDL_OK; i++)
        st = get_int(r, d, ints[i].key, 0, ints[i].to);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && st == PDL_OK; i++)
        st = get_text(r, d, texts[i].key, texts[i].to);
    if (st == PDL_OK)
        st = get_hex(r, d, "seed", &s->seed);
    s->loss = number_or_nan(pdl_doc_get(d, "loss"));
    if (st == PDL_OK)
        st = read_scalars(r, d);
    return st == PDL_OK ? read_settings(r, d) : st;
}

static enum pdl_status read_files(const struct reader *r,
                                  const struct pdl_doc *root)
{
    const struct pdl_doc *d = get_list(r, root, "files", MAX_FILES);
    enum pdl_status st = PDL_OK;

    if (!d)
        return PDL_EPARSE;
    r->c->file = PDL_NEW(r->c->arena, struct io_file, d->count + 1);
    if (!r->c->file)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    for (d = d->child; d && st == PDL_OK; d = d->next) {
        struct io_file *f = &r->c->file[r->c->nfiles++];

        st = d->kind == PDL_DOC_MAP ? get_text(r, d, "name", &f->name)
                                    : missing(r, d, "name");
        if (st == PDL_OK)
            st = get_int(r, d, "bytes", 0, &f->bytes);
        if (st == PDL_OK && (!*f->name || *f->name == '.' ||
                             strchr(f->name, '/') || strlen(f->name) > 200))
            st = pdl_doc_fail(d, r->err, "a file outside the checkpoint");
    }
    return st;
}

static enum pdl_status read_sums(const struct reader *r,
                                 const struct pdl_doc *map, struct io_shard *s)
{
    const struct pdl_doc *d = get_list(r, map, "sums", INT32_MAX);
    int64_t chunk = r->c->chunk_bytes, i = 0;

    if (!d)
        return PDL_EPARSE;
    s->nchunks = s->bytes / chunk + (s->bytes % chunk > 0);
    if (d->count != s->nchunks)
        return pdl_doc_fail(d, r->err, "%d checksums for %lld chunks", d->count,
                            (long long)s->nchunks);
    s->sum = PDL_NEW(r->c->arena, uint64_t, s->nchunks + 1);
    if (!s->sum)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    for (d = d->child; d; d = d->next)
        if (!parse_hex(d, &s->sum[i++]))
            return missing(r, d, "sums");
    return PDL_OK;
}

static enum pdl_status read_shard(const struct reader *r,
                                  const struct pdl_doc *d,
                                  const struct pdl_ckpt_tensor *t,
                                  struct io_shard *s)
{
    int64_t file = 0, end;
    int nlo = 0, nhi = 0;
    enum pdl_status st = d->kind == PDL_DOC_MAP
                             ? get_int(r, d, "file", 0, &file)
                             : missing(r, d, "file");

    if (st == PDL_OK)
        st = get_int(r, d, "offset", 0, &s->offset);
    if (st == PDL_OK)
        st = get_ints(r, d, "lo", s->box.lo, &nlo);
    if (st == PDL_OK)
        st = get_ints(r, d, "hi", s->box.hi, &nhi);
    if (st != PDL_OK)
        return st;
    s->box.ndims = t->rank;
    for (int k = 0; k < t->rank && nlo == t->rank && nhi == t->rank; k++)
        if (s->box.lo[k] > s->box.hi[k] || s->box.hi[k] > t->dim[k])
            nlo = -1;
    if (nlo != t->rank || nhi != t->rank ||
        !io_box_bytes(&s->box, t->dtype, &s->bytes))
        return pdl_doc_fail(d, r->err, "a box outside its tensor");
    if (file >= r->c->nfiles || !pdl_add64(s->offset, s->bytes, &end) ||
        end > r->c->file[file].bytes)
        return pdl_doc_fail(d, r->err, "a shard outside its file");
    s->file = (int)file;
    return read_sums(r, d, s);
}

static enum pdl_status read_tensor(const struct reader *r,
                                   const struct pdl_doc *d, struct io_tensor *t)
{
    struct pdl_ckpt_tensor *p = &t->pub;
    struct pdl_box whole = {0};
    const char *type = "";
    enum pdl_status st = d->kind == PDL_DOC_MAP
                             ? get_text(r, d, "name", &p->name)
                             : missing(r, d, "name");

    if (st == PDL_OK)
        st = get_text(r, d, "dtype", &type);
    if (st == PDL_OK)
        st = get_ints(r, d, "shape", p->dim, &p->rank);
    if (st != PDL_OK)
        return st;
    whole.ndims = p->rank;
    memcpy(whole.hi, p->dim, sizeof p->dim);
    if (!pdl_dtype_find(type, &p->dtype) || pdl_dtype_bits(p->dtype) < 8 ||
        !io_box_bytes(&whole, p->dtype, &p->bytes))
        return pdl_doc_fail(d, r->err, "an unknown type, or too large");
    d = get_list(r, d, "shards", INT32_MAX - 1);
    if (!d)
        return PDL_EPARSE;
    t->shard = PDL_NEW(r->c->arena, struct io_shard, d->count + 1);
    if (!t->shard)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    for (d = d->child; d && st == PDL_OK; d = d->next)
        st = read_shard(r, d, p, &t->shard[t->nshards++]);
    return st;
}

static enum pdl_status read_tensors(const struct reader *r,
                                    const struct pdl_doc *root, bool whole)
{
    const struct pdl_doc *d = get_list(r, root, "tensors", MAX_TENSORS);
    enum pdl_status st = PDL_OK;

    if (!d)
        return PDL_EPARSE;
    r->c->tensor = PDL_NEW(r->c->arena, struct io_tensor, d->count + 1);
    if (!r->c->tensor)
        return pdl_fail(r->err, PDL_ENOMEM, "%s: out of memory", d->file);
    for (d = d->child; d && st == PDL_OK; d = d->next) {
        struct io_tensor *t = &r->c->tensor[r->c->ntensors++];

        st = read_tensor(r, d, t);
        if (st == PDL_OK && whole && r->c->ntensors > 1 &&
            strcmp(t[-1].pub.name, t->pub.name) >= 0)
            st = pdl_doc_fail(d, r->err, "'%.60s' is twice, or out of order",
                              t->pub.name);
        if (st == PDL_OK && whole &&
            !io_tiles(t->shard, t->nshards, t->pub.dim, t->pub.rank))
            st = pdl_doc_fail(d, r->err,
                              "the shards of '%.60s' are not the whole of it",
                              t->pub.name);
    }
    return st;
}

/* The checksum of the text, with its own digits as zeros. */
static enum pdl_status check_sum(struct pdl_bytes in, const char *name,
                                 struct pdl_err *err)
{
    static const char zeros[] = "0000000000000000";
    const char *at =
        memmem(in.data, in.len < 256 ? in.len : 256, SUM_KEY, strlen(SUM_KEY));
    struct pdl_doc given = {.kind = PDL_DOC_SCALAR};
    char digits[DIGITS + 1] = "";
    XXH3_state_t *h;
    uint64_t want = 0, got;
    size_t head;

    if (at && (size_t)(in.data + in.len - at) >= strlen(SUM_KEY) + DIGITS)
        memcpy(digits, at + strlen(SUM_KEY), DIGITS);
    given.text = digits;
    if (!parse_hex(&given, &want))
        return pdl_fail(err, PDL_EPARSE, "%s: no manifest of a checkpoint",
                        name);
    h = XXH3_createState();
    if (!h)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    head = (size_t)(at - in.data) + strlen(SUM_KEY);
    XXH3_64bits_reset(h);
    XXH3_64bits_update(h, in.data, head);
    XXH3_64bits_update(h, zeros, DIGITS);
    XXH3_64bits_update(h, in.data + head + DIGITS, in.len - head - DIGITS);
    got = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    if (got != want)
        return pdl_fail(err, PDL_EPARSE, "%s: damaged: the checksum differs",
                        name);
    return PDL_OK;
}

enum pdl_status io_manifest_read(struct pdl_ckpt *c, struct pdl_bytes in,
                                 const char *name, bool whole,
                                 struct pdl_err *err)
{
    struct reader r = {c, err};
    const struct pdl_doc *root = NULL;
    const char *schema = "";
    enum pdl_status st = pdl_doc_json(c->arena, in, name, &root, err);

    if (st == PDL_OK && root->kind != PDL_DOC_MAP)
        st = pdl_doc_fail(root, err, "not an object { }");
    if (st == PDL_OK)
        st = get_text(&r, root, "schema", &schema);
    if (st == PDL_OK && strcmp(schema, "paradl.checkpoint/1") != 0)
        st = pdl_doc_fail(root, err, "of another version: '%.40s'", schema);
    if (st == PDL_OK)
        st = get_hex(&r, root, "run", &c->run);
    if (st == PDL_OK && pdl_doc_get(root, "owner"))
        st = get_hex(&r, root, "owner", &c->owner);
    if (st == PDL_OK)
        st = get_int(&r, root, "chunk_bytes", 1, &c->chunk_bytes);
    if (st == PDL_OK && c->chunk_bytes > MAX_CHUNK)
        st = pdl_doc_fail(root, err, "chunks of more than %d bytes", MAX_CHUNK);
    if (st == PDL_OK)
        st = read_state(&r, root);
    if (st == PDL_OK)
        st = read_files(&r, root);
    return st == PDL_OK ? read_tensors(&r, root, whole) : st;
}

enum pdl_status io_manifest_parse(struct pdl_ckpt *c, struct pdl_bytes in,
                                  const char *name, bool whole,
                                  struct pdl_err *err)
{
    enum pdl_status st = check_sum(in, name, err);

    return st == PDL_OK ? io_manifest_read(c, in, name, whole, err) : st;
}
