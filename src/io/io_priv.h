/* Shared inside the room: an open data set, arrays of samples in memory, and
 * the formats. */
#ifndef IO_PRIV_H
#define IO_PRIV_H

#include "paradl/io.h"

/* ---- arrays of samples ------------------------------------------------ */

/* A type of stored numbers. */
struct io_elem {
    const char *name; /* "u8", "f32" ... */
    int bytes;
    bool integer;
    double scale; /* to bring it to [0,1]: 1/255 for pixels of 8 bits */
    double (*get)(const unsigned char *p, bool swap);
};
const struct io_elem *io_elem_find(const char *name); /* NULL: none */

/* Samples of one shape at equal distances in memory. dim and step are in the
 * field's order, whatever the order of storage. */
struct io_array {
    const unsigned char *at;
    int64_t count, stride; /* samples, and bytes from one to the next */
    const struct io_elem *elem;
    bool swap; /* of the other byte order */
    int rank;
    int64_t dim[PDL_DATA_RANK];
    int64_t step[PDL_DATA_RANK]; /* bytes */
    double scale;
};

/* Lays an array of ndims >= 1 dimensions, samples first, over the bytes:
 * [N,H,W] is one channel; of [N,H,W,C] and [N,C,H,W] the small one of the
 * two ends is C. Fails unless the bytes hold it. */
enum pdl_status io_array_lay(struct io_array *a, struct pdl_bytes in,
                             const int64_t *dim, int ndims, const char *name,
                             struct pdl_err *err);
/* A part of sample i, as float or int32_t. */
void io_array_read(const struct io_array *a, int64_t i,
                   const struct pdl_box *box, bool integer, void *dst);
/* The largest of an integer array; -1 - i: that of sample i is negative or too
 * large. */
int64_t io_array_max(const struct io_array *a);

/* ---- an open data set ------------------------------------------------- */

enum { IO_SEGMENTS = 16, IO_NAMES = 4096 };

/* Reads a part of one sample; dst as the field says. */
struct io_ops {
    enum pdl_status (*input)(const pdl_io *io, int split, int64_t sample,
                             const struct pdl_box *box, void *dst,
                             struct pdl_err *err);
    enum pdl_status (*target)(const pdl_io *io, int split, int64_t sample,
                              const struct pdl_box *box, void *dst,
                              struct pdl_err *err);
    void (*close)(pdl_io *io); /* NULL: nothing to do */
    /* A whole input of pixels, a byte each, channels first; NULL: by input. */
    enum pdl_status (*bytes)(const pdl_io *io, int split, int64_t sample,
                             unsigned char *dst, struct pdl_err *err);
    /* The file that holds a sample, and its number there; NULL: the path. */
    const char *(*where)(const pdl_io *io, int split, int64_t sample,
                         bool target, int64_t *number);
};

/* Samples [first, first + input.count) of a split: one file or pair. */
struct io_segment {
    int split;
    int64_t first;
    struct io_array input, target;
};

struct pdl_io {
    pdl_arena *arena;
    struct pdl_dataset d;
    struct pdl_io_options opt;
    const char *path;
    const struct io_ops *ops;
    struct io_segment segment[IO_SEGMENTS]; /* of formats that are arrays */
    int nsegments;
    void *state; /* of the other formats */
    bool finite; /* its numbers are stored as integers: none is NaN */
    bool pixels; /* inputs are bytes / 255 */
    struct io_loaded {
        const char *path;
        struct pdl_bytes bytes;
        bool mapped;
    } file[IO_SEGMENTS * 2];
    int nfiles;
};

/* What is at a path, for probing. */
struct io_source {
    const char *path;
    bool folder;
    const char **name; /* of the files of a folder, sorted */
    int nnames;
    struct pdl_bytes head; /* of a file, inflated */
    int64_t bytes;         /* of a file, as stored */
    bool packed;           /* gzip */
};

