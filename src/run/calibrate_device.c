/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is, by the word of its driver, and how fast bytes move in it
 * and to it. What it computes is measured in training (calibrate_train.c). */
#include "calibrate.h"
#include "calibrate_probes.h"

#include "paradl/train.h"

static void say(const struct calibration *c, const struct pdl_train_device *d)
{
    if (!c->json)
        return;
    pdl_json_kstr(c->json, "device", d->name);
    pdl_json_kstr(c->json, "library", d->library);
    pdl_json_key(c->json, "facts");
    pdl_json_array(c->json);
    run_fact(c, "memory_bytes", (double)d->memory_bytes, "B");
    run_fact(c, "units", (double)d->units, "");
    run_fact(c, "l2_bytes", (double)d->l2_bytes, "B");
    run_fact(c, "clock", d->clock_hz, "Hz");
    run_fact(c, "power_limit", d->power_limit_w, "W");
    run_fact(c, "copy", d->bytes_per_s[2], "B/s");
    run_fact(c, "host_to_device", d->bytes_per_s[0], "B/s");
    run_fact(c, "device_to_host", d->bytes_per_s[1], "B/s");
    pdl_json_end(c->json);
}

enum pdl_status run_calibrate_device(const struct calibration *c,
                                     struct pdl_err *err)
{
    struct pdl_train_options opt = {.device = c->device};
    struct pdl_train_device d;
    struct run_probe p;
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    pdl_trainer *t = NULL;
    pdl_comm *alone = NULL;
    enum pdl_status st =
        a ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = run_probe_open(a, false, 0, 0, &p, err);
    if (st == PDL_OK)
        st = pdl_comm_create_memory(1, NULL, &alone, err);
    if (st == PDL_OK)
        st = pdl_trainer_open(p.plan, alone, &opt, &t, err);
    if (st == PDL_OK && !pdl_trainer_device(t, true, &d))
        st = pdl_fail(err, PDL_EINVAL, "--device %.40s: that is the host",
                      c->device);
    if (st == PDL_OK) {
        *c->large = d.memory_bytes > 0; /* else it is played by the host */
        say(c, &d);
    }
    pdl_trainer_close(t);
    pdl_comm_destroy(alone);
    pdl_arena_destroy(a);
    return st;
}
