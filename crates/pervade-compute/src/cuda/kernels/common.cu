// Shared by all kernels: the random numbers of random.rs, reductions, Adam, and the clock of a step.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define MOST_RESTARTS 64
#define MAX_STEPS 8
#define N_TERMS 5
#define LN_TAU 1.8378770664093453f
#define LOG_VARIANCE_LIMIT 20.0f
#define DECODER_LOG_VARIANCE_LIMIT 10.0f
#define NEG_INFINITY __int_as_float(0xff800000)
#define BETA2 0.999f

// What changes from step to step. A recorded step reads it from device memory; without a recording the pointer is null
// and the kernel's other arguments hold the values.
struct Clock {
    u64 epoch;
    u64 first;
    u64 draw;
    float step_size[2];
    float inverse_root;
    float unused;
};

struct Keys {
    u32 words[2 * MOST_RESTARTS];
};

__device__ __forceinline__ uint4 philox(u64 a, u32 b, u32 c, u32 key0, u32 key1) {
    u32 x0 = (u32)a, x1 = (u32)(a >> 32), x2 = b, x3 = c;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 low_high = __umulhi(0xD2511F53u, x0), low = 0xD2511F53u * x0;
        u32 high_high = __umulhi(0xCD9E8D57u, x2), high = 0xCD9E8D57u * x2;
        x0 = high_high ^ x1 ^ key0;
        x2 = low_high ^ x3 ^ key1;
        x1 = high;
        x3 = low;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return make_uint4(x0, x1, x2, x3);
}

// The image of i under shuffle `round` of 0..n: `Key::permute`.
__device__ u64 permute(u64 i, u64 n, u64 round, u32 key0, u32 key1) {
    u64 top = (n > 2 ? n : 2) - 1;
    int bits = 64 - __clzll((long long)top);
    int half_bits = (bits + 1) / 2;
    u32 mask = (1u << half_bits) - 1;
    u64 index = i;
    for (;;) {
        u32 left = (u32)(index >> half_bits) & mask, right = (u32)index & mask;
        for (u32 step = 0; step < 8; step++) {
            u32 mixed = philox(round, right, step, key0, key1).x & mask;
            u32 next = left ^ mixed;
            left = right;
            right = next;
        }
        index = ((u64)left << half_bits) | right;
        if (index < n) return index;
    }
}

// Two standard normal numbers from two random words (Box-Muller transform).
__device__ __forceinline__ float2 normal_pair(u32 a, u32 b) {
    float u = ((float)(a >> 8) + 1.0f) * (1.0f / 16777216.0f);
    float radius = sqrtf(-2.0f * logf(u));
    // Nearest quarter turn, and the rest as an angle of at most pi / 4.
    u32 quarter = (b + (1u << 29)) >> 30;
    int rest = (int)(b - (quarter << 30));
    float angle = (float)rest * (6.283185307179586f / 4294967296.0f), square = angle * angle;
    float sine = fmaf(fmaf(-1.9515296e-4f, square, 8.332161e-3f), square, -1.6666655e-1f);
    sine = fmaf(sine * square, angle, angle);
    float cosine = fmaf(fmaf(2.4433157e-5f, square, -1.3887316e-3f), square, 4.1666646e-2f);
    cosine = fmaf(cosine * square, square, fmaf(-0.5f, square, 1.0f));
    quarter &= 3;
    float s = quarter == 0 ? sine : quarter == 1 ? cosine : quarter == 2 ? -sine : -cosine;
    float c = quarter == 0 ? cosine : quarter == 1 ? -sine : quarter == 2 ? -cosine : sine;
    return make_float2(radius * c, radius * s);
}

__device__ __forceinline__ float clamp_log_variance(float x) {
    return fminf(fmaxf(x, -LOG_VARIANCE_LIMIT), LOG_VARIANCE_LIMIT);
}

__device__ __forceinline__ bool inside(float log_variance) {
    return fabsf(log_variance) < LOG_VARIANCE_LIMIT;
}

template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
    return x;
}

