/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that run on many ranks are carried out by paradl-run, which has
 * MPI; this program has none. It is started the way the machine starts
 * parallel programs: srun inside a Slurm allocation, else mpirun. */
#include "cli/cli_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PDL_MPIRUN
#define PDL_MPIRUN "mpirun"
#endif

enum { MAX_WORDS = 128, MAX_OUTPUT = 64 << 20 };

struct words {
    pdl_arena *a;
    char *word[MAX_WORDS + 1];
    int n;
    bool failed; /* latches */
};

static void add(struct words *w, const char *text)
{
    char *copy = pdl_arena_strdup(w->a, text);

    if (!copy || w->n == MAX_WORDS)
        w->failed = true;
    else
        w->word[w->n++] = copy;
}

/* paradl-run: beside this program, or wherever the shell finds it. */
static void add_program(struct words *w)
{
    char path[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    char *slash;

    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        memcpy(slash + 1, "paradl-run", sizeof "paradl-run");
        if (access(path, X_OK) == 0) {
            add(w, path);
            return;
        }
    }
    add(w, "paradl-run");
}

static bool has_program(const char *name)
{
    const char *path = getenv("PATH");
    char full[PATH_MAX];

    while (path && *path) {
        size_t n = strcspn(path, ":");

        snprintf(full, sizeof full, "%.*s/%s", (int)n, path, name);
        if (access(full, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static void add_starter(struct words *w, int64_t ranks)
{
    char number[32];
    bool slurm = getenv("SLURM_JOB_ID") && has_program("srun");

    snprintf(number, sizeof number, "%d", (int)ranks);
    add(w, slurm ? "srun" : PDL_MPIRUN);
    add(w, "-n");
    add(w, number);
    if (slurm)
        return;
    /* Open MPI refuses both unless told; others do not know the names */
    if (ranks > sysconf(_SC_NPROCESSORS_ONLN))
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
}

/* A number that was said to be nothing, which is not the same as not said. */
static bool is_zero(const struct pdl_cmd *cmd, const struct pdl_args *args,
                    const struct pdl_opt *o)
{
    return (o->kind == PDL_OPT_INT || o->kind == PDL_OPT_NUM ||
            o->kind == PDL_OPT_TIME) &&
           pdl_opt_given(cmd, args, o->name);
}

static void add_command(struct words *w, const struct pdl_cmd *cmd,
                        const struct pdl_args *args)
{
    char buf[64], name[80];

    add(w, cmd->name);
    for (int i = 0; i < args->npos; i++)
        add(w, args->pos[i]);
    for (int i = 0; i < cmd->nopts; i++) {
        const struct pdl_opt *o = &cmd->opts[i];
        const char *value = cli_option_value(o, args->opts, buf, sizeof buf);

        if (!value && is_zero(cmd, args, o))
            value = "0";
        if (!value)
            continue;
        snprintf(name, sizeof name, "--%s", o->name);
        add(w, name);
        if (o->kind != PDL_OPT_FLAG)
            add(w, value);
    }
    if (args->json)
        add(w, "--json");
    if (args->quiet)
        add(w, "--quiet");
}

int cli_launch(const struct pdl_cmd *cmd, const struct pdl_args *args,
               int64_t ranks)
{
    struct words w = {.a = pdl_arena_create(1 << 20)};
    struct pdl_err err = {"", ""};
    int rc;

    if (!w.a)
        return EXIT_BUG;
    if (ranks > 0)
        add_starter(&w, ranks);
    add_program(&w);
    add_command(&w, cmd, args);
    w.word[w.n] = NULL;
    if (w.failed) {
        pdl_fail(&err, PDL_EINVAL, "too many arguments");
        rc = cli_usage(&err);
    } else {
        fflush(stdout);
        execvp(w.word[0], w.word);
        pdl_fail(&err, PDL_ENOENV, "cannot start %s: %s", w.word[0],
                 strerror(errno));
        pdl_hint(&err, "%s",
                 ranks > 0 ? "install an MPI (Debian: openmpi-bin)"
                           : "paradl-run is built where MPI is found");
        rc = cli_fail(PDL_ENOENV, &err);
    }
    pdl_arena_destroy(w.a);
    return rc;
}

/* mpirun and srun end their ranks when they are told to; paradl-run itself
 * would first save. */
pid_t cli_fork(int64_t ranks)
{
    pid_t parent = getpid(), pid;
    char text[32];

    snprintf(text, sizeof text, "%ld", (long)parent);
    setenv("PARADL_PARENT", text, 1);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, ranks > 0 ? SIGTERM : SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_ENV);
    }
    return pid;
}

int cli_launch_wait(const struct pdl_cmd *cmd, const struct pdl_args *args,
                    int64_t ranks)
{
    struct pdl_err err = {"", ""};
    int status = 0;
    pid_t pid;

    signal(SIGINT, SIG_IGN);
    pid = cli_fork(ranks);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        _exit(cli_launch(cmd, args, ranks));
    }
    if (pid < 0)
        return cli_fail(pdl_fail(&err, PDL_ENOENV, "cannot start a process: %s",
                                 strerror(errno)),
                        &err);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    signal(SIGINT, SIG_DFL);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGINT ? EXIT_INTR : EXIT_BUG;
}

static enum pdl_status read_all(int fd, struct pdl_buf *out,
                                struct pdl_err *err)
{
    char chunk[65536];
    ssize_t n;

    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || out->len + (size_t)n > MAX_OUTPUT)
            return pdl_fail(err, PDL_EIO, "cannot read the measurements");
        pdl_put(&out->sink, chunk, (size_t)n);
    }
    return PDL_OK;
}

