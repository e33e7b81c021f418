/* Shared by the formats that hold compressed images: folders of them
 * (image_folder.c) and tar files (webdataset.c). */
#ifndef IO_IMAGES_H
#define IO_IMAGES_H

#include "io_priv.h"

/* One image: a file, or bytes of one that is mapped. */
struct io_image {
    const char *path;      /* of its file; for messages, of the tar's */
    struct pdl_bytes data; /* data.data NULL: the file is read */
    int32_t label;
};

struct io_images {
    int64_t side; /* of what is given to the model: side x side, RGB */
    struct {
        struct io_image *image;
        int64_t n, room;
    } split[PDL_DATA_SPLITS];
    struct pdl_bytes *map; /* of tar files */
    int nmaps;
};

/* NULL: out of memory, said. */
struct io_images *io_images_new(pdl_io *io, struct pdl_err *err);
enum pdl_status io_images_add(pdl_io *io, int split,
                              const struct io_image *image,
                              struct pdl_err *err);
/* The description, when all are there. */
enum pdl_status io_images_describe(pdl_io *io, int64_t classes,
                                   struct pdl_err *err);

/* jpeg.c: a whole image, its shorter side scaled to `side` and the middle of
 * the longer one, as three planes of bytes. name is for messages. */
enum pdl_status io_jpeg_decode(struct pdl_bytes in, const char *name,
                               int64_t side, unsigned char *planes,
                               struct pdl_err *err);

/* webdataset.c: every sample of a tar file that is in memory. */
enum pdl_status io_tar_index(pdl_io *io, struct pdl_bytes in, const char *name,
                             int split, int32_t *most, struct pdl_err *err);

#endif
