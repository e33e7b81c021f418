/* Sites of `train`: "2:local=10,lr=0.7,momentum=0.9". */
#ifndef RUN_TRAIN_SITES_H
#define RUN_TRAIN_SITES_H

#include "paradl/base.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct train_site_options {
    int64_t sites, local_steps; /* one site: as ever */
    double lr, momentum;        /* of what the sites do together */
};

static inline enum pdl_status train_site_number(const char *text, double most,
                                                double *out,
                                                struct pdl_err *err)
{
    char *end;
    double v = pdl_strtod(text, &end);

    if (end == text || (*end && *end != ',') || !(v >= 0 && v <= most))
        return pdl_fail(err, PDL_EINVAL, "--sites: '%.40s' is not 0 to %g",
                        text, most);
    *out = v;
    return PDL_OK;
}

/* NULL: one site. What is not said is DiLoCo's (arXiv 2311.08105). */
static inline enum pdl_status train_sites_read(const char *text,
                                               struct train_site_options *out,
                                               struct pdl_err *err)
{
    static const char *const keys[] = {"local=", "lr=", "momentum="};
    static const double most[] = {1e9, 10, 0.9999};
    double v[3] = {100, 0.7, 0.9}, sites = 1;
    const char *at = text ? strchr(text, ':') : NULL;
    char first[32] = "1";
    enum pdl_status st;

    if (text)
        snprintf(first, sizeof first, "%.*s",
                 (int)(at ? at - text : (ptrdiff_t)sizeof first - 1), text);
    st = train_site_number(first, 100000, &sites, err);
    for (at = at ? at + 1 : NULL; st == PDL_OK && at; at = strchr(at, ',')) {
        size_t k = 0;

        at += *at == ',';
        while (k < 3 && strncmp(at, keys[k], strlen(keys[k])) != 0)
            k++;
        if (k == 3)
            return pdl_fail(
                err, PDL_EINVAL,
                "--sites: '%.40s' is not local=, lr= or momentum=", at);
        st = train_site_number(at + strlen(keys[k]), most[k], &v[k], err);
    }
    if (st != PDL_OK)
        return st;
    *out =
        (struct train_site_options){(int64_t)sites, (int64_t)v[0], v[1], v[2]};
    if (out->sites < 1 || out->local_steps < 1 || (double)out->sites != sites ||
        (double)out->local_steps != v[0])
        return pdl_fail(err, PDL_EINVAL,
                        "--sites %.40s: sites and local steps are whole "
                        "numbers from 1",
                        text);
    return PDL_OK;
}

#endif
