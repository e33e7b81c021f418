/* SPDX-License-Identifier: Apache-2.0
 *
 * The zoo: families of networks with parameters, and named networks, which
 * are families with some parameters set. "name:key=value,..." chooses.
 * To add a family: one file zoo_<family>.c with one struct model_family, its
 * declaration in model_priv.h, and one line here. */
#include "model_priv.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct model_family *const families[] = {
    &model_zoo_lenet,     &model_zoo_alexnet,      &model_zoo_vgg,
    &model_zoo_resnet,    &model_zoo_wrn,          &model_zoo_densenet,
    &model_zoo_mobilenet, &model_zoo_mobilenet3,   &model_zoo_efficientnet,
    &model_zoo_googlenet, &model_zoo_squeezenet,   &model_zoo_regnet,
    &model_zoo_unet,      &model_zoo_unet3d,       &model_zoo_cosmoflow,
    &model_zoo_deepcam,   &model_zoo_gpt,          &model_zoo_llama,
    &model_zoo_moe,       &model_zoo_deepseek,     &model_zoo_deepseek4,
    &model_zoo_nemotron,  &model_zoo_bert,         &model_zoo_vit,
    &model_zoo_t5,        &model_zoo_resnet_cifar, &model_zoo_resnet9,
    &model_zoo_preact,
};
enum { NFAMILIES = sizeof families / sizeof families[0] };

/* People write llama-3-70b, Llama3_70B and llama3-70b. */
static bool same_but_dashes(const char *a, const char *b)
{
    for (;;) {
        while (*a == '-' || *a == '_')
            a++;
        while (*b == '-' || *b == '_')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (*a == '\0')
            return true;
        a++;
        b++;
    }
}

static bool same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const struct pdl_zoo_entry *
entry_that_is(const char *name, bool (*is)(const char *, const char *),
              const struct model_family **out)
{
    for (int f = 0; f < NFAMILIES; f++)
        for (int i = 0; i < families[f]->nentries; i++)
            if (is(families[f]->entries[i].name, name)) {
                *out = families[f];
                return &families[f]->entries[i];
            }
    return NULL;
}

/* The exact name goes first: no two names of the zoo differ by dashes only,
 * and a test keeps it so. */
static const struct pdl_zoo_entry *find_entry(const char *name,
                                              const struct model_family **out)
{
    const struct pdl_zoo_entry *e = entry_that_is(name, same, out);

    return e ? e : entry_that_is(name, same_but_dashes, out);
}

static const struct model_family *find_family(const char *name)
{
    for (int f = 0; f < NFAMILIES; f++)
        if (strcmp(families[f]->self.name, name) == 0)
            return families[f];
    return NULL;
}

/* ---- parameters ------------------------------------------------------- */

/* Position of text among "a|b|c", -1 when it is none of them. */
static int64_t choice(const char *choices, const char *text)
{
    size_t n = strlen(text);
    int64_t at = 0;

    for (const char *p = choices; p; at++) {
        if (strncmp(p, text, n) == 0 && (p[n] == '|' || p[n] == '\0'))
            return at;
        p = strchr(p, '|');
        if (p)
            p++;
    }
    return -1;
}

static enum pdl_status set_value(const struct model_param *p, const char *what,
                                 const char *text, int64_t *out,
                                 struct pdl_err *err)
{
    struct pdl_err inner = {"", ""};
    bool words = p->choices && (p->choices[0] < '0' || p->choices[0] > '9' ||
                                strchr(p->choices, 'x'));

    if (p->choices && choice(p->choices, text) < 0) {
        pdl_fail(err, PDL_EINVAL, "%.60s: %s: '%.40s' is none of %s", what,
                 p->key, text, p->choices);
        return PDL_EINVAL;
    }
    if (words) {
        *out = choice(p->choices, text);
        return PDL_OK;
    }
    if (pdl_int_parse(text, p->min, p->max, out, &inner) == PDL_OK)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%.60s: %s: %s", what, p->key, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return PDL_EINVAL;
}

