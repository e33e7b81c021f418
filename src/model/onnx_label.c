/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of layers that people know: "layer1.0.conv1", not
 * "/layer1/layer1.0/conv1/Conv".
 *
 * The name of the weight without its last part comes first; else the node's
 * own name, whose path is joined with dots ("layer1" "layer1.0" "relu_1" is
 * "layer1.0.relu_1") and whose last part, the operator, stays only where the
 * module has several layers; else the operator and a number. A name that is
 * taken gets a number. */
#include "onnx_layer.h"

#include <stdio.h>

enum { MAX_NAME = 256, MAX_DEPTH = 32 };

static ProtobufCBinaryData bytes(const char *s)
{
    ProtobufCBinaryData b = {strlen(s), (uint8_t *)(uintptr_t)s};

    return b;
}

/* What exporters put behind the name of a layer. */
static bool cut_suffix(char *name)
{
    static const char *const ends[] = {"_w_0",      "_w",      "_W",
                                       "/kernel:0", "/kernel", "_weight",
                                       "/gamma:0",  "_scale_0"};
    size_t len = strlen(name);
    char *dot = strrchr(name, '.');

    if (dot && dot > name) {
        *dot = '\0';
        return true;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);

        if (len > n && strcmp(name + len - n, ends[i]) == 0) {
            name[len - n] = '\0';
            return true;
        }
    }
    return false;
}

/* From a weight; made-up names ("onnx::Conv_193", "1234") say nothing. */
static bool from_weight(const struct onnx_maker *m, const struct onnx_node *n,
                        char *out)
{
    for (int i = 0; i < n->nin; i++) {
        int id = n->in[i] >= 0 ? model_onnx_source(m->g, n->in[i]) : -1;
        const char *name;

        if (id < 0 || m->g->values[id].role != PDL_TENSOR_WEIGHT)
            continue;
        name = m->g->values[id].name;
        if (strchr(name, ':') == NULL || strstr(name, ":0"))
            snprintf(out, MAX_NAME, "%s", name);
        else
            continue;
        if (cut_suffix(out))
            return true;
    }
    return false;
}

static size_t parent_len(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? (size_t)(slash - name) : 0;
}

/* How many layers a module has, inner ones included, through the table of
 * names; len: of its path. */
static int *lodgers(struct onnx_maker *m, const char *name, size_t len)
{
    ProtobufCBinaryData path = {len, (uint8_t *)(uintptr_t)name};
    int i = len ? model_onnx_lookup(m->g, m->parents, path, false) : -1;

    return i < 0 ? NULL : &m->lodgers[i];
}

static enum pdl_status lodge(struct onnx_maker *m, const char *name, size_t len)
{
    ProtobufCBinaryData path = {len, (uint8_t *)(uintptr_t)name};
    int *count = lodgers(m, name, len);

    if (count) {
        ++*count;
        return PDL_OK;
    }
    if (!m->lodgers || m->nlodgers == m->lcap) {
        int cap = m->lcap ? 2 * m->lcap : 64;
        int *p = pdl_arena_grow(m->g->arena, m->lodgers, (size_t)m->nlodgers,
                                (size_t)cap, sizeof *p);

        if (!p)
            return model_onnx_oom(m->g);
        m->lodgers = p;
        m->lcap = cap;
    }
    m->lodgers[m->nlodgers] = 1;
    return model_onnx_alias(m->g, m->parents, path, m->nlodgers++);
}

/* Counts the layer in every module around it. */
enum pdl_status model_onnx_lodge(struct onnx_maker *m,
                                 const struct onnx_node *n)
{
    size_t len = parent_len(n->name), i;
    int depth = 0;

    for (i = 1; i <= len; i++) {
        enum pdl_status st = PDL_OK;

        if (i == len || n->name[i] == '/')
            st = depth++ < MAX_DEPTH ? lodge(m, n->name, i) : PDL_OK;
        if (st)
            return st;
    }
    return PDL_OK;
}

/* Appends a part of a path; a part that repeats the path so far replaces it. */
static void append(char *out, const char *part, size_t len)
{
    size_t have = strlen(out);

    if (have > 0 && len > have && strncmp(part, out, have) == 0 &&
        part[have] == '.')
        snprintf(out, MAX_NAME, "%.*s", (int)len, part);
    else
        snprintf(out + have, MAX_NAME - have, "%s%.*s", have ? "." : "",
                 (int)len, part);
}

static bool from_path(struct onnx_maker *m, const char *name, char *out)
{
    const int *count = lodgers(m, name, parent_len(name));
    const char *end = name + strlen(name), *p = name;

    if (count && *count == 1)
        end = name + parent_len(name);
    out[0] = '\0';
    while (p < end) {
        size_t len = strcspn(p, "/");

        if (p + len > end)
            len = (size_t)(end - p);
        if (len > 0)
            append(out, p, len);
        p += len + 1;
    }
    return out[0] != '\0';
}

const char *model_onnx_label(struct onnx_maker *m, const struct onnx_node *n,
                             int index, const char *op)
{
    char name[MAX_NAME], unique[MAX_NAME + 16];
    char *kept;

    if (!from_weight(m, n, name) && !from_path(m, n->name, name))
        snprintf(name, sizeof name, "%s_%d", op, index);
    snprintf(unique, sizeof unique, "%s", name);
    for (int i = 1;
         model_onnx_lookup(m->g, m->labels, bytes(unique), false) >= 0; i++) {
        if (i > 64) { /* enough alike: the index tells them apart */
            snprintf(unique, sizeof unique, "%.200s_node%d", name, index);
            break;
        }
        snprintf(unique, sizeof unique, "%s_%d", name, i);
    }
    kept = pdl_arena_strdup(m->g->arena, unique);
    if (!kept || (model_onnx_lookup(m->g, m->labels, bytes(kept), false) < 0 &&
                  model_onnx_alias(m->g, m->labels, bytes(kept), 0)))
        return "layer";
    return kept;
}
