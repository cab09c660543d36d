// log p(x|z) with its gradient.

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
                // The division to within two units in the last sample_index, at a fraction of the cost of the exact one.
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

// Adds a row's log p(x|z) to its sum: with the share of the sample, whose gradient is added to, or with 1 / L.
__device__ __forceinline__ void add_to_sum(double row, double *sum, const float *shares, float *d_shares, u64 share_index, u32 b,
                                           u32 n_samples) {
    if (threadIdx.x > 0) return;
    if (shares) {
        *sum += (double)shares[share_index] * row;
        d_shares[share_index] -= (float)(row / (double)b);
    } else {
        *sum += row / (double)(n_samples / b);
    }
}

// Adds log p(x|z) of each row to its sum; the output becomes the gradient of -log p(x|z) / (B L). With shares [R, B, L]
// (else null) samples count by them instead of by 1 / L, and their gradient is added to.
extern "C" __global__ void likelihood(Families families, const float *x, const float *shares, float *d_shares,
                                      float *output, double *sums, u32 b, u32 x_rows, u32 n_samples, u32 d, u32 width) {
    after_previous();
    u32 sample_index = blockIdx.x, restart = blockIdx.y;
    const float *target = x + ((u64)restart * x_rows + sample_index % b) * d;
    float *out = output + ((u64)restart * n_samples + sample_index) * width;
    u64 share_index = ((u64)restart * b + sample_index % b) * (n_samples / b) + sample_index / b;
    float scale = shares ? shares[share_index] / (float)b : 1.0f / (float)n_samples, variance = families.variance[restart];
    u32 kind = families.kind[restart];
    float total = d % 4 == 0 && width % 4 == 0 ? explain<4>(kind, variance, target, out, d, scale)
                                               : explain<1>(kind, variance, target, out, d, scale);
    add_to_sum(block_sum((double)total), sums + ((u64)restart * n_samples + sample_index) * N_TERMS, shares, d_shares,
               share_index, b, n_samples);
}

// The sum of x_j log softmax(o)_j, with the same arguments; the gradient of minus it is (sum of x) softmax(o) - x.
extern "C" __global__ void multinomial(const float *x, const float *shares, float *d_shares, float *output, double *sums, u32 b,
                                       u32 x_rows, u32 n_samples, u32 d) {
    after_previous();
    u32 sample_index = blockIdx.x, restart = blockIdx.y;
    const float *target = x + ((u64)restart * x_rows + sample_index % b) * d;
    float *out = output + ((u64)restart * n_samples + sample_index) * d;
    u64 share_index = ((u64)restart * b + sample_index % b) * (n_samples / b) + sample_index / b;
    float scale = shares ? shares[share_index] / (float)b : 1.0f / (float)n_samples;
    float most = NEG_INFINITY, powers = 0.0f, weight = 0.0f, total = 0.0f;
    for (u32 c = threadIdx.x; c < d; c += blockDim.x) most = fmaxf(most, out[c]);
    most = block_max(most);
    for (u32 c = threadIdx.x; c < d; c += blockDim.x) {
        float below = out[c] - most, t = target[c];
        total = fmaf(t, below, total);
        weight += t;
        powers += out[c] = expf(below);
    }
    powers = block_sum(powers);
    weight = block_sum(weight);
    for (u32 c = threadIdx.x; c < d; c += blockDim.x) out[c] = scale * fmaf(out[c], weight / powers, -target[c]);
    double row = block_sum((double)total) - (double)weight * (double)logf(powers);
    add_to_sum(row, sums + ((u64)restart * n_samples + sample_index) * N_TERMS, shares, d_shares, share_index, b, n_samples);
}
