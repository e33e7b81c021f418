/* Inside the train room: memory far from the computing one (far.c), and a file
 * that plays it (far_file.c). */
#ifndef TRAIN_FAR_H
#define TRAIN_FAR_H

#include "paradl/comm.h"

struct train_far_file;

struct train_far {
    bool *leaves, *comes; /* tensors that are copied out, that come in */
    uint64_t *ticket;     /* of the copy of each tensor and micro-batch */
    uint64_t last_in;
    char *at;                    /* memory of the host, or */
    struct train_far_file *file; /* ... a file */
};

/* Bytes of the host's memory that this process may still have (host_room.c);
 * by_group: a limit of its group says so. */
int64_t train_host_room(bool *by_group);
/* What the group whose folder is path, and those above it up to root, leave;
 * INT64_MAX: there is no limit. Cuts path. */
int64_t train_group_room(const char *root, char *path);
/* May this rank take so many bytes? All ranks call it: those of a host take
 * from the same memory, each says what it sees before any of them takes, and
 * all of the host are refused, or none. */
enum pdl_status train_host_ask(pdl_comm *c, int64_t bytes, int64_t room,
                               bool by_group, struct pdl_err *err);

enum pdl_status train_far_folder(const char *where, struct pdl_err *err);
/* In the folder `where`; the file has no name once it is open, and its blocks
 * from the start. */
enum pdl_status train_far_file_open(const char *where, int64_t rank,
                                    int64_t bytes, struct train_far_file **out,
                                    struct pdl_err *err);
void train_far_file_close(struct train_far_file *f); /* NULL: nothing */
/* Asks a thread to write (out) or read bytes at `at` of the file. */
enum pdl_status train_far_file_copy(struct train_far_file *f, bool out,
                                    char *near, int64_t at, int64_t bytes,
                                    struct pdl_err *err);
/* A ticket for all that was asked of one direction so far, and a wait for it;
 * an error of any copy is told there. */
uint64_t train_far_file_record(struct train_far_file *f, bool out);
enum pdl_status train_far_file_wait(struct train_far_file *f, bool out,
                                    uint64_t ticket, struct pdl_err *err);

#endif
