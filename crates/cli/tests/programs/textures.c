// Fetches from textures of every kind, and accesses to surfaces. Each line of the output has the
// kind and a hash of the results; with a file as argument, the results are also written there.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include "driver.h"

enum { POINTS = 128, WIDTH = 13, HEIGHT = 7, DEPTH = 5 };
enum Geometry { G1, G2, G3, GA1, GA2, GLINEAR, GPITCH };
enum { LAYERED = 1, SURFACE = 2, GATHER = 8 };
enum { INTEGER = 1, NORMALISED = 2 };

static const char *geometry_names[] = {"1d", "2d", "3d", "a1d", "a2d", "linear", "pitch"};
static const char *shapes[] = {"1d", "2d", "3d", "a1d", "a2d", "1d", "2d"};
static const struct Format {
    const char *name;
    int number, bytes;
    const char *type;
} formats[] = {{"u8", 1, 1, "u32"},   {"u16", 2, 2, "u32"}, {"u32", 3, 4, "u32"},
               {"s8", 8, 1, "s32"},   {"s16", 9, 2, "s32"}, {"s32", 10, 4, "s32"},
               {"f16", 16, 2, "f32"}, {"f32", 32, 4, "f32"}};

static FILE *dump;
static Address coordinates, results;
static uint32_t host[POINTS * 4];
static uint64_t state;
static uint64_t hash;

static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static void add(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    if (dump)
        fwrite(data, 1, bytes, dump);
}

static void begin(void) { hash = 14695981039346656037u; }
static void line(const char *text) { printf("%s %016llx\n", text, (unsigned long long)hash); }

static uint32_t bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

// Fills memory with random texels of a format: finite floats, or any integers.
static void fill(unsigned char *data, size_t bytes, const struct Format *format) {
    for (size_t i = 0; i < bytes; i += format->bytes) {
        uint32_t value = next() << 1 ^ next();
        if (format->number == 32)
            value = bits((float)(int32_t)(value >> 8) / 4194304.0f - 2.0f);
        if (format->number == 16)
            value = value % 0x4200 | (value >> 16 & 0x8000);
        memcpy(data + i, &value, format->bytes);
    }
}

// ---- The kernels ----

static char text[1 << 18];
static size_t length;
#define PUT(...) length += sprintf(text + length, __VA_ARGS__)

#define HEADER ".version 8.0\n.target sm_75\n.address_size 64\n"

// The kernels, each the only one of its module: a driver may refuse single ones.
static struct Kernel {
    char name[32];
    size_t start;
    Handle function;
    int code;
} kernels[512];
static int kernel_count;

// Loads a kernel once in the current context. Returns null if the driver refuses it.
static Handle function(const char *name) {
    static char one[1 << 14];
    struct Kernel *found = kernels;
    while (strcmp(found->name, name)) {
        found++;
        HOLDS(found < kernels + kernel_count);
    }
    if (!found->function && !found->code) {
        Handle module;
        size_t end = found + 1 < kernels + kernel_count ? found[1].start : length;
        sprintf(one, "%s%.*s", HEADER, (int)(end - found->start), text + found->start);
        found->code = cuModuleLoadDataEx(&module, one, 0, NULL, NULL);
        if (!found->code)
            found->code = cuModuleGetFunction(&found->function, module, name);
        if (found->code)
            printf("%d: %s\n", found->code, name);
    }
    return found->function;
}

// Begins a kernel whose thread i has the coordinates i in registers.
static void kernel(const char *name) {
    strcpy(kernels[kernel_count].name, name);
    kernels[kernel_count++].start = length;
    PUT(".visible .entry %s(.param .u64 po, .param .u64 pc, .param .u64 pt) {\n"
        ".reg .u32 %%t<4>;\n.reg .b32 %%a<4>;\n.reg .f32 %%f<4>;\n.reg .b32 %%d<4>;\n"
        ".reg .f32 %%e<4>;\n.reg .u64 %%p<6>;\n.reg .b64 %%q<2>;\n.reg .b16 %%h<4>;\n"
        "ld.param.u64 %%p0, [po];\nld.param.u64 %%p1, [pc];\nld.param.u64 %%p2, [pt];\n"
        "mov.u32 %%t0, %%tid.x;\nmul.wide.u32 %%p3, %%t0, 16;\nadd.u64 %%p0, %%p0, %%p3;\n"
        "add.u64 %%p1, %%p1, %%p3;\nld.global.v4.b32 {%%a0, %%a1, %%a2, %%a3}, [%%p1];\n"
        "mov.b32 %%f0, %%a0;\nmov.b32 %%f1, %%a1;\nmov.b32 %%f2, %%a2;\nmov.b32 %%f3, %%a3;\n"
        "mov.b32 %%d0, 0;\nmov.b32 %%d1, 0;\nmov.b32 %%d2, 0;\nmov.b32 %%d3, 0;\n", name);
}

static void end(int floats) {
    if (floats)
        PUT("mov.b32 %%d0, %%e0;\nmov.b32 %%d1, %%e1;\nmov.b32 %%d2, %%e2;\nmov.b32 %%d3, %%e3;\n");
    PUT("st.global.v4.b32 [%%p0], {%%d0, %%d1, %%d2, %%d3};\nret;\n}\n");
}

// The coordinates of a geometry in registers of this kind, a layer in the integer ones.
static const char *vector(int geometry, char kind) {
    static char text[64];
    switch (geometry) {
    case G1: sprintf(text, "{%%%c0}", kind); break;
    case G2: sprintf(text, "{%%%c0, %%%c1}", kind, kind); break;
    case G3: sprintf(text, "{%%%c0, %%%c1, %%%c2, %%%c2}", kind, kind, kind, kind); break;
    case GA1: sprintf(text, "{%%a3, %%%c0}", kind); break;
    default: sprintf(text, "{%%a3, %%%c0, %%%c1, %%%c1}", kind, kind, kind); break;
    }
    return text;
}

