/* SPDX-License-Identifier: Apache-2.0
 *
 * "name:key=value,...": a way of a table, and its parameters. */
#include "data_priv.h"

#include <math.h>
#include <string.h>

static enum pdl_status find_way(const struct pdl_sampling *(*at)(int),
                                const char *what, const char *name, size_t len,
                                int *way, struct pdl_err *err)
{
    struct pdl_suggest s;
    char word[48] = "";

    memcpy(word, name, len < sizeof word ? len : sizeof word - 1);
    pdl_suggest_init(&s, word);
    for (int i = 0; at(i); i++) {
        if (strlen(at(i)->name) == len && memcmp(at(i)->name, name, len) == 0) {
            *way = i;
            return PDL_OK;
        }
        pdl_suggest_try(&s, at(i)->name);
    }
    pdl_say(err, "no way to %s is called '%s'", what, word);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EPARSE;
}

static enum pdl_status set_word(const struct pdl_sampling *w,
                                const struct pdl_sampling_key *k,
                                const char *text, double *out,
                                struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_suggest_init(&s, text);
    for (int i = 0; k->words[i]; i++) {
        if (strcmp(k->words[i], text) == 0) {
            *out = i;
            return PDL_OK;
        }
        pdl_suggest_try(&s, k->words[i]);
    }
    pdl_say(err, "%s: %s=%.40s is not known", w->name, k->name, text);
    pdl_hint(err, "did you mean '%s'?",
             pdl_suggest_best(&s) ? pdl_suggest_best(&s) : k->words[0]);
    return PDL_EPARSE;
}

const char *const pdl_sampling_whole[] = {NULL};

static enum pdl_status set_number(const struct pdl_sampling *w,
                                  const struct pdl_sampling_key *k,
                                  const char *text, double *out,
                                  struct pdl_err *err)
{
    char *end;
    double v = pdl_strtod(text, &end);

    if (end == text || *end)
        return pdl_fail(err, PDL_EPARSE, "%s: %s='%.40s' is not a number",
                        w->name, k->name, text);
    if (k->min == k->max && v != k->min)
        return pdl_fail(err, PDL_EPARSE, "%s: %s is always %g: %s", w->name,
                        k->name, k->min, k->summary);
    if (!(v >= k->min && v <= k->max))
        return pdl_fail(err, PDL_EPARSE, "%s: %s=%.40s is outside %g to %g",
                        w->name, k->name, text, k->min, k->max);
    if (k->words && v != floor(v))
        return pdl_fail(err, PDL_EPARSE, "%s: %s=%.40s is no whole number",
                        w->name, k->name, text);
    *out = v;
    return PDL_OK;
}

/* One "key=value" of a way. seen: a bit for each key. */
static enum pdl_status set_one(const struct pdl_sampling *w, char *text,
                               struct pdl_sampling_setting *out, unsigned *seen,
                               struct pdl_err *err)
{
    char *value = strchr(text, '=');
    struct pdl_suggest s;

    if (!value)
        return pdl_fail(err, PDL_EPARSE, "%s: '%.40s' is not written key=value",
                        w->name, text);
    *value++ = '\0';
    pdl_suggest_init(&s, text);
    for (int i = 0; i < PDL_SAMPLING_KEYS && w->keys[i].name; i++) {
        const struct pdl_sampling_key *k = &w->keys[i];

        if (strcmp(k->name, text) == 0) {
            if (*seen >> i & 1)
                return pdl_fail(err, PDL_EPARSE, "%s: %s is given twice",
                                w->name, k->name);
            *seen |= 1U << i;
            return (k->words && k->words[0] ? set_word : set_number)(
                w, k, value, &out->value[i], err);
        }
        pdl_suggest_try(&s, k->name);
    }
    pdl_say(err, "%s: no parameter is called '%.40s'", w->name, text);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EPARSE;
}

enum pdl_status pdl_sampling_parse(const struct pdl_sampling *(*at)(int),
                                   const char *what, const char *text,
                                   struct pdl_sampling_setting *out,
                                   struct pdl_err *err)
{
    size_t len = strcspn(text, ":");
    const struct pdl_sampling *w;
    struct pdl_sampling_setting x = {.way = 0};
    enum pdl_status st = find_way(at, what, text, len, &x.way, err);
    unsigned seen = 0;
    char one[64];

    if (st != PDL_OK)
        return st;
    w = at(x.way);
    for (int i = 0; i < PDL_SAMPLING_KEYS && w->keys[i].name; i++)
        x.value[i] = w->keys[i].value;
    text += len;
    while (st == PDL_OK && *text) {
        text++; /* the colon, or a comma */
        len = strcspn(text, ",");
        if (len >= sizeof one)
            return pdl_fail(err, PDL_EPARSE, "%s: '%.40s' is too long", w->name,
                            text);
        memcpy(one, text, len);
        one[len] = '\0';
        st = set_one(w, one, &x, &seen, err);
        text += len;
    }
    if (st == PDL_OK)
        *out = x;
    return st;
}
