/* SPDX-License-Identifier: Apache-2.0
 *
 * What the GPU is and how it goes: the driver's management library says clock
 * and power of this moment, where it is found. Its functions are declared here:
 * it comes with the driver, its header with neither that nor the toolkit. */
#include "train/backends/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CLOCK_SM = 1, CAPPED = 0x4, SLOWED = 0x8 | 0x20 | 0x40 };

typedef int nvml_init(void);
typedef int nvml_find(const char *bus, void **device);
typedef int nvml_number(void *device, unsigned *out);
typedef int nvml_clock(void *device, int which, unsigned *out);
typedef int nvml_reasons(void *device, unsigned long long *out);

static void now(const char *bus, struct pdl_train_device *out)
{
    void *l = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *d = NULL;
    unsigned long long why = 0;
    unsigned x = 0;
    nvml_init *init;
    nvml_find *find;
    nvml_number *power, *limit;
    nvml_clock *clock;
    nvml_reasons *reasons;

    if (!l)
        return;
    *(void **)&init = dlsym(l, "nvmlInit_v2");
    *(void **)&find = dlsym(l, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&power = dlsym(l, "nvmlDeviceGetPowerUsage");
    *(void **)&limit = dlsym(l, "nvmlDeviceGetEnforcedPowerLimit");
    *(void **)&clock = dlsym(l, "nvmlDeviceGetClockInfo");
    *(void **)&reasons = dlsym(l, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!init || !find || init() != 0 || find(bus, &d) != 0)
        return;
    if (power && power(d, &x) == 0)
        out->power_w = x * 1e-3;
    if (limit && limit(d, &x) == 0)
        out->power_limit_w = x * 1e-3;
    if (clock && clock(d, CLOCK_SM, &x) == 0)
        out->now_hz = x * 1e6;
    if (reasons && reasons(d, &why) == 0) {
        out->power_capped = why & CAPPED;
        out->hot = why & SLOWED;
    }
}

/* The library stays open: it is asked again and again. */
void train_cuda_describe(void *state, struct pdl_train_device *out)
{
    const struct cuda_state *s = state;
    struct cudaDeviceProp p;
    size_t left = 0, all = 0;
    int driver = 0, khz = 0;
    char bus[32] = "";

    if (cudaGetDeviceProperties(&p, s->device) != cudaSuccess)
        return;
    (void)!cudaDriverGetVersion(&driver);
    (void)!cudaMemGetInfo(&left, &all);
    (void)!cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, s->device);
    (void)!cudaDeviceGetPCIBusId(bus, sizeof bus, s->device);
    snprintf(out->name, sizeof out->name, "%.63s", p.name);
    snprintf(out->library, sizeof out->library,
             "driver for CUDA %d.%d, CUDA %d.%d, cuDNN %zu", driver / 1000,
             driver % 1000 / 10, CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10,
             s->dnn ? s->dnn->cudnnGetVersion() : 0);
    out->memory_bytes = (int64_t)all;
    out->free_bytes = (int64_t)left;
    out->units = p.multiProcessorCount;
    out->l2_bytes = p.l2CacheSize;
    out->clock_hz = khz * 1e3;
    now(bus, out);
}
