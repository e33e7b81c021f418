/* SPDX-License-Identifier: Apache-2.0
 *
 * A model by any name: a file, whose suffix chooses the reader (or, without
 * one that is known, its first bytes), or a network of the zoo. */
#include "model_priv.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_TEXT = 256 << 20 };

struct load {
    pdl_arena *arena;
    const char *path;
    const struct pdl_model_options *opt;
    struct pdl_bytes bytes;
};

/* Would the zoo take the dimensions as parameters of the network? */
static bool as_parameters(const struct load *l, char *text, size_t size)
{
    const struct pdl_model *m;
    int n = snprintf(text, size, "%s%s%s", l->path,
                     strchr(l->path, ':') ? "," : ":", l->opt->dims);

    return n > 0 && (size_t)n < size &&
           pdl_zoo_build(l->arena, text, &m, NULL) == PDL_OK;
}

static enum pdl_status no_dims(const struct load *l, const char *what,
                               struct pdl_err *err)
{
    char text[160];

    if (!l->opt || !l->opt->dims || !*l->opt->dims)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%.200s: %s has no symbolic dimensions to set",
             l->path, what);
    pdl_hint(err, "parameters of the zoo follow the name: %s",
             as_parameters(l, text, sizeof text) ? text : "gpt:seq=2048");
    return PDL_EINVAL;
}

static enum pdl_status read_onnx(const struct load *l,
                                 const struct pdl_model **out,
                                 struct pdl_err *err)
{
    return pdl_model_onnx(l->arena, l->bytes, l->path, l->opt, out, err);
}

static enum pdl_status
read_hf(const struct load *l, const struct pdl_model **out, struct pdl_err *err)
{
    return pdl_model_hf(l->arena, l->bytes, l->path, l->opt, out, err);
}

static enum pdl_status read_safetensors(const struct load *l,
                                        const struct pdl_model **out,
                                        struct pdl_err *err)
{
    enum pdl_status st = no_dims(l, "a safetensors file", err);

    if (st != PDL_OK)
        return st;
    return pdl_model_safetensors(l->arena, l->bytes, (int64_t)l->bytes.len,
                                 l->path, out, err);
}

static enum pdl_status read_yaml(const struct load *l,
                                 const struct pdl_model **out,
                                 struct pdl_err *err)
{
    enum pdl_status st = no_dims(l, "a model in YAML", err);

    return st == PDL_OK ? pdl_model_yaml(l->arena, l->bytes, l->path, out, err)
                        : st;
}

/* ---- which reader ----------------------------------------------------- */

/* A protobuf message of ONNX begins with its first field, a small number. */
static bool looks_onnx(const unsigned char *p, size_t n)
{
    return n > 2 && p[0] == 0x08 && p[1] < 0x80;
}

/* Eight bytes of length, then JSON. */
static bool looks_safetensors(const unsigned char *p, size_t n)
{
    return n > 8 && p[8] == '{' && p[6] == 0 && p[7] == 0;
}

static bool looks_json(const unsigned char *p, size_t n)
{
    size_t i = 0;

    while (i < n && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r'))
        i++;
    return i < n && p[i] == '{';
}

static bool looks_yaml(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n && i < 256; i++)
        if (p[i] == 0)
            return false;
    return n > 0;
}

static const struct format {
    const char *suffix, *suffix2;
    bool map; /* may be larger than memory; only parts are read */
    bool (*looks)(const unsigned char *p, size_t n);
    enum pdl_status (*read)(const struct load *l, const struct pdl_model **out,
                            struct pdl_err *err);
} formats[] = {
    {".onnx", NULL, true, looks_onnx, read_onnx},
    {".safetensors", NULL, true, looks_safetensors, read_safetensors},
    {".json", NULL, false, looks_json, read_hf},
    {".yaml", ".yml", false, looks_yaml, read_yaml},
};
enum { NFORMATS = sizeof formats / sizeof formats[0] };

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = suffix ? strlen(suffix) : 0;

    return suffix && n > k && strcmp(s + n - k, suffix) == 0;
}

