/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a convolution whose groups have few channels each.
 *
 * Depthwise (one channel a group): cuDNN's kernels for it (conv2d_c1_k1 and its
 * two gradients) do a fixed number of products a second on the vector units,
 * whatever the kernel's size: forward 14 TFLOP/s in 16 bits and 7.6 in 32; the
 * gradient of the data 5.6, and it visits every tap of every input, also those
 * that the stride skips; or they stream, forward at 0.71 (16 bits) and 0.9 of
 * the memory's rate, gradients of the weights, with a kernel that adds up parts,
 * at half of it. In 32 bits there is none for the gradient of the weights of
 * kernels above 5x5: what runs instead reaches 0.6 TFLOP/s.
 *
 * Other groups: kernels for matrix units take BLOCK bytes of channels at a time
 * however few the group has, and the gradient of the data visits every tap, too;
 * in 32 bits that of the weights converts its operands in passes of their own.
 *
 * From MobileNetV2 and ResNeXt-50 profiled on an H200 (PyTorch 2.11, channels
 * last) and from layers of 3x3, 5x5 and 7x7 timed alone there; rates are parts
 * of what the vector or matrix units sustain, so that they follow another PE,
 * where nothing has tested them. Without matrix units, and for processor cores,
 * groups are taken as bound by memory and by the vector units. */
#include "oracle_priv.h"

enum { BLOCK = 128, LARGEST = 25 };

/* Parts of the vector units' rate and of the streaming rate by pass: 16 bits, 32
 * bits. */
static const double DEPTHWISE[2][3] = {{.21, .084, .30}, {.113, .084, .12}};
static const double STREAMS[2][3] = {{.71, .71, .48}, {.9, .9, .7}};
static const double FALLBACK = .009;
/* Part of the matrix units' rate of other groups. */
static const double BLOCKED[2][3] = {{.46, .42, .43}, {.32, .30, .08}};

struct grouped {
    double x, y, taps, channels, groups; /* elements; a group's channels */
    bool depthwise;
};

static struct grouped read_shape(const struct pdl_shape *s)
{
    struct grouped g = {.x = (double)s->n * (double)s->c,
                        .y = (double)s->n * (double)s->f,
                        .taps = 1,
                        .groups = (double)s->groups};
    double c = (double)s->c / g.groups, f = (double)s->f / g.groups;

    for (int d = 0; d < s->nspatial; d++) {
        g.x *= (double)s->in[d];
        g.y *= (double)s->out[d];
        g.taps *= (double)s->kernel[d];
    }
    g.channels = c > f ? c : f;
    g.depthwise = c <= 1 && f <= 1;
    return g;
}

bool oracle_is_grouped(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    double few = pe->vector || pe->core ? 16 : BLOCK / pe->item_bytes;

    return s->groups > 1 && ((double)s->c < few * (double)s->groups ||
                             (double)s->f < few * (double)s->groups);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double depthwise(const struct oracle_pe *pe, const struct grouped *g,
                        enum pdl_pass pass)
{
    int wide = pe->item_bytes > 2;
    double part = DEPTHWISE[wide][pass];
    double outputs = pass == PDL_BACKWARD_DATA ? g->x : g->y;
    bool weights = pass == PDL_BACKWARD_WEIGHTS;

    if (weights && wide && g->taps > LARGEST)
        part = FALLBACK;
    return (weights ? 5 : 1) * pe->launch_s +
           larger(2 * outputs * g->taps / (pe->vector_rate * part),
                  pe->item_bytes * (g->x + g->y) /
                      (pe->bytes_per_s * STREAMS[wide][pass]));
}

static double blocked(const struct oracle_pe *pe, const struct grouped *g,
                      enum pdl_pass pass)
{
    double channels = larger(g->channels, BLOCK / pe->item_bytes);
    double outputs = pass == PDL_BACKWARD_DATA ? g->x : g->y;

    return pe->launch_s +
           larger(2 * outputs * g->taps * channels /
                      (pe->rate * BLOCKED[pe->item_bytes > 2][pass]),
                  pe->item_bytes * (g->x + g->y) / pe->bytes_per_s);
}

double oracle_grouped(const struct oracle_pe *pe, const struct pdl_shape *s)
{
    struct grouped g = read_shape(s);

    if (pe->core || (pe->vector && !g.depthwise))
        return pe->launch_s +
               larger(
                   2 * g.y * g.taps * (double)s->c / g.groups / pe->vector_rate,
                   pe->item_bytes * (g.x + g.y) / pe->bytes_per_s);
    return g.depthwise ? depthwise(pe, &g, s->pass) : blocked(pe, &g, s->pass);
}
