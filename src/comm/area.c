/* SPDX-License-Identifier: Apache-2.0
 *
 * The area: the memory that the ranks of one node (or of one process) share
 * to speak with each other.
 *
 *   header | a seat a rank | two slots a rank for short ones of all at once |
 *   lanes [channel][from][to], each of 8 entries of a cache line and a slot |
 *   stages: room for parts of long vectors and of their sums, twice a rank
 *
 * Every word is written by one rank, except an entry's state, which goes
 * FREE -> FULL by the sender and on by the receiver. A slot holds 8 KiB with
 * few ranks and less with many: lanes grow with the square of the ranks and
 * together stay within about 32 MiB. */
#include "comm_core.h"

#include <sys/mman.h>
#include <unistd.h>

static int64_t line_up(int64_t bytes)
{
    return (bytes + COMM_LINE - 1) / COMM_LINE * COMM_LINE;
}

static int64_t slot_bytes(int n)
{
    int64_t lanes = (int64_t)COMM_NCHANNELS * n * n * COMM_ENTRIES;
    int64_t slot = ((int64_t)32 << 20) / lanes / COMM_LINE * COMM_LINE;

    return slot > 8192 ? 8192 : slot < 256 ? 256 : slot;
}

static int64_t seats_at(void)
{
    return line_up((int64_t)sizeof(struct comm_area));
}

static int64_t flat_at(int n)
{
    return seats_at() + n * (int64_t)sizeof(struct comm_seat);
}

static int64_t lanes_at(int n)
{
    return flat_at(n) + (int64_t)n * 2 * COMM_FLAT_BYTES;
}

static int64_t stages_at(int n)
{
    int64_t lanes = (int64_t)COMM_NCHANNELS * n * n * COMM_ENTRIES;

    return lanes_at(n) +
           lanes * ((int64_t)sizeof(struct comm_entry) + slot_bytes(n));
}

/* A part of a vector that is passed through: small enough to stay in the
 * caches of the ranks, long enough that waiting for them costs little. */
static int64_t stage_bytes(int n)
{
    return n <= 16 ? 524288 : 65536;
}

int64_t comm_area_bytes(int n, bool staged)
{
    return stages_at(n) + (staged ? (int64_t)n * 4 * stage_bytes(n) : 0);
}

/* The memory is zero: FREE entries, nobody has arrived. */
void comm_area_init(struct comm_area *a, int n, bool staged)
{
    a->n = n;
    a->slot_bytes = slot_bytes(n);
    a->stage_bytes = staged ? stage_bytes(n) : 0;
    a->bytes = comm_area_bytes(n, staged);
    atomic_store(&a->users, n);
}

struct comm_seat *comm_area_seat(struct comm_area *a, int i)
{
    return (struct comm_seat *)((char *)a + seats_at()) + i;
}

char *comm_area_flat(struct comm_area *a, int i, int half)
{
    return (char *)a + flat_at(a->n) +
           ((int64_t)i * 2 + half) * COMM_FLAT_BYTES;
}

struct comm_entry *comm_area_entry(struct comm_area *a, enum comm_channel ch,
                                   int from, int to, uint32_t i)
{
    int64_t lane = ((int64_t)ch * a->n + from) * a->n + to;
    int64_t at = lane * COMM_ENTRIES + i % COMM_ENTRIES;

    return (struct comm_entry *)((char *)a + lanes_at(a->n) +
                                 at * ((int64_t)sizeof(struct comm_entry) +
                                       a->slot_bytes));
}

char *comm_area_stage(struct comm_area *a, int i, int half)
{
    return (char *)a + stages_at(a->n) +
           ((int64_t)i * 4 + half) * a->stage_bytes;
}

void comm_area_touch_stages(struct comm_area *a)
{
#ifdef MADV_POPULATE_WRITE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)comm_area_stage(a, 0, 0) & ~(page - 1);

    madvise((void *)at, (uintptr_t)a + (uintptr_t)a->bytes - at,
            MADV_POPULATE_WRITE);
#else
    (void)a;
#endif
}

char *comm_area_sums(struct comm_area *a, int i, int half)
{
    return comm_area_stage(a, i, 2 + half);
}
