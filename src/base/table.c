/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for a terminal. Each column is as wide as its widest cell; when the
 * sum is too wide, the column of whole names gives way first: what does not fit
 * it gets a line of its own. Then the widest left-aligned column does, and its
 * texts are cut in the middle, where names carry least. */
#include "base_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { GAP = 2, MAX_COLUMNS = 32, MIN_WIDTH = 8 };

/* One code point per column is right for what we print (Latin, Greek, box
 * drawing); wcwidth would depend on the locale. */
int pdl_text_width(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void pdl_table_init(struct pdl_table *t, pdl_arena *a,
                    const struct pdl_column *columns, int ncolumns)
{
    *t = (struct pdl_table){
        .arena = a, .columns = columns, .ncolumns = ncolumns};
}

void pdl_table_cell(struct pdl_table *t, const char *fmt, ...)
{
    va_list ap;
    char *text;

    if (t->status != PDL_OK)
        return;
    if (t->cursor == t->cap) {
        int cap = t->cap ? 2 * t->cap : 8 * t->ncolumns;
        const char **grown = pdl_arena_grow(
            t->arena, t->cells, (size_t)t->cursor, (size_t)cap, sizeof *grown);

        if (!grown) {
            t->status = PDL_ENOMEM;
            return;
        }
        t->cells = grown;
        t->cap = cap;
    }
    va_start(ap, fmt);
    text = base_arena_vprintf(t->arena, fmt, ap);
    va_end(ap);
    if (!text) {
        t->status = PDL_ENOMEM;
        return;
    }
    pdl_tame(text); /* names come from files */
    t->cells[t->cursor++] = text;
    t->nrows = t->cursor / t->ncolumns;
}

static void put_repeat(struct pdl_sink *out, const char *s, int n)
{
    for (int i = 0; i < n; i++)
        pdl_puts(out, s);
}

/* The first n code points of s end at the returned byte. */
static const char *skip_points(const char *s, int n)
{
    while (*s && n > 0) {
        s++;
        while (((unsigned char)*s & 0xc0) == 0x80)
            s++;
        n--;
    }
    return s;
}

static void put_cell(struct pdl_sink *out, const char *s, int width, bool right,
                     bool last)
{
    int w = pdl_text_width(s);

    if (w > width) {
        int head = (width - 1) / 2, tail = width - 1 - head;
        const char *cut = skip_points(s, head);

        pdl_put(out, s, (size_t)(cut - s));
        pdl_puts(out, "\xe2\x80\xa6");
        pdl_puts(out, skip_points(s, w - tail));
        return;
    }
    if (right)
        put_repeat(out, " ", width - w);
    pdl_puts(out, s);
    if (!right && !last)
        put_repeat(out, " ", width - w);
}

static const char *cell(const struct pdl_table *t, int r, int c)
{
    return r < 0 ? t->columns[c].title : t->cells[r * t->ncolumns + c];
}

size_t base_break(const char *word, size_t len, int room)
{
    size_t comma = 0, plus = 0;
    int at = 0;

    for (size_t i = 0; i < len; i++) {
        at += ((unsigned char)word[i] & 0xc0) != 0x80;
        if (at > room && (comma > 0 || plus > 0))
            break;
        if (word[i] == ',')
            comma = i + 1;
        else if (word[i] == '+')
            plus = i + 1;
    }
    if (at <= room || (comma == 0 && plus == 0))
        return len;
    return comma > 0 ? comma : plus;
}

/* The column of whole names becomes as wide as the widest that then fits. */
static int make_room(const struct pdl_table *t, int spare, int *widths)
{
    int c = t->whole - 1, before = widths[c];

    widths[c] = pdl_text_width(t->columns[c].title);
    for (int r = 0; r < t->nrows; r++) {
        int w = pdl_text_width(cell(t, r, c));

        if (w <= before + spare && w > widths[c])
            widths[c] = w;
    }
    return before - widths[c];
}

static void measure(const struct pdl_table *t, int width, int *widths)
{
    int total = GAP * (t->ncolumns - 1);

    for (int c = 0; c < t->ncolumns; c++) {
        widths[c] = pdl_text_width(t->columns[c].title);
        for (int r = 0; r < t->nrows; r++) {
            int w = pdl_text_width(cell(t, r, c));

            widths[c] = w > widths[c] ? w : widths[c];
        }
        total += widths[c];
    }
    if (width > 0 && total > width && t->whole > 0)
        total -= make_room(t, width - total, widths);
    while (width > 0 && total > width) {
        int widest = -1;

        for (int c = 0; c < t->ncolumns; c++)
            if (!t->columns[c].right && widths[c] > MIN_WIDTH &&
                (widest < 0 || widths[c] > widths[widest]))
                widest = c;
        if (widest < 0)
            return;
        widths[widest]--;
        total--;
    }
}

/* A name on lines of its own, then blanks up to the next column. */
static void put_whole(struct pdl_sink *out, const char *s, int at, int width,
                      int column)
{
    while (*s) {
        size_t n = base_break(s, strlen(s), width - at);

        pdl_put(out, s, n);
        pdl_puts(out, "\n");
        s += n;
        put_repeat(out, " ", *s ? at : 0);
    }
    put_repeat(out, " ", at + column);
}

static void print_row(const struct pdl_table *t, int r, int width,
                      const int *widths, struct pdl_sink *out)
{
    int last = t->ncolumns - 1, at = 0;

    while (last > 0 && !*cell(t, r, last)) /* no blanks at the end */
        last--;
    for (int c = 0; c <= last; c++) {
        const char *s = cell(t, r, c);

        if (c == t->whole - 1 && pdl_text_width(s) > widths[c] && c < last)
            put_whole(out, s, at, width, widths[c]);
        else
            put_cell(out, s, widths[c], t->columns[c].right, c == last);
        put_repeat(out, " ", c < last ? GAP : 0);
        at += widths[c] + GAP;
    }
    pdl_puts(out, "\n");
}

void pdl_table_print(const struct pdl_table *t, int width, struct pdl_sink *out)
{
    int widths[MAX_COLUMNS] = {0};
    bool titles = false;

    if (t->ncolumns > MAX_COLUMNS)
        return;
    measure(t, width, widths);
    for (int c = 0; c < t->ncolumns; c++)
        titles = titles || *t->columns[c].title;
    for (int r = titles ? -1 : 0; r < t->nrows; r++)
        print_row(t, r, width, widths, out);
}
