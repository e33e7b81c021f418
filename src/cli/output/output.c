/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the commands' text goes: results to stdout, messages to stderr. */
#include "cli/cli_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool file_write(void *ctx, const char *data, size_t len)
{
    return fwrite(data, 1, len, ctx) == len;
}

struct pdl_sink *cli_out(void)
{
    static struct pdl_sink sink;

    if (cli_asked())
        return cli_answer_text(cli_asked());
    if (!sink.write)
        sink = (struct pdl_sink){.write = file_write, .ctx = stdout};
    return &sink;
}

struct pdl_sink *cli_stderr(void)
{
    static struct pdl_sink sink;

    if (cli_asked())
        return cli_answer_notes(cli_asked());
    if (!sink.write)
        sink = (struct pdl_sink){.write = file_write, .ctx = stderr};
    return &sink;
}

int cli_width(void)
{
    const char *env = getenv("COLUMNS");
    struct winsize ws;
    int64_t columns;

    if (cli_asked())
        return 0;
    /* who sets COLUMNS for a pipe means it */
    if (env && pdl_int_parse(env, 20, 10000, &columns, NULL) == PDL_OK)
        return (int)columns;
    if (!isatty(STDOUT_FILENO))
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 20)
        return ws.ws_col;
    return 80;
}

int cli_text_width(void)
{
    int width = cli_width();

    return width > 0 ? width : 80;
}

void cli_say(int indent, const char *fmt, ...)
{
    size_t first = (size_t)indent; /* of the text stands in the margin */
    struct pdl_buf line;
    va_list ap;

    pdl_buf_init(&line);
    va_start(ap, fmt);
    pdl_vprintf(&line.sink, fmt, ap);
    va_end(ap);
    first = first < line.len ? first : line.len;
    pdl_put(cli_out(), line.text, first);
    pdl_wrap(cli_out(), line.text ? line.text + first : "", indent, indent);
    pdl_buf_free(&line);
}

void cli_say_command(const char *line)
{
    enum { FIRST = 2, NEXT = 4, END = 78 }; /* and " \\" */
    int at = FIRST;

    pdl_printf(cli_out(), "%*s", FIRST, "");
    while (*line) {
        const char *end = strstr(line + 1, " --");
        int n = end ? (int)(end - line) : (int)strlen(line);

        if (at > NEXT && at + n > END) {
            pdl_printf(cli_out(), " \\\n%*s", NEXT, "");
            line++; /* the blank */
            n--;
            at = NEXT;
        }
        pdl_put(cli_out(), line, (size_t)n);
        line += n;
        at += n;
    }
    pdl_puts(cli_out(), "\n");
}

bool cli_progress(void)
{
    return !cli_asked() && isatty(STDERR_FILENO);
}

static void print_error(const struct pdl_err *err)
{
    if (cli_asked()) {
        cli_answer_fail(cli_asked(), err);
        return;
    }
    fflush(stdout);
    fprintf(stderr, "%sparadl:%s %s", cli_error_tone(CLI_BAD),
            cli_error_tone(CLI_PLAIN), err->msg);
    if (*err->hint)
        fprintf(stderr, " (hint: %s)", err->hint);
    fputc('\n', stderr);
}

int cli_fail(enum pdl_status st, const struct pdl_err *err)
{
    static const int codes[] = {
        [PDL_OK] = EXIT_OK,        [PDL_ENOMEM] = EXIT_INPUT,
        [PDL_EIO] = EXIT_INPUT,    [PDL_EPARSE] = EXIT_INPUT,
        [PDL_EINVAL] = EXIT_INPUT, [PDL_ENOENV] = EXIT_ENV,
        [PDL_EINTR] = EXIT_INTR,   [PDL_EWRONG] = EXIT_BUG,
    };

    print_error(err);
    return codes[st];
}

int cli_usage(const struct pdl_err *err)
{
    print_error(err);
    return EXIT_USAGE;
}

enum pdl_status cli_check_output(const char *path, const char *ending,
                                 struct pdl_err *err)
{
    size_t n = path ? strlen(path) : 0, m = ending ? strlen(ending) : 0;
    char folder[4096] = ".";
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct stat sb;

    if (!path || strcmp(path, "-") == 0)
        return PDL_OK;
    if (n == 0 || n >= sizeof folder)
        return pdl_fail(err, PDL_EINVAL, "'%.40s' is no name of a file", path);
    if (ending && (n <= m || strcmp(path + n - m, ending) != 0))
        return pdl_fail(err, PDL_EINVAL, "%s: the name must end in %s", path,
                        ending);
    if (stat(path, &sb) == 0)
        return S_ISDIR(sb.st_mode) || access(path, W_OK) != 0
                   ? pdl_fail(
                         err, PDL_EIO, "%s: %s", path,
                         S_ISDIR(sb.st_mode) ? "is a folder" : strerror(errno))
                   : PDL_OK;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    return access(folder, W_OK) == 0
               ? PDL_OK
               : pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
}

int cli_write(const char *path, const struct pdl_buf *text)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    if (!path || strcmp(path, "-") == 0) {
        pdl_put(cli_out(), text->text, text->len);
        return EXIT_OK;
    }
    st = pdl_file_write(path, text->text ? text->text : "", text->len, &err);
    if (st == PDL_EIO) { /* as a result that standard output does not take */
        print_error(&err);
        return EXIT_ENV;
    }
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}
