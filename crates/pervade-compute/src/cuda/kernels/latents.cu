// Sampling of latents.

// z = mu + sigma eps; sample l of row i is stored in row l B + i. One thread per four columns.
extern "C" __global__ void sample_latents(Keys keys, int noisy, const Clock *clock, u64 draw, const float *head, float *z,
                                          u32 b, u32 head_rows, u32 n_samples, u32 j) {
    after_previous();
    u32 quads = (j + 3) / 4, restart = blockIdx.y;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n_samples * quads) return;
    u32 sample = index / quads, quad = index % quads;
    const float *row = head + ((u64)restart * head_rows + sample % b) * 2 * j;
    float *out = z + ((u64)restart * n_samples + sample) * j;
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noisy) {
        u64 step = draw + (clock ? clock->draw : 0);
        uint4 w = philox(step, sample, quad, keys.words[2 * restart], keys.words[2 * restart + 1]);
        float2 low = normal_pair(w.x, w.y), high = normal_pair(w.z, w.w);
        eps[0] = low.x, eps[1] = low.y, eps[2] = high.x, eps[3] = high.y;
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        u32 column = 4 * quad + k;
        if (column >= j) break;
        float mean = row[column];
        out[column] = noisy ? fmaf(expf(0.5f * clamp_log_variance(row[j + column])), eps[k], mean) : mean;
    }
}

// d_head += dz for the means and dz (z - mu) / 2 for the log variances, over the samples of a row; `dz_prior` may be
// null.
extern "C" __global__ void sample_latents_backward(const float *head, const float *z, const float *dz,
                                                   const float *dz_prior, float *d_head, u32 b, u32 head_rows, u32 n_samples,
                                                   u32 j) {
    after_previous();
    u32 restart = blockIdx.y, index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= b * j) return;
    u32 i = index / j, column = index % j;
    u64 at = ((u64)restart * head_rows + i) * 2 * j + column;
    float mean = head[at], to_mean = d_head[at], to_variance = d_head[at + j];
    bool passes = inside(head[at + j]);
    for (u32 sample = i; sample < n_samples; sample += b) {
        u64 from = ((u64)restart * n_samples + sample) * j + column;
        float gradient = dz_prior ? dz[from] + dz_prior[from] : dz[from];
        to_mean += gradient;
        if (passes) to_variance += 0.5f * gradient * (z[from] - mean);
    }
    d_head[at] = to_mean;
    d_head[at + j] = to_variance;
}
