/* The JSON reader; see fuzz_doc.h. */
#include "fuzz_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_doc(pdl_doc_json, data, size);
}
