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

struct decoding {
    struct jpeg_decompress_struct j;
    struct failure failure;
    unsigned char *rgb; /* of the scaled image */
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
    if (!d->rgb)
        give_up(&d->failure, "out of memory");
    while (j->output_scanline < j->output_height) {
        row = d->rgb + (size_t)j->output_scanline * j->output_width * 3;
        jpeg_read_scanlines(j, &row, 1);
    }
    jpeg_finish_decompress(j);
}

/* One plane; pixel centres fall on pixel centres. */
static void scale_plane(const struct decoding *d, int channel,
                        unsigned char *out)
{
    int64_t w = d->j.output_width, h = d->j.output_height, side = d->side;
    double step = (double)(w < h ? w : h) / (double)side;
    double left = ((double)w - step * (double)side) / 2;
    double top = ((double)h - step * (double)side) / 2;

    for (int64_t y = 0; y < side; y++) {
        double fy = top + ((double)y + 0.5) * step - 0.5;
        int64_t y0 = fy > 0 ? (int64_t)fy : 0;
        int64_t y1 = y0 + 1 < h ? y0 + 1 : h - 1;
        double v = fy > 0 ? fy - (double)y0 : 0;
        const unsigned char *a = d->rgb + y0 * w * 3 + channel;
        const unsigned char *b = d->rgb + y1 * w * 3 + channel;

        for (int64_t x = 0; x < side; x++) {
            double fx = left + ((double)x + 0.5) * step - 0.5;
            int64_t x0 = fx > 0 ? (int64_t)fx : 0;
            int64_t x1 = x0 + 1 < w ? x0 + 1 : w - 1;
            double u = fx > 0 ? fx - (double)x0 : 0;
            double p = a[3 * x0] * (1 - u) + a[3 * x1] * u;
            double q = b[3 * x0] * (1 - u) + b[3 * x1] * u;

            *out++ = (unsigned char)(p * (1 - v) + q * v + 0.5);
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
        for (int c = 0; c < 3; c++)
            scale_plane(d, c, planes + c * side * side);
    } else {
        st = pdl_fail(err, PDL_EPARSE, "%s: no whole JPEG image: %.100s", name,
                      d->failure.text);
    }
    jpeg_destroy_decompress(&d->j);
    free(d->rgb);
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
