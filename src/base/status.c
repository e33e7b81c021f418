/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and the one error message that travels up to the person. */
#include "base_priv.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *pdl_version(void)
{
    return TEXT(PDL_VERSION_MAJOR) "." TEXT(PDL_VERSION_MINOR) "." TEXT(
        PDL_VERSION_PATCH);
}

/* Input quoted in a message may hold anything, and %.40s may cut a character
 * in two; a terminal must neither obey the one nor see the other. U+0080 to
 * U+009F are controls too: c2 9b is what ESC [ is. */
void pdl_tame(char *s)
{
    while (*s) {
        int n = base_utf8_len(s);
        bool c1 =
            n == 2 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0;

        if (n == 0 || c1 || (unsigned char)*s < 0x20 || *s == 0x7f) {
            for (int i = 0; i < (c1 ? 2 : 1); i++)
                s[i] = '?';
            n = c1 ? 2 : 1;
        }
        s += n;
    }
}

void pdl_say(struct pdl_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    pdl_tame(err->msg);
    err->hint[0] = '\0';
}

void pdl_hint(struct pdl_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    vsnprintf(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    pdl_tame(err->hint);
}

const char *pdl_status_text(enum pdl_status st)
{
    static const char *const texts[] = {
#define X(name, text) text,
        PDL_STATUS_LIST(X)
#undef X
    };

    return (size_t)st < sizeof texts / sizeof texts[0] ? texts[st] : "?";
}
