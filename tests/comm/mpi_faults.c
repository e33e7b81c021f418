/* What a machine may not permit, and ranks that do not answer. Without an
 * argument limits stand in for a full disk and a strict kernel; faults.sh makes
 * them real and gives the others: kill|exit TRANSPORT COUNT, full, nearly-full,
 * ptrace. */
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

/* Rank 1 ends while collectives run: killed at any moment by somebody else, or
 * by itself with exit, in the middle of its own. The others must say so. */
struct ending {
    const char *transport;
    int64_t count;
    bool kills;
};

static void end_soon(void)
{
    pid_t victim = getpid();

    if (fork() == 0) {
        usleep(300000);
        kill(victim, SIGKILL);
        _exit(0);
    }
}

static int peer_ends(const struct ending *e)
{
    struct pdl_comm_options opt = {.transport = e->transport, .timeout_s = 5};
    struct buffers b = take_buffers(e->count * 4);
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    double start;
    pdl_comm *c;

    if (pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err) != PDL_OK)
        return 9;
    memset(b.in, 0, (size_t)(e->count * 4));
    if (pdl_comm_rank(c) == 1 && e->kills)
        end_soon();
    start = pdl_clock_s();
    for (int i = 0; st == PDL_OK; i++) {
        if (!e->kills && pdl_comm_rank(c) == 1 && i == 50)
            _exit(0);
        st = pdl_comm_allreduce(c, b.in, b.out, e->count, PDL_COMM_F32,
                                PDL_COMM_SUM, &err);
    }
    fprintf(stderr, "after %.1f s: %s\n", pdl_clock_s() - start, err.msg);
    fflush(stderr);
    _exit(4); /* MPI itself may wait for the lost one */
}

/* /dev/shm is really full: see faults.sh. */
static int on_a_full_disk(void)
{
    struct pdl_err err = {"", ""};
    void *p = NULL;
    pdl_comm *c;
    int bad = creates("auto", PDL_OK, "no shared memory") |
              creates("window", PDL_ENOENV, "transport 'window'") |
              creates("staged", PDL_ENOENV, "transport 'staged'");

    if (said(pdl_comm_create(MPI_COMM_WORLD, NULL, &c, &err), "create", &err))
        return 1;
    bad |= said(pdl_comm_alloc(c, 1 << 20, &p, &err), "alloc", &err);
    memset(p, 1, 1 << 20);
    bad |= said(pdl_comm_free(c, p, &err), "free", &err);
    pdl_comm_destroy(c);
    return bad;
}

/* The area fits, windows do not: they become plain memory. */
static int on_a_nearly_full_disk(void)
{
    struct pdl_comm_info info;
    struct pdl_err err = {"", ""};
    void *p = NULL;
    pdl_comm *c;
    int bad;

    if (said(pdl_comm_create(MPI_COMM_WORLD, NULL, &c, &err), "create", &err))
        return 1;
    pdl_comm_describe(c, &info);
    bad = strcmp(info.transport, "window") != 0;
    bad |= said(pdl_comm_alloc(c, 64 << 20, &p, &err), "alloc", &err);
    memset(p, 1, 64 << 20);
    bad |= said(
        pdl_comm_allreduce(c, p, p, 1 << 20, PDL_COMM_F32, PDL_COMM_SUM, &err),
        "in it", &err);
    pdl_comm_describe(c, &info);
    if (bad || !strstr(info.note, "no shared memory"))
        bad = 1, fprintf(stderr, "nearly full: %s\n", info.note);
    bad |= said(pdl_comm_free(c, p, &err), "free", &err);
    pdl_comm_destroy(c);
    return bad;
}

/* A process that gave up its rights is not dumpable: the kernel's own check
 * (ptrace) refuses to read it, as ptrace_scope or a container would. */
static int ptrace_refused(void)
{
    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) {
        perror("cannot give up rights");
        return 1;
    }
    prctl(PR_SET_DUMPABLE, 0);
    return creates("auto", PDL_OK, "may not be read") |
           creates("staged", PDL_OK, "") |
           creates("cma", PDL_ENOENV, "transport 'cma'");
}

static int usual(void)
{
    int bad = without_shared_memory();

    bad |= without_room_for_a_window();
    bad |= one_is_late("auto", 10) | one_is_late("auto", 100000);
    bad |= one_is_late("cma", 100000) | one_is_late("p2p", 10);
    return bad | without_cma();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct ending e = {.transport = argc > 2 ? argv[2] : "auto",
                       .count = argc > 3 ? strtol(argv[3], NULL, 10) : 1000,
                       .kills = strcmp(what, "kill") == 0};
    int bad = 0, any = 0, provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (e.kills || strcmp(what, "exit") == 0)
        bad = peer_ends(&e);
    else if (strcmp(what, "full") == 0)
        bad = on_a_full_disk();
    else if (strcmp(what, "nearly-full") == 0)
        bad = on_a_nearly_full_disk();
    else if (strcmp(what, "ptrace") == 0)
        bad = ptrace_refused();
    else
        bad = usual();
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
