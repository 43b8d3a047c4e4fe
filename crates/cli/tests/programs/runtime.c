// Fails like a program of CUDA's runtime API. With an argument it asks for the driver's tables first,
// as NVIDIA's runtime library does. With STATIC it contains a text of that library, otherwise only
// its name.
#include "driver.h"

int cuGetExportTable(const void **, const void *);

#ifdef STATIC
const char error[] = "CUDA driver version is insufficient for CUDA runtime version";
#else
const char name[] = "\0libcudart.so.12";
#endif

int main(int argc, char **arguments) {
    (void)arguments;
    const char id[16] = {0};
    const void *table;
    if (argc > 1)
        FAILS(500, cuGetExportTable(&table, id));
    return 1;
}