static enum pdl_status unknown_key(const struct model_family *f,
                                   const char *what, const char *key,
                                   struct pdl_err *err)
{
    struct pdl_suggest s;
    char all[200] = "";
    size_t n = 0;

    pdl_suggest_init(&s, key);
    for (int i = 0; i < f->nparams; i++) {
        pdl_suggest_try(&s, f->params[i].key);
        if (n < sizeof all)
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s",
                                  i ? ", " : "", f->params[i].key);
    }
    pdl_fail(err, PDL_EINVAL, "%.60s: no parameter '%.40s'", what, key);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "it takes %s", all);
    return PDL_EINVAL;
}

/* One "key=value"; seen has a bit for each key of this text. */
static enum pdl_status set_pair(const struct model_family *f, const char *what,
                                char *pair, int64_t *v, uint32_t *seen,
                                struct pdl_err *err)
{
    char *value = strchr(pair, '=');

    if (!value || value == pair || !value[1]) {
        pdl_fail(err, PDL_EINVAL, "%.60s: '%.40s' is not key=value", what,
                 pair);
        return PDL_EINVAL;
    }
    *value++ = '\0';
    for (int i = 0; i < f->nparams; i++) {
        if (strcmp(f->params[i].key, pair) != 0)
            continue;
        if (*seen >> i & 1)
            return pdl_fail(err, PDL_EINVAL, "%.60s: %s is set twice", what,
                            pair);
        *seen |= (uint32_t)1 << i;
        return set_value(&f->params[i], what, value, &v[i], err);
    }
    return unknown_key(f, what, pair, err);
}

static enum pdl_status set_values(const struct model_family *f,
                                  const char *what, const char *text,
                                  int64_t *v, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    uint32_t seen = 0;
    char pair[128];

    while (text && st == PDL_OK) {
        const char *comma = strchr(text, ',');
        size_t n = comma ? (size_t)(comma - text) : strlen(text);

        if (n >= sizeof pair)
            return pdl_fail(err, PDL_EINVAL, "%.60s: '%.40s...' is too long",
                            what, text);
        memcpy(pair, text, n);
        pair[n] = '\0';
        st = set_pair(f, what, pair, v, &seen, err);
        text = comma ? comma + 1 : NULL;
    }
    return st;
}

/* ---- names ------------------------------------------------------------ */

/* Families one after another, each followed by its named networks. */
const struct pdl_zoo_entry *pdl_zoo_at(int i)
{
    for (int f = 0; f < NFAMILIES && i >= 0; f++) {
        if (i == 0)
            return &families[f]->self;
        i--;
        if (i < families[f]->nentries)
            return &families[f]->entries[i];
        i -= families[f]->nentries;
    }
    return NULL;
}

/* The name in the zoo that is nearest, or NULL. */
static const char *suggestion(const char *name)
{
    const struct pdl_zoo_entry *e;
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++)
        pdl_suggest_try(&s, e->name);
    return pdl_suggest_best(&s);
}

static enum pdl_status no_model(const char *name, struct pdl_err *err)
{
    pdl_fail(err, PDL_EINVAL, "no model '%.60s'", name);
    if (suggestion(name))
        pdl_hint(err, "did you mean '%s'?", suggestion(name));
    else
        pdl_hint(err, "'paradl model list' shows the zoo");
    return PDL_EINVAL;
}

