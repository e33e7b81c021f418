/* SPDX-License-Identifier: Apache-2.0
 *
 * A SYSTEM by its name: a file, a built-in, a built-in with parameters
 * "name:key=value,key=value". Parameters are applied in the order written,
 * then the whole is checked once. */
#include "system_priv.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 64 << 20 };

const struct pdl_builtin *pdl_system_builtin(int i)
{
    for (int k = 0; k <= i; k++)
        if (!system_builtins[k].name)
            return NULL;
    return i < 0 ? NULL : &system_builtins[i];
}

const struct pdl_builtin *pdl_pe_builtin(int i)
{
    for (int k = 0; k <= i; k++)
        if (!system_pe_builtins[k].name)
            return NULL;
    return i < 0 ? NULL : &system_pe_builtins[i];
}

const struct pdl_builtin *system_builtin_find(const struct pdl_builtin *list,
                                              const char *name)
{
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

static enum pdl_status unknown(const struct pdl_builtin *list, const char *what,
                               const char *name, struct pdl_err *err)
{
    struct pdl_suggest s;

    pdl_fail(err, PDL_EINVAL, "no %s '%.60s'", what, name);
    pdl_suggest_init(&s, name);
    for (; list->name; list++)
        pdl_suggest_try(&s, list->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "'paradl system list' shows them; a file ends in .yaml");
    return PDL_EINVAL;
}

enum pdl_status pdl_pe_open(pdl_arena *a, const char *name, struct pdl_pe *out,
                            struct pdl_err *err)
{
    const struct pdl_builtin *b = system_builtin_find(system_pe_builtins, name);
    const struct pdl_doc *root = NULL;
    struct pdl_pe pe = {.name = NULL};
    enum pdl_status st;

    if (!b)
        return unknown(system_pe_builtins, "PE", name, err);
    st = pdl_doc_yaml(a, (struct pdl_bytes){b->text, b->len}, b->name, &root,
                      err);
    system_defaults(&system_pe_table, &pe);
    if (st == PDL_OK)
        st = system_read_table(a, &system_pe_table, root, &pe, err);
    if (st == PDL_OK)
        *out = pe;
    return st;
}

/* Puts "'dgx-a100:nodes=x': " before a message. */
static enum pdl_status place(const char *name, enum pdl_status st,
                             struct pdl_err *err)
{
    struct pdl_err inner;

    if (!err || st == PDL_OK)
        return st;
    inner = *err;
    pdl_say(err, "'%.120s': %s", name, inner.msg);
    if (*inner.hint)
        pdl_hint(err, "%s", inner.hint);
    return st;
}

static enum pdl_status set_all(pdl_arena *a, const char *text,
                               struct pdl_system *sys, struct pdl_err *err)
{
    while (*text) {
        size_t len = strcspn(text, ",");
        char *key = pdl_arena_strndup(a, text, len), *value;
        enum pdl_status st;

        if (!key)
            return system_no_memory(err, sys->name);
        value = strchr(key, '=');
        if (!value || value == key || !value[1]) {
            pdl_fail(err, PDL_EINVAL, "'%.40s' is not key=value", key);
            pdl_hint(err, "for example dgx-a100:nodes=48,nic=4x12.5GB/s");
            return PDL_EINVAL;
        }
        *value++ = '\0';
        st = pdl_system_set(a, sys, key, value, err);
        if (st != PDL_OK)
            return st;
        text += len + (text[len] == ',');
    }
    return PDL_OK;
}

/* What people call a machine that was built more than once. */
static const char *full_name(const char *name)
{
    static const struct {
        const char *called, *name;
    } also[] = {{"abci", "abci-v100"}};

    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(also[i].called, name) == 0)
            return also[i].name;
    return name;
}

/* What stands behind the colon of a name, "nodes=48,..."; nothing: as it is. */
static enum pdl_status change(pdl_arena *a, const char *name, size_t len,
                              struct pdl_system *sys, struct pdl_err *err)
{
    enum pdl_status st;

    if (name[len] != ':')
        return PDL_OK;
    st = set_all(a, name + len + 1, sys, err);
    if (st == PDL_OK)
        st = pdl_system_update(a, sys, err);
    return st == PDL_ENOMEM ? st : place(name, st, err);
}

static enum pdl_status open_builtin(pdl_arena *a, const char *name,
                                    struct pdl_system *out, struct pdl_err *err)
{
    size_t len = strcspn(name, ":");
    char *plain = pdl_arena_strndup(a, name, len);
    const struct pdl_builtin *b;
    struct pdl_system sys;
    enum pdl_status st;

    if (!plain)
        return system_no_memory(err, "the name");
    b = system_builtin_find(system_builtins, full_name(plain));
    if (!b)
        return unknown(system_builtins, "system", plain, err);
    st = pdl_system_read(a, (struct pdl_bytes){b->text, b->len}, b->name, &sys,
                         err);
    if (st == PDL_OK)
        st = change(a, name, len, &sys, err);
    if (st == PDL_OK)
        *out = sys;
    return st;
}

/* How much of "here.yaml:nodes=2" names the file; 0: it names none. */
static size_t file_part(const char *name)
{
    static const char *const ends[] = {".yaml", ".yml", ".json"};
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t m = strlen(ends[i]);

        if (n >= m && strcmp(name + n - m, ends[i]) == 0)
            return n;
        for (const char *at = name; (at = strstr(at, ends[i])); at += m)
            if (at[m] == ':')
                return (size_t)(at - name) + m;
    }
    return strcmp(name, "-") == 0 ? n : 0;
}

enum pdl_status pdl_system_open(pdl_arena *a, const char *name,
                                struct pdl_system *out, struct pdl_err *err)
{
    return system_open(a, name, false, out, err);
}

enum pdl_status system_open(pdl_arena *a, const char *name, bool inside,
                            struct pdl_system *out, struct pdl_err *err)
{
    struct pdl_bytes file = {NULL, 0};
    size_t len = file_part(name);
    const char *path;
    enum pdl_status st;

    if (len == 0)
        return open_builtin(a, name, out, err);
    path = pdl_arena_strndup(a, name, len);
    if (!path)
        return system_no_memory(err, "the name");
    st = pdl_file_read(a, path, MAX_FILE, &file, err);
    if (st == PDL_OK)
        st = system_read(a, file, path, inside, out, err);
    return st == PDL_OK ? change(a, name, len, out, err) : st;
}

void pdl_system_blank(struct pdl_system *out)
{
    *out = (struct pdl_system){.name = "imported"};
    system_defaults(&system_root, out);
    out->built_nodes = 0;
    out->pe.name = "unknown";
}
