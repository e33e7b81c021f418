/* SPDX-License-Identifier: Apache-2.0
 *
 * A Slurm batch script around the program that is to be started: torchrun on
 * every node. What only the site knows (partition, account) stands there as a
 * comment to edit. */
#include "export.h"

#include <math.h>

/* 100 steps as projected and half as much again, at least ten minutes. */
static int64_t minutes(const struct pdl_export_job *job)
{
    double m = ceil(job->step_s * 100 * 1.5 / 60);

    return m < 10 ? 10 : m > 1e6 ? 1000000 : (int64_t)m;
}

/* Any strategy can be started: only the number of PEs matters. */
static enum pdl_status count(const struct pdl_export_job *job, int64_t *nodes,
                             int64_t *each, struct pdl_err *err)
{
    struct pdl_mesh mesh;
    enum pdl_status st = pdl_mesh_make(job->strategy, &mesh, err);

    if (st != PDL_OK)
        return st;
    return report_machines(job->system, "sbatch", mesh.pes, nodes, each, err);
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    int64_t nodes, each, m = minutes(job);
    enum pdl_status st = count(job, &nodes, &each, err);

    if (st != PDL_OK)
        return st;
    pdl_printf(out,
               "#!/bin/bash\n"
               "#SBATCH --job-name=paradl\n"
               "#SBATCH --nodes=%lld\n"
               "#SBATCH --ntasks-per-node=1\n"
               "#SBATCH --gpus-per-node=%lld\n"
               "#SBATCH --exclusive\n"
               "#SBATCH --time=%lld:%02lld:00\n"
               "#SBATCH --output=%%x-%%j.out\n"
               "##SBATCH --partition=EDIT\n"
               "##SBATCH --account=EDIT\n",
               (long long)nodes, (long long)each, (long long)(m / 60),
               (long long)(m % 60));
    report_export_head(job, "# ", out);
    pdl_printf(out,
               "# --time is 100 steps as projected, and half as much again\n"
               "set -eu\n"
               "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | "
               "head -n1)\n"
               "srun torchrun --nnodes \"$SLURM_NNODES\" --nproc-per-node "
               "%lld \\\n"
               "    --rdzv-id \"$SLURM_JOB_ID\" --rdzv-backend c10d \\\n"
               "    --rdzv-endpoint \"$head:29500\" \\\n"
               "    train.py \"$@\" # EDIT: the program\n",
               (long long)each);
    return PDL_OK;
}

const struct pdl_exporter report_export_sbatch = {
    .name = "sbatch",
    .summary = "a Slurm batch script around torchrun",
    .write = write,
};