static const char *types[] = {"f32", "s32", "u32"};
static const char *widths[] = {"b8", "b16", "b32", "b64", "v2.b32", "v4.b32"};
static const char *clamps[] = {"trap", "clamp", "zero"};
static const char *atomics[] = {"add.u32", "add.u64", "min.s32", "max.s32", "min.u32", "max.u32", "and.b32", "or.b32"};
// NVIDIA's driver drops kernels with the other queries.
static const char *queries[] = {"width", "height", "depth"};

static void write_kernels(void) {
    char name[64];
    for (int g = 0; g <= GA2; g++)
        for (int t = 0; t < 3; t++)
            for (int c = 0; c < 2; c++) {
                char d = t == 0 ? 'e' : 'd';
                sprintf(name, "tex_%s_%s_%s", shapes[g], types[t], types[c]);
                kernel(name);
                PUT("tex.%s.v4.%s.%s {%%%c0, %%%c1, %%%c2, %%%c3}, [%%p2, %s];\n", shapes[g],
                    types[t], types[c], d, d, d, d, vector(g, c ? 'a' : 'f'));
                end(t == 0);
            }
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < 4; c++) {
            char d = t == 0 ? 'e' : 'd';
            sprintf(name, "tld4_%c_%s", "rgba"[c], types[t]);
            kernel(name);
            PUT("tld4.%c.2d.v4.%s.f32 {%%%c0, %%%c1, %%%c2, %%%c3}, [%%p2, {%%f0, %%f1}];\n",
                "rgba"[c], types[t], d, d, d, d);
            end(t == 0);
        }
    for (int q = 0; q < 3; q++) {
        sprintf(name, "txq_%s", queries[q]);
        kernel(name);
        PUT("txq.%s.b32 %%d0, [%%p2];\n", queries[q]);
        end(0);
        sprintf(name, "suq_%s", queries[q]);
        kernel(name);
        PUT("suq.%s.b32 %%d0, [%%p2];\n", queries[q]);
        end(0);
    }
    for (int g = 0; g <= GA2; g++)
        for (int w = 0; w < 6; w++)
            for (int m = 0; m < 3; m++) {
                static const char *values[] = {"%h0", "%h0", "%d0", "%q0", "{%d0, %d1}", "{%d0, %d1, %d2, %d3}"};
                sprintf(name, "suld_%s_%d_%s", shapes[g], w, clamps[m]);
                kernel(name);
                PUT("suld.b.%s.%s.%s %s, [%%p2, %s];\n", shapes[g], widths[w], clamps[m],
                    values[w], vector(g, 'a'));
                PUT("%s", w < 2 ? "cvt.u32.u16 %d0, %h0;\n" : w == 3 ? "mov.b64 {%d0, %d1}, %q0;\n" : "");
                if (w == 0)
                    PUT("and.b32 %%d0, %%d0, 255;\n");
                end(0);
                sprintf(name, "sust_%s_%d_%s", shapes[g], w, clamps[m]);
                kernel(name);
                PUT("mul.lo.u32 %%d0, %%t0, 0x9e3779b1;\nnot.b32 %%d1, %%d0;\n"
                    "shl.b32 %%d2, %%d0, 3;\nshl.b32 %%d3, %%d1, 5;\ncvt.u16.u32 %%h0, %%d0;\n"
                    "mov.b64 %%q0, {%%d0, %%d1};\n");
                PUT("sust.b.%s.%s.%s [%%p2, %s], %s;\n", shapes[g], widths[w], clamps[m],
                    vector(g, 'a'), values[w]);
                end(0);
            }
    for (int a = 0; a < 8; a++) {
        sprintf(name, "sured_%d", a);
        kernel(name);
        PUT("mul.lo.u32 %%d0, %%t0, 0x9e3779b1;\nnot.b32 %%d1, %%d0;\nmov.b64 %%q0, {%%d0, %%d1};\n");
        const char *type = strchr(atomics[a], '.');
        PUT("sured.b.%.*s.2d%s.zero [%%p2, {%%a0, %%a1}], %s;\n", (int)(type - atomics[a]),
            atomics[a], type, a == 1 ? "%q0" : "%d0");
        end(0);
    }
}

// Each thread stores to its texel of a row, and fetches the next one.
// A kernel that fetches until another has set a word, and that other one.
static void write_wait(void) {
    kernel("wait");
    PUT(".reg .pred %%w;\nAGAIN:\ntex.2d.v4.u32.s32 {%%d0, %%d1, %%d2, %%d3}, [%%p2, {%%a0, %%a1}];\n"
        "ld.volatile.global.u32 %%t1, [%%p0+64];\nsetp.eq.u32 %%w, %%t1, 0;\n@%%w bra AGAIN;\n");
    end(0);
    kernel("set");
    PUT("st.volatile.global.u32 [%%p0+64], 1;\nadd.u64 %%p0, %%p0, 512;\n");
    end(0);
}

static void write_shift(void) {
    kernel("shift");
    PUT(".reg .u64 %%s;\n.reg .u32 %%x;\nld.global.u64 %%s, [%%p1];\nmov.b32 %%a1, 0;\n"
        "shl.b32 %%a0, %%t0, 2;\nsust.b.2d.b32.zero [%%s, {%%a0, %%a1}], %%t0;\n"
        "add.u32 %%a0, %%t0, 1;\n"
        "tex.2d.v4.u32.s32 {%%d0, %%d1, %%d2, %%d3}, [%%p2, {%%a0, %%a1}];\n");
    end(0);
}

