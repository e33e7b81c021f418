/* Numbers with units: what is read prints to a text that reads the same. */
#include "paradl/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256], printed[64], shown[64];
    int64_t whole;

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (int u = 0; u < PDL_NUNITS; u++) {
        double v = 0, again = 0;

        if (pdl_unit_parse(text, (enum pdl_unit)u, &v, NULL) != PDL_OK)
            continue;
        pdl_unit_format(v, (enum pdl_unit)u, shown, sizeof shown);
        pdl_unit_print(v, (enum pdl_unit)u, printed, sizeof printed);
        if (pdl_unit_parse(printed, (enum pdl_unit)u, &again, NULL) != PDL_OK ||
            again != v) {
            fprintf(stderr, "%s -> %s\n", text, printed);
            abort();
        }
    }
    (void)pdl_bytes_parse(text, &whole, NULL);
    (void)pdl_int_parse(text, -5, 5, &whole, NULL);
    return 0;
}
