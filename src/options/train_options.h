/* The options of `train`: `paradl` checks them, `paradl-run` follows them. */
#ifndef RUN_TRAIN_OPTIONS_H
#define RUN_TRAIN_OPTIONS_H

#include "paradl/base.h"

struct train_options {
    const char *data, *strategy, *plan, *plan_hash, *emit, *optimizer,
        *schedule, *precision;
    const char *backend, *dim, *checkpoint, *trace, *timings, *log, *load,
        *save, *outputs, *shuffle, *hide, *store, *freeze, *names;
    const char *device, *far, *system, *sites;
    int64_t memory;
    int64_t ranks, batch, epochs, steps, seed, every, keep, warmup, threads;
    int64_t sequence, restarts, log_every, lr_every, samples;
    int64_t test_samples, mask_token;
    double lr, lr_last, lr_gamma, clip, label_smoothing;
    bool resume, virtual_ranks, augment, raw, allow_empty, mean_squares;
    bool progress, comm_threads, no_test, resume_anyway, beside, partial,
        cpu_times, size;
    double timeout, spike, ema;
    const char *on_nan, *no_decay;
    bool grad_norm, no_dropout;
    bool no_ema; /* of evaluate, from here on */
    const char *split;
    const char *loss_scale;
};

#define AT(field) offsetof(struct train_options, field)
// clang-format off
static const struct pdl_opt train_opts[] = {
    {"strategy", 0, PDL_OPT_TEXT, AT(strategy), "STRATEGY", NULL,
     "how to parallelise, e.g. data=2,filter=2 (default: data=P)"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL,
     "samples of one step, over all ranks (default 32)"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME", "fp32|bf16|fp64",
     "of the arithmetic (default fp32; bf16 keeps fp32 masters)"},
    {"dim", 0, PDL_OPT_TEXT, AT(dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of the model"},
    {"allow-empty", 0, PDL_OPT_FLAG, AT(allow_empty), NULL, NULL,
     "admit an axis larger than the index it cuts"},
    {"plan", 0, PDL_OPT_TEXT, AT(plan), "FILE.plan", NULL,
     "run this plan instead of MODEL and --strategy"},
    {"plan-hash", 0, PDL_OPT_TEXT, AT(plan_hash), "HEX", NULL,
     "refuse a plan whose text has another hash"},
    {"emit", 0, PDL_OPT_TEXT, AT(emit), "FILE.plan", NULL,
     "write the plan, say its hash, and stop"},
    /* TRAIN_WHAT so far; the rest is for a plan, too */
    {"data", 0, PDL_OPT_TEXT, AT(data), "DIR", NULL,
     "'digits' (ships with the program), 'synthetic', a file or a folder"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(ranks), "P", NULL,
     "ranks (default: the product of the strategy's axes)"},
    {"epochs", 0, PDL_OPT_COUNT, AT(epochs), "E", NULL,
     "passes over the data (default 1)"},
    {"steps", 0, PDL_OPT_COUNT, AT(steps), "N", NULL,
     "stop after so many steps"},
    {"lr", 0, PDL_OPT_AMOUNT, AT(lr), "X", NULL, "learning rate (default 0.01)"},
    {"schedule", 0, PDL_OPT_TEXT, AT(schedule), "NAME",
     "constant|step|cosine|polynomial", "of the learning rate"},
    {"warmup", 0, PDL_OPT_INT, AT(warmup), "N", NULL,
     "steps in which the learning rate rises to --lr"},
    {"lr-last", 0, PDL_OPT_NUM, AT(lr_last), "X", NULL,
     "learning rate at the end of cosine and polynomial"},
    {"lr-every", 0, PDL_OPT_COUNT, AT(lr_every), "N", NULL,
     "steps between the cuts of 'step'"},
    {"lr-gamma", 0, PDL_OPT_AMOUNT, AT(lr_gamma), "X", NULL,
     "factor of each cut of 'step' (default 0.1)"},
    {"optimizer", 0, PDL_OPT_TEXT, AT(optimizer), "NAME[:K=V,...]", NULL,
     "sgd, adam, adamw, lars, lamb (default sgd:momentum=0.9)"},
    {"no-decay", 0, PDL_OPT_TEXT, AT(no_decay), "WHAT", "bias|norm|bias,norm",
     "spare these from weight decay (default: none)"},
    {"ema", 0, PDL_OPT_AMOUNT, AT(ema), "X", NULL,
     "keep a moving mean of the weights, e.g. 0.999; test and save it"},
    {"no-dropout", 0, PDL_OPT_FLAG, AT(no_dropout), NULL, NULL,
     "train without the model's dropout"},
    {"clip", 0, PDL_OPT_AMOUNT, AT(clip), "X", NULL,
     "largest norm of the gradient"},
    {"on-nan", 0, PDL_OPT_TEXT, AT(on_nan), "POLICY", "stop|skip|rollback",
     "leave the batch out, or also go back to the checkpoint"},
    {"spike", 0, PDL_OPT_AMOUNT, AT(spike), "X", NULL,
     "treat a loss above X times the mean of the last so, too"},
    {"grad-norm", 0, PDL_OPT_FLAG, AT(grad_norm), NULL, NULL,
     "measure the norm of the gradient (--log does, too)"},
    {"loss-scale", 0, PDL_OPT_TEXT, AT(loss_scale), "X|dynamic", NULL,
     "factor on gradients in backward; dynamic: as large as goes"},
    {"label-smoothing", 0, PDL_OPT_NUM, AT(label_smoothing), "X", NULL,
     "share of a label that goes to all classes"},
    {"mse", 0, PDL_OPT_FLAG, AT(mean_squares), NULL, NULL,
     "mean squared error instead of cross-entropy"},
    {"backend", 0, PDL_OPT_TEXT, AT(backend), "NAME", NULL,
     "ref (plain C) or cpu (oneDNN; default where it is built)"},
    {"device", 0, PDL_OPT_TEXT, AT(device), "NAME", NULL,
     "cpu (default), cuda, cuda:1, cuda:1:tf32, or auto: a GPU if there is one"},
    {"memory", 0, PDL_OPT_SIZE, AT(memory), "SIZE", NULL,
     "a rank's tensors, workspaces and states may have, e.g. 16GiB; what does "
     "not fit is decided by block: kept, made again, or elsewhere"},
    {"system", 0, PDL_OPT_TEXT, AT(system), "SYSTEM", NULL,
     "whose rates --memory decides by (default: guessed for this host)"},
    {"size", 0, PDL_OPT_FLAG, AT(size), NULL, NULL,
     "say what memory the plan takes on a rank, and stop"},
    {"far", 0, PDL_OPT_TEXT, AT(far), "DIR", NULL,
     "a file in DIR for what offload=activations lets wait (default: memory)"},
    {"sites", 0, PDL_OPT_TEXT, AT(sites), "N[:K=V,...]", NULL,
     "so many times the strategy's ranks, each with its part of the batch; "
     "they meet every local=100 steps, with lr=0.7 and momentum=0.9"},
    {"threads", 0, PDL_OPT_COUNT, AT(threads), "N", NULL,
     "of each rank (default: processors / ranks)"},
    {"comm-threads", 0, PDL_OPT_FLAG, AT(comm_threads), NULL, NULL,
     "a thread of its own moves gradients during backward"},
    {"virtual", 0, PDL_OPT_FLAG, AT(virtual_ranks), NULL, NULL,
     "all ranks in one process, as threads"},
    {"seed", 0, PDL_OPT_INT, AT(seed), "S", NULL,
     "of weights, order and dropout (default 0)"},
    {"shuffle", 0, PDL_OPT_TEXT, AT(shuffle), "NAME[:K=V,...]", NULL,
     "global, none, or by workers: local, partial:q=0.3, pair:q=0.3"},
    {"hide", 0, PDL_OPT_TEXT, AT(hide), "NAME[:K=V,...]", NULL,
     "leave samples out: kakurenbo:f=0.3, infobatch, ies, seta, random, sb"},
    {"store", 0, PDL_OPT_TEXT, AT(store), "DIR", NULL,
     "samples of each rank on its local disk, exchanged as --shuffle says"},
    {"augment", 0, PDL_OPT_FLAG, AT(augment), NULL, NULL,
     "random crops and flips of images"},
    {"raw", 0, PDL_OPT_FLAG, AT(raw), NULL, NULL,
     "do not normalise inputs by mean and deviation"},
    {"sequence", 0, PDL_OPT_COUNT, AT(sequence), "T", NULL,
     "tokens of a sample (default: what the model takes)"},
    {"mask-token", 0, PDL_OPT_COUNT, AT(mask_token), "N", NULL,
     "token that hides others from an encoder (default: the last)"},
    {"samples", 0, PDL_OPT_COUNT, AT(samples), "N", NULL,
     "of 'synthetic' (default 1024)"},
    {"test-samples", 0, PDL_OPT_COUNT, AT(test_samples), "N", NULL,
     "test with the first N after every epoch (default: all)"},
    {"no-test", 0, PDL_OPT_FLAG, AT(no_test), NULL, NULL,
     "do not test after an epoch and at the end"},
    {"checkpoint", 0, PDL_OPT_TEXT, AT(checkpoint), "DIR", NULL,
     "save here, and at the end and when told to stop"},
    {"every", 0, PDL_OPT_COUNT, AT(every), "N", NULL,
     "steps between checkpoints (default: by what one costs)"},
    {"keep", 0, PDL_OPT_COUNT, AT(keep), "N", NULL,
     "checkpoints kept (default 2)"},
    {"resume", 0, PDL_OPT_FLAG, AT(resume), NULL, NULL,
     "go on from the newest good checkpoint, if there is one"},
    {"resume-anyway", 0, PDL_OPT_FLAG, AT(resume_anyway), NULL, NULL,
     "--resume even with another batch, seed, augmentation or data"},
    {"beside", 0, PDL_OPT_FLAG, AT(beside), NULL, NULL,
     "where --checkpoint DIR is another run's, use DIR-2, DIR-3 ..."},
    {"timeout", 0, PDL_OPT_AMOUNT, AT(timeout), "SECONDS", NULL,
     "wait so long for a rank (default 300, checkpoints 600)"},
    {"restarts", 0, PDL_OPT_COUNT, AT(restarts), "N", NULL,
     "after a lost rank: from the last checkpoint (default 3)"},
    {"load", 0, PDL_OPT_TEXT, AT(load), "FILE.safetensors", NULL,
     "first weights, also an index or a folder; names of ours, of "
     "transformers, torchvision, timm or Meta"},
    {"partial", 0, PDL_OPT_FLAG, AT(partial), NULL, NULL,
     "weights that --load has not, or of another shape, stay as initialised"},
    {"freeze", 0, PDL_OPT_TEXT, AT(freeze), "PATTERN,...", NULL,
     "weights that do not change: 'embed.*,layers.[0-3].*'"},
    {"save", 0, PDL_OPT_TEXT, AT(save), "FILE.safetensors", NULL,
     "write the trained weights"},
    {"names", 0, PDL_OPT_TEXT, AT(names), "STYLE",
     "paradl|hf|torchvision|timm|meta",
     "names in --save (default: those of --load, of a config.json hf)"},
    {"outputs", 0, PDL_OPT_TEXT, AT(outputs), "FILE.safetensors", NULL,
     "write what the model said to the last step's batch"},
    {"log", 0, PDL_OPT_TEXT, AT(log), "FILE.csv|.jsonl|.tfevents", NULL,
     "also write loss and rates of every step to a file"},
    {"log-every", 0, PDL_OPT_COUNT, AT(log_every), "N", NULL,
     "steps between lines of --json (default 1)"},
    {"trace", 0, PDL_OPT_TEXT, AT(trace), "FILE.json", NULL,
     "write what the last step did as a Chrome trace"},
    {"timings", 0, PDL_OPT_TEXT, AT(timings), "FILE.json", NULL,
     "write the time of every operation in the fastest step"},
    {"cpu-times", 0, PDL_OPT_FLAG, AT(cpu_times), NULL, NULL,
     "--timings: local operations by CPU time, of one thread; for machines on "
     "which other work runs"},
    {"progress", 0, PDL_OPT_FLAG, AT(progress), NULL, NULL,
     "a progress line even where standard error is no terminal"},
};
// clang-format on
#undef AT

enum {
    NTRAIN_OPTS = sizeof train_opts / sizeof train_opts[0],
    TRAIN_WHAT = 8, /* the first of them say what is trained */
};

#endif
