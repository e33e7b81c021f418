/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a system that measured training steps can identify. Starts
 * are NCCL on EDR InfiniBand and NVLink 2 as published for ABCI, and a study of
 * its VGG-16 runs for what a benchmark cannot show. */
#include "oracle/measure/measure.h"

/* Weight, and standard deviation of the logarithm: starts are within
 * PDL_PRIOR_FACTOR in 80 % of cases. Benchmarks of a V100's memory have 750
 * (Jia et al., arXiv 1804.06826) and 790 (cudaMemcpy, paranumal.com, 2018) of
 * its 900 GB/s. */
#define PRIOR     .003, .4055 / 1.2816
#define BENCHMARK .003, .05
#define AT(field) offsetof(struct pdl_system, field)
// clang-format off
static const struct pdl_fit_param params[] = {
    {"pe.kernels.conv_forward.fp32",
     AT(pe.kernels.conv_forward) + PDL_PREC_FP32 * sizeof(double), .3, 3, 1.43, PRIOR},
    {"pe.memory_efficiency", AT(pe.memory_efficiency), .5, .95, .855, BENCHMARK},
    {"node.nics.measured_bandwidth", AT(node.nics.measured_bytes_per_s),
     2e9, 12.5e9, 6.7e9, PRIOR},
    {"node.links.measured_bandwidth", AT(node.links.measured_bytes_per_s),
     10e9, 150e9, 80e9, PRIOR},
    {"network.ring_step", AT(network.step_s), 5e-6, 200e-6,
     33e-6, PRIOR},
    {"network.sync", AT(network.sync_s), 5e-6, 1e-3, 140e-6, PRIOR},
    {"pe.host_call", AT(pe.host_call_s), 5e-6, 500e-6, 100e-6, PRIOR},
    {"storage.round_trip", AT(storage.round_trip_s), 10e-6, 5e-3, .5e-3, PRIOR},
    {"storage.latency", AT(storage.latency_s), .1e-6, 20e-6, 4e-6, PRIOR},
    {"storage.contention", AT(storage.contention_s), .1e-9, 50e-9, 4e-9, PRIOR},
};
// clang-format on

const struct pdl_fit_param *pdl_fit_run_param(int i)
{
    return i >= 0 && i < (int)(sizeof params / sizeof params[0]) ? &params[i]
                                                                 : NULL;
}
