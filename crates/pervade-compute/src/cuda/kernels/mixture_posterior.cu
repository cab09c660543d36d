// Gaussian-mixture posteriors.

// Latent and entropy terms of a row's mixture of k Gaussians; the formulas are in cpu/mixture_posterior.rs. One block per
// row, one warp per component; shared memory: each component's log of drawn weight times density.
extern "C" __global__ void posterior_mixture(float max_mean, const float *heads, const float *z, const float *shares,
                                             const float *drawn, float *d_heads, float *d_shares, float *d_drawn,
                                             double *sums, u32 b, u32 n_samples, u32 k, u32 j) {
    extern __shared__ float joints[];
    u32 row = blockIdx.x, restart = blockIdx.y;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
    u64 at = ((u64)restart * b + row) * k;
    float scale = 1.0f / (float)b;
    double latent = 0.0;
    for (u32 m = warp; m < k; m += n_warps) {
        u64 component = ((u64)restart * k + m) * b + row;
        const float *head = heads + component * 2 * j, *point = z + component * j;
        float mean = k > 1 ? max_mean * (2.0f * (float)m / (float)(k - 1) - 1.0f) : 0.0f, energy = 0.0f, log_density = 0.0f;
        for (u32 c = lane; c < j; c += 32) {
            float l = clamp_log_variance(head[j + c]), far = head[c] - mean, off = point[c] - head[c];
            energy -= 0.5f * (LN_TAU + fmaf(far, far, expf(l)));
            log_density -= 0.5f * (LN_TAU + l + off * off * expf(-l));
        }
        energy = warp_sum(energy);
        log_density = warp_sum(log_density);
        if (lane == 0) {
            float weight = drawn[at + m];
            latent += (double)(shares[at + m] * energy);
            d_shares[at + m] = -scale * energy;
            joints[m] = (weight >= 1.17549435e-38f ? logf(weight) : NEG_INFINITY) + log_density;
        }
    }
    __syncthreads();
    float largest = NEG_INFINITY, total = 0.0f;
    for (u32 m = threadIdx.x; m < k; m += blockDim.x) largest = fmaxf(largest, joints[m]);
    largest = block_max(largest);
    for (u32 m = threadIdx.x; m < k; m += blockDim.x) total += expf(joints[m] - largest);
    total = block_sum(total);
    latent = block_sum(latent);
    if (threadIdx.x == 0) {
        double *sum = sums + ((u64)restart * n_samples + row) * N_TERMS;
        sum[1] += latent, sum[3] -= (double)(largest + logf(total));
    }
    for (u32 m = warp; m < k; m += n_warps) {
        u64 component = ((u64)restart * k + m) * b + row;
        const float *head = heads + component * 2 * j;
        float *d_head = d_heads + component * 2 * j;
        float mean = k > 1 ? max_mean * (2.0f * (float)m / (float)(k - 1) - 1.0f) : 0.0f;
        float responsibility = expf(joints[m] - largest) / total, share = shares[at + m];
        if (lane == 0) d_drawn[at + m] = responsibility > 0.0f ? scale * responsibility / drawn[at + m] : 0.0f;
        for (u32 c = lane; c < j; c += 32) {
            float raw = head[j + c], variance = expf(clamp_log_variance(raw));
            d_head[c] = scale * share * (head[c] - mean);
            d_head[j + c] = inside(raw) ? 0.5f * scale * (share * variance - responsibility) : 0.0f;
        }
    }
}