static void mute_errors(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
}

/* It has said why; whose fault that is stays as it was. */
static enum pdl_status how_it_ended(int status, int64_t ranks,
                                    struct pdl_err *err)
{
    bool input = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INPUT;

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return PDL_OK;
    return pdl_fail(err, input ? PDL_EINVAL : PDL_ENOENV,
                    "measuring on %d rank%s failed", ranks < 1 ? 1 : (int)ranks,
                    ranks < 2 ? "" : "s");
}

static enum pdl_status capture(const struct pdl_cmd *cmd,
                               const struct pdl_args *args, int64_t ranks,
                               bool mute, struct pdl_buf *out,
                               struct pdl_err *err)
{
    int fd[2], status = 0;
    enum pdl_status st;
    pid_t pid;

    if (cli_asked())
        return pdl_fail(err, PDL_ENOENV, "this measures on ranks");
    if (pipe(fd) != 0)
        return pdl_fail(err, PDL_ENOENV, "no pipe: %s", strerror(errno));
    pid = cli_fork(ranks);
    if (pid < 0) {
        close(fd[0]);
        close(fd[1]);
        return pdl_fail(err, PDL_ENOENV, "cannot start a process: %s",
                        strerror(errno));
    }
    if (pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        close(fd[0]);
        close(fd[1]);
        if (mute)
            mute_errors();
        _exit(cli_launch(cmd, args, ranks));
    }
    close(fd[1]);
    st = read_all(fd[0], out, err);
    close(fd[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return st == PDL_OK ? how_it_ended(status, ranks, err) : st;
}

enum pdl_status cli_capture(const struct pdl_cmd *cmd,
                            const struct pdl_args *args, int64_t ranks,
                            struct pdl_buf *out, struct pdl_err *err)
{
    return capture(cmd, args, ranks, false, out, err);
}

enum pdl_status cli_capture_mute(const struct pdl_cmd *cmd,
                                 const struct pdl_args *args, int64_t ranks,
                                 struct pdl_buf *out, struct pdl_err *err)
{
    return capture(cmd, args, ranks, true, out, err);
}
