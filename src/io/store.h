/* Shared by the files of stores: the container as it lies on the disk
 * (store_file.c) and samples in it (store.c).
 *
 *     header A  4096 bytes     two copies, written in turn: the valid one of
 *     header B  4096           the larger generation counts
 *     slots     capacity x record_bytes
 *     index     capacity x 16: the sample in a slot (-1: free) and a checksum
 *               of its bytes, keyed by the sample
 *
 * Numbers have the byte order of the machine that wrote them, and a mark of
 * it. A slot is written before its line of the index, and the line is freed
 * before the slot is used again: a process that is killed at any time leaves
 * whole samples, and whatever a power cut mixes up fails its checksum. */
#ifndef IO_STORE_H
#define IO_STORE_H

#include "io_priv.h"

#include <pthread.h>

enum { STORE_HEADER = 4096, STORE_VERSION = 1 };

/* One field of a sample: io_elem's name, and if pixels are scaled. */
struct store_field {
    char elem[8];
    int32_t integer, rank;
    int64_t dim[PDL_DATA_RANK];
    int64_t pixels;
};

struct store_header {
    char magic[8];
    uint32_t version, order;
    uint64_t generation;
    int64_t samples, classes; /* of the data set's split */
    int64_t capacity, record_bytes;
    uint64_t fingerprint; /* of the data set */
    struct store_field input, target;
    char split[32];
    char format[16];
    uint64_t sum; /* of all before it */
};

struct store_line {
    int64_t sample; /* -1: free */
    uint64_t sum;
};

struct pdl_store {
    char *path;
    int fd;
    bool writable;
    struct store_header h;
    struct io_array input, target; /* of a record; at is not set */
    int64_t target_at;             /* bytes of a record before the target */
    unsigned char *map;
    size_t map_bytes;
    struct store_line *line; /* in the map */
    pthread_rwlock_t lock;   /* of all below, and of the lines */
    int32_t *table;          /* slots by sample: open addressing, -1: none */
    int64_t table_size, count;
    int32_t *free;     /* slots, the next one last */
    uint8_t *verified; /* by slot: its checksum has been looked at */
    int64_t nfree, healed, dropped;
};

/* ---- store_file.c ---- */

/* What a header says, checked against itself and the file's length. */
enum pdl_status io_store_parse(struct pdl_bytes in, int64_t file_bytes,
                               const char *path, struct store_header *out,
                               struct pdl_err *err);
int64_t io_store_file_bytes(const struct store_header *h); /* -1: overflows */
/* Opens and locks; maps; or makes a new one of s->h. */
enum pdl_status io_store_open_file(struct pdl_store *s, bool create,
                                   struct pdl_err *err);
/* Another capacity; slots beyond it must be free. */
enum pdl_status io_store_set_capacity(struct pdl_store *s, int64_t capacity,
                                      struct pdl_err *err);
void io_store_close_file(struct pdl_store *s);
unsigned char *io_store_slot(const struct pdl_store *s, int64_t slot);

/* ---- store_open.c ---- */

/* pdl_store_encode, where the caller guards against files that shrink. */
enum pdl_status io_store_encode(const struct pdl_store *s, const pdl_io *io,
                                int split, int64_t sample, void *record,
                                struct pdl_err *err);

/* ---- store.c ---- */

/* From the lines; those that say what cannot be become free slots. */
enum pdl_status io_store_index(struct pdl_store *s, struct pdl_err *err);

#endif
