/* Programs as text: any input is read or refused; what is read prints to the
 * same program, and can be proved or refused, run and written as XML. */
#include "paradl/coll.h"

#include <stdlib.h>
#include <string.h>

static void exercise(pdl_arena *a, struct pdl_coll_program *prog)
{
    struct pdl_coll_program *again = NULL;
    struct pdl_coll_job job;
    struct pdl_buf one, two;
    int64_t chunks = 0;

    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_coll_program_job(prog, &job);
    pdl_coll_print(&job, -1, &one.sink);
    if (pdl_coll_parse(a, (struct pdl_bytes){one.text, one.len}, "again",
                       &again, NULL) != PDL_OK)
        abort();
    pdl_coll_program_job(again, &job);
    pdl_coll_print(&job, -1, &two.sink);
    if (one.len != two.len || memcmp(one.text, two.text, one.len) != 0)
        abort();
    for (int b = 0; b < job.nbufs; b++)
        chunks += job.buf[b].chunks;
    if (chunks * job.nranks < 4096) {
        pdl_coll_verify(&job, NULL, NULL);
        two.len = 0;
        pdl_coll_print_msccl(&job, &two.sink, NULL);
    }
    pdl_buf_free(&one);
    pdl_buf_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_arena *a = pdl_arena_create(1 << 24);
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_coll_program *prog = NULL;
    struct pdl_err err = {"", ""};

    if (a && pdl_coll_parse(a, in, "fuzz", &prog, &err) == PDL_OK)
        exercise(a, prog);
    pdl_arena_destroy(a);
    return 0;
}