static void launch(const char *name, uint64_t object) {
    OK(cuMemcpyHtoD_v2(coordinates, host, sizeof host));
    OK(cuMemsetD8_v2(results, 0xcd, sizeof host));
    void *arguments[] = {&results, &coordinates, &object};
    if (function(name))
        OK(cuLaunchKernel(function(name), 1, 1, 1, POINTS, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
}

static void collect(void) {
    static uint32_t words[POINTS * 4];
    OK(cuMemcpyDtoH_v2(words, results, sizeof words));
    add(words, sizeof words);
}

// ---- The textures ----

static size_t depth_of(int g) { return g == G3 || g == GA2 ? DEPTH : g == GA1 ? DEPTH : 0; }
static size_t height_of(int g) { return g == G1 || g == GA1 || g == GLINEAR ? 0 : HEIGHT; }
static size_t rows_of(int g) { return (height_of(g) ? HEIGHT : 1) * (depth_of(g) ? DEPTH : 1); }

static Handle make_array(int g, const struct Format *format, int channels, unsigned flags) {
    struct ArrayDescriptor descriptor = {
        .width = WIDTH, .height = height_of(g), .depth = depth_of(g), .format = format->number,
        .channels = channels, .flags = flags | (g == GA1 || g == GA2 ? LAYERED : 0)};
    Handle array;
    OK(cuArray3DCreate_v2(&array, &descriptor));
    return array;
}

static struct Box box_of(int g, Handle array, void *data, size_t row) {
    struct Box box = {
        .source = {.type = 1, .host = data, .pitch = row, .height = height_of(g) ? HEIGHT : 1},
        .target = {.type = 3, .array = array}, .width_bytes = row,
        .height = height_of(g) ? HEIGHT : 1, .depth = depth_of(g) ? DEPTH : 1};
    return box;
}

static void upload(int g, Handle array, unsigned char *data, size_t row) {
    struct Box box = box_of(g, array, data, row);
    OK(cuMemcpy3D_v2(&box));
}

static float a_coordinate(int size, int normalised) {
    static const float specials[] = {0.0f, -0.0f, 0.5f, 1.0f, -1.0f, 1e10f, -1e10f, 1e-40f, 3e38f,
                                     2.0f, -3.0f, 16777217.0f, 8388609.5f, -2147483648.0f};
    uint32_t kind = next() % 16, choice = next();
    uint32_t odd[] = {0x7fc00000, 0x7f800000, 0xff800000, 0xffffffff};
    float value;
    if (kind == 0) {
        memcpy(&value, &odd[choice % 4], 4);
        return value;
    }
    if (kind == 1)
        return specials[choice % 14];
    // On a 1/512 of a texel, at the edges of texels, or anywhere.
    value = kind < 5 ? (float)((int)(choice % (4 * 512 * 13)) - 512 * 13) / 512.0f
          : kind < 7 ? (float)((int)(choice % 52) - 13) / 2.0f
                     : (float)choice / 2147483648.0f * 4.0f * size - 1.5f * size;
    return normalised ? value / size : value;
}

static void points(int normalised, int integers) {
    int sizes[] = {WIDTH, HEIGHT, DEPTH};
    for (int i = 0; i < POINTS; i++) {
        for (int d = 0; d < 3; d++) {
            if (integers)
                host[4 * i + d] = next() % 16 ? next() % (sizes[d] + 8) - 4 : next() << 1;
            else
                host[4 * i + d] = bits(a_coordinate(sizes[d], normalised));
        }
        host[4 * i + 3] = next() % 16 ? next() % (DEPTH + 1) : next() << 1;
    }
}

static void texture(int g, const struct Format *format, int channels, int filter) {
    static unsigned char data[WIDTH * HEIGHT * DEPTH * 16];
    size_t row = (size_t)WIDTH * channels * format->bytes;
    struct Resource resource = {0};
    Handle array = NULL;
    Address memory = 0;
    fill(data, row * rows_of(g), format);
    if (g == GLINEAR || g == GPITCH) {
        size_t pitch = g == GLINEAR ? row : 256;
        OK(cuMemAlloc_v2(&memory, pitch * HEIGHT));
        struct Rows rows = {.source_type = 1, .source_host = data, .source_pitch = row,
                            .target_type = 2, .target_device = memory, .target_pitch = pitch,
                            .width_bytes = row, .height = rows_of(g)};
        OK(cuMemcpy2D_v2(&rows));
        resource.type = g == GLINEAR ? 2 : 3;
        resource.linear.device = memory;
        resource.linear.format = format->number;
        resource.linear.channels = channels;
        resource.linear.bytes = g == GLINEAR ? row : WIDTH;
        resource.linear.height = HEIGHT;
        resource.linear.pitch = pitch;
    } else {
        array = make_array(g, format, channels, 0);
        upload(g, array, data, row);
        resource.array = array;
    }
    for (int mode = 0; mode < 4; mode++)
        for (unsigned flags = 0; flags < 4; flags++) {
            struct TextureDescriptor descriptor = {
                .modes = {mode, mode, mode}, .filter = filter, .flags = flags,
                .border = {0.25f, -0.75f, 3.0f, 0.1f}};
            uint64_t object = 0;
            int code = cuTexObjectCreate(&object, &resource, &descriptor, NULL);
            add(&code, 4);
            if (code)
                continue;
            int is_float = format->number >= 16 || (!(flags & INTEGER) && format->bytes < 4);
            const char *type = is_float ? "f32" : format->type;
            for (int integers = 0; integers < 2; integers++) {
                char name[64];
                points(flags & NORMALISED, integers);
                // CUDA C++ has no such fetches.
                if ((g == G1 && integers) || (g == GLINEAR && !integers) || (filter && !is_float))
                    continue;
                sprintf(name, "tex_%s_%s_%s", shapes[g], type, types[integers]);
                launch(name, object);
                collect();
            }
            OK(cuTexObjectDestroy(object));
        }
    if (array)
        OK(cuArrayDestroy(array));
    else
        OK(cuMemFree_v2(memory));
}

// The weights of linear filtering: one texel of 2^d is 1.
static void weights(int g, int bits_of_format) {
    const struct Format *format = &formats[bits_of_format];
    static const int starts[] = {5, 3, 2};
    int dimensions = g == G1 ? 1 : g == G2 ? 2 : 3;
    for (int corner = 0; corner < 1 << dimensions; corner++)
        for (int round = 0; round < 8; round++) {
            static unsigned char data[WIDTH * HEIGHT * DEPTH * 4];
            memset(data, 0, sizeof data);
            size_t at = (size_t)(((corner >> 2) + 2) * HEIGHT + (corner >> 1 & 1) + 3) * WIDTH + (corner & 1) + 5;
            if (g == G2) at = (size_t)((corner >> 1 & 1) + 3) * WIDTH + (corner & 1) + 5;
            if (g == G1) at = (size_t)(corner & 1) + 5;
            uint32_t one = format->number == 32 ? bits(1.0f) : format->number == 16 ? 0x3c00 : 0xffffffff;
            memcpy(data + at * format->bytes, &one, format->bytes);
            Handle array = make_array(g, format, 1, 0);
            upload(g, array, data, (size_t)WIDTH * format->bytes);
            struct Resource resource = {.array = array};
            struct TextureDescriptor descriptor = {.modes = {1, 1, 1}, .filter = 1};
            uint64_t object;
            OK(cuTexObjectCreate(&object, &resource, &descriptor, NULL));
            for (int i = 0; i < POINTS; i++)
                for (int d = 0; d < 3; d++) {
                    // On a 1/1024 of a texel, or on a 1/8192.
                    int part = round < 2 ? (i + POINTS * round) * (d ? 28 : 32) % 8192 : (int)(next() % 8192);
                    host[4 * i + d] = bits((float)starts[d] + 0.5f + (float)part / 8192.0f);
                }
            char name[64];
            sprintf(name, "tex_%s_f32_f32", shapes[g]);
            launch(name, object);
            collect();
            OK(cuTexObjectDestroy(object));
            OK(cuArrayDestroy(array));
        }
}

static void gather(const struct Format *format, int channels) {
    static unsigned char data[WIDTH * HEIGHT * 16];
    size_t row = (size_t)WIDTH * channels * format->bytes;
    fill(data, row * HEIGHT, format);
    Handle array = make_array(G2, format, channels, GATHER);
    upload(G2, array, data, row);
    struct Resource resource = {.array = array};
    for (int mode = 0; mode < 4; mode++)
        for (unsigned flags = 0; flags < 4; flags++)
            for (int filter = 0; filter < 2; filter++) {
                struct TextureDescriptor descriptor = {
                    .modes = {mode, mode, mode}, .filter = filter, .flags = flags, .border = {0.5f, 1, 2, 3}};
                uint64_t object;
                int code = cuTexObjectCreate(&object, &resource, &descriptor, NULL);
                add(&code, 4);
                if (code)
                    continue;
                int is_float = format->number >= 16 || (!(flags & INTEGER) && format->bytes < 4);
                for (int c = 0; c < 4; c++) {
                    char name[64];
                    sprintf(name, "tld4_%c_%s", "rgba"[c], is_float ? "f32" : format->type);
                    points(flags & NORMALISED, 0);
                    launch(name, object);
                    collect();
                }
                OK(cuTexObjectDestroy(object));
            }
    OK(cuArrayDestroy(array));
}

static void query(int g, const struct Format *format, int channels) {
    Handle array = make_array(g, format, channels, SURFACE);
    struct Resource resource = {.array = array};
    for (unsigned flags = 0; flags < 4; flags++) {
        struct TextureDescriptor descriptor = {.flags = flags};
        uint64_t object;
        OK(cuTexObjectCreate(&object, &resource, &descriptor, NULL));
        for (int q = 0; q < 3; q++) {
            char name[64];
            sprintf(name, "txq_%s", queries[q]);
            launch(name, object);
            OK(cuMemcpyDtoH_v2(host, results, 4));
            add(host, 4);
        }
        OK(cuTexObjectDestroy(object));
    }
    uint64_t object;
    OK(cuSurfObjectCreate(&object, &resource));
    for (int q = 0; q < 3; q++) {
        char name[64];
        sprintf(name, "suq_%s", queries[q]);
        launch(name, object);
        OK(cuMemcpyDtoH_v2(host, results, 4));
        add(host, 4);
    }
    OK(cuSurfObjectDestroy(object));
    OK(cuArrayDestroy(array));
}

// Places for accesses of a surface: each is written by one thread at most, and may be outside.
static void places(int bytes, size_t row, int g) {
    for (int i = 0; i < POINTS; i++) {
        size_t columns = row / bytes;
        int x = i % (int)(columns + 2) - 1, rest = i / (int)(columns + 2);
        int y = rest % (HEIGHT + 2) - 1;
        host[4 * i] = (uint32_t)(x * bytes);
        host[4 * i + 1] = (uint32_t)y;
        host[4 * i + 2] = (uint32_t)(height_of(g) ? (y + 3 * x + 9) % 8 - 1 : 0);
        host[4 * i + 3] = (uint32_t)(height_of(g) ? (y + 5) % DEPTH : (y + 3) % (DEPTH + 1));
    }
}

static void surface(int g, const struct Format *format, int channels) {
    static unsigned char data[WIDTH * HEIGHT * DEPTH * 16];
    static const int bytes[] = {1, 2, 4, 8, 8, 16};
    size_t row = (size_t)WIDTH * channels * format->bytes;
    for (int w = 0; w < 6; w++)
        for (int m = 1; m < 3; m++) {
            if (bytes[w] != channels * format->bytes)
                continue;
            fill(data, row * rows_of(g), format);
            Handle array = make_array(g, format, channels, SURFACE);
            upload(g, array, data, row);
            struct Resource resource = {.array = array};
            uint64_t object;
            OK(cuSurfObjectCreate(&object, &resource));
            char name[64];
            places(bytes[w], row, g);
            sprintf(name, "suld_%s_%d_%s", shapes[g], w, clamps[m]);
            launch(name, object);
            collect();
            // Several threads would write to the same place if it is clamped.
            if (m == 2) {
                sprintf(name, "sust_%s_%d_%s", shapes[g], w, clamps[m]);
                launch(name, object);
                struct Box box = box_of(g, array, data, row);
                struct Side swapped = box.source;
                box.source = box.target;
                box.target = swapped;
                OK(cuMemcpy3D_v2(&box));
                add(data, row * rows_of(g));
            }
            OK(cuSurfObjectDestroy(object));
            OK(cuArrayDestroy(array));
        }
}

static void reductions(void) {
    for (int a = 0; a < 8; a++) {
        static unsigned char data[WIDTH * HEIGHT * 8];
        int channels = a == 1 ? 2 : 1;
        size_t row = (size_t)WIDTH * channels * 4;
        fill(data, row * HEIGHT, &formats[2]);
        Handle array = make_array(G2, &formats[2], channels, SURFACE);
        upload(G2, array, data, row);
        struct Resource resource = {.array = array};
        uint64_t object;
        OK(cuSurfObjectCreate(&object, &resource));
        for (int i = 0; i < POINTS; i++) {
            host[4 * i] = (uint32_t)((int)(next() % (WIDTH + 2)) - 1) * 4 * channels;
            host[4 * i + 1] = (uint32_t)((int)(next() % (HEIGHT + 2)) - 1);
        }
        char name[64];
        sprintf(name, "sured_%d", a);
        launch(name, object);
        struct Rows rows = {.source_type = 3, .source_array = array, .target_type = 1,
                            .target_host = data, .target_pitch = row, .width_bytes = row, .height = HEIGHT};
        OK(cuMemcpy2D_v2(&rows));
        add(data, row * HEIGHT);
        OK(cuSurfObjectDestroy(object));
        OK(cuArrayDestroy(array));
    }
}

// ---- The results of calls ----

#define CODE(call) printf("%d: %s\n", call, #call)

static void descriptors(void) {
    Handle array, other;
    Address memory;
    uint64_t object;
    struct ArrayDescriptor got;
#define SHAPE(...) ({ struct ArrayDescriptor d = {__VA_ARGS__}; cuArray3DCreate_v2(&array, &d); })
    CODE(SHAPE(0, 0, 0, 32, 1, 0));
    CODE(SHAPE(4, 0, 4, 32, 1, 0));
    CODE(SHAPE(4, 0, 4, 32, 1, 1));
    CODE(SHAPE(4, 0, 0, 32, 1, 1));
    CODE(SHAPE(4, 4, 0, 32, 1, 1));
    CODE(SHAPE(4, 4, 4, 32, 1, 2));
    CODE(SHAPE(4, 4, 4, 32, 1, 8));
    CODE(SHAPE(4, 4, 0, 32, 1, 8));
    CODE(SHAPE(4, 0, 0, 32, 1, 8));
    CODE(SHAPE(4, 4, 4, 32, 3, 0));
    CODE(SHAPE(4, 4, 4, 32, 0, 0));
    CODE(SHAPE(4, 4, 4, 32, 8, 0));
    CODE(SHAPE(4, 4, 4, 0, 1, 0));
    CODE(SHAPE(4, 4, 4, 5, 1, 0));
    CODE(SHAPE(4, 4, 4, 32, 1, 0x10000));
    CODE(SHAPE(131072, 0, 0, 1, 1, 0));
    CODE(SHAPE(131073, 0, 0, 1, 1, 0));
    CODE(SHAPE(32769, 0, 0, 1, 1, 2));
    CODE(SHAPE(32769, 0, 1, 1, 1, 1));
    CODE(SHAPE(4, 0, 2048, 1, 1, 1));
    CODE(SHAPE(4, 0, 2049, 1, 1, 1));
    CODE(SHAPE(1, 65536, 0, 1, 1, 0));
    CODE(SHAPE(1, 65537, 0, 1, 1, 0));
    CODE(SHAPE(1, 32769, 0, 1, 1, 8));
    CODE(SHAPE(1, 32769, 1, 1, 1, 1));
    CODE(SHAPE(1, 1, 16384, 1, 1, 0));
    CODE(SHAPE(1, 1, 16385, 1, 1, 0));
    CODE(SHAPE(16385, 1, 1, 1, 1, 0));
    CODE(SHAPE(8192, 8192, 16385, 1, 1, 0));
    CODE(SHAPE(1ull << 40, 1, 1, 1, 1, 0));
    CODE(cuArray3DCreate_v2(NULL, NULL));
    CODE(cuArrayDestroy(NULL));
    CODE(SHAPE(4, 3, 2, 32, 2, 0));
    CODE(cuArray3DGetDescriptor_v2(&got, array));
    printf("%zu %zu %zu %d %u %u\n", got.width, got.height, got.depth, got.format, got.channels, got.flags);
    struct Flat { size_t width, height; int format; unsigned channels; } flat = {0};
    CODE(cuArrayGetDescriptor_v2(&flat, array));
    printf("%zu %zu %d %u\n", flat.width, flat.height, flat.format, flat.channels);
    flat = (struct Flat){6, 0, 16, 4};
    CODE(cuArrayCreate_v2(&other, &flat));
    OK(cuMemAlloc_v2(&memory, 4096));
    static char data[4096];
    CODE(cuMemcpyHtoA_v2(other, 0, data, 48));
    CODE(cuMemcpyHtoA_v2(other, 0, data, 100));
    CODE(cuMemcpyHtoA_v2(other, 40, data, 16));
    CODE(cuMemcpyHtoA_v2(other, 4, data, 6));
    CODE(cuMemcpyAtoH_v2(data, other, 8, 8));
    CODE(cuMemcpyAtoD_v2(memory, other, 8, 8));
    CODE(cuMemcpyDtoA_v2(other, 8, memory, 8));
    CODE(cuMemcpyAtoA_v2(other, 8, array, 8, 8));
    CODE(cuMemcpyAtoA_v2(other, 8, array, 8, 1000));
    CODE(cuMemcpyHtoA_v2(other, 0, data, 0));
    CODE(cuMemcpyHtoAAsync_v2(other, 0, data, 48, NULL));
    CODE(cuMemcpyAtoHAsync_v2(data, other, 0, 48, NULL));
    struct Box box = {.source = {.type = 1, .host = data, .pitch = 32, .height = 3},
                      .target = {.type = 3, .array = array}, .width_bytes = 32, .height = 3, .depth = 2};
    CODE(cuMemcpy3D_v2(&box));
    box.target.x = 8;
    CODE(cuMemcpy3D_v2(&box));
    box.width_bytes = 24;
    CODE(cuMemcpy3D_v2(&box));
    box.target.y = 1;
    CODE(cuMemcpy3D_v2(&box));
    box.height = 2;
    CODE(cuMemcpy3D_v2(&box));
    box.target.z = 1;
    CODE(cuMemcpy3D_v2(&box));
    box.depth = 1;
    CODE(cuMemcpy3D_v2(&box));
    box.width_bytes = 12;
    CODE(cuMemcpy3D_v2(&box));
    box.width_bytes = 16;
    box.target.x = 4;
    CODE(cuMemcpy3D_v2(&box));
    box.target.array = NULL;
    CODE(cuMemcpy3D_v2(&box));

    struct Resource resource;
    struct TextureDescriptor texture = {0};
#define LINEAR(...) ({ resource = (struct Resource){.type = 2, .linear = {__VA_ARGS__}}; \
    cuTexObjectCreate(&object, &resource, &texture, NULL); })
    CODE(LINEAR(memory, 32, 1, 4096));
    CODE(LINEAR(memory, 32, 1, 4095));
    CODE(LINEAR(memory, 32, 1, 0));
    CODE(LINEAR(memory, 32, 1, 8192));
    CODE(LINEAR(memory + 16, 32, 1, 16));
    CODE(LINEAR(memory + 512, 32, 1, 16));
    CODE(LINEAR(memory, 32, 3, 48));
    CODE(LINEAR(memory, 7, 1, 48));
    CODE(LINEAR(0, 32, 1, 48));
    CODE(LINEAR(memory, 32, 1, 4ull << 28));
    CODE(LINEAR(memory, 32, 1, (4ull << 28) + 4));
#define PITCHED(address, ...) ({ resource = (struct Resource){.type = 3, .linear = {address, 32, 1, __VA_ARGS__}}; \
    cuTexObjectCreate(&object, &resource, &texture, NULL); })
    CODE(PITCHED(memory, 16, 16, 64));
    CODE(PITCHED(memory, 16, 16, 48));
    CODE(PITCHED(memory, 16, 16, 32));
    CODE(PITCHED(memory, 16, 16, 80));
    CODE(PITCHED(memory, 16, 16, 96));
    CODE(PITCHED(memory + 32, 16, 16, 64));
    CODE(PITCHED(memory, 0, 16, 64));
    CODE(PITCHED(memory, 16, 0, 64));
    CODE(PITCHED(memory, 16, 1000, 64));
    CODE(PITCHED(memory, 131073, 1, 524320));
    CODE(PITCHED(memory, 16, 65001, 64));
    CODE(PITCHED(memory, 16, 1, 2097152));
