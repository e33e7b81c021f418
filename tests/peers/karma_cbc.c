/* Writes one random chain of the karma room as an integer program, and our
 * answer as its first comment; tests/peers/karma_cbc.sh gives both to CBC. Four
 * binary variables a block, one a group; the times of the step are continuous
 * bound from below by what they wait for, as paradl/karma.h says; nothing is
 * taken from the solver. SEED BLOCKS GROUPS; "none": nothing fits. */
#include "../karma/karma_random.h"

#include <stdio.h>

static const struct pdl_karma *k;

/* + f x(i, swap) + f' x(i, both) of bytes over a rate */
static void copied(int i, double by)
{
    printf(" %+.17g x%d_2 %+.17g x%d_3", by * (double)k->block[i].whole_bytes,
           i, by * (double)k->block[i].input_bytes, i);
}

static double out_by(void)
{
    return -1 / k->out_bytes_per_s;
}

static double in_by(void)
{
    return -1 / k->in_bytes_per_s;
}

/* c: computing at the end of forward, before its copy is asked for; o: copies
 * out */
static void forward(int d)
{
    int n = k->nblocks;

    for (int i = 0; i < n; i++) {
        printf(" c%d", i);
        if (i > 0) {
            printf(" - c%d", i - 1);
            copied(i - 1, k->slow * out_by());
        }
        printf(" >= %.17g\n", k->block[i].forward_s);
        if (i >= d)
            printf(" c%d - o%d >= 0\n", i, i - d);
        printf(" o%d - c%d", i, i);
        copied(i, out_by());
        printf(" >= 0\n");
        if (i > 0) {
            printf(" o%d - o%d", i, i - 1);
            copied(i, out_by());
            printf(" >= 0\n");
        }
        printf(" t - o%d >= 0\n", i);
    }
    printf(" t - c%d", n - 1);
    copied(n - 1, k->slow * out_by());
    printf(" >= 0\n");
}

/* a copy in is asked for at time `when`; y: it is done */
static void ask(int i, const char *when, int at)
{
    printf(" y%d - %s%d", i, when, at);
    copied(i, in_by());
    printf(" >= 0\n");
    if (i + 1 < k->nblocks - 1) {
        printf(" y%d - y%d", i, i + 1);
        copied(i, in_by());
        printf(" >= 0\n");
    }
}

/* p: before the first block, after each copy that is asked for; b: computing
 * gets to backward of a block; s: it begins; g: it is done */
static void backward(int d)
{
    int n = k->nblocks, asked = 0;

    printf(" p0 - t >= 0\n");
    for (int i = n - 2; i > n - 1 - d && i >= 0; i--, asked++) {
        ask(i, "p", asked);
        printf(" p%d - p%d", asked + 1, asked);
        copied(i, k->slow * in_by());
        printf(" >= 0\n");
    }
    printf(" b%d - p%d >= 0\n", n - 1, asked);
    for (int i = n - 1; i >= 0; i--) {
        if (i < n - 1)
            printf(" b%d - g%d >= 0\n", i, i + 1);
        if (i - d >= 0)
            ask(i - d, "b", i);
        printf(" s%d - b%d", i, i);
        if (i - d >= 0)
            copied(i - d, k->slow * in_by());
        printf(" >= 0\n");
        if (i < n - 1)
            printf(" s%d - y%d >= 0\n", i, i);
        printf(" g%d - s%d - %.17g x%d_1 - %.17g x%d_3 >= %.17g\n", i, i,
               k->block[i].recompute_s, i, k->block[i].recompute_s, i,
               k->block[i].backward_s);
    }
}

/* The host's chain: go, gu, gw of groups on the host; the others after
 * backward. */
static void update(void)
{
    double device = 0;

    for (int g = 0; g < k->ngroups; g++) {
        const struct pdl_karma_group *x = &k->group[g];
        double out = (double)x->out_bytes / k->out_bytes_per_s;
        double in = (double)x->in_bytes / k->in_bytes_per_s;

        device += x->device_s;
        /* one that stays waits for nothing */
        printf(" go%d - g%d - %.17g h%d >= -1000\n", g, x->block, 1000 + out,
               g);
        printf(" gu%d - go%d - %.17g h%d >= 0\n", g, g, x->host_s, g);
        printf(" gw%d - gu%d - %.17g h%d >= 0\n", g, g, in, g);
        if (g > 0) {
            printf(" go%d - go%d - %.17g h%d >= 0\n", g, g - 1, out, g);
            printf(" gu%d - gu%d - %.17g h%d >= 0\n", g, g - 1, x->host_s, g);
            printf(" gw%d - gw%d - %.17g h%d >= 0\n", g, g - 1, in, g);
        } else if (k->nblocks > 1) {
            printf(" gw0 - y0 - %.17g h0 >= 0\n", in);
        }
        printf(" z - gw%d >= 0\n", g);
    }
    printf(" z - g0");
    for (int g = 0; g < k->ngroups; g++)
        printf(" + %.17g h%d", k->group[g].device_s, g);
    printf(" >= %.17g\n", device);
}

