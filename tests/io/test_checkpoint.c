/* Checkpoints: what was saved comes back on any number of ranks; a process
 * that dies anywhere in between leaves the old one or the new one; a damaged
 * one is seen and the one before is used. */
#include "ckpt_priv.h"
#include "fixtures.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- tensors of a run, as functions of step and element ---- */

static const struct {
    const char *name;
    enum pdl_dtype dtype;
    int rank;
    int64_t dim[3];
    int cut; /* the dimension ranks share out, -1: replicated */
} tensors[] = {
    {"conv1.weight", PDL_F32, 3, {8, 3, 9}, 0},
    {"conv1.bias", PDL_F32, 1, {8}, -1},
    {"fc.weight", PDL_BF16, 2, {13, 70}, 1},
    {"fc.momentum", PDL_F64, 2, {13, 70}, 0},
    {"mask \"odd\" name", PDL_U8, 1, {11}, 0},
    {"scale", PDL_F32, 0, {0}, -1},
};
enum { NT = sizeof tensors / sizeof tensors[0], MAX_RANKS = 8 };

static unsigned char byte_of(int64_t step, int t, int64_t i)
{
    return (
        unsigned char)(pdl_philox(77, (uint64_t)(step * NT + t), (uint64_t)i)
                           .v[0]);
}

static int64_t width(int t)
{
    return pdl_dtype_bits(tensors[t].dtype) / 8;
}

static struct pdl_box box_of(int t, int rank, int nranks)
{
    struct pdl_box b = {.ndims = tensors[t].rank};
    int c = tensors[t].cut;

    memcpy(b.hi, tensors[t].dim, sizeof tensors[t].dim);
    if (c >= 0) {
        int64_t n = b.hi[c];

        b.lo[c] = n * rank / nranks;
        b.hi[c] = n * (rank + 1) / nranks;
    }
    return b;
}

/* The elements of a box as they must be. */
static void fill(int64_t step, int t, const struct pdl_box *b,
                 unsigned char *dst)
{
    int64_t at[PDL_BOX_DIMS] = {0};
    int d;

    if (pdl_box_empty(b))
        return;
    memcpy(at, b->lo, sizeof at);
    do {
        int64_t i = 0;

        for (d = 0; d < b->ndims; d++)
            i = i * tensors[t].dim[d] + at[d];
        for (int64_t k = 0; k < width(t); k++)
            *dst++ = byte_of(step, t, i * width(t) + k);
        for (d = b->ndims - 1; d >= 0 && ++at[d] == b->hi[d]; d--)
            at[d] = b->lo[d];
    } while (d >= 0);
}

static unsigned char store[MAX_RANKS][NT][8192];

/* The shards one rank writes. */
static int shards_of(int64_t step, int rank, int nranks, struct pdl_shard *out)
{
    struct pdl_box boxes[MAX_RANKS];
    int n = 0;

    for (int t = 0; t < NT; t++) {
        for (int r = 0; r < nranks; r++)
            boxes[r] = box_of(t, r, nranks);
        if (!pdl_ckpt_owns(boxes, nranks, rank))
            continue;
        fill(step, t, &boxes[rank], store[rank][t]);
        out[n] = (struct pdl_shard){tensors[t].name, tensors[t].dtype,
                                    tensors[t].rank, {0},
                                    boxes[rank],     store[rank][t]};
        memcpy(out[n].dim, tensors[t].dim, sizeof tensors[t].dim);
        n++;
    }
    return n;
}

static struct pdl_ckpt_state state_of(int64_t step)
{
    static const struct pdl_scalar scalars[] = {{"loss_scale", 1024},
                                                {"best", 0.1}};

    return (struct pdl_ckpt_state){
        .step = step,
        .epoch = step / 10,
        .batch = step % 10,
        .seed = 0xfedcba9876543210u,
        .samples = 1438,
        .model = "lenet",
        .strategy = "data=2,filter=2",
        .optimizer = "sgd \"nesterov\"",
        .data = "digits",
        .loss = 1.0 / 3,
        .nscalars = 2,
        .scalars = scalars,
    };
}

