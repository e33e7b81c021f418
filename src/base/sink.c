/* SPDX-License-Identifier: Apache-2.0
 *
 * Where text goes: a callback that latches its first failure, and a buffer
 * that grows. */
#include "paradl/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pdl_put(struct pdl_sink *s, const char *data, size_t len)
{
    if (!s->failed && len > 0 && !s->write(s->ctx, data, len))
        s->failed = true;
}

void pdl_puts(struct pdl_sink *s, const char *text)
{
    pdl_put(s, text, strlen(text));
}

void pdl_vprintf(struct pdl_sink *s, const char *fmt, va_list ap)
{
    char small[256], *big = NULL;
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(small, sizeof small, fmt, ap);
    if (n >= (int)sizeof small) {
        big = malloc((size_t)n + 1);
        if (big)
            vsnprintf(big, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    if (n < 0 || (n >= (int)sizeof small && !big))
        s->failed = true;
    else
        pdl_put(s, big ? big : small, (size_t)n);
    free(big);
}

void pdl_printf(struct pdl_sink *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    pdl_vprintf(s, fmt, ap);
    va_end(ap);
}

static bool buf_write(void *ctx, const char *data, size_t len)
{
    struct pdl_buf *b = ctx;

    if (b->cap - b->len < len + 1) {
        size_t cap = 2 * (b->len + len) + 64;
        char *grown = realloc(b->text, cap);

        if (!grown)
            return false;
        b->text = grown;
        b->cap = cap;
    }
    memcpy(b->text + b->len, data, len);
    b->len += len;
    b->text[b->len] = '\0';
    return true;
}

void pdl_buf_init(struct pdl_buf *b)
{
    *b = (struct pdl_buf){.sink = {.write = buf_write}};
    b->sink.ctx = b;
}

void pdl_buf_free(struct pdl_buf *b)
{
    free(b->text);
    *b = (struct pdl_buf){0};
}
