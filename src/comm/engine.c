/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that moves started operations while the rank computes. It sleeps
 * when nothing is started, and naps when what is started waits for others, so
 * that it costs the computation little; a lock keeps it and the caller apart.
 * Who waits for an operation moves it too, and keeps the lock meanwhile. */
#include "comm_core.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

struct comm_engine {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t started;
    bool stop;
};

void comm_lock(pdl_comm *c)
{
    if (c->engine)
        pthread_mutex_lock(&c->engine->lock);
}

void comm_unlock(pdl_comm *c)
{
    if (c->engine)
        pthread_mutex_unlock(&c->engine->lock);
}

/* Something was started; called with the lock. */
void comm_engine_wake(pdl_comm *c)
{
    pthread_cond_signal(&c->engine->started);
}

/* Between two looks: a few turns for an answer that is on its way. */
static void pause_for(int idle)
{
    static const struct timespec nap = {0, 20000};

    if (idle < 16)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static void *engine_main(void *arg)
{
    pdl_comm *c = arg;
    struct comm_engine *e = c->engine;
    int idle = 0;

    pthread_mutex_lock(&e->lock);
    while (!e->stop) {
        uint64_t before = c->moves;

        if (!c->first) {
            pthread_cond_wait(&e->started, &e->lock);
            idle = 0;
            continue;
        }
        comm_advance_all(c);
        idle = c->moves != before ? 0 : idle + 1;
        pthread_mutex_unlock(&e->lock);
        pause_for(idle);
        pthread_mutex_lock(&e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

enum pdl_status comm_engine_start(pdl_comm *c, struct pdl_err *err)
{
    int provided = MPI_THREAD_MULTIPLE;
    bool messages = c->mpi && (!c->area || c->node_size < c->size);
    struct comm_engine *e;

    if (messages)
        MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        snprintf(c->note, sizeof c->note,
                 "MPI was initialized without MPI_THREAD_MULTIPLE: no thread "
                 "of its own moves what is started");
        return PDL_OK;
    }
    e = calloc(1, sizeof *e);
    if (!e)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a thread");
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->started, NULL);
    c->engine = e;
    if (pthread_create(&e->thread, NULL, engine_main, c) == 0)
        return PDL_OK;
    c->engine = NULL;
    free(e);
    return pdl_fail(err, PDL_ENOENV, "cannot start a thread");
}

void comm_engine_stop(pdl_comm *c)
{
    struct comm_engine *e = c->engine;

    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->started);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->started);
    c->engine = NULL;
    free(e);
}

enum pdl_status pdl_comm_move_behind(pdl_comm *c, struct pdl_err *err)
{
    c->progress = true;
    return c->engine ? PDL_OK : comm_engine_start(c, err);
}
