/* Host lists: expand(compress(expand(x))) == expand(x); SYSTEM names with
 * parameters and tasks per node never crash. */
#include "fuzz_system.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void names(pdl_arena *a, const char *text)
{
    struct pdl_hosts one, two;
    const char *packed = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_hostlist_expand(a, text, &one, &err) != PDL_OK)
        return;
    if (one.count > 4096)
        return;
    if (pdl_hostlist_compress(a, &one, &packed, &err) != PDL_OK ||
        pdl_hostlist_expand(a, packed, &two, &err) != PDL_OK)
        fuzz_fail(err.msg, packed ? packed : text);
    if (one.count != two.count)
        fuzz_fail("another number of hosts", packed);
    for (int64_t i = 0; i < one.count; i++)
        if (strcmp(one.names[i], two.names[i]) != 0)
            fuzz_fail("another host", packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create((size_t)128 << 20);
    struct pdl_ints tasks;
    struct pdl_system sys;
    char *text = a ? pdl_arena_strndup(a, (const char *)data, size) : NULL;

    if (text) {
        names(a, text);
        (void)pdl_tasks_expand(a, text, &tasks, NULL);
        if (!strstr(text, ".y") && !strstr(text, ".json") && text[0] != '-') {
            struct pdl_err err = {"", ""};
            char name[512];

            snprintf(name, sizeof name, "dgx-a100:%s", text);
            if (pdl_system_open(a, name, &sys, &err) == PDL_OK)
                fuzz_fixed_point(a, &sys);
        }
    }
    pdl_arena_destroy(a);
    return 0;
}