#define TEXTURE(...) ({ struct TextureDescriptor t = {__VA_ARGS__}; \
    resource = (struct Resource){.array = array}; cuTexObjectCreate(&object, &resource, &t, NULL); })
    CODE(TEXTURE(.modes = {4}));
    CODE(TEXTURE(.modes = {0, 4}));
    CODE(TEXTURE(.filter = 2));
    CODE(TEXTURE(.flags = 4));
    CODE(TEXTURE(.flags = 0x10));
    CODE(TEXTURE(.flags = 0x20));
    CODE(TEXTURE(.flags = 0x40));
    CODE(TEXTURE(.flags = 0x80));
    CODE(TEXTURE(.anisotropy = 16));
    CODE(TEXTURE(.anisotropy = 17));
    CODE(TEXTURE(.mipmap_filter = 1));
    CODE(TEXTURE(.mipmap_filter = 2));
    CODE(TEXTURE(.filter = 1, .flags = 1));
    CODE(TEXTURE(.filter = 1, .flags = 2));
    CODE(cuTexObjectCreate(NULL, &resource, &texture, NULL));
    CODE(cuTexObjectCreate(&object, NULL, &texture, NULL));
    CODE(cuTexObjectCreate(&object, &resource, NULL, NULL));
    CODE(cuSurfObjectCreate(&object, &resource));
    resource.type = 2;
    CODE(cuSurfObjectCreate(&object, &resource));
    resource.type = 4;
    CODE(cuTexObjectCreate(&object, &resource, &texture, NULL));
    resource.type = 0;
    resource.flags = 1;
    CODE(cuTexObjectCreate(&object, &resource, &texture, NULL));
    resource.flags = 0;
