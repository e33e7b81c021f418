/* Shared by the commands: exit codes, where text goes, errors. A command is
 * one file with one const struct pdl_cmd (or a few that belong together);
 * to add one: write the file, declare it here, add one line in dispatch.c. */
#ifndef CLI_PRIV_H
#define CLI_PRIV_H

#include "paradl/base.h"
#include "paradl/cli.h"

#include <sys/types.h>

enum {
    EXIT_OK = 0,
    EXIT_NO = 1,    /* the answer is no */
    EXIT_USAGE = 2, /* wrong options or arguments */
    EXIT_INPUT = 3, /* a file or description is bad */
    EXIT_ENV = 4,   /* something this machine lacks */
    EXIT_BUG = 5,
    EXIT_INTR = 130,
};

extern const struct pdl_cmd cli_info, cli_help, cli_completion;
extern const struct pdl_cmd cli_plan, cli_project, cli_validate, cli_calibrate;
extern const struct pdl_cmd cli_plan_show, cli_plan_check, cli_plan_cost;
extern const struct pdl_cmd cli_plan_run;
extern const struct pdl_cmd cli_data_show, cli_data_stage, cli_data_check;
extern const struct pdl_cmd cli_scale, cli_train, cli_evaluate, cli_diff_run;
extern const struct pdl_cmd cli_compare, cli_design;
extern const struct pdl_cmd cli_fit_in;
extern const struct pdl_cmd cli_place;
extern const struct pdl_cmd cli_tune;
extern const struct pdl_cmd cli_model_show, cli_model_list, cli_model_convert;
extern const struct pdl_cmd cli_framework_list, cli_framework_show;
extern const struct pdl_cmd cli_system_list, cli_system_show, cli_system_import;
extern const struct pdl_cmd cli_topology_list, cli_topology_show,
    cli_topology_export, cli_topology_search;
extern const struct pdl_cmd cli_collective_list, cli_collective_verify,
    cli_collective_show, cli_collective_compare, cli_collective_nccl,
    cli_simulate;
extern const struct pdl_cmd cli_report_cmd;
extern const struct pdl_cmd cli_bench, cli_serve, cli_federate;
extern const struct pdl_cmd cli_model_divide;
/* cmd_bench.c: is there a benchmark of this collective, by this algorithm
 * (NULL or "auto": any)? */
enum pdl_status cli_bench_names(const char *collective, const char *algorithm,
                                int64_t ranks, struct pdl_err *err);
/* Measures what training does: gradients are summed where they lie, in the
 * order of ranks. Other buffers are twice the memory, beyond the caches about
 * twice the time. */
struct bench_options;
void cli_bench_as_trained(struct bench_options *o, const char *collective);

extern const struct pdl_cmd *const cli_commands[];
extern const int cli_ncommands;

/* dispatch.c: the command that the words name; an exit code. */
int cli_run(int argc, char **argv);

/* ask.c: who asks in this thread; NULL: the program's user. */
pdl_answer *cli_asked(void);
struct pdl_sink *cli_answer_text(pdl_answer *a);
struct pdl_sink *cli_answer_notes(pdl_answer *a);
void cli_answer_fail(pdl_answer *a, const struct pdl_err *err);
/* Was the question taken back? False for the program's user. */
bool cli_cancelled(const pdl_answer *a);
/* A pdl_job_progress; ctx is the answer, or NULL. */
bool cli_go_on(void *ctx, int64_t done, int64_t total);
/* Commands that become, or start, processes are for the program alone. */
bool cli_needs_ranks(const struct pdl_cmd *cmd);
int cli_refuse_ranks(const char *command);

/* The list of commands: all of them (group NULL) or those of one group. */
void cli_overview(struct pdl_sink *out, const char *group);
/* One line of it (or more, at 80 columns). */
void cli_summary(struct pdl_sink *out, const struct pdl_cmd *cmd);
bool cli_is_group(const char *word);
/* What MODEL, SYSTEM, STRATEGY and the rest stand for: a topic of the help,
 * and a section of the manual page. */
