/* Operators as the machine's library runs them, for calibration. */
#ifndef RUN_OPERATOR_H
#define RUN_OPERATOR_H

#include "paradl/base.h"

enum run_pass { RUN_FORWARD, RUN_BACKWARD_DATA, RUN_BACKWARD_WEIGHTS };

/* dims as the system file has them: conv n c h w f k stride pad; matmul m n k,
 * (m x k) (k x n). */
struct run_shape {
    bool conv;
    enum run_pass pass;
    bool bf16; /* else float32 */
    int64_t dims[8];
};

typedef struct run_operator run_operator;
/* NULL: the library is not built in, or has no such kernel. */
run_operator *run_operator_open(const struct run_shape *shape);
void run_operator_run(run_operator *op);
void run_operator_close(run_operator *op);
const char *run_operator_library(void); /* NULL: none */

#endif
