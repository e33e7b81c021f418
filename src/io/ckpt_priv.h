/* Shared by the files of checkpoints: what a manifest says, and files that
 * are on the disk when a function returns. */
#ifndef IO_CKPT_PRIV_H
#define IO_CKPT_PRIV_H

#include "paradl/io.h"

/* A part of a tensor in a file, with a checksum for every chunk. */
struct io_shard {
    int file;
    int64_t offset, bytes;
    struct pdl_box box;
    int64_t nchunks;
    uint64_t *sum;
};

struct io_tensor {
    struct pdl_ckpt_tensor pub;
    int nshards;
    struct io_shard *shard;
};

struct io_file {
    const char *name;
    int64_t bytes;
};

/* A manifest, or the part of one rank: the same text, one of many files. */
struct pdl_ckpt {
    pdl_arena *arena;
    const char *path; /* of the folder */
    int fd;           /* of the folder; -1: a part that is not open */
    struct pdl_ckpt_state state;
    uint64_t run, owner;
    int64_t chunk_bytes;
    int nfiles;
    struct io_file *file;
    int ntensors;
    struct io_tensor *tensor;
};

/* ---- text (ckpt_print.c, ckpt_parse.c) ---- */

/* The text carries a checksum of itself. */
enum pdl_status io_manifest_print(const struct pdl_ckpt *c, struct pdl_buf *out,
                                  struct pdl_err *err);
/* Everything is checked but the files themselves; whole: also that shards
 * tile every tensor and names rise. c->arena is given. */
enum pdl_status io_manifest_parse(struct pdl_ckpt *c, struct pdl_bytes in,
                                  const char *name, bool whole,
                                  struct pdl_err *err);
/* The same without the checksum: what a fuzzer can reach. */
enum pdl_status io_manifest_read(struct pdl_ckpt *c, struct pdl_bytes in,
                                 const char *name, bool whole,
                                 struct pdl_err *err);
/* True when the boxes are disjoint and together the whole (tiles.c). */
bool io_tiles(const struct io_shard *shard, int n, const int64_t *dim,
              int rank);

/* ---- elements (copy.c) ---- */

/* Bytes of a box; false when they overflow or are not whole. */
bool io_box_bytes(const struct pdl_box *b, enum pdl_dtype t, int64_t *out);
/* Copies the elements of `part` from a row-major box into another. src points
 * at the element `skip` of from's box. */
void io_copy_part(const struct pdl_box *part, int64_t bytes,
                  const struct pdl_box *from, const void *src, int64_t skip,
                  const struct pdl_box *to, void *dst);
/* First and one past the last element of a part in its row-major box. */
void io_part_span(const struct pdl_box *part, const struct pdl_box *box,
                  int64_t *first, int64_t *end);

/* ---- files (durable.c) ---- */

/* `at` is an open folder, `path` what messages call the thing. */
enum pdl_status io_sys_fail(struct pdl_err *err, const char *path);
int io_open_folder(int at, const char *name); /* -1: errno says why */
int io_make_folder(int at, const char *name); /* made where it is not there */
bool io_sync(int fd);
bool io_write_all(int fd, const void *data, size_t len);
int io_create(int at, const char *name); /* a new file in place of an old one */
/* Under another name, synced, renamed. */
bool io_write_file(int at, const char *name, const void *data, size_t len);
enum pdl_status io_read_file(pdl_arena *a, int at, const char *name,
                             const char *path, struct pdl_bytes *out,
                             struct pdl_err *err);
enum pdl_status io_read_at(int fd, const char *path, int64_t at, void *dst,
                           int64_t n, struct pdl_err *err);
/* A folder with the files in it; no deeper. */
enum pdl_status io_remove_folder(int at, const char *name, const char *path,
                                 struct pdl_err *err);

/* ---- which there are (ckpt_find.c) ---- */

/* Steps in a folder, largest first, to be freed. */
enum pdl_status io_ckpt_steps(int at, const char *dir, bool temporary,
                              int64_t **out, int *n, struct pdl_err *err);
enum pdl_status io_ckpt_open_step(int at, const char *dir, int64_t step,
                                  pdl_ckpt **out, struct pdl_err *err);
/* A folder named `name` in `at`; path is for messages. */
enum pdl_status io_ckpt_open(int at, const char *name, const char *path,
                             pdl_ckpt **out, struct pdl_err *err);

/* ---- writing (ckpt_part.c) ---- */

/* What one rank, or rank 0 for all, is doing. */
struct io_work {
    const struct pdl_ckpt_writer *w;
    struct pdl_ckpt c; /* of this rank, or the whole */
    const char *temporary;
    char name[40], temporary_name[48]; /* in w->dir */
    int dir, tmp;                      /* open folders */
    struct pdl_err *err;
};
/* Makes the folders where they are not there. To be ended, whatever comes
 * back. */
enum pdl_status io_ckpt_begin(struct io_work *k,
                              const struct pdl_ckpt_writer *w,
                              const struct pdl_ckpt_state *s,
                              struct pdl_err *err);
void io_ckpt_end(struct io_work *k);
void io_ckpt_at(const struct pdl_ckpt_writer *w, enum pdl_ckpt_phase p);
enum pdl_status io_ckpt_no_memory(const struct pdl_ckpt_writer *w,
                                  struct pdl_err *err);
/* Writes k->c as a file of the temporary folder, durably. */
enum pdl_status io_ckpt_text(struct io_work *k, const char *name);

#endif
