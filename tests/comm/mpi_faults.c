/* What a machine may not permit, and ranks that do not answer. With the
 * argument "kill" one rank is killed in the middle (see faults.sh). */
#include "comm_checks.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Creates with a transport, expects a status, checks what works. */
static int creates(const char *transport, enum pdl_status want,
                   const char *says)
{
    struct pdl_comm_options opt = {.transport = transport, .timeout_s = 20};
    struct pdl_comm_info info = {.note = ""};
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;
    enum pdl_status st = pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err);
    const char *text = err.msg;
    int bad = 0;

    if (st == PDL_OK) {
        pdl_comm_describe(c, &info);
        text = info.note;
        for (int64_t n = 1; n < 200000; n = n * 5 + 1)
            bad |= check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_SUM, false,
                                   transport);
        bad |= check_exchange(c, 40000);
    }
    if (st != want || !strstr(text, says)) {
        fprintf(stderr, "transport %s: status %d, \"%s\"\n", transport, st,
                text);
        bad = 1;
    }
    pdl_comm_destroy(c);
    return bad;
}

/* No file of any size can grow: what a full /dev/shm is to us. */
static int without_shared_memory(void)
{
    struct rlimit old, none;
    int bad;

    getrlimit(RLIMIT_FSIZE, &old);
    none = old;
    none.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    bad = creates("auto", PDL_OK, "no shared memory");
    bad |= creates("window", PDL_ENOENV, "transport 'window'");
    setrlimit(RLIMIT_FSIZE, &old);
    return bad | creates("window", PDL_OK, "");
}

/* A window that does not fit is plain memory. */
static int without_room_for_a_window(void)
{
    struct rlimit old, none;
    struct pdl_err err = {"", ""};
    void *p = NULL;
    pdl_comm *c;
    int bad;

    if (said(pdl_comm_create(MPI_COMM_WORLD, NULL, &c, &err), "create", &err))
        return 1;
    getrlimit(RLIMIT_FSIZE, &old);
    none = old;
    none.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &none);
    bad = said(pdl_comm_alloc(c, 1 << 20, &p, &err), "alloc", &err);
    setrlimit(RLIMIT_FSIZE, &old);
    if (!bad)
        memset(p, 1, 1 << 20);
    bad |= said(pdl_comm_free(c, p, &err), "free", &err);
    bad |= check_allreduce(c, 10000, PDL_COMM_F32, PDL_COMM_SUM, false, "then");
    pdl_comm_destroy(c);
    return bad;
}

/* The kernel refuses to copy between processes, as containers have it. */
static int without_cma(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof code / sizeof code[0], code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0) {
        fprintf(stderr, "no seccomp here: cma is not refused\n");
        return 0;
    }
    return creates("auto", PDL_OK, "may not be read") |
           creates("cma", PDL_ENOENV, "transport 'cma'");
}

/* Rank 1 comes late: the others give up in time and say so, then and after. */
static int one_is_late(const char *transport, int64_t n)
{
    struct pdl_comm_options opt = {.transport = transport, .timeout_s = 0.3};
    struct pdl_err err = {"", ""}, again = {"", ""};
    struct buffers b = take_buffers(n * 4);
    double start;
    pdl_comm *c;
    int bad = 0;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    memset(b.in, 0, (size_t)(n * 4));
    start = pdl_clock_s();
    if (pdl_comm_rank(c) != 1) {
        enum pdl_status st = pdl_comm_allreduce(c, b.in, b.out, n, PDL_COMM_F32,
                                                PDL_COMM_SUM, &err);

        bad = st != PDL_ENOENV || pdl_clock_s() - start > 5 ||
              pdl_comm_barrier(c, &again) != PDL_ENOENV ||
              !strstr(again.msg, "broken");
        if (bad)
            fprintf(stderr, "%s, late: status %d after %.1f s, \"%s\"\n",
                    transport, st, pdl_clock_s() - start, err.msg);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pdl_comm_destroy(c);
    /* b stays: a broken communicator may still read it */
    return bad;
}

static void be_killed(void)
{
    struct pdl_comm_options opt = {.timeout_s = 5};
    float x[1000] = {1}, y[1000];
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    pdl_comm *c;

    if (pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err) != PDL_OK)
        MPI_Abort(MPI_COMM_WORLD, 9);
    for (int i = 0; st == PDL_OK; i++) {
        if (i == 1000 && pdl_comm_rank(c) == 1)
            raise(SIGKILL);
        st = pdl_comm_allreduce(c, x, y, i % 1000, PDL_COMM_F32, PDL_COMM_SUM,
                                &err);
    }
    fprintf(stderr, "%s\n", err.msg);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

int main(int argc, char **argv)
{
    int bad = 0, any = 0, provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (argc > 1 && strcmp(argv[1], "kill") == 0)
        be_killed();
    bad |= without_shared_memory();
    bad |= without_room_for_a_window();
    bad |= one_is_late("auto", 10) | one_is_late("auto", 100000);
    bad |= one_is_late("cma", 100000) | one_is_late("p2p", 10);
    bad |= without_cma();
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