struct io_format {
    struct pdl_format pub;
    bool (*probe)(const struct io_source *src);
    enum pdl_status (*open)(pdl_io *io, const struct io_source *src,
                            struct pdl_err *err);
};
extern const struct io_format io_format_idx, io_format_npy, io_format_cifar,
    io_format_hdf5, io_format_csv, io_format_text, io_format_tokens,
    io_format_synthetic, io_format_images, io_format_webdataset;

/* ---- files ------------------------------------------------------------ */

/* A whole file for as long as the data set is open: mapped, or inflated. */
enum pdl_status io_load(pdl_io *io, const char *path, struct pdl_bytes *out,
                        struct pdl_err *err);
/* The first bytes of a file, inflated; fewer when it is shorter. */
enum pdl_status io_peek(pdl_arena *a, const char *path, size_t want,
                        struct pdl_bytes *out, bool *packed,
                        struct pdl_err *err);
bool io_has_suffix(const char *name, const char *suffix); /* .gz ignored */
bool io_has_file(const struct io_source *src, const char *name);
const char *io_join(pdl_arena *a, const char *folder, const char *name);

/* ---- helpers of formats ------------------------------------------------ */

/* The split of that name, made when it is new; -1 when there are too many. */
int io_split(pdl_io *io, const char *name);
/* Appends a segment to its split. */
enum pdl_status io_segment_add(pdl_io *io, int split,
                               const struct io_array *input,
                               const struct io_array *target,
                               struct pdl_err *err);
/* The description from the segments: all alike, labels counted. */
enum pdl_status io_segments_describe(pdl_io *io, struct pdl_err *err);
extern const struct io_ops io_segment_ops;
/* Folders of array files, one for inputs and one for targets a split. */
enum pdl_status io_pairs_open(
    pdl_io *io, const struct io_source *src, const char *suffix,
    enum pdl_status (*parse)(struct pdl_bytes in, const char *name,
                             struct io_array *out, struct pdl_err *err),
    struct pdl_err *err);
/* Samples held back as "test": the option, or the format's own share. */
int64_t io_holdout(const pdl_io *io, int64_t n, double usual);

/* Parsers of one file in memory. */
enum pdl_status io_idx_parse(struct pdl_bytes in, const char *name,
                             struct io_array *out, struct pdl_err *err);
enum pdl_status io_npy_parse(struct pdl_bytes in, const char *name,
                             struct io_array *out, struct pdl_err *err);
enum pdl_status io_cifar_parse(struct pdl_bytes in, const char *name,
                               struct io_array *input, struct io_array *target,
                               struct pdl_err *err);
/* Opens one file that is in memory: built-in data, and the fuzz targets. */
enum pdl_status io_open_memory(const char *name, struct pdl_bytes in,
                               const struct io_format *format,
                               const struct pdl_io_options *opt, pdl_io **out,
                               struct pdl_err *err);
/* csv, text and tokens from memory; parts are splits (train, test), one part
 * is cut in two. */
enum pdl_status io_csv_open(pdl_io *io, struct pdl_bytes in,
                            struct pdl_err *err);
enum pdl_status io_text_open(pdl_io *io, const struct pdl_bytes *part,
                             int nparts, struct pdl_err *err);
enum pdl_status io_tokens_open(pdl_io *io, const struct pdl_bytes *part,
                               int nparts, struct pdl_err *err);

/* Sequences of numbers, `width` bytes each: sample i is items [i*T, i*T + T],
 * the target one further. map, when there is one, renames bytes. */
struct io_ids {
    int width;
    unsigned char map[256];
    bool mapped;
    const unsigned char *at[PDL_DATA_SPLITS];
};
/* part i is split i; parts[0] alone is cut by the share held back. classes
 * must be set. */
enum pdl_status io_ids_open(pdl_io *io, struct io_ids *ids,
                            const struct pdl_bytes *part, int nparts,
                            struct pdl_err *err);
/* Loads train and test (or val) of a folder, or one file. */
enum pdl_status io_ids_load(pdl_io *io, const struct io_source *src,
                            const char *suffix, struct pdl_bytes *part,
                            int *nparts, struct pdl_err *err);

/* The data set that ships with the program (made by cmake). */
extern const unsigned char io_digits[];
extern const int64_t io_digits_bytes;

#endif
