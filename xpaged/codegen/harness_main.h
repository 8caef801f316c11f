// ---- the device

// The pages of a table in random places of one pool; what no key that counts lies in is NaN (all ones for integers).
static void place_pages(const Buffer &b, const Values &v, void **pool, std::vector<char> &table) {
    size_t size = size_of(b.type), elements = b.page_bytes / size;
    std::vector<long> place(b.count);
    for (long i = 0; i < b.count; i++) {  // a random permutation
        long j = random_below(i + 1);
        place[i] = place[j];
        place[j] = i;
    }
    std::vector<char> data(b.count * b.page_bytes, (char)0xff);
    for (long i = 0; i < b.count; i++)
        for (size_t e = 0; e < elements; e++) {
            long at = i * (long)elements + (long)e;
            if (v.live[at])
                write_element(b.type, &data[place[i] * b.page_bytes + e * size], v.value[at]);
        }
    HIP(hipMalloc(pool, data.size()));
    HIP(hipMemcpy(*pool, data.data(), data.size(), hipMemcpyHostToDevice));
    table.resize(b.count * 8);
    for (long i = 0; i < b.count; i++) {
        uint64_t address = (uint64_t)(uintptr_t)*pool + place[i] * b.page_bytes;
        memcpy(&table[i * 8], &address, 8);
    }
}

static int usage(const char *program, bool asked) {
    fprintf(asked ? stdout : stderr,
            "usage: %s [--objects DIR] [--device N] [--seed N] [--rows N] [--repeat N]\n"
            "  --objects DIR  where the code objects are (default: beside this program)\n"
            "  --device N     the GPU to use (0)\n"
            "  --seed N       seed of the data and of the order of the pages (1)\n"
            "  --rows N       query rows that are compared with the CPU, spread evenly (default: as many as take a "
            "second or two)\n"
            "  --repeat N     launches that are timed (20); 0 for none\n"
            "exit status: 0 all results are right, 1 some are not, 2 usage, 3 the GPU or its driver failed\n",
            program);
    return asked ? 0 : 2;
}

int main(int argc, char **argv) {
    std::string objects = argv[0];
    objects = objects.find('/') == std::string::npos ? "." : objects.substr(0, objects.rfind('/'));
    long device = 0, seed = 1, repeat = 20;
    for (int i = 1; i < argc; i += 2) {
        std::string option = argv[i];
        char *end = nullptr;
        if (option == "--help" || option == "-h" || i + 1 == argc)
            return usage(argv[0], option == "--help" || option == "-h");
        if (option == "--objects") {
            objects = argv[i + 1];
            continue;
        }
        long number = strtol(argv[i + 1], &end, 10);
        if (*argv[i + 1] == 0 || *end != 0 || number < 0)
            return usage(argv[0], false);
        if (option == "--device") device = number;
        else if (option == "--seed") seed = number;
        else if (option == "--rows") rows_compared = number;
        else if (option == "--repeat") repeat = number;
        else return usage(argv[0], false);
    }
    random_state = (uint64_t)seed;
    HIP(hipSetDevice((int)device));
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, (int)device));
    printf("device: %s (%s)\n", properties.name, properties.gcnArchName);

    const int count = sizeof buffers / sizeof *buffers;
    std::vector<Values> values(count);
    for (int i = 0; i < count; i++) {
        const Buffer &b = buffers[i];
        values[i].size(b.kind == PAGE_TABLE ? b.count * (long)(b.page_bytes / size_of(b.type)) : b.count);
        values[i].live.assign(values[i].value.size(), b.kind != PAGE_TABLE);
    }
    make_inputs(values);
    double started = (double)clock();
    reference(values);
    printf("reference: %.2f s on the CPU\n", ((double)clock() - started) / CLOCKS_PER_SEC);

    // Memory of the device; results and workspaces are NaN until a kernel writes them.
    std::vector<void *> memory(count, nullptr), pools(count, nullptr);
    std::vector<std::vector<char>> host(count);
    for (int i = 0; i < count; i++) {
        const Buffer &b = buffers[i];
        if (b.kind == PAGE_TABLE) {
            place_pages(b, values[i], &pools[i], host[i]);
        } else {
            host[i].assign(b.bytes, (char)0xff);
            for (long e = 0; e < b.count && b.read && b.kind != WORKSPACE; e++)
                if (!b.written)
                    write_element(b.type, &host[i][e * size_of(b.type)], values[i].value[e]);
        }
        if (b.kind == SCALAR)
            continue;
        HIP(hipMalloc(&memory[i], host[i].size()));
        HIP(hipMemcpy(memory[i], host[i].data(), host[i].size(), hipMemcpyHostToDevice));
    }

    struct Ready {
        hipFunction_t function;
        std::vector<char> arguments;
    };
    std::vector<Ready> ready;
    for (const Launch &l : launches) {
        hipModule_t module;
        std::string path = objects + "/" + l.object;
        if (FILE *file = fopen(path.c_str(), "rb")) {
            fclose(file);
        } else {
            fprintf(stderr, "cannot read %s (--objects DIR says where it is)\n", path.c_str());
            return 3;
        }
        HIP(hipModuleLoad(&module, path.c_str()));
        Ready r;
        HIP(hipModuleGetFunction(&r.function, module, l.kernel));
        r.arguments.assign(l.argument_bytes, 0);
        for (size_t a = 0; a < l.arguments.size(); a++) {
            int b = l.arguments[a];
            if (buffers[b].kind == SCALAR)
                memcpy(&r.arguments[l.offsets[a]], host[b].data(), buffers[b].bytes);
            else
                memcpy(&r.arguments[l.offsets[a]], &memory[b], sizeof(void *));
        }
        ready.push_back(r);
    }
    auto launch_all = [&] {
        for (size_t i = 0; i < ready.size(); i++) {
            const Launch &l = launches[i];
            size_t size = ready[i].arguments.size();
            void *config[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, ready[i].arguments.data(),
                              HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
            HIP(hipModuleLaunchKernel(ready[i].function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1],
                                      l.block[2], 0, nullptr, nullptr, config));
        }
    };
    launch_all();
    HIP(hipDeviceSynchronize());

    bool right = true;
    for (int i = 0; i < count; i++) {
        const Buffer &b = buffers[i];
        if (b.kind != BUFFER || !b.written)
            continue;
        std::vector<char> found(b.bytes);
        HIP(hipMemcpy(found.data(), memory[i], b.bytes, hipMemcpyDeviceToHost));
        right &= compare(b, values[i], found);
    }
    if (repeat > 0) {
        hipEvent_t first, last;
        HIP(hipEventCreate(&first));
        HIP(hipEventCreate(&last));
        std::vector<float> times;
        for (long i = 0; i < repeat; i++) {
            HIP(hipEventRecord(first, nullptr));
            launch_all();
            HIP(hipEventRecord(last, nullptr));
            HIP(hipEventSynchronize(last));
            float milliseconds;
            HIP(hipEventElapsedTime(&milliseconds, first, last));
            times.push_back(milliseconds);
        }
        std::sort(times.begin(), times.end());
        printf("time: median %.1f us, fastest %.1f us, of %ld\n", times[times.size() / 2] * 1e3, times[0] * 1e3, repeat);
    }
    for (void *each : memory)
        if (each) HIP(hipFree(each));
    for (void *each : pools)
        if (each) HIP(hipFree(each));
    puts(right ? "all results are right" : "WRONG RESULTS");
    return right ? 0 : 1;
}
