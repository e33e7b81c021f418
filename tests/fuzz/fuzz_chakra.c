/* Chakra's execution traces of two ranks: the first byte times sixteen is where
 * the second's begins. Whatever is accepted is played to its end or refused
 * with one line. */
#include "paradl/coll.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void play(pdl_arena *a, const struct pdl_traffic *t)
{
    struct pdl_sim_config config = {.bounds = false};
    struct pdl_err err = {"", ""};
    const struct pdl_net *net;
    struct pdl_sim_result r;
    enum pdl_status st;

    if (pdl_net_make(a, "star:hosts=2,bw=1GB/s", &net, &err) != PDL_OK)
        return;
    st = pdl_sim_run(a, net, t, &config, &r, &err);
    if ((st == PDL_OK) == (*err.msg != '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char groups[] = "{\"g\": [1, 0], \"h\": [1]}";
    static const char *const names[] = {"x.0.et", "x.1.et"};
    size_t cut = size > 0 ? (size_t)data[0] * 16 : 0;
    struct pdl_bytes file[2];
    struct pdl_chakra in = {.nranks = 2,
                            .file = file,
                            .name = names,
                            .groups = {groups, sizeof groups - 1},
                            .groups_name = "g.json"};
    pdl_arena *a = pdl_arena_create((size_t)1 << 26);
    struct pdl_err err = {"", ""};
    struct pdl_traffic t;
    enum pdl_status st;

    if (!a || size == 0)
        return pdl_arena_destroy(a), 0;
    cut = cut < size - 1 ? cut : size - 1;
    file[0] = (struct pdl_bytes){(const char *)data + 1, cut};
    file[1] = (struct pdl_bytes){(const char *)data + 1 + cut, size - 1 - cut};
    st = pdl_coll_read_chakra(a, &in, &t, NULL, &err);
    if ((st == PDL_OK) == (*err.msg != '\0') || strchr(err.msg, '\n') ||
        (st != PDL_OK && st != PDL_EPARSE && st != PDL_ENOMEM))
        abort();
    if (st == PDL_OK)
        play(a, &t);
    pdl_arena_destroy(a);
    return 0;
}
