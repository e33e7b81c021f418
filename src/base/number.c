/* SPDX-License-Identifier: Apache-2.0
 *
 * Doubles as text in the C locale, and in order. strtod and printf follow the
 * locale of the calling program, which may write 0,5; our files and results may
 * not. The locale of the thread is changed and put back; with glibc the C
 * locale is a static object and this costs next to nothing. */
#include "base_priv.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double base_strtod(const char *text, char **end)
{
    locale_t c = c_locale(), old = uselocale(c);
    double v = strtod(text, end);

    uselocale(old);
    if (c)
        freelocale(c);
    return v;
}

void base_put_double(char *buf, size_t size, int digits, double v)
{
    locale_t c = c_locale(), old = uselocale(c);

    snprintf(buf, size, "%.*g", digits, v);
    uselocale(old);
    if (c)
        freelocale(c);
}

double pdl_strtod(const char *text, char **end)
{
    return base_strtod(text, end);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void pdl_sort(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof x[0], ascending);
}
