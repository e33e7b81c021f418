/* Traces: whatever is accepted is played to its end or refused with one line. */
#include "paradl/net.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)1 << 24);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_sim_config config = {.bounds = false};
    struct pdl_sim_result r;
    struct pdl_traffic t;
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    st = pdl_traffic_read_goal(a, in, "x.goal", &t, &err);
    if ((st == PDL_OK) == (*err.msg != '\0'))
        abort();
    if (st == PDL_OK && t.nranks <= 8 &&
        pdl_net_make(a, "star:hosts=8,bw=1GB/s", &net, &err) == PDL_OK) {
        st = pdl_sim_run(a, net, &t, &config, &r, &err);
        if ((st == PDL_OK) == (*err.msg != '\0'))
            abort();
    }
    pdl_arena_destroy(a);
    return 0;
}
