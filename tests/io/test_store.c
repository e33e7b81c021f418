/* A store of samples: what is put is got, to the bit of the source; whatever
 * happens to its file is one line, and no sample is lost that the source has. */
#include "datasets.h"

#include "store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *at(void)
{
    return fx("samples.store");
}

static pdl_store *open_store(const pdl_io *io, int64_t capacity)
{
    struct pdl_err err = {"", ""};
    pdl_store *s = NULL;

    if (pdl_store_open(at(), io, 0, capacity, &s, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return s;
}

static void refused(const pdl_io *io, int64_t capacity, const char *why)
{
    struct pdl_err err = {"", ""};
    pdl_store *s = NULL;

    assert_int_not_equal(pdl_store_open(at(), io, 0, capacity, &s, &err),
                         PDL_OK);
    assert_non_null(strstr(err.msg, why));
    assert_null(strchr(err.msg, '\n'));
}

static void fill_from(pdl_store *s, const pdl_io *io, int64_t n)
{
    int64_t ids[64];
    struct pdl_store_fill f = {
        .source = io, .threads = 3, .samples = ids, .n = n};
    struct pdl_err err = {"", ""};

    assert_true(n <= 64);
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    if (pdl_store_fill(s, &f, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

/* Every sample of the split, through the store and from the source. */
static void same_as_source(pdl_store *s, const pdl_io *io, int64_t n)
{
    static float a[1 << 14], b[1 << 14];
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_box box = fx_all(&d->input);
    struct pdl_augment g = {.pad = 2, .flip = true, .epoch = 3};
    pdl_io *over = NULL;

    assert_int_equal(pdl_io_over_store(io, s, 0, &over, NULL), PDL_OK);
    assert_int_equal(pdl_io_describe(over)->split[0].samples,
                     d->split[0].samples);
    for (int64_t i = 0; i < n; i++) {
        struct pdl_read r = {
            .split = 0, .samples = &i, .nsamples = 1, .box = box};

        assert_int_equal(label_of(over, 0, i), label_of(io, 0, i));
        if (!d->input.integer && d->input.rank == 3)
            r.augment = &g;
        assert_int_equal(pdl_io_input(over, &r, a, NULL), PDL_OK);
        assert_int_equal(pdl_io_input(io, &r, b, NULL), PDL_OK);
        assert_memory_equal(a, b, (size_t)pdl_box_volume(&box) * 4);
    }
    if (d->nsplits > 1)
        assert_int_equal(label_of(over, 1, 0), label_of(io, 1, 0));
    pdl_io_close(over);
}

static void every_format_reads_back_to_the_bit(void **state)
{
    static const char *const paths[] = {"idx",    "cifar",    "npy",
                                        "tokens", "play.txt", "digits"};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        bool own = strcmp(paths[i], "digits") == 0;
        struct pdl_io_options opt = {.sequence = 6};
        pdl_io *io = open_ok(own ? "digits" : fx(paths[i]), &opt);
        int64_t n = pdl_io_describe(io)->split[0].samples;
        pdl_store *s;

        n = n < 40 ? n : 40;
        unlink(at());
        s = open_store(io, n);
        fill_from(s, io, n);
        same_as_source(s, io, n);
        pdl_store_close(s);
        s = open_store(io, n); /* and after it was closed */
        assert_int_equal(pdl_store_count(s), n);
        same_as_source(s, io, n);
        pdl_store_close(s);
        pdl_io_close(io);
    }
}

/* ---- coming and going ---- */

static void stamp(const pdl_store *s, int64_t sample, unsigned char *record)
{
    struct pdl_store_info info;

    pdl_store_describe(s, &info);
    for (int64_t i = 0; i < info.record_bytes; i++)
        record[i] = (unsigned char)(sample * 31 + i * 7);
}

static void check_held(pdl_store *s, const bool *held, int64_t n)
{
    static unsigned char a[8192], b[8192];
    struct pdl_store_info info;
    int64_t count = 0;

    pdl_store_describe(s, &info);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(pdl_store_has(s, i), held[i]);
        count += held[i];
        if (!held[i])
            continue;
        assert_int_equal(pdl_store_get(s, i, a, NULL), PDL_OK);
        stamp(s, i, b);
        assert_memory_equal(a, b, (size_t)info.record_bytes);
    }
    assert_int_equal(pdl_store_count(s), count);
    assert_true(info.count <= info.capacity);
}

/* Against an array of what should be there; sizes change, too. */
static void what_was_put_is_there_and_nothing_else(void **state)
{
    enum { N = 300, STEPS = 6000 };
    struct pdl_io_options opt = {.sequence = 0};
    pdl_io *io = open_ok("digits", &opt);
    bool held[N] = {false};
    static unsigned char record[8192];
    int64_t count = 0, capacity = 50;
    pdl_store *s;

    (void)state;
    unlink(at());
    s = open_store(io, capacity);
    for (int i = 0; i < STEPS; i++) {
        struct pdl_rng4 x = pdl_philox(7, 0, (uint64_t)i);
        int64_t sample = (int64_t)(x.v[0] % N);

        if (x.v[1] % 3 == 0) {
            pdl_store_drop(s, sample);
            count -= held[sample];
            held[sample] = false;
        } else if (held[sample] || count < capacity) {
            stamp(s, sample, record);
            assert_int_equal(pdl_store_put(s, sample, record, NULL), PDL_OK);
            count += !held[sample];
            held[sample] = true;
        } else {
            struct pdl_err err = {"", ""};

            assert_int_equal(pdl_store_put(s, sample, record, &err),
                             PDL_EINVAL);
            assert_non_null(strstr(err.msg, "full"));
        }
        if (i % 997 == 0) {
            capacity = count + (int64_t)(x.v[2] % 60);
            assert_int_equal(pdl_store_resize(s, capacity, NULL), PDL_OK);
            check_held(s, held, N);
        }
        if (i % 1500 == 0) {
            pdl_store_close(s);
            s = open_store(io, 0);
        }
    }
    check_held(s, held, N);
    pdl_store_close(s);
    pdl_io_close(io);
}

static int64_t file_bytes(void)
{
    struct stat sb;

    assert_int_equal(stat(at(), &sb), 0);
    return (int64_t)sb.st_blocks * 512 > sb.st_size ? sb.st_blocks * 512
                                                    : sb.st_size;
}

static void the_file_is_as_large_as_said(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    struct pdl_store_info info;
    pdl_store *s;

    (void)state;
    unlink(at());
    s = open_store(io, 1000);
    pdl_store_describe(s, &info);
    assert_int_equal(info.file_bytes, 8192 + 1000 * (info.record_bytes + 16));
    assert_true(file_bytes() <= info.file_bytes + 4096);
    assert_int_equal(pdl_store_resize(s, 10, NULL), PDL_OK);
    assert_true(file_bytes() <= 8192 + 10 * (info.record_bytes + 16) + 4096);
    pdl_store_close(s);
    pdl_io_close(io);
}

/* ---- what can go wrong ---- */

static void flip(int64_t offset)
{
    int fd = open(at(), O_RDWR);
    unsigned char x;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &x, 1, offset), 1);
    x ^= 4;
    assert_int_equal(pwrite(fd, &x, 1, offset), 1);
    close(fd);
}

static void a_flipped_bit_is_found_and_healed(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    static unsigned char record[8192];
    struct pdl_err err = {"", ""};
    struct pdl_store_info info;
    pdl_store *s;
    int64_t sample;

    (void)state;
    unlink(at());
    s = open_store(io, 40);
    fill_from(s, io, 40);
    pdl_store_describe(s, &info);
    sample = pdl_store_at(s, 7);
    pdl_store_close(s);
    flip(8192 + 7 * info.record_bytes + 5);
    s = open_store(io, 40);
    assert_int_equal(pdl_store_get(s, sample, record, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "damaged"));
    same_as_source(s, io, 40); /* the source gives it again */
    assert_int_equal(pdl_store_check(s, sample, NULL), PDL_OK);
    pdl_store_describe(s, &info);
    assert_int_equal(info.healed, 1);
    pdl_store_close(s);
    /* a line of the index: the sample it names is not what is there */
    flip(8192 + 40 * info.record_bytes + 3 * 16);
    s = open_store(io, 41);
    fill_from(s, io, 40);
    same_as_source(s, io, 40);
    pdl_store_close(s);
    pdl_io_close(io);
}

static void headers_and_lengths_are_checked(void **state)
{
    pdl_io *io = open_ok("digits", NULL), *other = open_ok(fx("cifar"), NULL);
    pdl_store *s, *second = NULL;
    struct pdl_err err = {"", ""};

    (void)state;
    unlink(at());
    s = open_store(io, 40);
    fill_from(s, io, 40);
    refused(io, 40, "another job");
    assert_int_equal(pdl_store_open(at(), NULL, 0, 0, &second, &err),
                     PDL_EINVAL);
    pdl_store_close(s);
    refused(other, 40, "another data set");
    assert_int_equal(truncate(at(), 9000), 0);
    refused(io, 40, "truncated");
    unlink(at());
    s = open_store(io, 40);
    pdl_store_close(s);
    flip(40); /* one copy of the header may go */
    pdl_store_close(open_store(io, 40));
    flip(4096 + 40);
    refused(io, 40, "damaged");
    unlink(at());
    assert_int_equal(symlink("/dev/null", at()), 0);
    refused(io, 40, "symbolic link");
    unlink(at());
    fx_write("samples.store", "nothing of the kind", 19);
    refused(io, 40, "no store");
    unlink(at());
    pdl_io_close(io);
    pdl_io_close(other);
}

/* A limit on the length of files stands for a disk that is full. */
static void a_full_disk_is_one_line(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    struct rlimit was, now;
    pdl_store *s;
    struct pdl_err err = {"", ""};

    (void)state;
    unlink(at());
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    now = was;
    now.rlim_cur = 20000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    refused(io, 1000, "no room");
    assert_int_not_equal(access(at(), F_OK), 0);
    s = open_store(io, 30);
    fill_from(s, io, 30);
    assert_int_equal(pdl_store_resize(s, 1000, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "no room"));
    same_as_source(s, io, 30); /* nothing is lost */
    setrlimit(RLIMIT_FSIZE, &was);
    pdl_store_close(s);
    pdl_io_close(io);
}

/* ---- kill -9 ---- */

static void put_for_ever(pdl_store *s)
{
    static unsigned char record[8192];

    for (int64_t i = 0;; i++) {
        int64_t sample = i * 7 % 300;

        stamp(s, sample, record);
        (void)pdl_store_put(s, sample, record, NULL);
        if (i >= 40)
            pdl_store_drop(s, (i - 40) * 7 % 300);
        if (i % 50 == 49)
            (void)pdl_store_resize(s, 60 + i % 3, NULL);
    }
}

/* Whatever was there when it died is whole, or known not to be. */
static void a_killed_process_leaves_whole_samples(void **state)
{
    static unsigned char record[8192], want[8192];
    pdl_io *io = open_ok("digits", NULL);
    int64_t whole = 0, torn = 0;

    (void)state;
    unlink(at());
    for (int t = 0; t < 12; t++) {
        pid_t pid = fork();
        struct pdl_store_info info;
        pdl_store *s;

        if (pid == 0) {
            s = open_store(io, 60);
            put_for_ever(s);
        }
        usleep(2000 + 1700 * (unsigned)t);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (access(at(), F_OK) != 0)
            continue;
        s = open_store(io, 60);
        pdl_store_describe(s, &info);
        for (int64_t i = 0; i < 300; i++) {
            if (!pdl_store_has(s, i))
                continue;
            if (pdl_store_get(s, i, record, NULL) != PDL_OK) {
                torn++;
                continue;
            }
            stamp(s, i, want);
            assert_memory_equal(record, want, (size_t)info.record_bytes);
            whole++;
        }
        pdl_store_close(s);
    }
    assert_true(whole > 100);
    assert_true(torn <= 12 * 62);
    pdl_io_close(io);
}

/* ---- readers while samples come and go ---- */

struct readers {
    pdl_store *s;
    volatile int stop;
    int64_t read, wrong;
};

static void *read_on(void *arg)
{
    struct readers *r = arg;
    unsigned char a[512], b[512];
    struct pdl_store_info info;

    pdl_store_describe(r->s, &info);
    for (int64_t i = 0; !r->stop; i = (i + 1) % 20) {
        bool ok = pdl_store_get(r->s, i, a, NULL) == PDL_OK;

        stamp(r->s, i, b);
        r->wrong += !ok || memcmp(a, b, (size_t)info.record_bytes) != 0;
        r->read++;
    }
    return NULL;
}

/* Whoever cuts the file: every act says so, and none keeps the lock. */
static void a_file_cut_while_it_is_used_is_one_line(void **state)
{
    static const off_t lengths[] = {8192 + 3 * 4096, 8192, 0};
    pdl_io *io = open_ok("digits", NULL);
    static unsigned char record[8192];

    (void)state;
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        struct pdl_err err = {"", ""};
        pdl_io *over = NULL;
        pdl_store *s;
        int64_t x = 63;
        float v[64];
        struct pdl_read r = {.samples = &x,
                             .nsamples = 1,
                             .box = fx_all(&pdl_io_describe(io)->input)};

        unlink(at());
        s = open_store(io, 1000);
        fill_from(s, io, 64);
        assert_int_equal(pdl_io_over_store(io, s, 0, &over, NULL), PDL_OK);
        assert_int_equal(truncate(at(), lengths[k]), 0);
        assert_int_equal(pdl_store_get(s, x, record, &err), PDL_EIO);
        assert_non_null(strstr(err.msg, "samples.store: has become shorter"));
        assert_int_equal(pdl_store_check(s, x, NULL), PDL_EIO);
        assert_int_equal(pdl_store_put(s, x, record, NULL), PDL_EIO);
        assert_int_equal(pdl_io_input(over, &r, v, NULL), PDL_EIO);
        assert_false(pdl_store_has(s, x));
        assert_int_equal(pdl_store_at(s, 0), -1);
        pdl_store_drop(s, x);
        pdl_io_close(over);
        pdl_store_close(s);
    }
    pdl_io_close(io);
}