static enum pdl_status build(pdl_arena *a, const char *spec,
                             const struct model_family *f, const int64_t *v,
                             const struct pdl_model **out, struct pdl_err *err)
{
    pdl_build *b = pdl_build_begin(a, spec);
    struct pdl_err inner = {"", ""};
    enum pdl_status st;

    pdl_build_meta(b, f->kind, f->source, 0, -1);
    f->build(b, v);
    st = pdl_build_end(b, out, &inner);
    if (st == PDL_OK)
        return st;
    pdl_fail(err, st, "%.100s: %s", spec, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

/* The family of a name and the values it stands for; NULL for no such name. */
static const struct model_family *
choose(const char *name, int64_t *v, enum pdl_status *st, struct pdl_err *err)
{
    const struct model_family *f = NULL;
    const struct pdl_zoo_entry *e = find_entry(name, &f);

    *st = PDL_OK;
    if (!e)
        f = find_family(name);
    if (!f)
        return NULL;
    for (int i = 0; i < f->nparams; i++)
        v[i] = f->params[i].unset;
    if (e)
        *st = set_values(f, name, e->params, v, err);
    return f;
}

bool pdl_zoo_param(const char *name, int i, struct pdl_zoo_param *out)
{
    int64_t v[MODEL_MAX_PARAMS];
    enum pdl_status st;
    const struct model_family *f = choose(name, v, &st, NULL);

    if (!f || i < 0 || i >= f->nparams)
        return false;
    *out = (struct pdl_zoo_param){
        .key = f->params[i].key,
        .help = f->params[i].help,
        .choices = f->params[i].choices,
        .value = v[i],
        .min = f->params[i].min,
        .max = f->params[i].max,
    };
    return true;
}

/* The family and all values of "name:key=value,..."; *rest: behind the name. */
static enum pdl_status read_spec(const char *spec,
                                 const struct model_family **f, int64_t *v,
                                 const char **rest, struct pdl_err *err)
{
    const char *colon = strchr(spec, ':');
    size_t n = colon ? (size_t)(colon - spec) : strlen(spec);
    enum pdl_status st;
    char name[128];

    snprintf(name, sizeof name, "%.*s", (int)(n < 127 ? n : 127), spec);
    *f = choose(name, v, &st, err);
    *rest = colon ? colon + 1 : NULL;
    if (!*f)
        return no_model(name, err);
    return st == PDL_OK ? set_values(*f, name, *rest, v, err) : st;
}

enum pdl_status pdl_zoo_build(pdl_arena *a, const char *spec,
                              const struct pdl_model **out, struct pdl_err *err)
{
    const struct model_family *f;
    int64_t v[MODEL_MAX_PARAMS];
    const char *rest;
    enum pdl_status st = read_spec(spec, &f, v, &rest, err);

    return st == PDL_OK ? build(a, spec, f, v, out, err) : st;
}

/* ---- dividing --------------------------------------------------------- */

static int width_of(const struct model_family *f)
{
    for (int i = 0; f->divide_up > 0 && i < f->nparams; i++)
        if (strcmp(f->params[i].key, "width") == 0)
            return i;
    return -1;
}

/* What was set but the width, each with a comma behind it. */
static const char *without_width(pdl_arena *a, const char *text)
{
    const char *all = "";

    while (text && *text && all) {
        size_t n = strcspn(text, ",");

        if (strncmp(text, "width=", 6) != 0)
            all = pdl_arena_printf(a, "%s%.*s,", all, (int)n, text);
        text += n + (text[n] == ',');
    }
    return all;
}

enum pdl_status pdl_zoo_divide(pdl_arena *a, const char *spec, int parts,
                               const char **out, struct pdl_err *err)
{
    const struct model_family *f;
    int64_t v[MODEL_MAX_PARAMS] = {0}, narrow;
    const char *rest, *kept;
    enum pdl_status st = read_spec(spec, &f, v, &rest, err);
    int w;

    if (st != PDL_OK && access(spec, F_OK) == 0) {
        st = pdl_fail(err, PDL_EINVAL,
                      "%.200s: a file; networks of the zoo are divided", spec);
        pdl_hint(err, "resnet9, resnet110, wrn-28-10 can be");
        return st;
    }
    if (st != PDL_OK)
        return st;
    w = width_of(f);
    if (w < 0 || parts < 1) {
        pdl_fail(err, PDL_EINVAL, "%.60s: has no width that could be divided",
                 spec);
        pdl_hint(err, "resnet9, resnet110, wrn-28-10 have");
        return PDL_EINVAL;
    }
    narrow = (int64_t)((double)v[w] / sqrt((double)parts) + f->divide_up);
    narrow = narrow < 1 ? 1 : narrow > v[w] ? v[w] : narrow;
    kept = without_width(a, rest);
    *out =
        kept ? pdl_arena_printf(a, "%.*s:%swidth=%lld", (int)strcspn(spec, ":"),
                                spec, kept, (long long)narrow)
             : NULL;
    return *out ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