static int64_t passing(int i, bool back)
{
    int64_t n = 0;

    for (int s = 0; s < k->nskips; s++)
        if (i > k->skip[s].from && i < k->skip[s].to)
            n += back ? k->skip[s].backward_bytes : k->skip[s].forward_bytes;
    return n;
}

static void memory(int d)
{
    for (int at = 0; at < k->nblocks; at++)
        for (int back = 0; back < 2; back++) {
            const struct pdl_karma_block *b = &k->block[at];
            const int64_t *own = back ? b->backward_bytes : b->forward_bytes;
            int64_t room = k->capacity - k->fixed_bytes - passing(at, back);

            for (int i = 0; i < at; i++) {
                printf(" + %lld x%d_0 + %lld x%d_1",
                       (long long)k->block[i].whole_bytes, i,
                       (long long)k->block[i].input_bytes, i);
                if (at - i <= d)
                    copied(i, 1);
            }
            printf(" + %lld x%d_0 + %lld x%d_1 + %lld x%d_2 + %lld x%d_3",
                   (long long)own[0], at, (long long)own[1], at,
                   (long long)own[0], at, (long long)own[1], at);
            for (int g = 0; g < k->ngroups; g++) {
                room -= k->group[g].state_bytes;
                printf(" - %lld h%d", (long long)k->group[g].state_bytes, g);
            }
            printf(" <= %lld\n", (long long)room);
        }
    for (int i = 0; k->host_bytes > 0 && i < k->nblocks; i++)
        copied(i, 1);
    for (int g = 0; k->host_bytes > 0 && g < k->ngroups; g++)
        printf(" + %lld h%d",
               (long long)(k->group[g].state_bytes + k->group[g].out_bytes +
                           k->group[g].in_bytes),
               g);
    if (k->host_bytes > 0)
        printf(" <= %lld\n", (long long)k->host_bytes);
}

static void choices(void)
{
    for (int i = 0; i < k->nblocks; i++) {
        printf(" x%d_0 + x%d_1 + x%d_2 + x%d_3 = 1\n", i, i, i, i);
        for (int c = 1; c < 4; c++)
            if (!(k->block[i].may >> c & 1) ||
                (i == k->nblocks - 1 && c != PDL_KARMA_RECOMPUTE))
                printf(" x%d_%d <= 0\n", i, c);
    }
}

int main(int argc, char **argv)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct chain c;
    struct pdl_karma_plan p;
    int64_t seed, blocks, groups;

    if (argc != 4 || !a ||
        pdl_int_parse(argv[1], 0, 1 << 30, &seed, NULL) != PDL_OK ||
        pdl_int_parse(argv[2], 1, 12, &blocks, NULL) != PDL_OK ||
        pdl_int_parse(argv[3], 0, MOST_GROUPS, &groups, NULL) != PDL_OK)
        return 2;
    random_chain(&c, (uint64_t)seed, (int)blocks, (int)groups, -1);
    k = &c.k;
    if (pdl_karma_solve(a, k, &p, NULL) != PDL_OK)
        return 1;
    if (p.step.fits)
        printf("\\ %.12g %d\n", p.step.step_s, p.exact);
    else
        printf("\\ none 1\n");
    printf("Minimize\n obj: z\nSubject To\n");
    choices();
    forward(k->least_ahead);
    backward(k->least_ahead);
    update();
    memory(k->least_ahead);
    printf("Binary\n");
    for (int i = 0; i < k->nblocks; i++)
        printf(" x%d_0 x%d_1 x%d_2 x%d_3\n", i, i, i, i);
    for (int g = 0; g < k->ngroups; g++)
        printf(" h%d\n", g);
    printf("End\n");
    pdl_arena_destroy(a);
    return 0;
}
