// DEC's clustering loss and its gradient; the formulas are in cpu/soft_clusters.rs.

// Minus KL(P || Q) of a row, the pulls between the row and the means, and the row's gradient. One block a row.
extern "C" __global__ void soft_rows(const float *values, u64 stride, u64 means_at, const float *targets, const float *z,
                                     float *pulls, float *dz, double *sums, u32 b, u32 c, u32 j) {
    u32 restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    u64 at = (u64)restart * b + blockIdx.x;
    const float *means = values + restart * stride + means_at, *point = z + at * j, *target = targets + at * c;
    float *pull = pulls + at * c;
    float total = 0.0f;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        float square = 0.0f;
        for (u32 k = 0; k < j; k++) {
            float difference = point[k] - means[(u64)m * j + k];
            square = fmaf(difference, difference, square);
        }
        float u = 1.0f / (1.0f + square);
        pull[m] = u;
        total += u;
    }
    total = block_sum(total);
    float scale = 2.0f / (float)b;
    double gain = 0.0;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        float q = pull[m] / total, p = target[m];
        if (p > 0.0f) gain += p * (logf(q) - logf(p));
        pull[m] *= scale * (p - q);
    }
    // Also waits for all pulls of the row.
    gain = block_sum(gain);
    if (threadIdx.x == 0) sums[at * 4 + 2] += gain;
    for (u32 k = warp; k < j; k += n_warps) {
        float sum = 0.0f;
        for (u32 m = lane; m < c; m += 32) sum = fmaf(pull[m], point[k] - means[(u64)m * j + k], sum);
        sum = warp_sum(sum);
        if (lane == 0) dz[at * j + k] = sum;
    }
}

// The means' gradient: one block a mean, a warp for each latent column.
extern "C" __global__ void soft_gradients(const float *values, float *gradients, u64 stride, u64 means_at, const float *z,
                                          const float *pulls, u32 b, u32 c, u32 j) {
    u32 m = blockIdx.x, restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 place = restart * stride + means_at + (u64)m * j;
    for (u32 k = warp; k < j; k += blockDim.x / 32) {
        float mean = values[place + k], sum = 0.0f;
        for (u32 i = lane; i < b; i += 32) {
            u64 at = (u64)restart * b + i;
            sum = fmaf(pulls[at * c + m], mean - z[at * j + k], sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) gradients[place + k] = sum;
    }
}
