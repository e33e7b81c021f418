/* Writes one random chain of the karma room as an integer program, and our
 * answer as its first comment; tests/peers/karma_cbc.sh gives both to CBC. A
 * binary variable for each choice of a block, one a group; the times of the step are continuous
 * bound from below by what they wait for, as paradl/karma.h says; nothing is
 * taken from the solver. SEED BLOCKS GROUPS; "none": nothing fits. */
#include "../karma/karma_random.h"

#include <stdio.h>

static const struct pdl_karma *k;

static const struct pdl_karma_left *left_by(int i, int c)
{
    return &k->block[i].left[pdl_karma_again((enum pdl_karma_choice)c)];
}

static bool moves(int c)
{
    return c == PDL_KARMA_SWAP || c == PDL_KARMA_BOTH || c == PDL_KARMA_REST;
}

/* + f x(i, c) of bytes over a rate, of choices that move */
static void copied(int i, double by)
{
    for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
        if (moves(c))
            printf(" %+.17g x%d_%d", by * (double)left_by(i, c)->bytes, i, c);
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
        printf(" g%d - s%d", i, i);
        for (int c = 1; c < PDL_KARMA_NCHOICES; c++)
            printf(" - %.17g x%d_%d", left_by(i, c)->again_s, i, c);
        printf(" >= %.17g\n", k->block[i].backward_s);
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
            int64_t room = k->capacity - k->fixed_bytes - passing(at, back);

            for (int i = 0; i < at; i++) {
                for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
                    if (!moves(c) || at - i <= d)
                        printf(" + %lld x%d_%d",
                               (long long)left_by(i, c)->bytes, i, c);
            }
            for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
                printf(" + %lld x%d_%d",
                       (long long)(back ? left_by(at, c)->backward_bytes
                                        : left_by(at, c)->forward_bytes),
                       at, c);
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
        for (int c = 0; c < PDL_KARMA_NCHOICES; c++)
            printf(" + x%d_%d", i, c);
        printf(" = 1\n");
        for (int c = 1; c < PDL_KARMA_NCHOICES; c++)
            if (!(k->block[i].may >> c & 1) ||
                (i == k->nblocks - 1 && moves(c)))
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
        for (int x = 0; x < PDL_KARMA_NCHOICES; x++)
            printf(" x%d_%d%s", i, x, x + 1 < PDL_KARMA_NCHOICES ? "" : "\n");
    for (int g = 0; g < k->ngroups; g++)
        printf(" h%d\n", g);
    printf("End\n");
    pdl_arena_destroy(a);
    return 0;
}
