/* Shared inside the room: the ways to order an epoch. */
#ifndef DATA_PRIV_H
#define DATA_PRIV_H

#include "paradl/data.h"

extern const struct pdl_shuffle data_shuffle_global, data_shuffle_none;

#endif
