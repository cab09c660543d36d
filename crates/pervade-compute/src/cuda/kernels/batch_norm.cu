// Batch normalisation; the formulas are in cpu/batch_norm.rs. Rows x [R, groups * rows, columns] are R * groups
// consecutive groups of rows; so are their statistics, four rows of columns each.

#define NORM_EPSILON 1e-5f
#define NORM_MOMENTUM 0.9f
// A block sums eight columns with 64 threads each; a warp reads four rows of 32 bytes.
#define NORM_COLUMNS 8
#define NORM_LANES 64

// Offsets of a normalisation's parameters.
struct Norm {
    u64 stride;
    u32 gain, shift, mean, variance;
};

// The sum over the threads of a column, returned to each of them; always in the same order.
__device__ double column_sum(double x) {
    __shared__ double parts[NORM_LANES][NORM_COLUMNS];
    u32 column = threadIdx.x % NORM_COLUMNS, lane = threadIdx.x / NORM_COLUMNS;
    __syncthreads();
    parts[lane][column] = x;
    __syncthreads();
    double total = 0.0;
    for (u32 i = 0; i < NORM_LANES; i++) total += parts[i][column];
    return total;
}

__device__ __forceinline__ float inverse_deviation(float variance) { return 1.0f / sqrtf(variance + NORM_EPSILON); }

// Mean and variance of each column of each group: blockIdx.x counts columns by eights, blockIdx.y groups.
extern "C" __global__ void norm_statistics(const float *x, float *statistics, u32 rows, u32 columns) {
    u32 column = blockIdx.x * NORM_COLUMNS + threadIdx.x % NORM_COLUMNS, lane = threadIdx.x / NORM_COLUMNS;
    bool is_valid = column < columns;
    const float *from = x + (u64)blockIdx.y * rows * columns + column;
    float *to = statistics + (u64)blockIdx.y * 4 * columns + column;
    double sum = 0.0, square = 0.0;
    if (is_valid) {
        for (u32 row = lane; row < rows; row += NORM_LANES) sum += (double)from[(u64)row * columns];
    }
    double mean = column_sum(sum) / (double)rows;
    if (is_valid) {
        for (u32 row = lane; row < rows; row += NORM_LANES) {
            double difference = (double)from[(u64)row * columns] - mean;
            square += difference * difference;
        }
    }
    double variance = column_sum(square) / (double)rows;
    if (is_valid && lane == 0) to[0] = (float)mean, to[columns] = (float)variance;
}

// y = gain (x - mean) / deviation + shift, with the running statistics if `statistics` is null. One thread per element.
extern "C" __global__ void norm_apply(Norm layer, const float *values, const float *statistics, const float *x, float *y,
                                      u64 n, u32 groups, u32 rows, u32 columns) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    u32 column = index % columns;
    u64 group = index / columns / rows;
    const float *p = values + group / groups * layer.stride + column;
    const float *own = statistics + group * 4 * columns + column;
    float mean = statistics ? own[0] : p[layer.mean], variance = statistics ? own[columns] : p[layer.variance];
    y[index] = fmaf(x[index] - mean, p[layer.gain] * inverse_deviation(variance), p[layer.shift]);
}

// Sums of dy and of dy u, u = (x - mean) / deviation, of each column of each group.
extern "C" __global__ void norm_sums(const float *x, const float *dy, float *statistics, u32 rows, u32 columns) {
    u32 column = blockIdx.x * NORM_COLUMNS + threadIdx.x % NORM_COLUMNS, lane = threadIdx.x / NORM_COLUMNS;
    bool is_valid = column < columns;
    u64 first = (u64)blockIdx.y * rows * columns + column;
    float *own = statistics + (u64)blockIdx.y * 4 * columns + column;
    double sum = 0.0, product = 0.0;
    if (is_valid) {
        float mean = own[0], inverse = inverse_deviation(own[columns]);
        for (u32 row = lane; row < rows; row += NORM_LANES) {
            u64 at = first + (u64)row * columns;
            float gradient = dy[at];
            sum += (double)gradient;
            product += (double)(gradient * ((x[at] - mean) * inverse));
        }
    }
    sum = column_sum(sum);
    product = column_sum(product);
    if (is_valid && lane == 0) own[2 * columns] = (float)sum, own[3 * columns] = (float)product;
}

extern "C" __global__ void norm_backward(Norm layer, const float *values, const float *statistics, const float *x,
                                         const float *dy, float *dx, u64 n, u32 groups, u32 rows, u32 columns) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    u32 column = index % columns;
    u64 group = index / columns / rows;
    const float *own = statistics + group * 4 * columns + column;
    float gain = values[group / groups * layer.stride + layer.gain + column];
    float inverse = inverse_deviation(own[columns]), unit = (x[index] - own[0]) * inverse;
    float common = fmaf(unit, own[3 * columns], own[2 * columns]);
    dx[index] = gain * inverse * fmaf(common, -1.0f / (float)rows, dy[index]);
}

// Gradients of gain and shift, optionally with Adam's step; updates the running means and variances. One thread per column.
extern "C" __global__ void norm_weights(Norm layer, float *values, float *gradients, float *m, float *v,
                                        const float *statistics, u32 groups, u32 columns, u32 update, const Clock *clock,
                                        u32 group, float step_size, float inverse_root, float epsilon, float beta1) {
    u32 column = blockIdx.x * blockDim.x + threadIdx.x, restart = blockIdx.y;
    if (column >= columns) return;
    float totals[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (u32 g = 0; g < groups; g++) {
        const float *own = statistics + ((u64)restart * groups + g) * 4 * columns + column;
        for (u32 which = 0; which < 4; which++) totals[which] += own[which * columns];
    }
    u64 base = restart * layer.stride + column;
    float *mean = values + base + layer.mean, *variance = values + base + layer.variance;
    *mean = fmaf(NORM_MOMENTUM, *mean, (1.0f - NORM_MOMENTUM) * (totals[0] / (float)groups));
    *variance = fmaf(NORM_MOMENTUM, *variance, (1.0f - NORM_MOMENTUM) * (totals[1] / (float)groups));
    u64 gain = base + layer.gain, shift = base + layer.shift;
    gradients[shift] = totals[2];
    gradients[gain] = totals[3];
    if (!update) return;
    if (clock) step_size = clock->step_size[group], inverse_root = clock->inverse_root;
    adam_update(totals[2], step_size, inverse_root, epsilon, beta1, values + shift, m + shift, v + shift);
    adam_update(totals[3], step_size, inverse_root, epsilon, beta1, values + gain, m + gain, v + gain);
}