#define VIEW(...) ({ struct View v = {__VA_ARGS__}; \
    cuTexObjectCreate(&object, &resource, &texture, &v); })
    CODE(VIEW(0, 4, 3, 2));
    CODE(VIEW(0x18, 4, 3, 2));
    CODE(VIEW(0x17, 4, 3, 2));
    CODE(VIEW(0x12, 4, 3, 2));
    CODE(VIEW(0x18, 5, 3, 2));
    CODE(VIEW(0x18, 4, 3, 0));
    CODE(VIEW(0x18, 4, 3, 2, .last_level = 1));
    CODE(VIEW(0x18, 4, 3, 2, .last_layer = 1));
    CODE(VIEW(0x23, 4, 3, 2));
    TEXTURE(.modes = {1, 2, 3}, .filter = 1, .flags = 2, .anisotropy = 4, .border = {1, 2, 3, 4});
    CODE(cuTexObjectGetResourceDesc(&resource, object));
    printf("%d %d\n", resource.type, resource.array == array);
    CODE(cuTexObjectGetTextureDesc(&texture, object));
    printf("%d %d %d %d %u %u %g\n", texture.modes[0], texture.modes[1], texture.modes[2],
           texture.filter, texture.flags, texture.anisotropy, texture.border[3]);
    struct View view;
    CODE(cuTexObjectGetResourceViewDesc(&view, object));
    CODE(cuTexObjectGetResourceDesc(NULL, object));
    OK(cuTexObjectDestroy(object));
    CODE(cuTexObjectDestroy(0));
    CODE(cuSurfObjectDestroy(0));
}

