// ---- numbers: floats of 16 bits as double and back, rounded to nearest even

static double from_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent       ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

static uint16_t to_f16(double value) {
    if (value != value)
        return 0x7e00;
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < ldexp(1, -14))
        return sign | (uint16_t)nearbyint(ldexp(size, 24));
    int exponent;
    frexp(size, &exponent);  // size = m 2^exponent, 0.5 <= m < 1
    double fraction = nearbyint(ldexp(size, 11 - exponent));  // 1024 .. 2048
    return sign | (uint16_t)((exponent + 14) * 1024 + (int)fraction - 1024);
}

static double from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

static uint16_t to_bf16(double value) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    if (value != value)
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

enum Type { F16, BF16, F32, F64, I1, I8, I16, I32, I64 };

static size_t size_of(Type type) {
    static const size_t sizes[] = {2, 2, 4, 8, 1, 1, 2, 4, 8};
    return sizes[type];
}

static bool is_float(Type type) { return type <= F64; }

static double read_element(Type type, const void *at) {
    switch (type) {
    case F16: return from_f16(*(const uint16_t *)at);
    case BF16: return from_bf16(*(const uint16_t *)at);
    case F32: return *(const float *)at;
    case F64: return *(const double *)at;
    case I1: return *(const uint8_t *)at != 0;
    case I8: return *(const int8_t *)at;
    case I16: return *(const int16_t *)at;
    case I32: return *(const int32_t *)at;
    case I64: return (double)*(const int64_t *)at;
    }
    return NAN;
}

static void write_element(Type type, void *at, double value) {
    switch (type) {
    case F16: *(uint16_t *)at = to_f16(value); break;
    case BF16: *(uint16_t *)at = to_bf16(value); break;
    case F32: *(float *)at = (float)value; break;
    case F64: *(double *)at = value; break;
    case I1: *(uint8_t *)at = value != 0; break;
    case I8: *(int8_t *)at = (int8_t)value; break;
    case I16: *(int16_t *)at = (int16_t)value; break;
    case I32: *(int32_t *)at = (int32_t)value; break;
    case I64: *(int64_t *)at = (int64_t)value; break;
    }
}

// ---- buffers and launches, as the launch description has them

enum Kind { BUFFER, PAGE_TABLE, SCALAR, WORKSPACE };

struct Buffer {
    const char *name;
    Kind kind;
    Type type;           // of the elements; of those in the pages for a page table
    long count;          // elements, entries of a page table
    size_t bytes;
    size_t page_bytes;   // of a page table
    bool read, written;
};

struct Launch {
    const char *kernel;
    const char *object;
    unsigned grid[3], block[3];
    std::vector<int> arguments;  // buffers, in order
    std::vector<size_t> offsets; // where each lies among the kernel's arguments
    size_t argument_bytes;
};

// Values of one buffer in logical order (pages in the order of their table), with a bound on the error of each.
// NaN is a value that was not computed. `live` marks what a kernel may read of a page.
struct Values {
    std::vector<double> value, error;
    std::vector<char> live;
    void size(long count) {
        value.assign(count, NAN);
        error.assign(count, 0);
    }
};

static uint64_t random_state = 1;

static uint64_t random_bits() {  // splitmix64
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static double random_unit() { return (double)(random_bits() >> 11) * 0x1p-53; }  // in [0, 1)
static long random_below(long n) { return (long)(random_bits() % (uint64_t)n); }

static long clamped(long value, long low, long high) { return value < low ? low : value > high ? high : value; }
static double larger(double a, double b) { return a > b || a != a ? a : b; }
static double smaller(double a, double b) { return a < b || a != a ? a : b; }

static void check_hip(hipError_t status, const char *call, int line) {
    if (status == hipSuccess)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, call, hipGetErrorString(status));
    exit(3);
}
#define HIP(call) check_hip(call, #call, __LINE__)

// ---- the reference, in double, and bounds on errors

static double gamma_of(double n) { return n * ULP32 < 0.5 ? n * ULP32 / (1 - n * ULP32) : INFINITY; }

typedef double (*Scalars)(const double *x, double *rounding);

// A function of scalars and the bound on the error of its result: what the errors `e` of its arguments make of it, and
// its own roundings.
static double followed(Scalars function, const double *x, const double *e, int n, double *error) {
    double moved[16], ignored;
    double value = function(x, error);
    for (int k = 0; k < n; k++) {
        if (!(e[k] > 0))
            continue;
        double most = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            std::copy(x, x + n, moved);
            moved[k] += sign * e[k];
            double change = fabs(function(moved, &(ignored = 0)) - value);
            if (std::isfinite(change)) most = std::max(most, change);
        }
        *error += most;
    }
    return value;
}

static void set(Values &v, long at, double value, double error) {
    v.value[at] = value;
    v.error[at] = error;
}

static long rows_compared = 0;  // 0: as many as take a second or two

static long rows_of(long rows, double work) {
    long wanted = rows_compared > 0 ? rows_compared : std::max(64L, (long)(4e8 / work));
    return std::min(rows, wanted);
}

// The n-th of `rows` rows that are spread over `total`, the first and the last among them.
static long spread(long n, long rows, long total) { return rows < 2 ? 0 : n * ((total - 1) / (rows - 1)) + n * ((total - 1) % (rows - 1)) / (rows - 1); }

// Whether every value that was computed lies within its bound; the bounds are of first order, hence the factor.
static bool compare(const Buffer &b, const Values &expected, const std::vector<char> &found) {
    long compared = 0, wrong = 0, first = -1;
    double worst = 0, allowed = 0, ratio = -1;
    for (long i = 0; i < b.count; i++) {
        double want = expected.value[i], bound = 4 * expected.error[i];
        if (want != want)
            continue;
        double got = read_element(b.type, &found[i * size_of(b.type)]);
        double error = got == want ? 0 : fabs(got - want);
        compared++;
        if (!(error <= bound)) {
            if (first < 0) first = i;
            wrong++;
        }
        double share = error != error ? INFINITY : bound > 0 ? error / bound : error > 0 ? INFINITY : 0;
        if (share > ratio) ratio = share, worst = error, allowed = bound;
    }
    printf("%s: %ld of %ld elements compared, max error %.2e of %.2e, %ld wrong\n", b.name, compared, b.count, worst,
           allowed, wrong);
    if (first >= 0)
        printf("  the first is element %ld: %g, expected %g\n", first,
               read_element(b.type, &found[first * size_of(b.type)]), expected.value[first]);
    return wrong == 0 && compared > 0;
}