static const struct format *by_suffix(const char *path)
{
    for (int i = 0; i < NFORMATS; i++)
        if (ends_with(path, formats[i].suffix) ||
            ends_with(path, formats[i].suffix2))
            return &formats[i];
    return NULL;
}

static const struct format *by_content(const struct pdl_bytes *in)
{
    for (int i = 0; i < NFORMATS; i++)
        if (formats[i].looks((const unsigned char *)in->data, in->len))
            return &formats[i];
    return NULL;
}

static enum pdl_status read_mapped(struct load *l, const struct format *f,
                                   const struct pdl_model **out,
                                   struct pdl_err *err)
{
    enum pdl_status st = pdl_file_map(l->path, &l->bytes, err);

    if (st != PDL_OK)
        return st;
    st = f->read(l, out, err);
    pdl_file_unmap(&l->bytes);
    return st;
}

static enum pdl_status read_file(struct load *l, const struct pdl_model **out,
                                 struct pdl_err *err)
{
    const struct format *f = by_suffix(l->path);
    enum pdl_status st;

    if (f && f->map)
        return read_mapped(l, f, out, err);
    st = pdl_file_read(l->arena, l->path, MAX_TEXT, &l->bytes, err);
    if (st != PDL_OK)
        return st;
    if (!f)
        f = by_content(&l->bytes);
    if (!f) {
        pdl_fail(err, PDL_EPARSE, "%.200s: not a model in a known format",
                 l->path);
        pdl_hint(err, "one of .onnx, config.json, .safetensors, .yaml");
        return PDL_EPARSE;
    }
    return f->read(l, out, err);
}

/* "config.json:seq=4096": parameters of a file, as those of the zoo are. */
static void hint_dims(const char *spec, struct pdl_err *err)
{
    for (const char *c = strchr(spec, ':'); c; c = strchr(c + 1, ':')) {
        char file[160];
        int n = snprintf(file, sizeof file, "%.*s", (int)(c - spec), spec);
        struct stat info;

        if (n > 0 && (size_t)n < sizeof file && stat(file, &info) == 0)
            pdl_hint(err, "sizes of a file are set apart: %s --dim %s", file,
                     c + 1);
    }
}

static bool is_zoo(const char *spec)
{
    const struct pdl_zoo_entry *e;
    size_t n = strcspn(spec, ":");

    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++)
        if (strlen(e->name) == n && memcmp(e->name, spec, n) == 0)
            return true;
    return false;
}

static enum pdl_status load(pdl_arena *a, const char *spec,
                            const struct pdl_model_options *opt,
                            const struct pdl_model **out, struct pdl_err *err)
{
    struct load l = {.arena = a, .path = spec, .opt = opt};
    struct stat info;
    enum pdl_status st;

    if (is_zoo(spec)) {
        st = no_dims(&l, "a network of the zoo", err);
        return st == PDL_OK ? pdl_zoo_build(a, spec, out, err) : st;
    }
    if (stat(spec, &info) == 0 && S_ISDIR(info.st_mode)) {
        pdl_fail(err, PDL_EINVAL, "%.200s: a directory", spec);
        pdl_hint(err, "name the file: %.150s/config.json", spec);
        return PDL_EINVAL;
    }
    if (by_suffix(spec) || strchr(spec, '/') || strcmp(spec, "-") == 0 ||
        stat(spec, &info) == 0)
        return read_file(&l, out, err);
    st = pdl_zoo_build(a, spec, out, err); /* by another spelling */
    return st == PDL_OK ? no_dims(&l, "a network of the zoo", err) : st;
}

enum pdl_status pdl_model_load(pdl_arena *a, const char *spec,
                               const struct pdl_model_options *opt,
                               const struct pdl_model **out,
                               struct pdl_err *err)
{
    const struct pdl_model *family = NULL;
    enum pdl_status st = load(a, spec, opt, out, err);

    if (st != PDL_OK)
        hint_dims(spec, err);
    if (st == PDL_OK && opt && opt->families &&
        strcmp((*out)->source, "ONNX") == 0)
        st = pdl_model_family(a, *out, &family, err);
    if (st == PDL_OK && family)
        *out = family;
    return st == PDL_OK && opt && opt->logits ? model_logits(a, out, err) : st;
}