// A kernel that accesses a surface outside of it.
static int trap(void) {
    Handle array = make_array(G2, &formats[2], 1, SURFACE);
    struct Resource resource = {.array = array};
    uint64_t object;
    OK(cuSurfObjectCreate(&object, &resource));
    host[0] = (uint32_t)-4;
    OK(cuMemcpyHtoD_v2(coordinates, host, sizeof host));
    void *arguments[] = {&results, &coordinates, &object};
    OK(cuLaunchKernel(function("suld_2d_2_trap"), 1, 1, 1, POINTS, 1, 1, 0, NULL, arguments, NULL));
    return cuCtxSynchronize();
}

// ---- Streams, graphs, and what is refused ----

int cuGraphCreate(Handle *, unsigned);
int cuGraphAddMemcpyNode(Handle *, Handle, const Handle *, size_t, const struct Box *, Handle);
int cuGraphInstantiateWithFlags(Handle *, Handle, unsigned long long);
int cuGraphLaunch(Handle, Handle);
int cuStreamBeginCapture_v2(Handle, int);
int cuStreamEndCapture(Handle, Handle *);

// A fetch, and a copy to the array (or a store to its surface) on another stream, with or without
// an order between them.
static void race(const char *how) {
    static unsigned char data[WIDTH * HEIGHT * 4] = {4, 3, 2, 1};
    Handle streams[2], event, fetch, store, context;
    Handle array = make_array(G2, &formats[2], 1, SURFACE);
    upload(G2, array, data, WIDTH * 4);
    struct Resource resource = {.array = array};
    struct TextureDescriptor descriptor = {0};
    uint64_t texture, surface;
    OK(cuTexObjectCreate(&texture, &resource, &descriptor, NULL));
    OK(cuSurfObjectCreate(&surface, &resource));
    fetch = function("tex_2d_u32_s32");
    store = function("sust_2d_2_zero");
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], 1));
    void *reads[] = {&results, &coordinates, &texture}, *writes[] = {&results, &coordinates, &surface};
    if (!strcmp(how, "threads") || !strcmp(how, "reduction")) {
        int threads = !strcmp(how, "threads");
        // The first coordinates are the handle of the surface, or the place of every reduction.
        for (int i = 0; i < POINTS * 2; i++)
            ((uint64_t *)host)[i] = threads ? surface : 0;
        launch(threads ? "shift" : "sured_0", threads ? texture : surface);
        return;
    }
    OK(cuMemsetD8_v2(coordinates, 0, sizeof host));
    if (!strcmp(how, "kind"))
        reads[2] = &surface;
    if (!strcmp(how, "shape"))
        fetch = function("tex_1d_u32_s32");
    if (!strcmp(how, "texture")) {
        // Kernels that were enqueued before still fetch.
        for (int i = 0; i < 100; i++)
            OK(cuLaunchKernel(fetch, 1, 1, 1, POINTS, 1, 1, 0, NULL, reads, NULL));
        OK(cuTexObjectDestroy(texture));
    }
    if (!strcmp(how, "array")) {
        OK(cuArrayDestroy(array));
        FAILS(400, cuArrayDestroy(array));
    }
    if (!strcmp(how, "context")) {
        OK(cuCtxCreate_v2(&context, 0, 0));
        for (int i = 0; i < kernel_count; i++)
            kernels[i].function = NULL;
        fetch = function("tex_2d_u32_s32");
        OK(cuMemAlloc_v2(&coordinates, sizeof host));
        OK(cuMemAlloc_v2(&results, sizeof host));
        OK(cuMemsetD8_v2(coordinates, 0, sizeof host));
    }
    OK(cuCtxSynchronize());
    if (!strcmp(how, "kind") || !strcmp(how, "shape") || !strcmp(how, "texture") ||
        !strcmp(how, "array") || !strcmp(how, "context")) {
        OK(cuLaunchKernel(fetch, 1, 1, 1, POINTS, 1, 1, 0, NULL, reads, NULL));
        printf("%d\n", cuCtxSynchronize());
        return;
    }
    if (!strcmp(how, "wait")) {
        OK(cuMemsetD8_v2(results, 0, sizeof host));
        OK(cuCtxSynchronize());
        OK(cuLaunchKernel(function("wait"), 1, 1, 1, 1, 1, 1, 0, streams[0], reads, NULL));
        OK(cuLaunchKernel(function("set"), 1, 1, 1, 1, 1, 1, 0, streams[1], reads, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH_v2(host, results, sizeof host));
        HOLDS(host[0] == 0x01020304);
        return;
    }
    OK(cuLaunchKernel(fetch, 1, 1, 1, POINTS, 1, 1, 0, streams[0], reads, NULL));
    if (!strcmp(how, "ordered")) {
        OK(cuEventCreate(&event, 2));
        OK(cuEventRecord(event, streams[0]));
        OK(cuStreamWaitEvent(streams[1], event, 0));
    }
    struct Box box = box_of(G2, array, data, WIDTH * 4);
    if (!strcmp(how, "surface"))
        OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, streams[1], writes, NULL));
    else
        OK(cuMemcpy3DAsync_v2(&box, streams[1]));
    OK(cuCtxSynchronize());
}

