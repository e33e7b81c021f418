/* Units: any text gives a finite number that prints and reads back the same,
 * or one message. The first byte chooses the unit. */
#include "paradl/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum pdl_unit unit;
    struct pdl_err err = {"", ""};
    char *text, buf[64];
    double v, back;
    int64_t n = 0;

    if (size == 0)
        return 0;
    unit = (enum pdl_unit)(data[0] % PDL_NUNITS);
    text = calloc(size, 1); /* the rest, and a zero */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    if (pdl_unit_parse(text, unit, &v, &err) == PDL_OK) {
        pdl_unit_format(v, unit, buf, sizeof buf);
        pdl_unit_print(v, unit, buf, sizeof buf);
        if (!isfinite(v) || pdl_unit_parse(buf, unit, &back, NULL) != PDL_OK ||
            back != v)
            abort();
    } else if (!*err.msg) {
        abort();
    }
    if (pdl_bytes_parse(text, &n, &err) == PDL_OK && n < 0)
        abort();
    if (pdl_int_parse(text, -5, 1000, &n, &err) == PDL_OK &&
        (n < -5 || n > 1000))
        abort();
    free(text);
    return 0;
}
