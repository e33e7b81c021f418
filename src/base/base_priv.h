/* Shared inside the base room. */
#ifndef BASE_PRIV_H
#define BASE_PRIV_H

#include "paradl/base.h"

#include <stdarg.h>

/* Builds a document tree from a stream of events; used by both readers. The
 * nesting is a stack, never recursion, so depth cannot exhaust ours. */
enum { BASE_DOC_DEPTH = 64 };

struct base_doc_builder {
    pdl_arena *arena;
    const char *file;
    struct pdl_err *err;
    struct pdl_doc *root;
    struct frame {
        struct pdl_doc *node, *last;
        const char *key; /* waiting for its value */
        int key_line, key_col;
        /* keys of the map, hashed: a map of a million keys stays linear */
        const char **keys;
        size_t nkeys, cap;
    } stack[BASE_DOC_DEPTH];
    int depth;
};

void base_doc_begin(struct base_doc_builder *b, pdl_arena *a, const char *file,
                    struct pdl_err *err);
/* A scalar in a map's key position becomes the key. text NULL: null. */
enum pdl_status base_doc_scalar(struct base_doc_builder *b, const char *text,
                                size_t len, bool quoted, int line, int col);
enum pdl_status base_doc_open(struct base_doc_builder *b,
                              enum pdl_doc_kind kind, int line, int col);
void base_doc_close(struct base_doc_builder *b);

/* The i-th option of a command, its own first, then the common ones. */
const struct pdl_opt *base_opt_at(const struct pdl_cmd *cmd, int i);
int base_nopts(const struct pdl_cmd *cmd);

/* Length of the UTF-8 sequence at s (zero-ended), 0 when it is none. */
int base_utf8_len(const char *s);

/* Bytes of a word of `len` that go on a line with so many columns left: all
 * when they fit, else up to the last comma that does, or the first one; where
 * there is none, the same by plus signs. */
size_t base_break(const char *word, size_t len, int room);

/* Numbers read and written with a point, whatever locale the program that
 * uses the library has chosen. */
double base_strtod(const char *text, char **end);
void base_put_double(char *buf, size_t size, int digits, double v);

size_t base_arena_left(const pdl_arena *a);
char *base_arena_vprintf(pdl_arena *a, const char *fmt, va_list ap)
    PDL_PRINTF(2, 0);

#endif
