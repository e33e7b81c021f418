/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG to pixels by libjpeg(-turbo), scaled: the library halves while it
 * decodes as long as the image stays large enough, the rest is bilinear. The
 * shorter side becomes `side`, of the longer one the middle is taken, which is
 * what evaluation of ImageNet does. Whatever is damaged is one line; what the
 * library only warns of (an end that is missing is filled with grey) is damage
 * here, too. */
#include "images.h"

#ifdef PDL_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h wants it */
#include <stdlib.h>

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

struct between {
    int64_t lo, hi;
    double part;
};

struct decoding {
    struct jpeg_decompress_struct j;
    struct failure failure;
    unsigned char *rgb;      /* of the scaled image */
    struct between *between; /* columns, then rows, of the result */
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

static void decode(struct decoding *d, struct pdl_bytes in)
{
    struct jpeg_decompress_struct *j = &d->j;
    JSAMPROW row;

    jpeg_create_decompress(j);
    jpeg_mem_src(j, (const unsigned char *)in.data, (unsigned long)in.len);
    jpeg_read_header(j, TRUE);
    if (j->image_width > MOST_SIDE || j->image_height > MOST_SIDE)
        give_up(&d->failure, "it is too large");
    j->scale_num = halvings(j, d->side);
    j->scale_denom = 8;
    j->out_color_space = JCS_RGB;
    jpeg_start_decompress(j);
    d->rgb = malloc((size_t)j->output_width * j->output_height * 3);
    d->between = malloc(2 * (size_t)d->side * sizeof *d->between);
    if (!d->rgb || !d->between)
        give_up(&d->failure, "out of memory");
    while (j->output_scanline < j->output_height) {
        row = d->rgb + (size_t)j->output_scanline * j->output_width * 3;
        jpeg_read_scanlines(j, &row, 1);
    }
    jpeg_finish_decompress(j);
}

/* Between which two pixels one of the result lies, and how far. */
static void between(int64_t n, int64_t least, int64_t side, struct between *b)
{
    double step = (double)least / (double)side;
    double first = ((double)n - step * (double)side) / 2;

    for (int64_t i = 0; i < side; i++) {
        double f = first + ((double)i + 0.5) * step - 0.5;
        int64_t at = f > 0 ? (int64_t)f : 0;

        b[i] = (struct between){at, at + 1 < n ? at + 1 : n - 1,
                                f > 0 ? f - (double)at : 0};
    }
}

/* To planes; pixel centres fall on pixel centres. */
static void scale(const struct decoding *d, unsigned char *out)
{
    int64_t w = d->j.output_width, h = d->j.output_height, side = d->side;
    struct between *across = d->between, *down = d->between + side;

    between(w, w < h ? w : h, side, across);
    between(h, w < h ? w : h, side, down);
    for (int64_t y = 0; y < side; y++)
        for (int c = 0; c < 3; c++) {
            const unsigned char *a = d->rgb + down[y].lo * w * 3 + c;
            const unsigned char *b = d->rgb + down[y].hi * w * 3 + c;
            unsigned char *to = out + (c * side + y) * side;
            double v = down[y].part;

            for (int64_t x = 0; x < side; x++) {
                struct between k = across[x];
                double p = a[3 * k.lo] * (1 - k.part) + a[3 * k.hi] * k.part;
                double q = b[3 * k.lo] * (1 - k.part) + b[3 * k.hi] * k.part;

                to[x] = (unsigned char)(p * (1 - v) + q * v + 0.5);
            }
        }
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
        decode(d, in);
        scale(d, planes);
    } else {
        st = pdl_fail(err, PDL_EPARSE, "%s: no whole JPEG image: %.100s", name,
                      d->failure.text);
    }
    jpeg_destroy_decompress(&d->j);
    free(d->rgb);
    free(d->between);
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
