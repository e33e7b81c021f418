/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG to pixels by libjpeg(-turbo), scaled: the library halves while it
 * decodes as long as the image stays large enough, the rest is bilinear. The
 * shorter side becomes `side`, of the longer one the middle is taken, which is
 * what evaluation of ImageNet does. Rows are scaled as they come. Whatever is
 * damaged is one line; what the library only warns of (an end that is missing
 * is filled with grey) is damage here, too. */
#include "images.h"

#ifdef PDL_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h wants it */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { MOST_SIDE = 1 << 14 };

struct failure {
    struct jpeg_error_mgr mgr;
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr c)
{
    struct failure *f = (struct failure *)c->err;

    f->mgr.format_message(c, f->text);
    longjmp(f->jump, 1);
}

static void on_message(j_common_ptr c, int level)
{
    if (level < 0)
        on_error(c);
}

static void give_up(struct failure *f, const char *why)
{
    snprintf(f->text, sizeof f->text, "%s", why);
    longjmp(f->jump, 1);
}

/* Loops over all pixels are compiled for two instruction sets, of which the
 * processor's better one is taken when the program is loaded. ThreadSanitizer
 * cannot be called as early as the choice is made. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TARGETS __attribute__((target_clones("avx2", "default")))
#else
#define TARGETS
#endif

enum { ONE_BITS = 11, ONE = 1 << ONE_BITS }; /* parts of a pixel */

/* Between which two pixels each of the result lies, and how far. */
struct between {
    int32_t *lo, *hi, *part;
};

struct decoding {
    struct jpeg_decompress_struct j;
    struct failure failure;
    unsigned char *row[2]; /* of the scaled image: the last ones, in turn */
    int32_t *mixed;        /* two of them */
    int32_t *picked;       /* of these what the result has */
    struct between across, down;
    void *room; /* of all these */
    int64_t side;
};

/* The most halving that leaves `side` pixels on the shorter side. */
static unsigned halvings(const struct jpeg_decompress_struct *j, int64_t side)
{
    int64_t least =
        j->image_width < j->image_height ? j->image_width : j->image_height;
    unsigned n = 8;

    while (n > 1 && least * (int64_t)(n / 2) / 8 >= side)
        n /= 2;
    return n;
}

static void start(struct decoding *d, struct pdl_bytes in)
{
    struct jpeg_decompress_struct *j = &d->j;

    jpeg_create_decompress(j);
    jpeg_mem_src(j, (const unsigned char *)in.data, (unsigned long)in.len);
    jpeg_read_header(j, TRUE);
    if (j->image_width > MOST_SIDE || j->image_height > MOST_SIDE)
        give_up(&d->failure, "it is too large");
    j->scale_num = halvings(j, d->side);
    j->scale_denom = 8;
    j->out_color_space =
        j->num_components == 4 ? JCS_CMYK : JCS_RGB; /* inks: to_rgb */
    jpeg_start_decompress(j);
}

/* Little enough for memory that is used again and again. */
static void make_room(struct decoding *d)
{
    size_t w = d->j.output_width, side = (size_t)d->side, mixed = 3 * w + 1;
    size_t row = w * (size_t)d->j.output_components;
    int32_t *at = calloc((10 * side + mixed) * sizeof *at + 2 * row, 1);

    d->room = at;
    if (!at)
        give_up(&d->failure, "out of memory");
    d->across = (struct between){at, at + side, at + 2 * side};
    at += 3 * side;
    d->down = (struct between){at, at + side, at + 2 * side};
    d->picked = at + 3 * side;
    d->mixed = d->picked + 4 * side;
    d->row[0] = (unsigned char *)(d->mixed + mixed);
    d->row[1] = d->row[0] + row;
}

/* Pixel centres fall on pixel centres; of n pixels the middle is taken. */
static void between(int64_t n, int64_t least, int64_t side,
                    const struct between *b)
{
    double step = (double)least / (double)side;
    double first = ((double)n - step * (double)side) / 2;

    for (int64_t i = 0; i < side; i++) {
        double f = first + ((double)i + 0.5) * step - 0.5;
        int32_t at = f > 0 ? (int32_t)f : 0;

        b->lo[i] = at;
        b->hi[i] = at + 1 < n ? at + 1 : (int32_t)n - 1;
        b->part[i] = f > 0 ? (int32_t)((f - at) * ONE + 0.5) : 0;
    }
}

/* In place, as Pillow has it. Adobe's programs write how much of an ink is
 * missing. */
