/* The options of `federate`: `paradl` checks, `paradl-run` follows them. */
#ifndef RUN_FEDERATE_OPTIONS_H
#define RUN_FEDERATE_OPTIONS_H

#include "paradl/base.h"

struct federate_options {
    const char *data, *partition, *algorithm, *optimizer, *backend, *checkpoint,
        *save, *result, *report, *load, *devices, *strategy, *system;
    int64_t clients, select, rounds, epochs, steps, batch, seed, samples;
    int64_t test_every, test_samples, ranks, threads, every, keep;
    double lr, lr_decay, drop, deadline, speed, spread, timeout;
    double flops, latency, away, target;
    int64_t only, first_round;
    int64_t client_samples, down, up; /* down, up: bytes a second */
    bool no_test, raw, resume, virtual_ranks, emit, show_partition, progress,
        project;
};

#define AT(field) offsetof(struct federate_options, field)
// clang-format off
static const struct pdl_opt federate_opts[] = {
    {"data", 0, PDL_OPT_TEXT, AT(data), "DIR", NULL,
     "'digits' (ships with the program), 'synthetic', a file or a folder"},
    {"clients", 0, PDL_OPT_INT, AT(clients), "N", NULL,
     "that share the training split (default 10)"},
    {"partition", 0, PDL_OPT_TEXT, AT(partition), "NAME[:K=V,...]", NULL,
     "iid, dirichlet:alpha=0.5, pathological:classes=2, cluster:groups=5, "
     "quantity:alpha=1 (default iid)"},
    {"algorithm", 0, PDL_OPT_TEXT, AT(algorithm), "NAME[:K=V,...]", NULL,
     "fedavg (default), fedprox, fedadam, fedyogi, scaffold, fedbuff, cadis, "
     "sem, safa, feddct; or a baseline: central, local"},
    {"rounds", 0, PDL_OPT_INT, AT(rounds), "N", NULL,
     "(default 10; 0: the first weights, for --save)"},
    {"select", 0, PDL_OPT_COUNT, AT(select), "N", NULL,
     "clients of a round (default: all)"},
    {"epochs", 0, PDL_OPT_COUNT, AT(epochs), "E", NULL,
     "of a client in a round (default 1)"},
    {"steps", 0, PDL_OPT_COUNT, AT(steps), "N", NULL,
     "of a client in a round, instead of epochs"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL,
     "samples of a client's step (default 10)"},
    {"lr", 0, PDL_OPT_AMOUNT, AT(lr), "X", NULL,
     "learning rate of clients (default 0.05)"},
    {"lr-decay", 0, PDL_OPT_AMOUNT, AT(lr_decay), "X", NULL,
     "factor of the rate in each round (default 1)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(optimizer), "NAME[:K=V,...]", NULL,
     "of clients (default sgd:momentum=0)"},
    {"strategy", 0, PDL_OPT_TEXT, AT(strategy), "STRATEGY", NULL,
     "of a client with several devices, threads here, e.g. data=2 (default: "
     "it has one)"},
    {"drop", 0, PDL_OPT_NUM, AT(drop), "X", NULL,
     "share of the clients that drop out of a round (default 0)"},
    {"deadline", 0, PDL_OPT_TIME, AT(deadline), "TIME", NULL,
     "of a round: who needs longer is left out"},
    {"speed", 0, PDL_OPT_AMOUNT, AT(speed), "X", NULL,
     "samples that a client's device trains in a second (default 100)"},
    {"spread", 0, PDL_OPT_NUM, AT(spread), "X", NULL,
     "of the devices' speeds: deviation of the logarithm (default 0)"},
    {"devices", 0, PDL_OPT_TEXT, AT(devices), "NAME[:K=V,...]", NULL,
     "phone, edge or wan: speed, link, spread and share away, where the "
     "options for these do not say"},
    {"system", 0, PDL_OPT_TEXT, AT(system), "SYSTEM", NULL,
     "of a client's devices, a built-in or a YAML file: a step takes what "
     "'paradl project' says, and --speed follows"},
    {"away", 0, PDL_OPT_NUM, AT(away), "X", NULL,
     "share of the clients that cannot be asked in a round (default 0)"},
    {"device-flops", 0, PDL_OPT_AMOUNT, AT(flops), "X", NULL,
     "FLOP/s that a device reaches in training; --speed follows from it"},
    {"down", 0, PDL_OPT_SIZE, AT(down), "BYTES", NULL,
     "a second, from the server to a client (default: takes no time)"},
    {"up", 0, PDL_OPT_SIZE, AT(up), "BYTES", NULL,
     "a second, from a client to the server (default: takes no time)"},
    {"latency", 0, PDL_OPT_TIME, AT(latency), "TIME", NULL,
     "of each transfer (default 0)"},
    {"project", 0, PDL_OPT_FLAG, AT(project), NULL, NULL,
     "train nothing: say what rounds take on these devices and links"},
    {"client-samples", 0, PDL_OPT_COUNT, AT(client_samples), "N", NULL,
     "of each client, for --project (default: as the partition has it)"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "S", NULL,
     "of weights, partition, choice and order (default 0)"},
    {"samples", 0, PDL_OPT_COUNT, AT(samples), "N", NULL,
     "of 'synthetic' (default 1024)"},
    {"test-every", 0, PDL_OPT_COUNT, AT(test_every), "N", NULL,
     "rounds between tests (default 1)"},
    {"test-samples", 0, PDL_OPT_COUNT, AT(test_samples), "N", NULL,
     "test with the first N (default: all)"},
    {"target", 0, PDL_OPT_NUM, AT(target), "X", NULL,
     "stop at this accuracy, 0 to 1, and say what it took"},
    {"no-test", 0, PDL_OPT_FLAG, AT(no_test), NULL, NULL, "do not test"},
    {"raw", 0, PDL_OPT_FLAG, AT(raw), NULL, NULL,
     "do not normalise inputs by mean and deviation"},
    {"emit", 0, PDL_OPT_FLAG, AT(emit), NULL, NULL,
     "print the plan of every round, a line of JSON each, and stop"},
    {"show-partition", 0, PDL_OPT_FLAG, AT(show_partition), NULL, NULL,
     "print who has how many samples of which class, and stop"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "MPI processes that train clients (default: threads of one process, as "
     "many as there are processors for)"},
    {"virtual", 0, PDL_OPT_FLAG, AT(virtual_ranks), NULL, NULL,
     "all ranks in one process, as threads"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL,
     "of each worker, or device of a client (default 1)"},
    {"backend", 0, PDL_OPT_TEXT, AT(backend), "NAME", NULL,
     "ref (plain C) or cpu (oneDNN; default where it is built)"},
    {"checkpoint", 0, PDL_OPT_TEXT, AT(checkpoint), "DIR", NULL,
     "save here, and at the end and when told to stop"},
    {"every", 0, PDL_OPT_COUNT, AT(every), "N", NULL,
     "models trained between checkpoints (default: a round's)"},
    {"keep", 0, PDL_OPT_COUNT, AT(keep), "N", NULL,
     "checkpoints kept (default 2)"},
    {"resume", 0, PDL_OPT_FLAG, AT(resume), NULL, NULL,
     "go on from the newest good checkpoint, also within a round"},
    {"load", 0, PDL_OPT_TEXT, AT(load), "FILE.safetensors", NULL,
     "first weights, as --save writes them"},
    {"only", 0, PDL_OPT_INT, AT(only), "CLIENT", NULL,
     "train this client alone, for a server elsewhere"},
    {"first-round", 0, PDL_OPT_INT, AT(first_round), "N", NULL,
     "number of the first round, for a server elsewhere (default 0)"},
    {"save", 0, PDL_OPT_TEXT, AT(save), "FILE.safetensors", NULL,
     "write the weights at the end"},
    {"result", 0, PDL_OPT_TEXT, AT(result), "FILE.json", NULL,
     "write what happened in all rounds, for 'paradl report'"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "a page with charts of the run"},
    {"timeout", 0, PDL_OPT_AMOUNT, AT(timeout), "SECONDS", NULL,
     "wait so long for a rank (default 300)"},
    {"progress", 0, PDL_OPT_FLAG, AT(progress), NULL, NULL,
     "a line of progress (default: where a person looks on)"},
};
// clang-format on
#undef AT

enum { NFEDERATE_OPTS = sizeof federate_opts / sizeof federate_opts[0] };

#endif