static void refused(void) {
    static unsigned char data[WIDTH * HEIGHT * 4], back[sizeof data];
    struct ArrayDescriptor cube = {4, 4, 6, 32, 1, 4}, sparse = {64, 64, 0, 32, 1, 0x40};
    Handle array, graph, node, executable, stream;
    FAILS(801, cuArray3DCreate_v2(&array, &cube));
    FAILS(801, cuArray3DCreate_v2(&array, &sparse));
    array = make_array(G2, &formats[2], 1, 0);
    struct Resource resource = {.type = 1, .array = array};
    struct TextureDescriptor descriptor = {0};
    uint64_t object;
    FAILS(801, cuTexObjectCreate(&object, &resource, &descriptor, NULL));
    // A node of a graph copies no array, but a capture does.
    struct Box box = box_of(G2, array, data, WIDTH * 4);
    OK(cuGraphCreate(&graph, 0));
    FAILS(801, cuGraphAddMemcpyNode(&node, graph, NULL, 0, &box, NULL));
    Address memory;
    OK(cuMemAlloc_v2(&memory, sizeof data));
    OK(cuMemsetD8_v2(memory, 9, sizeof data));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, 1));
    box.source.type = 2;
    box.source.device = memory;
    OK(cuStreamBeginCapture_v2(stream, 0));
    OK(cuMemcpy3DAsync_v2(&box, stream));
    OK(cuStreamEndCapture(stream, &graph));
    // It forbids arrays as it forbids memory.
    struct ArrayDescriptor row = {4, 0, 0, 32, 1, 0};
    OK(cuStreamBeginCapture_v2(stream, 0));
    FAILS(900, cuArray3DCreate_v2(&array, &row));
    FAILS(901, cuStreamEndCapture(stream, &node));
    OK(cuStreamBeginCapture_v2(stream, 1));
    FAILS(900, cuArrayDestroy(box.target.array));
    FAILS(901, cuStreamEndCapture(stream, &node));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    struct Side target = box.target;
    box.target = box.source;
    box.source = target;
    box.target.type = 1;
    box.target.host = back;
    OK(cuMemcpy3D_v2(&box));
    HOLDS(back[0] == 9 && back[sizeof back - 1] == 9);
}

