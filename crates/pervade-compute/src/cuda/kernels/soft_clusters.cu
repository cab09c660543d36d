// DEC's clustering loss and its gradient; the formulas are in cpu/soft_clusters.rs.

// Minus KL(P || Q) of a row, the factors s_m of its gradients, and the gradient of z. One block per row.
extern "C" __global__ void soft_rows(const float *values, u64 stride, u64 means_at, const float *targets, const float *z,
                                     float *affinity_gradient, float *dz, double *sums, u32 b, u32 c, u32 j) {
    u32 restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    u64 at = (u64)restart * b + blockIdx.x;
    const float *means = values + restart * stride + means_at, *point = z + at * j, *target = targets + at * c;
    float *gradient = affinity_gradient + at * c;
    float total = 0.0f;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        float square = 0.0f;
        for (u32 k = 0; k < j; k++) {
            float difference = point[k] - means[(u64)m * j + k];
            square = fmaf(difference, difference, square);
        }
        float u = 1.0f / (1.0f + square);
        gradient[m] = u;
        total += u;
    }
    total = block_sum(total);
    float scale = 2.0f / (float)b;
    double gain = 0.0;
    for (u32 m = threadIdx.x; m < c; m += blockDim.x) {
        float q = gradient[m] / total, p = target[m];
        if (p > 0.0f) gain += p * (logf(q) - logf(p));
        gradient[m] *= scale * (p - q);
    }
    // Also synchronises the row's factors.
    gain = block_sum(gain);
    if (threadIdx.x == 0) sums[at * N_TERMS + 2] += gain;
    for (u32 k = warp; k < j; k += n_warps) {
        float sum = 0.0f;
        for (u32 m = lane; m < c; m += 32) sum = fmaf(gradient[m], point[k] - means[(u64)m * j + k], sum);
        sum = warp_sum(sum);
        if (lane == 0) dz[at * j + k] = sum;
    }
}

// The means' gradient: one block per mean, one warp per latent column.
extern "C" __global__ void soft_gradients(const float *values, float *gradients, u64 stride, u64 means_at, const float *z,
                                          const float *affinity_gradient, u32 b, u32 c, u32 j) {
    u32 m = blockIdx.x, restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 mean_at = restart * stride + means_at + (u64)m * j;
    for (u32 k = warp; k < j; k += blockDim.x / 32) {
        float mean = values[mean_at + k], sum = 0.0f;
        for (u32 i = lane; i < b; i += 32) {
            u64 at = (u64)restart * b + i;
            sum = fmaf(affinity_gradient[at * c + m], mean - z[at * j + k], sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) gradients[mean_at + k] = sum;
    }
}
