/* Files: bounds, maps, gzip, and writing that survives faults. rename and
 * fsync below stand in front of the C library's, to fail or die on demand. */
#include "paradl/base.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <dirent.h>
#include <zlib.h>

static enum { WORKS, FAILS, DIES } on_rename, on_fsync;

int rename(const char *from, const char *to)
{
    if (on_rename == DIES)
        _exit(9);
    if (on_rename == FAILS) {
        errno = EXDEV;
        return -1;
    }
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int fsync(int fd)
{
    if (on_fsync == FAILS) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

struct place {
    char dir[64], file[96];
    pdl_arena *arena;
    struct pdl_err err;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);

    snprintf(p->dir, sizeof p->dir, "/tmp/pdl-test-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->file, sizeof p->file, "%s/f", p->dir);
    p->arena = pdl_arena_create(1 << 26);
    on_rename = on_fsync = WORKS;
    *state = p;
    return 0;
}

static int files_in(const char *dir, bool erase)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        n++;
        if (erase)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    struct place *p = *state;

    files_in(p->dir, true);
    rmdir(p->dir);
    pdl_arena_destroy(p->arena);
    free(p);
    return 0;
}

static void put(struct place *p, const char *text)
{
    on_rename = on_fsync = WORKS;
    assert_int_equal(pdl_file_write(p->file, text, strlen(text), &p->err),
                     PDL_OK);
}

static void assert_holds(struct place *p, const char *path, const char *text)
{
    struct pdl_bytes got;

    assert_int_equal(pdl_file_read(p->arena, path, 1 << 20, &got, &p->err),
                     PDL_OK);
    assert_int_equal(got.len, strlen(text));
    assert_string_equal(got.data, text);
}

static void reading_stops_at_the_bound(void **state)
{
    struct place *p = *state;
    struct pdl_bytes got = {NULL, 7};

    put(p, "0123456789");
    assert_holds(p, p->file, "0123456789");
    assert_int_equal(pdl_file_read(p->arena, p->file, 10, &got, &p->err),
                     PDL_OK);
    got.len = 7;
    assert_int_equal(pdl_file_read(p->arena, p->file, 9, &got, &p->err),
                     PDL_EPARSE);
    assert_non_null(strstr(p->err.msg, "f: larger than 9 bytes"));
    assert_int_equal(got.len, 7);
    /* a file without an end */
    assert_int_equal(
        pdl_file_read(p->arena, "/dev/zero", 100000, &got, &p->err),
        PDL_EPARSE);
    assert_string_equal(p->err.msg, "/dev/zero: larger than 100000 bytes");
}

static void what_cannot_be_read_is_said(void **state)
{
    struct place *p = *state;
    struct pdl_bytes got;

    assert_int_equal(pdl_file_read(p->arena, "/no/such", 10, &got, &p->err),
                     PDL_EIO);
    assert_string_equal(p->err.msg, "/no/such: No such file or directory");
    assert_int_equal(pdl_file_read(p->arena, "/tmp", 10, &got, &p->err),
                     PDL_EIO);
    assert_string_equal(p->err.msg, "/tmp: Is a directory");
    assert_int_equal(pdl_file_map("/tmp", &got, &p->err), PDL_EIO);
    assert_int_equal(pdl_file_map("/dev/null", &got, &p->err), PDL_EIO);
    assert_string_equal(p->err.msg, "/dev/null: not a regular file");
    assert_int_equal(mkfifo(p->file, 0600), 0);
    int fd = open(p->file, O_RDWR); /* a pipe that has data */
    assert_int_equal(write(fd, "data", 4), 4);
    assert_int_equal(pdl_file_map(p->file, &got, &p->err), PDL_EIO);
    close(fd); /* now nobody writes: no waiting for it */
    assert_int_equal(pdl_file_map(p->file, &got, &p->err), PDL_EIO);
}

static void maps_hold_the_file(void **state)
{
    struct place *p = *state;
    struct pdl_bytes map;

    put(p, "mapped");
    assert_int_equal(pdl_file_map(p->file, &map, &p->err), PDL_OK);
    assert_int_equal(map.len, 6);
    assert_memory_equal(map.data, "mapped", 6);
    pdl_file_unmap(&map);
    assert_null(map.data);
    put(p, "");
    assert_int_equal(pdl_file_map(p->file, &map, &p->err), PDL_OK);
    assert_int_equal(map.len, 0);
    pdl_file_unmap(&map);
    pdl_file_unmap(&map);
}

static void reading_starves_cleanly(void **state)
{
    struct place *p = *state;

    put(p, "0123456789");
    for (size_t limit = 0; limit <= 32; limit += 16) {
        pdl_arena *a = pdl_arena_create(limit);
        struct pdl_bytes got;
        enum pdl_status st = pdl_file_read(a, p->file, 100, &got, &p->err);

        assert_int_equal(st, limit < 16 ? PDL_ENOMEM : PDL_OK);
        pdl_arena_destroy(a);
    }
}

/* ---- gzip ---------------------------------------------------------------- */

static size_t gzip(const void *data, size_t len, unsigned char *out, size_t cap)
{
    z_stream z = {0};

    deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (unsigned char *)(uintptr_t)data;
    z.avail_in = (unsigned)len;
    z.next_out = out;
    z.avail_out = (unsigned)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}

static enum pdl_status gunzip(struct place *p, const void *data, size_t len,
                              size_t max, struct pdl_bytes *out)
{
    struct pdl_bytes in = {data, len};

    return pdl_gunzip(p->arena, in, "x.gz", max, out, &p->err);
}

static void every_member_is_inflated(void **state)
{
    struct place *p = *state;
    unsigned char z[256];
    struct pdl_bytes got;
    size_t n = gzip("hello ", 6, z, sizeof z);

    n += gzip("world", 5, z + n, sizeof z - n);
    assert_int_equal(gunzip(p, z, n, 100, &got), PDL_OK);
    assert_string_equal(got.data, "hello world");
    assert_int_equal(got.len, 11);
    memset(z + n, 0, 9); /* padding */
    assert_int_equal(gunzip(p, z, n + 9, 100, &got), PDL_OK);
    z[n + 8] = 'x';
    assert_int_equal(gunzip(p, z, n + 9, 100, &got), PDL_EPARSE);
    assert_string_equal(p->err.msg, "x.gz: rubbish after the gzip data");
}

static void a_cut_or_damaged_file_is_an_error_at_every_byte(void **state)
{
    struct place *p = *state;
    unsigned char z[256];
    struct pdl_bytes got;
    size_t n = gzip("some text, some text, and more", 30, z, sizeof z);

    for (size_t cut = 2; cut < n; cut++)
        assert_int_equal(gunzip(p, z, cut, 1000, &got), PDL_EPARSE);
    assert_string_equal(p->err.msg, "x.gz: the gzip data ends early");
    z[n - 1] ^= 1; /* the length */
    assert_int_equal(gunzip(p, z, n, 1000, &got), PDL_EPARSE);
    assert_string_equal(p->err.msg, "x.gz: damaged gzip data");
    z[n - 1] ^= 1;
    z[n - 6] ^= 1; /* the checksum */
    assert_int_equal(gunzip(p, z, n, 1000, &got), PDL_EPARSE);
}

static void bombs_stop_at_the_bound(void **state)
{
    struct place *p = *state;
    static unsigned char zeros[1 << 24], z[1 << 16];
    struct pdl_bytes got;
    size_t n = gzip(zeros, sizeof zeros, z, sizeof z);

    assert_int_equal(gunzip(p, z, n, 1 << 20, &got), PDL_EPARSE);
    assert_string_equal(p->err.msg,
                        "x.gz: inflates to more than 1048576 bytes");
    assert_int_equal(gunzip(p, z, n, sizeof zeros, &got), PDL_OK);
    assert_int_equal(got.len, sizeof zeros);
}

static void plain_data_passes_within_the_bound(void **state)
{
    struct place *p = *state;
    struct pdl_bytes got;

    assert_int_equal(gunzip(p, "plain", 5, 5, &got), PDL_OK);
    assert_string_equal(got.data, "plain");
    assert_int_equal(gunzip(p, "plain", 5, 4, &got), PDL_EPARSE);
    assert_int_equal(gunzip(p, "\x1f", 1, 4, &got), PDL_OK);
    assert_int_equal(gunzip(p, "", 0, 4, &got), PDL_OK);
}

/* ---- writing ------------------------------------------------------------- */

static void faults_leave_the_old_file_and_no_other(void **state)
{
    struct place *p = *state;
    struct rlimit limit, small = {8, RLIM_INFINITY};

    put(p, "old");
    on_rename = FAILS;
    assert_int_equal(pdl_file_write(p->file, "new", 3, &p->err), PDL_EIO);
    assert_non_null(strstr(p->err.msg, "/f: Invalid cross-device link"));
    on_rename = WORKS;
    on_fsync = FAILS;
    assert_int_equal(pdl_file_write(p->file, "new", 3, &p->err), PDL_EIO);
    assert_non_null(strstr(p->err.msg, "/f: No space left on device"));
    on_fsync = WORKS;
    signal(SIGXFSZ, SIG_IGN); /* a write that stops half way */
    getrlimit(RLIMIT_FSIZE, &limit);
    small.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(pdl_file_write(p->file, "a longer text", 13, &p->err),
                     PDL_EIO);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_non_null(strstr(p->err.msg, "/f: File too large"));
    assert_holds(p, p->file, "old");
    assert_int_equal(files_in(p->dir, false), 1);
}

static void death_before_the_rename_leaves_the_old_file(void **state)
{
    struct place *p = *state;
    int status = 0;
    pid_t child;

    put(p, "old");
    child = fork();
    if (child == 0) {
        on_rename = DIES;
        pdl_file_write(p->file, "new", 3, NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_int_equal(WEXITSTATUS(status), 9);
    assert_holds(p, p->file, "old");
    assert_int_equal(files_in(p->dir, false), 2); /* and what it had written */
    put(p, "after");
    assert_holds(p, p->file, "after");
}

static void unwritable_places_are_said(void **state)
{
    struct place *p = *state;

    assert_int_equal(pdl_file_write("/no/such/f", "x", 1, &p->err), PDL_EIO);
    assert_string_equal(p->err.msg, "/no/such/f: No such file or directory");
    assert_int_equal(pdl_file_write(p->dir, "x", 1, &p->err), PDL_EIO);
    assert_non_null(strstr(p->err.msg, ": Is a directory"));
    if (geteuid() == 0)
        return; /* root may write everywhere */
    put(p, "old");
    chmod(p->file, 0400);
    assert_int_equal(pdl_file_write(p->file, "x", 1, &p->err), PDL_EIO);
    chmod(p->dir, 0500);
    chmod(p->file, 0600);
    assert_int_equal(pdl_file_write(p->file, "x", 1, &p->err), PDL_EIO);
    chmod(p->dir, 0700);
    assert_holds(p, p->file, "old");
}

static void devices_and_pipes_stay_what_they_are(void **state)
{
    struct place *p = *state;
    struct stat sb;
    char got[8] = "";
    int fd;

    assert_int_equal(mkfifo(p->file, 0600), 0);
    fd = open(p->file, O_RDWR);
    assert_int_equal(pdl_file_write(p->file, "pipe", 4, &p->err), PDL_OK);
    assert_int_equal(read(fd, got, sizeof got), 4);
    assert_string_equal(got, "pipe");
    assert_int_equal(stat(p->file, &sb), 0);
    assert_true(S_ISFIFO(sb.st_mode));
    close(fd);
}

/* A full disk: the device of that name, or as root a node of our own, since a
 * faulty pdl_file_write could replace the real one. */
static void a_full_device_is_said(void **state)
{
    struct place *p = *state;
    const char *path = "/dev/full";
    struct stat sb;

    if (geteuid() == 0) {
        dev_t full = makedev(1, 7);

        path = p->file;
        if (mknod(path, S_IFCHR | 0600, full) != 0 || access(path, W_OK) != 0 ||
            close(open(path, O_WRONLY)) != 0) {
            print_message("SKIPPED: no device nodes here\n");
            skip();
        }
    }
    assert_int_equal(pdl_file_write(path, "x", 1, &p->err), PDL_EIO);
    assert_non_null(strstr(p->err.msg, ": No space left on device"));
    assert_int_equal(stat(path, &sb), 0);
    assert_true(S_ISCHR(sb.st_mode));
}

static void links_and_modes_are_kept(void **state)
{
    struct place *p = *state;
    char link[128];
    struct stat sb;
    mode_t mask = umask(027);

    snprintf(link, sizeof link, "%s/link", p->dir);
    put(p, "old");
    umask(mask);
    assert_int_equal(stat(p->file, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0640); /* what the umask says */
    chmod(p->file, 0604);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(pdl_file_write(link, "new", 3, &p->err), PDL_OK);
    assert_int_equal(lstat(link, &sb), 0);
    assert_true(S_ISLNK(sb.st_mode));
    assert_holds(p, p->file, "new");
    assert_int_equal(stat(p->file, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0604);
    assert_int_equal(files_in(p->dir, false), 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(reading_stops_at_the_bound),
        T(what_cannot_be_read_is_said),
        T(maps_hold_the_file),
        T(reading_starves_cleanly),
        T(every_member_is_inflated),
        T(a_cut_or_damaged_file_is_an_error_at_every_byte),
        T(bombs_stop_at_the_bound),
        T(plain_data_passes_within_the_bound),
        T(faults_leave_the_old_file_and_no_other),
        T(death_before_the_rename_leaves_the_old_file),
        T(unwritable_places_are_said),
        T(devices_and_pipes_stay_what_they_are),
        T(a_full_device_is_said),
        T(links_and_modes_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