int main(int argc, char **argv) {
    Handle context;
    const char *mode = argc > 1 ? argv[1] : "";
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    write_kernels();
    write_shift();
    write_wait();
    if (!strcmp(mode, "ptx")) {
        printf("%s%s", HEADER, text);
        return 0;
    }
    OK(cuMemAlloc_v2(&coordinates, sizeof host));
    OK(cuMemAlloc_v2(&results, sizeof host));
    if (!strcmp(mode, "descriptors")) {
        descriptors();
        return 0;
    }
    if (!strcmp(mode, "race")) {
        race(argv[2]);
        return 0;
    }
    if (!strcmp(mode, "refused")) {
        refused();
        return 0;
    }
    if (!strcmp(mode, "trap")) {
        printf("%d\n", trap());
        return 0;
    }
    // With `surfaces` as the first argument, queries and surfaces only.
    int surfaces = !strcmp(mode, "surfaces");
    if (argc > 1 + surfaces)
        dump = fopen(argv[1 + surfaces], "wb");
    char name[64];
    for (int g = 0; g <= GPITCH && !surfaces; g++)
        for (int f = 0; f < 8; f++)
            for (int c = 1; c <= 4; c *= 2)
                for (int filter = 0; filter < 2; filter++) {
                    begin();
                    state = 1 + g + 10 * f + 100 * c + 1000 * filter;
                    texture(g, &formats[f], c, filter);
                    sprintf(name, "tex %s %sx%d %s", geometry_names[g], formats[f].name, c, filter ? "linear" : "point");
                    line(name);
                }
    for (int g = 0; g <= G3 && !surfaces; g++)
        for (int f = 0; f < 8; f++) {
            if (f == 2 || f == 5)
                continue;
            begin();
            state = 5000 + g * 10 + f;
            weights(g, f);
            sprintf(name, "weights %s %s", shapes[g], formats[f].name);
            line(name);
        }
    for (int f = 0; f < 8 && !surfaces; f++)
        for (int c = 1; c <= 4; c *= 2) {
            begin();
            state = 6000 + f * 10 + c;
            gather(&formats[f], c);
            sprintf(name, "tld4 %sx%d", formats[f].name, c);
            line(name);
        }
    for (int g = 0; g <= GA2; g++)
        for (int f = 0; f < 8; f++)
            for (int c = 1; c <= 4; c *= 2) {
                begin();
                query(g, &formats[f], c);
                sprintf(name, "queries %s %sx%d", shapes[g], formats[f].name, c);
                line(name);
                begin();
                state = 7000 + g * 100 + f * 10 + c;
                surface(g, &formats[f], c);
                sprintf(name, "surface %s %sx%d", shapes[g], formats[f].name, c);
                line(name);
            }
    begin();
    state = 9000;
    reductions();
    line("sured");
    if (dump)
        fclose(dump);
    return 0;
}
