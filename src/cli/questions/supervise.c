/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks, looked after. A rank that dies takes the job with it (no MPI of today
 * survives that everywhere), so the answer is to start again from the last
 * checkpoint.
 *
 * SIGINT and SIGTERM ask the ranks to save and stop. mpirun hands a signal on,
 * but while ranks print as fast as it can copy it was seen to do so tens of
 * seconds late, or never. So ranks hold the reading end of a named pipe whose
 * writing end is only here: when it closes, every one of them knows, and a file
 * beside it says whether they are asked to stop or this program is gone. Ranks
 * on other machines have no such pipe; they, and those of a launcher that is
 * reachable only itself (srun), get SIGUSR1 through it, again and again until
 * they end. It is enough that one rank hears of it. */
#include "cli/questions/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- asking ranks to stop --------------------------------------------- */

/* What handlers need. */
static volatile pid_t child;
static volatile sig_atomic_t asked;   /* how often */
static volatile sig_atomic_t pipe_fd; /* 0: none */
static char stop_file[CLI_HANDOVER_PATH + 16];

/* Ranks that are told a second time do not mind. */
enum { REMIND_S = 5 };

/* The file first: whoever sees the pipe closed looks for it. */
static void close_pipe(void)
{
    int fd = pipe_fd, stop;

    if (fd == 0)
        return;
    pipe_fd = 0;
    stop = open(stop_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (stop >= 0)
        close(stop);
    close(fd);
}

/* The first time politely; the second time now. */
static void hand_on(int number)
{
    int was = errno;

    (void)number;
    asked++;
    close_pipe();
    if (child > 0)
        kill(asked == 1 ? child : -child, asked == 1 ? SIGUSR1 : SIGKILL);
    alarm(REMIND_S);
    errno = was;
}

static void remind(int number)
{
    int was = errno;

    (void)number;
    if (child > 0 && asked == 1)
        kill(child, SIGUSR1);
    alarm(REMIND_S);
    errno = was;
}

/* Without a pipe ranks are reached through the launcher alone. */
static void open_pipe(const struct cli_handover *h)
{
    char path[CLI_HANDOVER_PATH + 16];
    int fd;

    snprintf(path, sizeof path, "%s/asked", h->folder);
    snprintf(stop_file, sizeof stop_file, "%s/asked.stop", h->folder);
    unsetenv("PARADL_ASKED");
    if (mkfifo(path, 0600) != 0)
        return;
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd <= 0)
        return;
    pipe_fd = fd;
    setenv("PARADL_ASKED", path, 1);
}

static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = hand_on, .sa_flags = SA_RESTART};

    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    a.sa_handler = remind;
    sigaction(SIGALRM, &a, NULL);
}

/* ---- one life ---------------------------------------------------------- */

/* What an orderly end left in the file; -1: there was none. */
static int read_code(const char *path)
{
    FILE *f = fopen(path, "r");
    char text[16] = "";
    int64_t rc;

    if (!f)
        return -1;
    if (!fgets(text, sizeof text, f))
        text[0] = '\0';
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return pdl_int_parse(text, 0, 255, &rc, NULL) == PDL_OK ? (int)rc : -1;
}

/* Ended by our own signal: it came before the ranks listened. */
static bool was_told(int status)
{
    return WIFSIGNALED(status) ||
           (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGUSR1);
}

/* -1: a rank was lost. */
static int code_of(int status, const char *path)
{
    int left = read_code(path), rc;

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
        return EXIT_ENV; /* nobody reads the result any more */
    if (left >= 0)
        return left;
    if (asked && was_told(status))
        return EXIT_INTR; /* before there was anything to save */
    rc = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    /* refused before there were ranks */
    return rc > EXIT_NO && rc <= EXIT_BUG && rc != EXIT_ENV ? rc : -1;
}

/* A process group of its own: a ^C at the terminal reaches only us. */
static int run_once(const struct cli_supervised *s, const char *code)
{
    int status = 0;
    pid_t pid = cli_fork(s->ranks);

    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        signal(SIGALRM, SIG_DFL);
        _exit(cli_launch(s->cmd, s->args, s->ranks));
    }
    if (pid < 0)
        return EXIT_ENV;
    child = pid;
    if (asked) /* meanwhile */
        kill(pid, SIGUSR1);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    alarm(0);
    return code_of(status, code);
}

/* ---- all of them ------------------------------------------------------- */

static void name_job(const char *code)
{
    char job[32];

    snprintf(job, sizeof job, "%08lx%08lx",
             (unsigned long)time(NULL) & 0xffffffff,
             (unsigned long)getpid() & 0xffffffff);
    setenv("PARADL_JOB", job, 1);
    setenv("PARADL_RC", code, 1);
    unsetenv("PARADL_AGAIN");
}

static int lost(const struct cli_supervised *s)
{
    struct pdl_err err = {"", ""};

    pdl_fail(&err, PDL_ENOENV, "a rank was lost");
    if (s->resume)
        pdl_hint(&err, "%s",
                 s->checkpoint
                     ? "'--resume' goes on from the last checkpoint"
                     : "with --checkpoint DIR it would be started again");
    return cli_fail(PDL_ENOENV, &err);
}

int cli_supervise(const struct cli_supervised *s, const struct cli_handover *h)
{
    int64_t left = s->checkpoint && s->resume ? s->restarts : 0;
    char code[CLI_HANDOVER_PATH + 16];
    int rc;

    snprintf(code, sizeof code, "%s/code", h->folder);
    open_pipe(h);
    catch_signals();
    name_job(code);
    for (;;) {
        rc = run_once(s, code);
        if (rc >= 0 || asked || left-- == 0)
            break;
        fprintf(stderr,
                "paradl: a rank was lost; starting again from the last "
                "checkpoint in %s\n",
                s->checkpoint);
        setenv("PARADL_AGAIN", *s->resume ? "resume" : "fresh", 0);
        *s->resume = true;
    }
    if (pipe_fd > 0)
        close(pipe_fd);
    pipe_fd = 0;
    return rc >= 0 ? rc : lost(s);
}