extern const char cli_notation_topic[];
bool cli_is_notation(const char *topic);
void cli_notation(struct pdl_sink *out);
/* "data,filter": are all of them axes? */
bool cli_axes_known(const char *list, struct pdl_err *err);
void cli_notation_man(struct pdl_sink *out);
/* Says that there is no such command, and which (or the topic of the help, if
 * not NULL) is near. Returns 2. */
int cli_no_command(const char *name, const char *topic);

struct pdl_sink *cli_out(void);    /* standard output */
struct pdl_sink *cli_stderr(void); /* messages */
/* Columns to lay a table out for: the terminal's (or COLUMNS), 0 when the
 * output is piped and must not be cut. */
int cli_width(void);
/* Columns for what loses nothing when it is broken: 80 when piped. */
int cli_text_width(void);
/* A line for people, broken at blanks (and long words after commas) before
 * column 80; what goes on is indented. */
void cli_say(int indent, const char *fmt, ...) PDL_PRINTF(2, 3);
/* A command line to be copied, indented: goes on behind a backslash. */
void cli_say_command(const char *line);
bool cli_progress(void); /* is stderr a terminal? */
/* Whether there is colour, in results and in messages: as the user, NO_COLOR,
 * CLICOLOR_FORCE or the terminal says. */
void cli_color(const struct pdl_args *args);
enum cli_tone { CLI_PLAIN, CLI_HEAD, CLI_GOOD, CLI_WARN, CLI_BAD };
/* What to write before a word, and CLI_PLAIN after it; "" without colour. */
const char *cli_tone(enum cli_tone t);
const char *cli_error_tone(enum cli_tone t);
/* A line that heads others; a line whose first word has a colour; a table whose
 * rows begin with * (the best) or x (does not fit). */
void cli_head(const char *text);
void cli_mark(enum cli_tone t, const char *word, const char *text);
void cli_marked_table(const struct pdl_table *t);
/* Prints "paradl: message (hint)" on one line and returns the exit code. */
int cli_fail(enum pdl_status st, const struct pdl_err *err);
/* The same for wrong usage: always 2. */
int cli_usage(const struct pdl_err *err);
/* Writes a result to a file (atomically) or, for NULL or "-", to standard
 * output. Returns an exit code. */
int cli_write(const char *path, const struct pdl_buf *text);
/* Can a file of this name be written (NULL: there is none)? Asked before hours
 * of work, not after. ending: what the name must end in, or NULL. */
enum pdl_status cli_check_output(const char *path, const char *ending,
                                 struct pdl_err *err);
/* What --report does: the page of a result's JSON into a file. */
int cli_report(const struct pdl_buf *json, const char *path);
/* Of a command's options those that another has too and that say what is asked
 * (not the system, the batch and where text goes), as its command line takes
 * them; and a word after a blank, quoted where a shell needs it. */
void cli_same_options(const struct pdl_cmd *cmd, const struct pdl_args *args,
                      const struct pdl_cmd *other, struct pdl_sink *out);
void cli_quote(struct pdl_sink *out, const char *word);
/* The command line that was given, without --report and --json. */
void cli_command_line(const struct pdl_cmd *cmd, const struct pdl_args *args,
                      struct pdl_sink *out);
/* An option's value as text; NULL when it was not given. */
const char *cli_option_value(const struct pdl_opt *o, const void *opts,
                             char *buf, size_t size);
/* Becomes paradl-run with the same command line, on so many ranks (0: started
 * as it is). Returns only when that failed: an exit code. */
int cli_launch(const struct pdl_cmd *cmd, const struct pdl_args *args,
               int64_t ranks);
/* The same as a child that is waited for; its exit code. An interrupt is the
 * child's to obey. */
int cli_launch_wait(const struct pdl_cmd *cmd, const struct pdl_args *args,
                    int64_t ranks);
/* Runs it instead and takes what it prints. */
/* A child that does not outlive this program, however it ends. */
pid_t cli_fork(int64_t ranks);
enum pdl_status cli_capture(const struct pdl_cmd *cmd,
                            const struct pdl_args *args, int64_t ranks,
                            struct pdl_buf *out, struct pdl_err *err);
/* The same, where what goes wrong is said elsewhere. */
enum pdl_status cli_capture_mute(const struct pdl_cmd *cmd,
                                 const struct pdl_args *args, int64_t ranks,
                                 struct pdl_buf *out, struct pdl_err *err);

#endif
