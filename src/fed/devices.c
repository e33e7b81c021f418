/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients run on, by name: how fast a device trains, its link, and how
 * often it is not there. Orders of magnitude to begin with, not measurements:
 * every one can be said, and doc/federated.md says where they are from. */
#include "paradl/fed.h"

enum { FLOPS, DOWN, UP, LATENCY, SPREAD, AWAY };

// clang-format off
#define KEYS(flops, down, up, latency, spread, away)                          \
    {{"flops", "FLOP/s in training", flops, 1, 1e18, NULL},                   \
     {"down", "bytes/s from the server", down, 1, 1e15, NULL},                \
     {"up", "bytes/s to it", up, 1, 1e15, NULL},                              \
     {"latency", "s of a transfer", latency, 0, 1e4, NULL},                   \
     {"spread", "of devices and links: deviation of the logarithm", spread,   \
      0, 10, NULL},                                                           \
     {"away", "share of the clients that cannot be asked", away, 0, 1, NULL}}
// clang-format on

static const struct pdl_sampling kinds[] = {
    {"phone", "telephones that charge, on a radio network",
     KEYS(5e9, 5e6, 1e6, 0.05, 0.7, 0.9)},
    {"edge", "boxes with a small GPU, on a home or shop line",
     KEYS(1e11, 12e6, 2.5e6, 0.02, 0.3, 0.05)},
    {"wan", "sites with a server GPU, over a wide-area network",
     KEYS(1e13, 1.25e8, 1.25e8, 0.03, 0.1, 0.01)},
};

const struct pdl_sampling *pdl_fed_devices_at(int i)
{
    return i >= 0 && i < (int)(sizeof kinds / sizeof kinds[0]) ? &kinds[i]
                                                               : NULL;
}

enum pdl_status pdl_fed_devices_parse(const char *text,
                                      struct pdl_fed_devices *out,
                                      struct pdl_err *err)
{
    struct pdl_sampling_setting x;
    enum pdl_status st =
        pdl_sampling_parse(pdl_fed_devices_at, "be a client", text, &x, err);

    if (st == PDL_OK)
        *out = (struct pdl_fed_devices){x.value[FLOPS],  x.value[DOWN],
                                        x.value[UP],     x.value[LATENCY],
                                        x.value[SPREAD], x.value[AWAY]};
    return st;
}
