// Counts the driver's calls that wait for the device on the host. To be loaded with LD_PRELOAD:
//
//     gcc -shared -fPIC -O1 -o interposed.so interposed.c
//
// Everything that loads the driver at run time finds its functions by dlsym, and most of them by
// cuGetProcAddress, which it finds by dlsym. Both are replaced here, and give functions that count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static atomic_ulong waits;

// The number of waits since the start of the process.
unsigned long interposed_waits(void) { return atomic_load(&waits); }

// Defines a function that counts and calls the driver's, whose address is noted when it is found.
#define WAIT(name, parameters, arguments)                                                          \
    static int (*next_##name) parameters;                                                          \
    static int name parameters {                                                                   \
        atomic_fetch_add(&waits, 1);                                                               \
        return next_##name arguments;                                                              \
    }

WAIT(cuStreamSynchronize, (void *stream), (stream))
WAIT(cuStreamSynchronize_ptsz, (void *stream), (stream))
WAIT(cuEventSynchronize, (void *event), (event))
WAIT(cuCtxSynchronize, (void), ())
WAIT(cuMemcpy, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes))
WAIT(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes), (to, from, bytes))
WAIT(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes), (to, from, bytes))
WAIT(cuMemFree_v2, (uint64_t pointer), (pointer))

typedef int GetV1(const char *, void **, int, uint64_t);
typedef int GetV2(const char *, void **, int, uint64_t, void *);
static GetV1 *next_cuGetProcAddress;
static GetV2 *next_cuGetProcAddress_v2;
static GetV1 cuGetProcAddress;
static GetV2 cuGetProcAddress_v2;

#define COUNTED(name) {#name, (void *)name, (void **)&next_##name}
static const struct {
    const char *name;
    void *function;
    void **next;
} TABLE[] = {
    COUNTED(cuStreamSynchronize), COUNTED(cuStreamSynchronize_ptsz), COUNTED(cuEventSynchronize),
    COUNTED(cuCtxSynchronize),    COUNTED(cuMemcpy),                 COUNTED(cuMemcpyDtoH_v2),
    COUNTED(cuMemcpyHtoD_v2),     COUNTED(cuMemFree_v2),             COUNTED(cuGetProcAddress),
    COUNTED(cuGetProcAddress_v2),
};

// Returns the function that takes the place of the driver's of this name, if there is one.
static void *replaced(const char *name, void *found) {
    for (size_t at = 0; found && at < sizeof TABLE / sizeof *TABLE; at++)
        if (!strcmp(name, TABLE[at].name)) {
            if (found != TABLE[at].function) *TABLE[at].next = found;
            return TABLE[at].function;
        }
    return found;
}

// The names that the table of functions has for the older ones.
static void *replaced_by_version(const char *name, void *found, int version, uint64_t flags) {
    const uint64_t per_thread = 2;
    if (!strcmp(name, "cuStreamSynchronize") && (flags & per_thread))
        name = "cuStreamSynchronize_ptsz";
    if (!strcmp(name, "cuMemcpyDtoH")) name = "cuMemcpyDtoH_v2";
    if (!strcmp(name, "cuMemcpyHtoD")) name = "cuMemcpyHtoD_v2";
    if (!strcmp(name, "cuMemFree")) name = "cuMemFree_v2";
    if (!strcmp(name, "cuGetProcAddress") && version >= 12000) name = "cuGetProcAddress_v2";
    return replaced(name, found);
}

static int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                               void *status) {
    int code = next_cuGetProcAddress_v2(name, function, version, flags, status);
    if (!code && function) *function = replaced_by_version(name, *function, version, flags);
    return code;
}

static int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    int code = next_cuGetProcAddress(name, function, version, flags);
    if (!code && function) *function = replaced_by_version(name, *function, version, flags);
    return code;
}

void *dlsym(void *library, const char *name) {
    static void *(*next)(void *, const char *);
    const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (size_t at = 0; !next && at < sizeof versions / sizeof *versions; at++)
        next = dlvsym(RTLD_NEXT, "dlsym", versions[at]);
    return replaced(name, next(library, name));
}
