/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and the one error message that travels up to the person. */
#include "paradl/base.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *pdl_version(void)
{
    return TEXT(PDL_VERSION_MAJOR) "." TEXT(PDL_VERSION_MINOR) "." TEXT(
        PDL_VERSION_PATCH);
}

/* Input quoted in a message may hold anything; a terminal must not obey it. */
static void tame(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

void pdl_say(struct pdl_err *err, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    tame(err->msg);
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
    tame(err->hint);
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
