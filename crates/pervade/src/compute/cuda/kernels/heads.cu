// Between the networks: the sampled latent, dropout, log p(x|z) with its gradient; and Adam.

// z = mu + sigma eps; sample l of row i is row l B + i. One thread for four columns.
extern "C" __global__ void sample_latents(Keys keys, int noisy, const Clock *clock, u64 draw, const float *head, float *z,
                                          u32 b, u32 places, u32 j) {
    after_previous();
    u32 quads = (j + 3) / 4, restart = blockIdx.y;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= places * quads) return;
    u32 place = index / quads, quad = index % quads;
    const float *row = head + ((u64)restart * b + place % b) * 2 * j;
    float *out = z + ((u64)restart * places + place) * j;
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noisy) {
        u64 step = draw + (clock ? clock->draw : 0);
        uint4 w = philox(step, place, quad, keys.words[2 * restart], keys.words[2 * restart + 1]);
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

// d_head += dz for the means, dz (z - mu) / 2 for the log variances, over the samples of a row; dz may come
// in two parts.
extern "C" __global__ void sample_latents_backward(const float *head, const float *z, const float *dz,
                                                   const float *dz_too, float *d_head, u32 b, u32 places, u32 j) {
    after_previous();
    u32 restart = blockIdx.y, index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= b * j) return;
    u32 i = index / j, column = index % j;
    u64 at = ((u64)restart * b + i) * 2 * j + column;
    float mean = head[at], to_mean = d_head[at], to_variance = d_head[at + j];
    bool passes = inside(head[at + j]);
    for (u32 place = i; place < places; place += b) {
        u64 from = ((u64)restart * places + place) * j + column;
        float gradient = dz_too ? dz[from] + dz_too[from] : dz[from];
        to_mean += gradient;
        if (passes) to_variance += 0.5f * gradient * (z[from] - mean);
    }
    d_head[at] = to_mean;
    d_head[at + j] = to_variance;
}

extern "C" __global__ void dropout(Keys keys, const Clock *clock, u64 draw, u32 threshold, float keep, const float *x,
                                   float *y, u32 rows, u32 columns) {
    after_previous();
    u32 quads = (columns + 3) / 4, restart = blockIdx.y;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * quads) return;
    u32 row = index / quads, quad = index % quads;
    u64 step = draw + (clock ? clock->draw : 0);
    uint4 w = philox(step, row, quad, keys.words[2 * restart], keys.words[2 * restart + 1]);
    u32 words[4] = {w.x, w.y, w.z, w.w};
    u64 base = ((u64)restart * rows + row) * columns;
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        u32 column = 4 * quad + k;
        if (column < columns) y[base + column] = words[k] < threshold ? 0.0f : x[base + column] * keep;
    }
}

struct Families {
    u32 kind[MOST_RESTARTS];  // 0 Bernoulli, 1 Gaussian, 2 Gaussian with one variance
    float variance[MOST_RESTARTS];
};

// A thread's share of a row's log p(x|z), V columns at a time; the output becomes its gradient times -scale.
template <int V>
__device__ __forceinline__ float explain(u32 kind, float variance, const float *target, float *out, u32 d, float scale) {
    float total = 0.0f, inverse_variance = 1.0f / variance, constant = LN_TAU + logf(variance);
    for (u32 c = threadIdx.x * V; c < d; c += blockDim.x * V) {
        Pack<V> outputs, targets, logs;
        outputs.load(out + c), targets.load(target + c);
        if (kind == 1) logs.load(out + d + c);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float &o = outputs.x[i], t = targets.x[i], error = o - t;
            if (kind == 0) {
                // The division to within two units in the last place, at a fraction of the cost of the exact one.
                float e = expf(-fabsf(o)), inverse = __fdividef(1.0f, 1.0f + e);
                total += fmaf(t, o, -(fmaxf(o, 0.0f) + log1pf(e)));
                o = scale * ((o >= 0.0f ? inverse : e * inverse) - t);
            } else if (kind == 1) {
                float raw = logs.x[i];
                float l = fminf(fmaxf(raw, -DECODER_LOG_VARIANCE_LIMIT), DECODER_LOG_VARIANCE_LIMIT);
                float weighted = error * expf(-l), squared = error * weighted;
                total -= 0.5f * (LN_TAU + l + squared);
                o = scale * weighted;
                logs.x[i] = fabsf(raw) < DECODER_LOG_VARIANCE_LIMIT ? 0.5f * scale * (1.0f - squared) : 0.0f;
            } else {
                total -= 0.5f * fmaf(error * error, inverse_variance, constant);
                o = scale * error * inverse_variance;
            }
        }
        outputs.store(out + c);
        if (kind == 1) logs.store(out + d + c);
    }
    return total;
}

// Adds log p(x|z) of each row to its sum; the output becomes the gradient of -log p(x|z) / (B L). With shares [R, B, L]
// (else null) samples count by them instead of by 1 / L, and their gradient is added to.
extern "C" __global__ void likelihood(Families families, const float *x, const float *shares, float *d_shares,
                                      float *output, double *sums, u32 b, u32 places, u32 d, u32 width) {
    after_previous();
    u32 place = blockIdx.x, restart = blockIdx.y;
    const float *target = x + ((u64)restart * b + place % b) * d;
    float *out = output + ((u64)restart * places + place) * width;
    u64 sample = ((u64)restart * b + place % b) * (places / b) + place / b;
    float scale = shares ? shares[sample] / (float)b : 1.0f / (float)places, variance = families.variance[restart];
    u32 kind = families.kind[restart];
    float total = d % 4 == 0 && width % 4 == 0 ? explain<4>(kind, variance, target, out, d, scale)
                                               : explain<1>(kind, variance, target, out, d, scale);
    double row = block_sum((double)total);
    if (threadIdx.x > 0) return;
    double *sum = sums + ((u64)restart * places + place) * 4;
    if (shares) {
        *sum += (double)shares[sample] * row;
        d_shares[sample] -= (float)(row / (double)b);
    } else {
        *sum += row / (double)(places / b);
    }
}

extern "C" __global__ void adam(float *p, const float *g, float *m, float *v, u64 stride, u64 n, const Clock *clock,
                                u32 group, float step_size, float inverse_root, float epsilon, float beta1) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i += blockIdx.y * stride;
    if (clock) step_size = clock->step_size[group], inverse_root = clock->inverse_root;
    adam_update(g[i], step_size, inverse_root, epsilon, beta1, p + i, m + i, v + i);
}
