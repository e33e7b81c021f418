/* SPDX-License-Identifier: Apache-2.0
 *
 * The program. */
#include "cli/serve/serve_priv.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A result that could not be written is not a result; that is the disk's
 * fault (or the pipe's), not a bug of ours. */
static int finish(int rc)
{
    bool failed = ferror(stdout) || cli_out()->failed;

    errno = 0;
    if (fclose(stdout) != 0 || failed) {
        fprintf(stderr, "paradl: cannot write the result%s%s\n",
                errno ? ": " : "", errno ? strerror(errno) : "");
        return rc == EXIT_OK ? EXIT_ENV : rc;
    }
    return rc;
}

/* Plans come and go by the megabyte. Memory that went back to the kernel and
 * was asked for again took a fifth of the time of a sweep. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
#endif
}

int main(int argc, char **argv)
{
#ifdef PDL_HAVE_MICROHTTPD
    cli_serve_with = cli_serve_http;
#endif
    keep_memory();
    signal(SIGXFSZ, SIG_IGN); /* too large a file is an error, not an end */
    if (argc < 2) {
        cli_overview(cli_stderr(), NULL);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("paradl %s\n", pdl_version());
        return finish(EXIT_OK);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        cli_overview(cli_out(), NULL);
        return finish(EXIT_OK);
    }
    return finish(cli_run(argc - 1, argv + 1));
}
