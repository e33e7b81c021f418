/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL's own tuner assumes: latency per algorithm, protocol and hop, and
 * rates per architecture. The best public start values for GPU collectives,
 * software included. Source: NVIDIA/nccl src/graph/tuning.cc, topo.h and
 * search.cc (rates of channels) at 5067397c (2026-06-11). A latency of 0 is one
 * the tuner does not have. */
#include "system_priv.h"

#include <string.h>

// clang-format off
static const struct pdl_nccl_latency latencies[] = {
    {"ring",           "LL",     6.6e-6, 0.6e-6,  1.0e-6, 2.7e-6 },
    {"ring",           "LL128", 14.0e-6, 1.9e-6,  2.5e-6, 4.0e-6 },
    {"ring",           "Simple", 8.4e-6, 3.4e-6,  5.7e-6, 14.0e-6},
    {"tree",           "LL",     6.8e-6, 0.6e-6,  1.0e-6, 5.0e-6 },
    {"tree",           "LL128", 14.0e-6, 1.25e-6, 1.9e-6, 8.5e-6 },
    {"tree",           "Simple", 8.4e-6, 4.0e-6,  4.0e-6, 14.0e-6},
    {"nvls",           "Simple", 0,      25.0e-6, 0,      18.0e-6},
    {"nvls-tree",      "Simple", 0,      25.0e-6, 0,      20.9e-6},
    {"collnet-direct", "Simple", 0,      3.7e-6,  0,      31.0e-6},
    {"pat",            "Simple", 8.0e-6, 4.0e-6,  0,      14.0e-6},
};

static const double near_old[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4,
                                  3, 0};
static const double far_old[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5,
                                 4, 3, 2.4, 1.2, .24, .12, 0};
static const double near_90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, 0};
static const double far_90[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6,
                                3, 2.4, 1.2, .24, .12, 0};
static const double near_100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19,
                                  18, 0};
static const double far_100[] = {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20,
                                 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12, 0};

static const struct pdl_nccl_rates rates[] = {
    {"volta",     20.0e9, { 39.0e9, 39.0e9, 20.4e9}, {26.5e9, 18.5e9, 10.0e9},
     20.0e9, {20.0e9, 20.0e9, 20.0e9}, {26.5e9, 18.5e9, 10.0e9}, 0,
     near_old, far_old},
    {"ampere",    20.0e9, { 87.7e9, 22.5e9, 19.0e9}, {24.0e9, 23.6e9, 17.8e9},
     20.0e9, {20.0e9, 20.0e9, 20.0e9}, {24.0e9, 23.6e9, 17.8e9}, 0,
     near_old, far_old},
    {"hopper",    20.6e9, {141.0e9, 45.0e9, 35.0e9}, {38.7e9, 41.4e9, 36.0e9},
     36.7e9, {36.7e9, 36.7e9, 29.0e9}, {0, 57.7e9, 45.5e9}, .85,
     near_90, far_90},
    {"blackwell", 40.1e9, {282.0e9, 90.0e9, 70.0e9}, {70.0e9, 42.8e9, 24.0e9},
     40.0e9, {55.6e9, 31.67e9, 20.0e9}, {0, 96.0e9, 80.0e9}, .74,
     near_100, far_100},
};

static const struct {
    const char *protocol;
    double part[PDL_NCCL_TREE_SIZES];
} tree_parts[] = {
    {"LL", {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5,
            .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1}},
    {"LL128", {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6,
               .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1}},
    {"Simple", {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}},
};
// clang-format on

const struct pdl_nccl_latency *pdl_nccl_latency(int i)
{
    int n = sizeof latencies / sizeof latencies[0];

    return i >= 0 && i < n ? &latencies[i] : NULL;
}

const struct pdl_nccl_rates *pdl_nccl_rates(const char *arch)
{
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (arch && strcmp(rates[i].arch, arch) == 0)
            return &rates[i];
    return NULL;
}

const double *pdl_nccl_tree_part(const char *protocol)
{
    for (size_t i = 0; i < sizeof tree_parts / sizeof tree_parts[0]; i++)
        if (strcmp(tree_parts[i].protocol, protocol) == 0)
            return tree_parts[i].part;
    return NULL;
}