static void to_rgb(unsigned char *row, int64_t n, bool adobe)
{
    unsigned flip = adobe ? 0 : 255;

    for (int64_t i = 0; i < n; i++) {
        unsigned k = row[4 * i + 3] ^ flip;

        for (int64_t c = 0; c < 3; c++)
            row[3 * i + c] =
                (unsigned char)(((row[4 * i + c] ^ flip) * k + 127) / 255);
    }
}

/* All rows to this one: it and the one before it stay. */
static void read_to(struct decoding *d, int64_t row)
{
    struct jpeg_decompress_struct *j = &d->j;

    while (j->output_scanline <= (JDIMENSION)row) {
        unsigned char *to = d->row[j->output_scanline % 2];

        jpeg_read_scanlines(j, &to, 1);
        if (j->output_components == 4)
            to_rgb(to, j->output_width, j->saw_Adobe_marker);
    }
}

/* Two rows as one: n bytes. */
TARGETS static void mix(const unsigned char *restrict a,
                        const unsigned char *restrict b, int32_t part,
                        int64_t n, int32_t *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] * ONE + (b[i] - a[i]) * part;
}

/* The result's pixels of a mixed row, four numbers each: vectors have no
 * three, and the fourth is anything. */
TARGETS static void pick(const int32_t *restrict from, const struct between *k,
                         int64_t side, int32_t *restrict to)
{
    typedef uint32_t four __attribute__((vector_size(16)));

    for (int64_t x = 0; x < side; x++) {
        uint32_t part = (uint32_t)k->part[x];
        four a, b;

        memcpy(&a, from + (int64_t)3 * k->lo[x], sizeof a);
        memcpy(&b, from + (int64_t)3 * k->hi[x], sizeof b);
        a = (a * ONE + (b - a) * part + (ONE * ONE / 2)) >> 2 * ONE_BITS;
        memcpy(to + 4 * x, &a, sizeof a);
    }
}

TARGETS static void separate(const int32_t *restrict from, int64_t side,
                             unsigned char *restrict out)
{
    for (int64_t x = 0; x < side; x++)
        out[x] = (unsigned char)from[4 * x];
}

/* To planes. */
static void scale(struct decoding *d, unsigned char *out)
{
    int64_t w = d->j.output_width, h = d->j.output_height, side = d->side;
    const struct between *down = &d->down;
    int64_t first, end;

    between(w, w < h ? w : h, side, &d->across);
    between(h, w < h ? w : h, side, down);
    first = 3 * (int64_t)d->across.lo[0];
    end = 3 * (int64_t)d->across.hi[side - 1] + 3;
    for (int64_t y = 0; y < side; y++) {
        read_to(d, down->hi[y]);
        mix(d->row[down->lo[y] % 2] + first, d->row[down->hi[y] % 2] + first,
            down->part[y], end - first, d->mixed + first);
        pick(d->mixed, &d->across, side, d->picked);
        for (int64_t c = 0; c < 3; c++)
            separate(d->picked + c, side, out + (c * side + y) * side);
    }
    read_to(d, h - 1); /* what is damaged may be there */
    jpeg_finish_decompress(&d->j);
}

enum pdl_status io_jpeg_decode(struct pdl_bytes in, const char *name,
                               int64_t side, unsigned char *planes,
                               struct pdl_err *err)
{
    struct decoding *d = calloc(1, sizeof *d);
    volatile enum pdl_status st = PDL_OK; /* longjmp comes back here */

    if (!d)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    d->side = side;
    d->j.err = jpeg_std_error(&d->failure.mgr);
    d->failure.mgr.error_exit = on_error;
    d->failure.mgr.emit_message = on_message;
    if (setjmp(d->failure.jump) == 0) {
        start(d, in);
        make_room(d);
        scale(d, planes);
    } else {
        st = pdl_fail(err, PDL_EPARSE, "%s: no whole JPEG image: %.100s", name,
                      d->failure.text);
        if (in.len > 4 && memcmp(in.data, "\x89PNG", 4) == 0)
            pdl_hint(err, "it is a PNG: write it as JPEG");
    }
    jpeg_destroy_decompress(&d->j);
    free(d->room);
    free(d);
    return st;
}

#else

enum pdl_status io_jpeg_decode(struct pdl_bytes in, const char *name,
                               int64_t side, unsigned char *planes,
                               struct pdl_err *err)
{
    (void)in;
    (void)side;
    (void)planes;
    pdl_fail(err, PDL_ENOENV, "%s: this program was built without libjpeg",
             name);
    pdl_hint(err, "install libjpeg-dev and build again");
    return PDL_ENOENV;
}

#endif
