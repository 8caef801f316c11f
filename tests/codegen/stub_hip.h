// A HIP runtime for tests: device memory is memory, and a launch is a program that reads and writes it through files.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

enum hipError_t { hipSuccess, hipErrorUnknown };
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost };
typedef std::string *hipModule_t, *hipFunction_t;
typedef int hipEvent_t;
struct hipDeviceProp_t {
    char name[16], gcnArchName[16];
};
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)

struct StubMemory {
    char *at;
    size_t size;
};
inline std::vector<StubMemory> stub_memory;

inline const char *hipGetErrorString(hipError_t) { return "a fault of the stub"; }
inline hipError_t hipSetDevice(int device) { return device ? hipErrorUnknown : hipSuccess; }
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t *p, int) {
    strcpy(p->name, "stub");
    strcpy(p->gcnArchName, "cpu");
    return hipSuccess;
}
inline hipError_t hipMalloc(void **at, size_t size) {
    *at = aligned_alloc(256, (size + 255) / 256 * 256);
    stub_memory.push_back({(char *)*at, size});
    return hipSuccess;
}
inline hipError_t hipFree(void *) { return hipSuccess; }
inline hipError_t hipMemcpy(void *to, const void *from, size_t size, hipMemcpyKind) {
    memcpy(to, from, size);
    return hipSuccess;
}
inline hipError_t hipDeviceSynchronize() { return hipSuccess; }
inline hipError_t hipModuleLoad(hipModule_t *m, const char *path) {
    *m = new std::string(path);
    return hipSuccess;
}
inline hipError_t hipModuleGetFunction(hipFunction_t *f, hipModule_t, const char *name) {
    *f = new std::string(name);
    return hipSuccess;
}
inline hipError_t hipEventCreate(hipEvent_t *) { return hipSuccess; }
inline hipError_t hipEventRecord(hipEvent_t, void *) { return hipSuccess; }
inline hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventElapsedTime(float *time, hipEvent_t, hipEvent_t) {
    *time = 0.5f;
    return hipSuccess;
}

// Writes launch.txt (kernel, sizes, arguments in hexadecimal, allocations) and memory.bin, runs $STUB_RUNNER, and reads
// memory.bin back.
inline hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                        unsigned bz, unsigned, void *, void **, void **config) {
    FILE *text = fopen("launch.txt", "w");
    fprintf(text, "%s\n%u %u %u %u %u %u\n", f->c_str(), gx, gy, gz, bx, by, bz);
    for (size_t i = 0; i < *(size_t *)config[3]; i++)
        fprintf(text, "%02x", ((unsigned char *)config[1])[i]);
    FILE *memory = fopen("memory.bin", "wb");
    for (const StubMemory &m : stub_memory) {
        fprintf(text, "\n%llu %zu", (unsigned long long)(uintptr_t)m.at, m.size);
        fwrite(m.at, 1, m.size, memory);
    }
    fclose(text);
    fclose(memory);
    if (system(getenv("STUB_RUNNER")))
        return hipErrorUnknown;
    memory = fopen("memory.bin", "rb");
    bool good = true;
    for (const StubMemory &m : stub_memory)
        good &= fread(m.at, 1, m.size, memory) == m.size;
    fclose(memory);
    return good ? hipSuccess : hipErrorUnknown;
}
