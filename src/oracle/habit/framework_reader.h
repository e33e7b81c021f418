/* Shared by the readers of a framework's file. */
#ifndef ORACLE_HABIT_FRAMEWORK_READER_H
#define ORACLE_HABIT_FRAMEWORK_READER_H

#include "oracle/habit/framework.h"

enum { FRAMEWORK_KEYS = 80 };

struct framework_reader {
    pdl_arena *a;
    struct pdl_framework *f;
    struct pdl_habit *habit;       /* FRAMEWORK_KEYS of them */
    uint8_t given[FRAMEWORK_KEYS]; /* by the file itself, not by its base */
    struct pdl_err *err;
};

/* A map or a list, or an error with its place. */
enum pdl_status oracle_framework_want(const struct framework_reader *r,
                                      const struct pdl_doc *d,
                                      enum pdl_doc_kind kind);
/* framework_runs.c */
enum pdl_status oracle_framework_runs(struct framework_reader *r,
                                      const struct pdl_doc *map);
enum pdl_status oracle_framework_exports(struct framework_reader *r,
                                         const struct pdl_doc *map);

#endif
