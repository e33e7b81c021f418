/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks of so many hosts, by the ports of a switch: the families of the net
 * room in the shapes that people build. What a family refuses, or what needs
 * larger switches, is left out by who asks. Where packets may take any of the
 * shortest ways that is a network of its own. */
#include "tune_priv.h"

#include <stdio.h>
#include <string.h>

static void add(struct tune_specs *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct tune_specs *s, const char *format, ...)
{
    va_list args;

    if (s->n == TUNE_NETWORKS)
        return;
    va_start(args, format);
    vsnprintf(s->spec[s->n++], TUNE_SPEC, format, args);
    va_end(args);
}

/* The last one again, with adaptive routes. */
static void adaptive(struct tune_specs *s)
{
    if (s->n > 0)
        add(s, "%.*s,paths=adaptive", TUNE_SPEC - 16, s->spec[s->n - 1]);
}

static int log2_of(int n)
{
    int k = 0;

    while (1 << k < n)
        k++;
    return 1 << k == n ? k : -1;
}

/* ---- distributed loops -------------------------------------------------- */

static void loops(struct tune_specs *s, int hosts, int radix)
{
    int all = log2_of(hosts);

    for (int p = 2; p < all; p++) {
        if ((1 << p) + 2 * (all - p) - 1 > radix || 1 << (p + 2) < radix)
            continue;
        add(s, "dln:q=%d,p=%d", all - p, p);
        add(s, "dln:q=%d,p=%d,double=1", all - p, p);
    }
    for (int z = 2; z < all - 1; z++)
        for (int x = (all - z + 1) / 2; x <= all - z - 1 && 4 << z >= radix;
             x++) {
            add(s, "dln2d:x=%d,y=%d,z=%d", x, all - z - x, z);
            adaptive(s);
        }
    for (int t = radix / 4 > 1 ? radix / 4 : 1; t <= radix / 2; t++)
        for (int x = 2; x <= 8 && hosts % t == 0; x += 2)
            add(s, "dln-x:switches=%d,hosts=%d,x=%d", hosts / t, t, x);
}

/* ---- trees -------------------------------------------------------------- */

/* Two levels of a leaf of t hosts with so many cables up. */
static void two_levels(struct tune_specs *s, int hosts, int radix, int t)
{
    static const int ups[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48};

    if (hosts / t > radix)
        return;
    for (size_t i = 0; i < sizeof ups / sizeof ups[0]; i++) {
        if (ups[i] > t || t + ups[i] > radix)
            break;
        add(s, "fat-tree:down=%dx%d,up=1x%d", t, hosts / t, ups[i]);
        adaptive(s);
    }
}

/* Three, with half as many ways up from the second. */
static void three_levels(struct tune_specs *s, int hosts, int radix, int t)
{
    int leaves = hosts / t;

    for (int pods = 2; pods <= radix && pods * 2 <= leaves; pods *= 2)
        for (int up = 2; up <= t && leaves % pods == 0; up *= 2)
            if (t + up <= radix && leaves / pods + up / 2 <= radix)
                add(s, "fat-tree:down=%dx%dx%d,up=1x%dx%d", t, leaves / pods,
                    pods, up, up / 2);
}

static void trees(struct tune_specs *s, int hosts, int radix)
{
    if (hosts <= radix)
        add(s, "star:hosts=%d", hosts);
    for (int t = radix / 4 > 1 ? radix / 4 : 1; t < radix && t < hosts; t++)
        if (hosts % t == 0) {
            two_levels(s, hosts, radix, t);
            three_levels(s, hosts, radix, t);
        }
}

/* ---- grids -------------------------------------------------------------- */

/* Calls itself for all ways to write n as a product of growing sides. */
static void lines(struct tune_specs *s, int n, int least, int hosts, int ports,
                  int radix, const char *text)
{
    char more[64];

    if (n >= least && ports + n - 1 <= radix && n > 1) {
        add(s, "hyperx:%s%d,hosts=%d", text, n, hosts);
        adaptive(s);
        if (2 * (ports + n - 1) - hosts <= radix)
            add(s, "hyperx:%s%d,hosts=%d,cables=2", text, n, hosts);
    }
    for (int side = least; side * side <= n; side++)
        if (n % side == 0 && strlen(text) < 40) {
            snprintf(more, sizeof more, "%s%dx", text, side);
            lines(s, n / side, side, hosts, ports + side - 1, radix, more);
        }
}

static void hyperx(struct tune_specs *s, int hosts, int radix)
{
    for (int t = radix / 16 > 1 ? radix / 16 : 1; t <= radix / 2; t *= 2)
        if (hosts % t == 0 && hosts / t > 1)
            lines(s, hosts / t, 2, t, t, radix, "");
}

/* Sides as equal as may be, two to five of them. */
static void grids(struct tune_specs *s, int hosts)
{
    for (int dims = 2; dims <= 5; dims++) {
        char text[64] = "";
        int left = hosts, side = 0, least = hosts;

        for (int i = dims; i > 0; i--) {
            side = 1;
            for (int k = 1; k <= left; k++) {
                double power = 1;

                for (int d = 0; d < i; d++)
                    power *= k;
                if (power > left * 1.0000001)
                    break;
                side = left % k == 0 ? k : side;
            }
            side = i == 1 ? left : side;
            left /= side;
            least = side < least ? side : least;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d",
                     i == dims ? "" : "x", side);
        }
        if (least < 2)
            continue;
        add(s, "torus:%s", text);
        add(s, "mesh:%s", text);
        if (dims == 2)
            add(s, "full2d:%s", text);
    }
}

/* Boards of 2x2 and 4x4, a switch for each line of the board of boards. */
static void boards(struct tune_specs *s, int hosts, int radix)
{
    for (int b = 2; b <= 4; b += 2) {
        int n = hosts / (b * b), side = 1;

        for (int k = 1; k * k <= n; k++)
            side = n % k == 0 ? k : side;
        if (hosts % (b * b) != 0 || n < 2 || 2 * n / side > radix)
            continue;
        add(s, "hammingmesh:%dx%d,board=%dx%d", n / side, side, b, b);
        adaptive(s);
    }
}

/* ---- others ------------------------------------------------------------- */

static void groups(struct tune_specs *s, int hosts, int radix)
{
    for (int t = radix / 8 > 1 ? radix / 8 : 1; t <= radix / 2; t *= 2)
        for (int r = 4; r <= radix / 2 && hosts % (t * r) == 0; r *= 2)
            if (hosts / t / r > 1 && hosts / t / r <= 4 * r)
                add(s,
                    "dragonfly:groups=%d,chassis=1,routers=%d,nodes=%d,"
                    "routing=minimal",
                    hosts / t / r, r, t);
}

static void random_ones(struct tune_specs *s, int hosts, int radix)
{
    for (int t = radix / 4 > 1 ? radix / 4 : 1; t <= radix / 2; t *= 2)
        for (int degree = 6; degree <= 12 && hosts % t == 0; degree += 3)
            if (t + degree <= radix && degree < hosts / t)
                add(s, "random:switches=%d,degree=%d,hosts=%d", hosts / t,
                    degree, t);
}

void tune_candidates(int hosts, int radix, struct tune_specs *out)
{
    int d = 1;

    out->n = 0;
    trees(out, hosts, radix);
    loops(out, hosts, radix);
    hyperx(out, hosts, radix);
    groups(out, hosts, radix);
    random_ones(out, hosts, radix);
    grids(out, hosts);
    boards(out, hosts, radix);
    while (d * (d + 1) < hosts)
        d++;
    add(out, "kautz:d=%d", d);
}
