/* A libcuda.so.1 for machines without a driver: all that cuDNN wants while it
 * makes a plan succeeds, and nothing runs. With it the engines that compile
 * their kernels (attention) are made, too: tests/run/cuda_plans.py. The types
 * are not the driver's: only success and handles that are not NULL count. */

enum { SUCCESS = 0 };

/* Whose results nobody looks at before something runs. */
#define NOTHING(name)   \
    int name(void);     \
    int name(void)      \
    {                   \
        return SUCCESS; \
    }

// clang-format off
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuStreamGetCtx)
NOTHING(cuDriverGetVersion)
NOTHING(cuLinkCreate)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkDestroy)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuDeviceGetCount)
NOTHING(cuDeviceGet)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuKernelGetAttribute)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuLibraryUnload)
NOTHING(cuKernelSetAttribute)
NOTHING(cuFuncSetAttribute)
// clang-format on

#define A_HANDLE(name)       \
    int name(void **handle); \
    int name(void **handle)  \
    {                        \
        *handle = handle;    \
        return SUCCESS;      \
    }

A_HANDLE(cuLibraryLoadData)
A_HANDLE(cuLibraryGetKernel)
A_HANDLE(cuLibraryGetModule)
A_HANDLE(cuKernelGetFunction)

int cuLibraryGetGlobal(void **at, unsigned long *bytes);
int cuLibraryGetGlobal(void **at, unsigned long *bytes)
{
    *at = at;
    *bytes = 0;
    return SUCCESS;
}
