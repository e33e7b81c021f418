/* SPDX-License-Identifier: Apache-2.0
 *
 * What a form may ask. Names must be built-in ones: a path, which the command
 * line takes too, would read this machine's files for whoever asks. */
#include "serve_priv.h"

#include "paradl/model.h"
#include "paradl/system.h"

#include <string.h>
#include <strings.h>

const char *const cli_serve_fields[SERVE_NFIELDS] = {
    [SERVE_MODEL] = "model",
    [SERVE_SYSTEM] = "system",
    [SERVE_PES] = "pes",
    [SERVE_BATCH] = "batch",
    [SERVE_PRECISION] = "precision",
};

static const struct {
    const char *ending, *name;
} files[] = {{".json", "config.json"},
             {".onnx", "model.onnx"},
             {".yaml", "model.yaml"},
             {".yml", "model.yaml"}};

const char *cli_serve_file(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof files / sizeof files[0]; i++)
        if (strcasecmp(dot, files[i].ending) == 0)
            return files[i].name;
    return NULL;
}

static bool is_zoo(const char *name)
{
    for (int i = 0; pdl_zoo_at(i); i++)
        if (strcmp(pdl_zoo_at(i)->name, name) == 0)
            return true;
    return false;
}

static bool is_system(const char *name)
{
    for (int i = 0; pdl_system_builtin(i); i++)
        if (strcmp(pdl_system_builtin(i)->name, name) == 0)
            return true;
    return false;
}

/* Parameters have numbers, units and names; a slash only in "/s", a point only
 * in a number: what ends as a file does is the name of one. */
static bool harmless(const char *text)
{
    for (; *text; text++) {
        bool rate = text[0] == '/' && text[1] == 's' &&
                    (text[2] == ',' || text[2] == '\0');
        bool point = text[0] == '.' && text[1] >= '0' && text[1] <= '9';

        if (!rate && !point &&
            !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789:=,+-_",
                    *text))
            return false;
    }
    return true;
}

static enum pdl_status check_name(const char *text, const char *what,
                                  bool (*known)(const char *),
                                  struct pdl_err *err)
{
    char name[SERVE_TEXT];
    size_t n = strcspn(text, ":");

    memcpy(name, text, n);
    name[n] = '\0';
    if (known(name) && harmless(text))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%s '%.60s' is not known here", what, text);
    pdl_hint(err, "take one of the list, with parameters after a colon");
    return PDL_EINVAL;
}

static enum pdl_status check_count(const char *text, const char *what,
                                   int64_t most, struct pdl_err *err)
{
    int64_t n;

    if (pdl_int_parse(text, 1, most, &n, NULL) == PDL_OK)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s '%.40s' is no number from 1 to %lld",
                    what, text, (long long)most);
}

static enum pdl_status check_file(const struct cli_serve_form *f,
                                  struct pdl_err *err)
{
    if (f->too_large)
        return pdl_fail(err, PDL_EINVAL, "the file is too large");
    if (cli_serve_file(f->file_name))
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "'%.60s' is no file of a model", f->file_name);
    pdl_hint(err, "a config.json, an .onnx or a .yaml");
    return PDL_EINVAL;
}

enum pdl_status cli_serve_check(const struct cli_serve_form *f,
                                struct pdl_err *err)
{
    enum pdl_status st = f->file_name[0] ? check_file(f, err)
                                         : check_name(f->text[SERVE_MODEL],
                                                      "model", is_zoo, err);

    if (st == PDL_OK)
        st = check_name(f->text[SERVE_SYSTEM], "system", is_system, err);
    if (st == PDL_OK)
        st = check_count(f->text[SERVE_PES], "PEs", 65536, err);
    if (st == PDL_OK)
        st = check_count(f->text[SERVE_BATCH], "batch", 1 << 24, err);
    if (st == PDL_OK && !harmless(f->text[SERVE_PRECISION]))
        st = pdl_fail(err, PDL_EINVAL, "no such precision");
    return st;
}