// The sum over a block, returned to every thread; always in the same order.
template <typename T>
__device__ T block_sum(T x) {
    __shared__ T parts[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    T total = 0;
    for (int i = 0; i < (blockDim.x + 31) / 32; i++) total += parts[i];
    return total;
}

__device__ float block_max(float x) {
    __shared__ float parts[32];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    float largest = parts[0];
    for (int i = 1; i < (blockDim.x + 31) / 32; i++) largest = fmaxf(largest, parts[i]);
    return largest;
}

// ln Gamma(x) and psi(x) for positive x: math/double.rs.
__device__ double2 ln_gamma_and_digamma(double x) {
    double product = 1.0, derivative = 0.0;
    for (; x < 8.0; x += 1.0) {
        derivative = derivative * x + product;
        product *= x;
    }
    double log_x = log(x), inverse = 1.0 / x, square = inverse * inverse;
    double tail = -691.0 / 360360.0;
    tail = tail * square + 1.0 / 1188.0;
    tail = tail * square - 1.0 / 1680.0;
    tail = tail * square + 1.0 / 1260.0;
    tail = tail * square - 1.0 / 360.0;
    tail = tail * square + 1.0 / 12.0;
    double slope = -691.0 / 32760.0;
    slope = slope * square + 1.0 / 132.0;
    slope = slope * square - 1.0 / 240.0;
    slope = slope * square + 1.0 / 252.0;
    slope = slope * square - 1.0 / 120.0;
    slope = slope * square + 1.0 / 12.0;
    double ln_gamma = (x - 0.5) * log_x - x + 0.91893853320467274 + inverse * tail - log(product);
    return make_double2(ln_gamma, log_x - 0.5 * inverse - square * slope - derivative / product);
}

// V consecutive elements, read and written at once.
template <int V>
struct Pack {
    float x[V];

    __device__ __forceinline__ void load(const float *from) {
        if (V == 4) {
            float4 f = *(const float4 *)from;
            x[0] = f.x, x[1 % V] = f.y, x[2 % V] = f.z, x[3 % V] = f.w;
        } else {
            x[0] = *from;
        }
    }

    __device__ __forceinline__ void store(float *to) const {
        if (V == 4) *(float4 *)to = make_float4(x[0], x[1 % V], x[2 % V], x[3 % V]);
        else *to = x[0];
    }
};

// Adam's moments of weights are stored in contiguous tiles of 64 x 64; tiles at the edges are smaller. These functions
// give the index of an element (moments.rs has the same formula). In tiles of full width, every other group of four rows
// has the halves of each 32 columns swapped, so that a warp's reads from shared memory have no bank conflicts.
__device__ __forceinline__ u32 index_in_tile(u32 row, u32 column, u32 width) {
    return row * width + (width == 64 ? column ^ (row >> 2 & 1) << 4 : column);
}

__device__ __forceinline__ u64 moment_at(u32 row, u32 column, u32 n_rows, u32 n_columns) {
    u32 row0 = row & ~63u, column0 = column & ~63u, height = min(n_rows - row0, 64u), width = min(n_columns - column0, 64u);
    return (u64)row0 * n_columns + (u64)column0 * height + index_in_tile(row - row0, column - column0, width);
}

// Updates m, v and p with the gradient g (Kingma and Ba, 2015).
__device__ __forceinline__ void adam_update(float g, float step_size, float inverse_root, float epsilon, float beta1,
                                            float *p, float *m, float *v) {
    float first = fmaf(beta1, *m, (1.0f - beta1) * g);
    float second = fmaf(BETA2, *v, (1.0f - BETA2) * g * g);
    *m = first;
    *v = second;
    // Square root and division within 2 ulp, at a fraction of the cost of the exact ones.
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(second));
    *p -= __fdividef(step_size * first, fmaf(root, inverse_root, epsilon));
}

// The clocks of the next steps, one per thread.
struct Clocks {
    Clock at[MAX_STEPS];
};

extern "C" __global__ void set_clocks(Clock *clocks, __grid_constant__ const Clocks now) {
    clocks[threadIdx.x] = now.at[threadIdx.x];
}
