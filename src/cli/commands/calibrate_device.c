/* SPDX-License-Identifier: Apache-2.0
 *
 * A PE that is a device: what its driver says of it, the rates that the rows of
 * training reached, and how it went: under load its clock falls, and where its
 * power is at the limit it falls further. */
#include "cli/commands/cli_calibrate.h"

#include <ctype.h>
#include <string.h>

static double fact(const struct pdl_system *sys, const char *name)
{
    for (int64_t i = 0; i < sys->nmeasured; i++)
        if (strcmp(sys->measured[i].name, name) == 0)
            return sys->measured[i].value;
    return 0;
}

static double said(const struct pdl_doc *machine, const char *key)
{
    const struct pdl_doc *x = pdl_doc_get(machine, key);
    struct pdl_err err;
    double v = 0;

    return x && pdl_doc_num(x, PDL_UNIT_NONE, 0, 1e15, &v, &err) == PDL_OK ? v
                                                                           : 0;
}

static const char *title(const struct pdl_doc *machine)
{
    const struct pdl_doc *x = pdl_doc_get(machine, "device");
    const char *s = "";
    struct pdl_err err;

    if (!x || pdl_doc_str(x, &s, &err) != PDL_OK || !*s)
        return "a device that the host plays";
    return s;
}

/* The fastest product is the nearest to a peak that anybody saw. */
static void keep_rates(struct pdl_pe *pe)
{
    for (int64_t i = 0; i < pe->nprofile; i++) {
        const struct pdl_profile_row *r = &pe->profile[i];
        enum pdl_precision p = pdl_precision_find(r->precision);
        double rate = r->ndims > 0 && r->seconds > 0
                          ? (double)r->dims[0] / r->seconds
                          : 0;

        if (p != PDL_NPRECISIONS &&
            (strcmp(r->op, "run.linear") == 0 ||
             strcmp(r->op, "run.conv") == 0) &&
            rate > pe->matmul_flop_per_s[p])
            pe->matmul_flop_per_s[p] = rate;
    }
}

void cli_fill_device(pdl_arena *a, const struct pdl_doc *machine,
                     struct pdl_system *sys)
{
    struct pdl_pe *pe = &sys->pe;
    char *name = pdl_arena_strdup(a, title(machine));

    for (char *c = name; c && *c; c++)
        *c =
            isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    pe->name = name ? name : "device";
    pe->title = title(machine);
    pe->units = (int64_t)fact(sys, "units");
    pe->memory_bytes = (int64_t)fact(sys, "memory_bytes");
    pe->memory_usable = .95;
    pe->memory_bytes_per_s = fact(sys, "copy");
    pe->memory_efficiency = .999; /* that is measured */
    pe->l2_bytes = (int64_t)fact(sys, "l2_bytes");
    pe->clock_hz = fact(sys, "clock");
    pe->sustained_hz = said(machine, "clock_hz");
    pe->peak_w = fact(sys, "power_limit");
    keep_rates(pe);
    sys->node.host.pcie_bytes_per_s = fact(sys, "host_to_device");
    sys->node.host.out_bytes_per_s = fact(sys, "device_to_host");
}

void cli_print_device(const struct pdl_doc *machine,
                      const struct pdl_system *sys, struct pdl_sink *out)
{
    const struct pdl_pe *pe = &sys->pe;

    pdl_printf(out, "  matrix products  %.4g TFLOP/s bf16, %.4g fp32\n",
               pe->matmul_flop_per_s[PDL_PREC_BF16] / 1e12,
               pe->matmul_flop_per_s[PDL_PREC_FP32] / 1e12);
    pdl_printf(out,
               "  copies           %.4g GB/s inside, %.4g to it, %.4g back\n",
               pe->memory_bytes_per_s / 1e9, fact(sys, "host_to_device") / 1e9,
               fact(sys, "device_to_host") / 1e9);
    if (pe->sustained_hz > 0)
        pdl_printf(out, "  clock            %.4g MHz of %.4g under load\n",
                   pe->sustained_hz / 1e6, pe->clock_hz / 1e6);
    if (said(machine, "power_capped") > 0)
        pdl_printf(out,
                   "  power            at the limit of %.0f W in %.0f probe "
                   "networks: they ran at a lower clock\n",
                   pe->peak_w, said(machine, "power_capped"));
    if (said(machine, "hot") > 0)
        pdl_printf(
            out,
            "  heat             slowed %.0f probe networks down: this is "
            "not what it does when it is cooled\n",
            said(machine, "hot"));
}
