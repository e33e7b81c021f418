/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in our own format, and the small questions its readers ask of the
 * document: is this a list, is the key there. */
#include "model_priv.h"

#include <string.h>

enum pdl_status model_yaml_want(const struct pdl_doc *d, enum pdl_doc_kind kind,
                                const char *what, struct pdl_err *err)
{
    if (d->kind == kind)
        return PDL_OK;
    return pdl_doc_fail(d, err, "%s%sexpected %s", d->key ? d->key : "",
                        d->key ? ": " : "", what);
}

enum pdl_status model_yaml_need(const struct pdl_doc *map, const char *key,
                                const struct pdl_doc **out, struct pdl_err *err)
{
    *out = pdl_doc_get(map, key);
    if (*out)
        return PDL_OK;
    return pdl_doc_fail(map, err, "needs '%s'", key);
}

static enum pdl_status read_shape(const struct pdl_doc *d, struct pdl_tensor *t,
                                  struct pdl_err *err)
{
    enum pdl_status st =
        model_yaml_want(d, PDL_DOC_LIST, "a list of whole numbers", err);

    if (st == PDL_OK && d->count > PDL_MAX_RANK)
        st = pdl_doc_fail(d, err, "shape: more than %d dimensions",
                          PDL_MAX_RANK);
    if (st != PDL_OK)
        return st;
    for (const struct pdl_doc *c = d->child; c && st == PDL_OK; c = c->next)
        st = pdl_doc_int(c, 0, INT64_MAX, &t->dim[t->rank++], err);
    return st;
}

static enum pdl_status one_of(const struct pdl_doc *d, const char *const *words,
                              int n, int *out, struct pdl_err *err)
{
    struct pdl_suggest s;
    const char *text;
    enum pdl_status st = pdl_doc_str(d, &text, err);

    if (st != PDL_OK)
        return st;
    pdl_suggest_init(&s, text);
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return PDL_OK;
        }
        pdl_suggest_try(&s, words[i]);
    }
    pdl_doc_fail(d, err, "%s: no '%.40s'", d->key, text);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EPARSE;
}

static enum pdl_status read_dtype(const struct pdl_doc *d, enum pdl_dtype *out,
                                  struct pdl_err *err)
{
    static const char *const names[] = {
#define X(name, text, bits) text,
        PDL_DTYPE_LIST(X)
#undef X
    };
    int i = 0;
    enum pdl_status st =
        one_of(d, names, sizeof names / sizeof names[0], &i, err);

    if (st == PDL_OK)
        *out = (enum pdl_dtype)i;
    return st;
}

enum pdl_status model_yaml_tensor(const struct pdl_doc *map, bool kind,
                                  struct pdl_tensor *t, struct pdl_err *err)
{
    static const char *const all[] = {"name", "dtype", "shape", "kind", NULL};
    static const char *const some[] = {"name", "dtype", "shape", NULL};
    static const char *const kinds[] = {"input", "activation", "weight",
                                        "buffer", "const"};
    const struct pdl_doc *d = NULL;
    int k = PDL_TENSOR_WEIGHT;
    enum pdl_status st =
        model_yaml_want(map, PDL_DOC_MAP, "a map with name and shape", err);

    if (st == PDL_OK)
        st = pdl_doc_only(map, kind ? all : some, err);
    if (st == PDL_OK)
        st = model_yaml_need(map, "shape", &d, err);
    if (st == PDL_OK)
        st = read_shape(d, t, err);
    if (st == PDL_OK && (d = pdl_doc_get(map, "dtype")) != NULL)
        st = read_dtype(d, &t->dtype, err);
    if (st == PDL_OK && (d = pdl_doc_get(map, "name")) != NULL)
        st = pdl_doc_str(d, &t->name, err);
    if (st == PDL_OK && kind && (d = pdl_doc_get(map, "kind")) != NULL) {
        st = one_of(d, kinds, 5, &k, err);
        if (st == PDL_OK && k == PDL_TENSOR_ACTIVATION)
            st = pdl_doc_fail(d, err, "kind: layers make activations");
    }
    t->kind = (enum pdl_tensor_kind)k;
    return st;
}
