/* Event files of TensorBoard, for metrics.c. */
#ifndef IO_EVENTS_H
#define IO_EVENTS_H

#include "paradl/base.h"

uint32_t io_crc32c(const void *data, size_t n);
void io_events_head(struct pdl_sink *out);
void io_events_row(const char *const *tag, int n, int64_t step, const double *v,
                   struct pdl_sink *out);
/* Bytes of the record at p and its step; 0: it is broken or cut off. */
int64_t io_events_record(const char *p, const char *end, int64_t *step);

#endif
