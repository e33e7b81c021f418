/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena: memory with one owner. Blocks double from 4 KiB; a request larger
 * than a block gets a block of its own. The limit counts what an allocation
 * really takes, rounded up to the alignment: a million empty strings are not
 * free. Under AddressSanitizer the unused
 * tail of a block is poisoned, so that an overrun inside the arena is found
 * like one on the heap. */
#include "base_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
enum { REDZONE = 16 };
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
enum { REDZONE = 0 };
#endif

enum { ALIGN = 16, FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20 };

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

struct pdl_arena {
    struct block *blocks; /* the first one is being filled */
    struct block *spare;  /* empty ones, of before a reset */
    size_t left, used;
};

pdl_arena *pdl_arena_create(size_t limit_bytes)
{
    pdl_arena *a = calloc(1, sizeof *a);

    if (a)
        a->left = limit_bytes;
    return a;
}

static void free_blocks(struct block *b)
{
    for (struct block *next; b; b = next) {
        next = b->next;
        UNPOISON(b->data, b->size);
        free(b);
    }
}

void pdl_arena_destroy(pdl_arena *a)
{
    if (!a)
        return;
    free_blocks(a->blocks);
    free_blocks(a->spare);
    free(a);
}

/* Blocks are cleared as far as they were used, which is cheaper than fresh
 * pages of the system. */
void pdl_arena_reset(pdl_arena *a)
{
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        UNPOISON(b->data, b->size);
        memset(b->data, 0, b->used);
        POISON(b->data, b->size);
        b->used = 0;
        b->next = a->spare;
        a->spare = b;
    }
    a->blocks = NULL;
    a->left += a->used;
    a->used = 0;
}

/* The first spare block that is large enough; NULL: none. */
static struct block *take_spare(pdl_arena *a, size_t need)
{
    for (struct block **at = &a->spare, *b; (b = *at) != NULL; at = &b->next)
        if (b->size >= need) {
            *at = b->next;
            return b;
        }
    return NULL;
}

static struct block *make_block(pdl_arena *a, size_t size)
{
    struct block *b = take_spare(a, size);

    if (!b) {
        b = calloc(1, sizeof *b + size);
        if (!b)
            return NULL;
        b->size = size;
        POISON(b->data, size);
    }
    return b;
}

/* An arena that is used again has one large block, not one of every size that
 * was expected: those that are too small go. */
static void free_small_spares(pdl_arena *a, size_t need)
{
    for (struct block **at = &a->spare, *b; (b = *at) != NULL;)
        if (b->size > LAST_BLOCK && b->size < need) {
            *at = b->next;
            b->next = NULL;
            free_blocks(b);
        } else {
            at = &b->next;
        }
}

/* The system's allocator keeps what is freed as long as it is not much more
 * than the largest block so far; one large block comes back for the next plan,
 * where a dozen that double are given back and cost a fault for every page. */
void pdl_arena_expect(pdl_arena *a, size_t bytes)
{
    struct block *b = a->blocks;

    if (bytes > a->left || (b && b->size - b->used >= bytes))
        return;
    free_small_spares(a, bytes);
    b = make_block(a, bytes);
    if (b) {
        b->next = a->blocks;
        a->blocks = b;
    }
}

/* A new block in front; a lone large one goes behind the one being filled,
 * whose tail stays in use. */
static struct block *add_block(pdl_arena *a, size_t need)
{
    size_t size = a->blocks ? 2 * a->blocks->size : FIRST_BLOCK;
    bool lone;
    struct block *b;

    if (size > LAST_BLOCK)
        size = LAST_BLOCK;
    lone = need > size;
    if (lone)
        size = need;
    b = make_block(a, size);
    if (!b)
        return NULL;
    if (lone && a->blocks) {
        b->next = a->blocks->next;
        a->blocks->next = b;
    } else {
        b->next = a->blocks;
        a->blocks = b;
    }
    return b;
}

void *pdl_arena_alloc(pdl_arena *a, size_t count, size_t size)
{
    struct block *b = a->blocks;
    size_t bytes, cost, need;
    char *p;

    if (size && count > (SIZE_MAX / 4) / size)
        return NULL;
    bytes = count * size;
    cost = ((bytes ? bytes : 1) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    need = cost + REDZONE;
    if (cost > a->left)
        return NULL;
    if (!b || b->size - b->used < need)
        b = add_block(a, need);
    if (!b)
        return NULL;
    p = b->data + b->used;
    b->used += need;
    a->left -= cost;
    a->used += cost;
    UNPOISON(p, bytes);
    return p;
}

void *pdl_arena_grow(pdl_arena *a, const void *old, size_t count, size_t cap,
                     size_t size)
{
    void *p = count <= cap ? pdl_arena_alloc(a, cap, size) : NULL;

    if (p && count)
        memcpy(p, old, count * size);
    return p;
}

char *pdl_arena_strndup(pdl_arena *a, const char *s, size_t len)
{
    char *p = len < SIZE_MAX ? pdl_arena_alloc(a, len + 1, 1) : NULL;

    if (p && len)
        memcpy(p, s, len);
    return p;
}

char *pdl_arena_strdup(pdl_arena *a, const char *s)
{
    return pdl_arena_strndup(a, s, strlen(s));
}

char *base_arena_vprintf(pdl_arena *a, const char *fmt, va_list ap)
{
    va_list again;
    char *p = NULL;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    if (n >= 0)
        p = pdl_arena_alloc(a, (size_t)n + 1, 1);
    if (p)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *pdl_arena_printf(pdl_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;

    va_start(ap, fmt);
    p = base_arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

size_t base_arena_left(const pdl_arena *a)
{
    return a->left;
}

size_t pdl_arena_used(const pdl_arena *a)
{
    return a->used;
}
