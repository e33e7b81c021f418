/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON that nccl-tests writes with -J: config with its devices, results
 * with a size and two halves (out of place may be null). Keys of later
 * versions are ignored. */
#include "nccl_log.h"

#include <string.h>

static int64_t whole(const struct pdl_doc *d, int64_t other)
{
    int64_t v = other;

    if (d && pdl_doc_int(d, 0, 1 << 30, &v, NULL) != PDL_OK)
        return other;
    return v;
}

static const char *text_of(const struct pdl_doc *map, const char *key)
{
    const struct pdl_doc *d = pdl_doc_get(map, key);

    return d && d->kind == PDL_DOC_SCALAR ? d->text : NULL;
}

/* A process with several GPUs is one entry: the ranks then step by more. */
static void read_devices(struct system_nccl_log *log,
                         const struct pdl_doc *root)
{
    const struct pdl_doc *config = pdl_doc_get(root, "config");
    const struct pdl_doc *devices = pdl_doc_get(config, "devices");
    int64_t each = whole(pdl_doc_get(config, "nthreads"), 1) *
                   whole(pdl_doc_get(config, "ngpus"), 1);

    if (!devices)
        devices = pdl_doc_get(root, "devices");
    if (!devices || devices->kind != PDL_DOC_LIST)
        return;
    for (const struct pdl_doc *d = devices->child; d; d = d->next) {
        const char *host = text_of(d, "host");
        const char *model = text_of(d, "device_name");
        bool seen = false;

        host = host ? host : text_of(d, "hostname");
        model = model ? model : text_of(d, "name");
        log->model = model ? model : log->model;
        for (int64_t i = 0; host && i < log->hosts; i++)
            seen = seen || strcmp(log->host_names[i], host) == 0;
        if (host && !seen && log->hosts < 512)
            log->host_names[log->hosts++] = host;
        log->ranks++;
    }
    if (devices->child && devices->child->next &&
        whole(pdl_doc_get(devices->child->next, "rank"), 0) == 1)
        each = 1;
    if (each > 1 && each < 4096)
        log->ranks *= each;
}

static enum pdl_status read_result(struct system_nccl_log *log,
                                   const struct pdl_doc *r)
{
    const struct pdl_doc *size = pdl_doc_get(r, "size");
    const struct pdl_doc *half = pdl_doc_get(r, "out_of_place");
    const struct pdl_doc *time;
    double bytes = 0, us = 0;
    enum pdl_status st;

    half = half ? half : pdl_doc_get(r, "in_place");
    time = pdl_doc_get(half, "time");
    if (!size || !time)
        return pdl_doc_fail(r, log->err, "a result needs size and time");
    st = pdl_doc_num(size, PDL_UNIT_NONE, 0, 1e18, &bytes, log->err);
    if (st == PDL_OK)
        st = pdl_doc_num(time, PDL_UNIT_NONE, 1e-6, 1e12, &us, log->err);
    if (st != PDL_OK)
        return st;
    log->wrong += whole(pdl_doc_get(half, "nwrong"), 0) > 0;
    if (!log->times.op && text_of(r, "experiment_name"))
        log->times.op = system_nccl_op(text_of(r, "experiment_name"));
    system_times_add(&log->times, bytes, us * 1e-6);
    return PDL_OK;
}

enum pdl_status system_nccl_json(struct system_nccl_log *log,
                                 struct pdl_bytes in)
{
    static const char *const names[] = {"collective", "program", "test",
                                        "name"};
    const struct pdl_doc *root = NULL, *results;
    enum pdl_status st = pdl_doc_json(log->a, in, log->name, &root, log->err);

    if (st != PDL_OK)
        return st;
    results = pdl_doc_get(root, "results");
    if (!results || results->kind != PDL_DOC_LIST)
        return pdl_doc_fail(root, log->err,
                            "no 'results': not a file of "
                            "nccl-tests -J");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!log->times.op && text_of(root, names[i]))
            log->times.op = system_nccl_op(text_of(root, names[i]));
    read_devices(log, root);
    for (const struct pdl_doc *r = results->child; r && st == PDL_OK;
         r = r->next)
        st = read_result(log, r);
    return st == PDL_OK ? system_nccl_finish(log) : st;
}