static void samples_are_read_while_others_move(void **state)
{
    pdl_io *io = open_ok("digits", NULL);
    static unsigned char record[8192];
    struct readers r = {.stop = 0};
    pthread_t thread;

    (void)state;
    unlink(at());
    r.s = open_store(io, 60);
    for (int64_t i = 0; i < 20; i++) { /* these stay */
        stamp(r.s, i, record);
        assert_int_equal(pdl_store_put(r.s, i, record, NULL), PDL_OK);
    }
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    for (int i = 0; i < 20000 || r.read < 1000; i++) {
        int64_t x = 20 + i % 200;

        stamp(r.s, x, record);
        if (pdl_store_put(r.s, x, record, NULL) != PDL_OK || i % 2)
            pdl_store_drop(r.s, 20 + i * 13 % 200);
    }
    r.stop = 1;
    pthread_join(thread, NULL);
    assert_int_equal(r.wrong, 0);
    pdl_store_close(r.s);
    pdl_io_close(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_reads_back_to_the_bit),
        cmocka_unit_test(what_was_put_is_there_and_nothing_else),
        cmocka_unit_test(the_file_is_as_large_as_said),
        cmocka_unit_test(a_flipped_bit_is_found_and_healed),
        cmocka_unit_test(headers_and_lengths_are_checked),
        cmocka_unit_test(a_full_disk_is_one_line),
        cmocka_unit_test(a_killed_process_leaves_whole_samples),
        cmocka_unit_test(a_file_cut_while_it_is_used_is_one_line),
        cmocka_unit_test(samples_are_read_while_others_move),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
