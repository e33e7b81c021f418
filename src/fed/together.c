/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks that are trained together (FedDCT, IEEE TNSM 2024): besides their
 * own cross-entropy they are to agree, by the Jensen-Shannon divergence of
 * their probabilities, JS = H(mean p) - mean H(p). Its derivative by p_s,c is
 * (log p_s,c - log mean_c) / S, and through the softmax each row loses the mean
 * of that under p_s. */
#include "fed/learner.h"

#include <math.h>

static void softmax(const float *y, int64_t n, double *p)
{
    double most = (double)y[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        most = (double)y[i] > most ? (double)y[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp((double)y[i] - most);
    for (int64_t i = 0; i < n; i++)
        p[i] = fmax(p[i] / sum, 1e-300);
}

/* Of one sample: p and mean are `classes` long each. */
static double row(int parts, int part, int64_t classes, const float *logits,
                  int64_t stride, double weight, float *dlogits, double *p,
                  double *mean)
{
    double js = 0, inner = 0;

    for (int64_t c = 0; c < classes; c++)
        mean[c] = 0;
    for (int k = 0; k < parts; k++) {
        softmax(logits + k * stride, classes, p);
        for (int64_t c = 0; c < classes; c++) {
            mean[c] += p[c] / parts;
            js += p[c] * log(p[c]) / parts;
        }
    }
    for (int64_t c = 0; c < classes; c++)
        js -= mean[c] * log(mean[c]);
    softmax(logits + part * stride, classes, p);
    for (int64_t c = 0; c < classes; c++)
        inner += p[c] * (log(p[c]) - log(mean[c]));
    for (int64_t c = 0; c < classes; c++)
        dlogits[c] +=
            (float)(weight * p[c] / parts * (log(p[c]) - log(mean[c]) - inner));
    return js;
}

double fed_together(int parts, int part, int64_t rows, int64_t classes,
                    const float *logits, int64_t stride, double weight,
                    float *dlogits)
{
    double room[2048], sum = 0;

    if (classes > (int64_t)(sizeof room / sizeof room[0]) / 2)
        return NAN; /* refused when the learner was opened */
    for (int64_t i = 0; i < rows; i++)
        sum += row(parts, part, classes, logits + i * classes, stride, weight,
                   dlogits + i * classes, room, room + classes);
    return sum;
}
