/* The file of measurements that a resumed run goes on with, in each format (the
 * first byte): refused in one line, or whole rows are kept and one is added. */
#include "fuzz_io_array.h"

#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const suffixes[] = {"jsonl", "csv", "tfevents"};
    static const char *const columns[] = {"loss", "lr"};
    struct pdl_err err = {"", ""};
    pdl_metrics *m = NULL;
    enum pdl_status st;
    char path[64];

    if (size == 0)
        return 0;
    snprintf(path, sizeof path, "/tmp/paradl-fuzz-%ld.%s", (long)getpid(),
             suffixes[data[0] % 3]);
    if (pdl_file_write(path, (const char *)data + 1, size - 1, NULL) != PDL_OK)
        return 0;
    st = pdl_metrics_open(path, columns, 2, 1000, &m, &err);
    fuzz_message(st, &err);
    if (st == PDL_OK &&
        (pdl_metrics_add(m, 1001, (double[]){0.5, 0.1}, &err) != PDL_OK ||
         pdl_metrics_close(m, &err) != PDL_OK))
        abort();
    unlink(path);
    return 0;
}