static char run_dir[128]; /* outlives the names of fixtures.h */

static struct pdl_ckpt_writer writer(int rank, int nranks)
{
    return (struct pdl_ckpt_writer){
        .dir = run_dir,
        .rank = rank,
        .nranks = nranks,
        .run = 5,
        .timeout_s = 5,
        .chunk_bytes = 256, /* several chunks a shard */
    };
}

static enum pdl_status save_all(struct pdl_ckpt_writer w, int64_t step,
                                struct pdl_err *err)
{
    struct pdl_ckpt_state s = state_of(step);
    struct pdl_shard shard[NT];
    enum pdl_status st = PDL_OK;

    for (int r = w.nranks - 1; r >= 0 && st == PDL_OK; r--) {
        int n = shards_of(step, r, w.nranks, shard);

        w.rank = r;
        st = pdl_ckpt_part(&w, &s, shard, n, err);
    }
    return st == PDL_OK ? pdl_ckpt_commit(&w, &s, err) : st;
}

static void save(int64_t step, int nranks)
{
    struct pdl_err err = {"", ""};

    if (save_all(writer(0, nranks), step, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

/* True when a checkpoint holds exactly what step has, read by `nranks`. */
static bool holds(const pdl_ckpt *c, int64_t step, int nranks)
{
    unsigned char want[8192], got[8192];

    if (pdl_ckpt_count(c) != NT || pdl_ckpt_state(c)->step != step)
        return false;
    for (int t = 0; t < NT; t++)
        for (int r = 0; r < nranks; r++) {
            struct pdl_box b = box_of(t, r, nranks);
            size_t n = (size_t)(pdl_box_volume(&b) * width(t));
            int i = pdl_ckpt_find(c, tensors[t].name);

            memset(got, 0xee, sizeof got);
            fill(step, t, &b, want);
            if (i < 0 || pdl_ckpt_read(c, i, &b, got, NULL) != PDL_OK ||
                memcmp(want, got, n) != 0 || got[n] != 0xee)
                return false;
        }
    return true;
}

static pdl_ckpt *latest(bool deep, struct pdl_buf *notes)
{
    struct pdl_err err = {"", ""};
    pdl_ckpt *c = NULL;

    if (pdl_ckpt_latest(fx("run"), INT64_MAX, deep, &c,
                        notes ? &notes->sink : NULL, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return c;
}

static int begin(void **state)
{
    (void)state;
    fx_begin();
    snprintf(run_dir, sizeof run_dir, "%s/run", fx_dir);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

/* ---- what was saved comes back ---- */

static void any_number_of_ranks_reads_what_any_other_wrote(void **state)
{
    static const int path[] = {4, 2, 3, 7, 1, 5};

    (void)state;
    for (int i = 0; i < 6; i++) {
        pdl_ckpt *c;

        save(i, path[i]);
        c = latest(true, NULL);
        for (int p = 1; p <= MAX_RANKS; p++)
            assert_true(holds(c, i, p));
        assert_false(holds(c, i + 1, 1)); /* the comparison can say no */
        pdl_ckpt_close(c);
    }
}

static void any_box_is_read(void **state)
{
    struct pdl_rng rng = {.key = 6};
    pdl_ckpt *c;

    (void)state;
    save(3, 4);
    c = latest(false, NULL);
    for (int k = 0; k < 2000; k++) {
        int t = (int)pdl_rng_below(&rng, NT);
        struct pdl_box b = {.ndims = tensors[t].rank};
        unsigned char want[8192], got[8192];

        for (int d = 0; d < b.ndims; d++) {
            uint64_t n = (uint64_t)tensors[t].dim[d] + 1;
            int64_t x = (int64_t)pdl_rng_below(&rng, n);
            int64_t y = (int64_t)pdl_rng_below(&rng, n);

            b.lo[d] = x < y ? x : y;
            b.hi[d] = x < y ? y : x;
        }
        fill(3, t, &b, want);
        assert_int_equal(
            pdl_ckpt_read(c, pdl_ckpt_find(c, tensors[t].name), &b, got, NULL),
            PDL_OK);
        assert_memory_equal(want, got, (size_t)(pdl_box_volume(&b) * width(t)));
    }
    pdl_ckpt_close(c);
}

static void the_state_comes_back(void **state)
{
    struct pdl_ckpt_state want = state_of(4);
    const struct pdl_ckpt_state *got;
    pdl_ckpt *c;

    (void)state;
    save(4, 2);
    c = latest(false, NULL);
    got = pdl_ckpt_state(c);
    assert_true(got->step == 4 && got->epoch == 0 && got->batch == 4);
    assert_true(got->seed == want.seed && got->samples == 1438);
    assert_true(got->loss == want.loss && got->nranks == 2);
    assert_string_equal(got->model, want.model);
    assert_string_equal(got->strategy, want.strategy);
    assert_string_equal(got->optimizer, want.optimizer);
    assert_string_equal(got->data, want.data);
    assert_int_equal(got->nscalars, 2);
    assert_string_equal(got->scalars[1].name, "best");
    assert_true(got->scalars[1].value == 0.1);
    assert_int_equal(pdl_ckpt_find(c, "conv"), -1);
    assert_int_equal(
        pdl_ckpt_read(c, 0, &(struct pdl_box){.ndims = 7}, NULL, NULL),
        PDL_EINVAL);
    pdl_ckpt_close(c);
}

static void replicas_are_written_once_by_the_lowest(void **state)
{
    struct pdl_box b[4] = {
        {1, {0}, {4}}, {1, {0}, {4}}, {1, {4}, {8}}, {1, {8}, {8}}};

    (void)state;
    assert_true(pdl_ckpt_owns(b, 4, 0));
    assert_false(pdl_ckpt_owns(b, 4, 1)); /* the same box */
    assert_true(pdl_ckpt_owns(b, 4, 2));
    assert_false(pdl_ckpt_owns(b, 4, 3)); /* empty */
}

static void a_folder_without_checkpoints_is_no_error(void **state)
{
    pdl_ckpt *c = (pdl_ckpt *)&state;

    (void)state;
    assert_int_equal(
        pdl_ckpt_latest(fx("none"), INT64_MAX, true, &c, NULL, NULL), PDL_OK);
    assert_null(c);
}

/* ---- parts that do not fit ---- */

static void a_missing_part_is_waited_for_and_then_an_error(void **state)
{
    struct pdl_ckpt_writer w = writer(1, 2);
    struct pdl_ckpt_state s = state_of(9);
    struct pdl_shard shard[NT];
    struct pdl_err err = {"", ""};
    int n = shards_of(9, 1, 2, shard);

    (void)state;
    w.timeout_s = 0.05;
    assert_int_equal(pdl_ckpt_part(&w, &s, shard, n, &err), PDL_OK);
    w.rank = 0;
    assert_int_equal(pdl_ckpt_commit(&w, &s, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "no part of rank 0"));
    n = shards_of(9, 0, 2, shard);
    w.run = 6; /* a new start: rank 1's part is of the dead one */
    assert_int_equal(pdl_ckpt_part(&w, &s, shard, n, &err), PDL_OK);
    assert_int_equal(pdl_ckpt_commit(&w, &s, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "no part of rank 1"));
    assert_int_equal(save_all(writer(0, 2), 9, &err), PDL_OK);
}

static void shards_that_leave_a_hole_are_refused(void **state)
{
    struct pdl_ckpt_writer w = writer(0, 1);
    struct pdl_ckpt_state s = state_of(9);
    struct pdl_shard shard[NT];
    struct pdl_err err = {"", ""};
    pdl_ckpt *c = NULL;
    int n = shards_of(9, 0, 1, shard);

    (void)state;
    shard[2].box.hi[1]--;
    assert_int_equal(pdl_ckpt_part(&w, &s, shard, n, &err), PDL_OK);
    assert_int_equal(pdl_ckpt_commit(&w, &s, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "not the whole"));
    assert_int_equal(
        pdl_ckpt_latest(fx("run"), INT64_MAX, true, &c, NULL, NULL), PDL_OK);
    assert_null(c);
    shard[2].box.hi[1] += 2;
    assert_int_equal(pdl_ckpt_part(&w, &s, shard, n, &err), PDL_EINVAL);
}

/* Boxes tile a whole exactly when a count of every element says so. */
static void tiling_is_what_counting_says(void **state)
{
    struct pdl_rng rng = {.key = 8};
    int yes = 0, no = 0;

    (void)state;
    for (int k = 0; k < 20000; k++) {
        int64_t dim[2] = {1 + (int64_t)pdl_rng_below(&rng, 3),
                          1 + (int64_t)pdl_rng_below(&rng, 3)};
        int n = 1 + (int)pdl_rng_below(&rng, 4), count[9] = {0};
        struct io_shard s[4];
        bool want = true;

        memset(s, 0, sizeof s);
        for (int i = 0; i < n; i++) {
            s[i].box.ndims = 2;
            for (int d = 0; d < 2; d++) {
                int64_t x = (int64_t)pdl_rng_below(&rng, (uint64_t)dim[d] + 1);
                int64_t y = (int64_t)pdl_rng_below(&rng, (uint64_t)dim[d] + 1);

                s[i].box.lo[d] = x < y ? x : y;
                s[i].box.hi[d] = x < y ? y : x;
            }
            for (int64_t y = s[i].box.lo[0]; y < s[i].box.hi[0]; y++)
                for (int64_t x = s[i].box.lo[1]; x < s[i].box.hi[1]; x++)
                    count[y * 3 + x]++;
        }
        for (int64_t y = 0; y < dim[0]; y++)
            for (int64_t x = 0; x < dim[1]; x++)
                want &= count[y * 3 + x] == 1;
        assert_true(io_tiles(s, n, dim, 2) == want);
        yes += want;
        no += !want;
    }
    assert_true(yes > 200 && no > 200);
}

/* ---- kill -9 ---- */

struct killer {
    int left;
};

static void maybe_die(void *ctx, enum pdl_ckpt_phase p)
{
    struct killer *k = ctx;

    (void)p;
    if (--k->left == 0)
        raise(SIGKILL);
}

/* Saves step 2 in a child that dies at the n-th moment; true when it died. */
static bool save_and_die(int n, bool background)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct killer k = {n};
        struct pdl_ckpt_writer w = writer(0, background ? 1 : 3);
        struct pdl_ckpt_state s = state_of(2);
        struct pdl_shard shard[NT];
        pdl_saver *saver = NULL;

        w.at = maybe_die;
        w.ctx = &k;
        w.keep = 2;
        if (!background)
            _exit(save_all(w, 2, NULL) != PDL_OK);
        if (pdl_saver_create(&w, &saver, NULL) != PDL_OK ||
            pdl_saver_save(saver, &s, shard, shards_of(2, 0, 1, shard), NULL) !=
                PDL_OK)
            _exit(1);
        _exit(pdl_saver_wait(saver, NULL) != PDL_OK);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static int kills(bool background)
{
    int n = 0, old = 0, new = 0;
    bool died = true;

    while (died) {
        pdl_ckpt *c;

        fx_remove(fx("run"));
        save(1, 3);
        died = save_and_die(++n, background);
        c = latest(true, NULL);
        assert_non_null(c);
        assert_true(holds(c, 1, 2) || holds(c, 2, 2));
        if (pdl_ckpt_state(c)->step == 1)
            old++;
        else
            new ++;
        assert_true(died || pdl_ckpt_state(c)->step == 2);
        pdl_ckpt_close(c);
        save(2, 4); /* the restarted run comes here again */
        c = latest(true, NULL);
        assert_true(holds(c, 2, 3));
        pdl_ckpt_close(c);
        assert_true(access(fx("run/step-2.tmp"), F_OK) != 0);
    }
    assert_true(old > 5 && new > 2); /* before and after the rename */
    return n - 1;
}

static void killed_at_any_moment_the_old_or_the_new_one_is_there(void **state)
{
    int n = kills(false), m = kills(true);

    (void)state;
    print_message("killed at %d moments\n", n + m);
    assert_true(n + m >= 50);
}

/* ---- damage ---- */

static long size_of(const char *path)
{
    struct stat sb;

    assert_int_equal(stat(path, &sb), 0);
    return sb.st_size;
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    int c;

    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x10, f);
    assert_int_equal(fclose(f), 0);
}

/* The damaged step 2 is passed over with a word, and 1 is taken. */
static void falls_back(bool deep)
{
    struct pdl_buf notes;
    pdl_ckpt *c;

    pdl_buf_init(&notes);
    c = latest(deep, &notes);
    assert_non_null(c);
    assert_true(holds(c, 1, 2));
    assert_non_null(strstr(notes.text, "checkpoint 2 is passed over: "));
    pdl_buf_free(&notes);
    pdl_ckpt_close(c);
}

static void every_damaged_byte_is_seen(void **state)
{
    char data[256], path[256];
    long n;

    (void)state;
    save(1, 3);
    save(2, 3);
    snprintf(path, sizeof path, "%s", fx("run/step-2/manifest.json"));
    n = size_of(path);
    for (long i = 0; i < n; i += i < 400 ? 1 : 13) {
        flip(path, i);
        falls_back(false);
        flip(path, i);
    }
    for (int r = 0; r < 3; r++) {
        snprintf(data, sizeof data, "%s/step-2/data-%05d-%016" PRIx64 ".bin",
                 fx("run"), r, (uint64_t)5);
        n = size_of(data);
        for (long i = 0; i < n; i += 97) {
            flip(data, i);
            falls_back(true);
            flip(data, i);
        }
        flip(data, n - 1);
        falls_back(true);
        flip(data, n - 1);
    }
    {
        pdl_ckpt *c = latest(true, NULL); /* all flips undone */

        assert_true(holds(c, 2, 1));
        pdl_ckpt_close(c);
    }
}

static void truncated_and_missing_files_are_seen_at_once(void **state)
{
    static const char *const names[] = {"manifest.json",
                                        "data-00000-0000000000000005.bin",
                                        "data-00001-0000000000000005.bin"};
    char path[512];

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int gone = 0; gone < 2; gone++) {
            fx_remove(fx("run"));
            save(1, 2);
            save(2, 2);
            snprintf(path, sizeof path, "%s/step-2/%s", fx("run"), names[i]);
            assert_int_equal(
                gone ? unlink(path) : truncate(path, size_of(path) - 1), 0);
            falls_back(false);
        }
}

static void when_none_is_good_it_is_an_error(void **state)
{
    struct pdl_err err = {"", ""};
    pdl_ckpt *c = NULL;

    (void)state;
    save(1, 2);
    assert_int_equal(unlink(fx("run/step-1/manifest.json")), 0);
    assert_int_equal(
        pdl_ckpt_latest(fx("run"), INT64_MAX, true, &c, NULL, &err),
        PDL_EPARSE);
    assert_non_null(strstr(err.msg, "none of 1 checkpoints is good"));
}

/* ---- retention ---- */

static void the_last_good_ones_are_kept(void **state)
{
    struct pdl_ckpt_writer w = writer(0, 1);
    pdl_ckpt *c = NULL;

    (void)state;
    for (int64_t s = 1; s <= 4; s++)
        save(s * 10, 1);
    fx_folder("run/step-5.tmp"); /* a dead run's */
    fx_write("run/step-5.tmp/x", "x", 1);
    fx_folder("run/step-90.tmp"); /* may be another rank's, ahead of us */
    assert_int_equal(unlink(fx("run/step-40/manifest.json")), 0);
    w.keep = 2;
    assert_int_equal(save_all(w, 50, NULL), PDL_OK);
    assert_true(access(fx("run/step-50"), F_OK) == 0);
    assert_true(access(fx("run/step-30"), F_OK) == 0); /* 40 is no good */
    assert_true(access(fx("run/step-20"), F_OK) != 0);
    assert_true(access(fx("run/step-10"), F_OK) != 0);
    assert_true(access(fx("run/step-5.tmp"), F_OK) != 0);
    assert_true(access(fx("run/step-90.tmp"), F_OK) == 0);
    assert_int_equal(pdl_ckpt_latest(fx("run"), 50, true, &c, NULL, NULL),
                     PDL_OK);
    assert_int_equal(pdl_ckpt_state(c)->step, 30);
    pdl_ckpt_close(c);
}

/* ---- in the background ---- */

static void staged_tensors_may_change_at_once(void **state)
{
    struct pdl_ckpt_writer w = writer(0, 1);
    struct pdl_saver_status said;
    struct pdl_err err = {"", ""};
    struct pdl_shard shard[NT];
    pdl_saver *s = NULL;
    pdl_ckpt *c;

    (void)state;
    assert_int_equal(pdl_saver_create(&w, &s, &err), PDL_OK);
    for (int64_t step = 1; step <= 5; step++) {
        struct pdl_ckpt_state st = state_of(step);
        int n = shards_of(step, 0, 1, shard);

        assert_int_equal(pdl_saver_save(s, &st, shard, n, &err), PDL_OK);
        memset(store, 0xaa, sizeof store);
    }
    assert_int_equal(pdl_saver_wait(s, &err), PDL_OK);
    pdl_saver_status(s, &said);
    assert_true(said.staged_step == 5 && said.durable_step == 5);
    assert_true(said.write_s > 0 && said.blocked_s >= said.stage_s);
    pdl_saver_destroy(s);
    c = latest(true, NULL);
    assert_true(holds(c, 5, 3));
    pdl_ckpt_close(c);
}

static void an_error_in_the_background_is_told(void **state)
{
    struct pdl_ckpt_writer w = writer(0, 1);
    struct pdl_ckpt_state st = state_of(1);
    struct pdl_shard shard[NT];
    struct pdl_err err = {"", ""};
    pdl_saver *s = NULL;

    (void)state;
    fx_text("run", "a file"); /* where the folder should be */
    assert_int_equal(pdl_saver_create(&w, &s, &err), PDL_OK);
    assert_int_equal(
        pdl_saver_save(s, &st, shard, shards_of(1, 0, 1, shard), &err), PDL_OK);
    assert_int_equal(pdl_saver_wait(s, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "run"));
    assert_int_equal(pdl_saver_wait(s, &err), PDL_OK); /* told once */
    pdl_saver_destroy(s);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(any_number_of_ranks_reads_what_any_other_wrote),
        T(any_box_is_read),
        T(the_state_comes_back),
        T(replicas_are_written_once_by_the_lowest),
        T(a_folder_without_checkpoints_is_no_error),
        T(a_missing_part_is_waited_for_and_then_an_error),
        T(shards_that_leave_a_hole_are_refused),
        T(tiling_is_what_counting_says),
        T(killed_at_any_moment_the_old_or_the_new_one_is_there),
        T(every_damaged_byte_is_seen),
        T(truncated_and_missing_files_are_seen_at_once),
        T(when_none_is_good_it_is_an_error),
        T(the_last_good_ones_are_kept),
        T(staged_tensors_may_change_at_once),
        T(an_error_in_the_background_is_told),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
